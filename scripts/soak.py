"""A long session in a real terminal with random failures: memory, descriptors and children must stay flat.

Use: python -m scripts.soak [--turns N] [--seed S] [--interrupts SHARE]

The model is a server on loopback. It answers, calls tools with good and bad arguments, fails with 429 and 503, cuts
answers off, sends nothing, stalls. A user types prompts and commands, interrupts, and runs commands in the background.
Every request must contain a valid list: each call with exactly one result. The exit status is 1 after an invalid list,
a traceback or a bug, an early end, growth, a line queued before an interrupt that was neither sent nor given back, or a
changed terminal mode.

A conversation grows within its bounds. So it is cleared several times, and memory is compared after that: the first
part is the warm-up, which loads late modules and the tokeniser's table. /clear keeps the conversation as a fork (the
latest 20) and, for /export, the usage of each request (the latest 5,000): about 3 KiB of Python objects a turn.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import termios
import time
from collections import Counter
from itertools import count
from pathlib import Path

from codelet.messages import unpaired
from tests.support import repo
from tests.support.program import descendants
from tests.support.script import Call, HttpError, Insert, Reply, Step, Stop
from tests.support.server import ModelServer, Recorded
from tests.support.terminal import Terminal

_EMPTIED = "\x15\x7f" * 8
"""Ctrl-U and Backspace: rows of the line, from the last one up."""
_PARTS = 8
_MOST_KIB, _MOST_KIB_A_TURN = 1_000, 2
"""Allowed growth of the process; the allocator grows by the MiB."""
_MOST = {"descriptors": 6, "children": 3}
"""Allowed growth of their number; a background task is two children."""
_LINES = ("go on", "look at app.py", "what is there?", "continue", "é" * 40, "@app.py explain")
_COMMANDS = (
    "/stats", "/context all", "/usage", "/tasks", "/compact", "/why", "/permissions", "/env", "/rewind", "/nonsense",
)  # fmt: skip
_BASH = ("echo hello", "ls", "false", "seq 3000", "sleep 0.2", "cat missing", "git status", "printf '\\x1b[31m\\0'")
_WEIGHTS = {
    "text": 25, "calls": 35, "bad calls": 4, "503": 3, "429": 3, "cut": 4, "garbled": 2, "empty": 2, "stall": 2,
    "long": 4,
}  # fmt: skip
"""The weight of each kind of answer to a prompt; after the results of tools, text is more frequent than calls."""

_ANSWERS: dict[str, Step] = {
    "503": HttpError(503, "busy", retry_after=0),
    "429": HttpError(429, "busy", retry_after=0),
    "cut": Reply(["begun ", "and cut"], fault=Stop("cut", after=2)),
    "garbled": Reply(["one ", "two"], fault=Insert(b"data: {nonsense\n\n")),
    "empty": Reply(""),
    "long": Reply("\n\n".join(f"**{number}** `code` and words that go on." for number in range(60))),
}


class Model:
    """Answers at random, and looks at what it is sent."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.calm = True
        self._numbers = count(1)

    def __call__(self, request: Recorded) -> Step:
        """The next answer, after a look at the list that came."""
        messages = request.json.get("messages", [])
        if problem := unpaired(messages):
            self.wrong.append(f"request {request.number}: {problem}")
        if self.calm:
            return Reply("The answer is here.")
        weights = _WEIGHTS
        if messages and messages[-1].get("role") == "tool":
            weights = _WEIGHTS | {"text": 50, "calls": 12}
        [kind] = self.chance.choices(list(weights), list(weights.values()))
        self.counts[kind] += 1
        match kind:
            case "text":
                return Reply("The answer is here. " * self.chance.randrange(1, 20))
            case "calls":
                return Reply("Let me look.", calls=[self._call() for _ in range(self.chance.randrange(1, 4))])
            case "bad calls":
                return Reply(calls=[Call(self._id(), "read", "{not json"), Call(self._id(), "no_such_tool", {})])
            case "stall":
                return Reply(["slow ", "answer"], fault=Stop("stall", after=1, seconds=self.chance.random()))
        return _ANSWERS[kind]

    def _call(self) -> Call:
        choose = self.chance.choice
        background = self.chance.random() < 0.1
        command = "sleep 0.5; echo over" if background else choose(_BASH)
        name, arguments = choose((
            ("bash", {"command": command, "background": background}),
            ("read", {"path": choose(("app.py", "missing", ".env"))}),
            ("write", {"path": f"made{self.chance.randrange(9)}.txt", "content": "x\n" * 50}),
            ("grep", {"pattern": "o"}),
        ))  # fmt: skip
        return Call(self._id(), name, arguments)

    def _id(self) -> str:
        return f"call-{next(self._numbers)}"


class User:
    """Types into the terminal, and looks at the process."""

    def __init__(self, terminal: Terminal, server: ModelServer, chance: random.Random) -> None:
        self.terminal, self.server, self.chance = terminal, server, chance
        self.measured: list[dict[str, int]] = []

    def warm_up(self) -> None:
        """Each command once, for the modules that it brings; /context all also loads the tokeniser's table."""
        self.terminal.wait_for("›")
        self.terminal.line("look around")
        self.terminal.wait_for("The answer is here.")
        for command in _COMMANDS:
            self.terminal.settle(0.5, timeout=20.0)
            self.terminal.line(command)
            if command == "/context all":
                self.terminal.wait_for("exact ")
        self.terminal.settle(0.5, timeout=20.0)
        self.terminal.key("esc")

    def turn(self, number: int, interrupts: float) -> list[str]:
        """One line, and perhaps ESC at any moment after it, with another line queued before; what went wrong."""
        terminal, chance = self.terminal, self.chance.random
        is_command = chance() < 0.15
        terminal.line(self.chance.choice(_COMMANDS) if is_command else f"{self.chance.choice(_LINES)} {number}")
        queued = f"queued{number}" if not is_command and chance() < 0.3 else ""  # a list takes its own keys
        if chance() < interrupts:
            terminal.pump(chance() * 0.5)
            if queued:
                terminal.line(queued)
                terminal.pump(chance() * 0.1)
            # Ctrl-C at a prompt clears its line.
            terminal.key("esc" if queued else self.chance.choice(("esc", "ctrl-c")))
        else:
            queued = ""
        text = terminal.settle(0.15, timeout=20.0)
        requests, self.server.requests[:] = list(self.server.requests), []
        if not queued:
            return []
        terminal.type(_EMPTIED)
        is_kept = queued in text or any(queued.encode() in request.body for request in requests)
        return [] if is_kept else [f"turn {number}: {queued} is lost; the screen:\n{text}"]

    def measure(self) -> dict[str, int]:
        """The process's memory in KiB, its descriptors and children."""
        pid = self.terminal.pid
        status = Path(f"/proc/{pid}/status").read_text()
        memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
        return {"kib": memory, "descriptors": len(os.listdir(f"/proc/{pid}/fd")), "children": len(descendants(pid))}

    def clear(self) -> dict[str, int]:
        """Clear the conversation and measure."""
        terminal = self.terminal
        terminal.settle(1.5, timeout=20.0)  # ESC twice within a second, on an empty line, is /rewind
        terminal.key("esc")
        terminal.settle(2.0, timeout=20.0)  # a background task of the last turns ends within a second
        terminal.type(_EMPTIED)  # /rewind or ESC may have put a prompt into the line
        terminal.raw = b""
        terminal.line("/clear")
        terminal.until(lambda: b"conversation cleared" in terminal.raw, "the conversation is cleared")
        terminal.settle(1.0)
        self.measured.append(self.measure())
        return self.measured[-1]

    def leave(self) -> list[str]:
        """Leave, and look at the terminal's mode."""
        self.terminal.settle(1.5, timeout=20.0)
        self.terminal.type(f"{_EMPTIED}/exit\r")
        self.terminal.wait_exit()
        flags = termios.tcgetattr(self.terminal.child.child_fd)[3]
        is_whole = flags & termios.ICANON and flags & termios.ECHO and flags & termios.ISIG
        return [] if is_whole else ["the terminal was not given back unchanged"]

    def growth(self, turns: int) -> list[str]:
        """The growth beyond the bounds since the first part."""
        if len(self.measured) < 3:
            return []
        first, last = self.measured[0], self.measured[-1]
        bounds = {"kib": _MOST_KIB + _MOST_KIB_A_TURN * turns * (len(self.measured) - 1) // _PARTS, **_MOST}
        grown = [name for name, most in bounds.items() if last[name] - first[name] > most]
        return [f"{name}: {first[name]}, at the end {last[name]}" for name in grown]


def soak(folder: Path, server: ModelServer, turns: int, chance: random.Random, interrupts: float) -> int:
    """All turns; the exit status."""
    home, model = folder / "home", Model(chance)
    home.mkdir()
    server.script = model
    words = ("--model", "openai/scripted", "--api-base", server.openai, "--yes", "--window", "24000")
    variables, begun, problems = {"OPENAI_API_KEY": "k", "CODELET_RETRIES": "1"}, time.monotonic(), list[str]()
    workspace = repo.plain(folder / "workspace")
    with Terminal(*words, cwd=workspace, home=home, env=variables, columns=100, rows=40) as terminal:
        user = User(terminal, server, chance)
        user.warm_up()
        model.calm = False
        for turn in range(turns):
            problems += user.turn(turn, interrupts)
            if not Path(f"/proc/{terminal.pid}/fd").exists():
                how = f"status {terminal.wait_exit()}; its screen:\n{terminal.text}"
                problems.append(f"codelet ended in turn {turn}, {how}\nits last bytes: {terminal.raw[-2_000:]!r}")
                break
            if (ends := (turn + 1) * _PARTS // turns > turn * _PARTS // turns) or turn % 50 == 49:
                terminal.settle(1.0)
                print(turn + 1, json.dumps(user.measure()), flush=True)
                terminal.raw, shown = b"", terminal.raw
                problems += [word for word in ("Traceback", "a bug in codelet") if word.encode() in shown]
            if ends:
                print(turn + 1, "cleared", json.dumps(user.clear()), flush=True)
        else:
            problems += user.leave()
    problems += model.wrong[:10] + user.growth(turns)
    print(*problems, sep="\n", end="\n" * bool(problems))
    minutes = (time.monotonic() - begun) / 60
    print(f"{turns} turns in {minutes:.0f} minutes; answers {dict(model.counts)}; {len(problems)} problems")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=2_000)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--interrupts", type=float, default=0.1, help="share of the turns that ESC stops")
    options = parser.parse_args()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder, ModelServer() as server:
        return soak(Path(folder), server, options.turns, random.Random(seed), options.interrupts)


if __name__ == "__main__":
    sys.exit(main())
