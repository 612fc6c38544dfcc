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
from pathlib import Path
from typing import Any

from codelet.messages import unpaired
from tests.support import repo
from tests.support.program import descendants
from tests.support.script import Call, HttpError, Insert, Reply, Stop
from tests.support.script import Step as Answer
from tests.support.server import ModelServer, Recorded
from tests.support.terminal import Terminal

_EMPTIED = "\x15\x7f" * 8
"""Ctrl-U and Backspace: rows of the line, from the last one up."""
_MOST_DESCRIPTORS, _MOST_CHILDREN, _PARTS = 6, 3, 8
_MOST_KIB, _MOST_KIB_A_TURN = 1_000, 2
"""Allowed growth of the process; the allocator grows by the MiB."""
_LINES = ("go on", "look at app.py", "what is there?", "continue", "é" * 40, "@app.py explain")
_COMMANDS = (
    "/stats",
    "/context all",
    "/usage",
    "/tasks",
    "/compact",
    "/why",
    "/permissions",
    "/env",
    "/rewind",
    "/nonsense",
)
_BASH = ("echo hello", "ls", "false", "seq 3000", "sleep 0.2", "cat missing", "git status", "printf '\\x1b[31m\\0'")


class Model:
    """Answers at random, and looks at what it is sent."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.made = 0
        self.calm = True

    def __call__(self, request: Recorded) -> Answer:
        """The next answer, after a look at the list that came."""
        messages: list[Any] = request.json.get("messages", [])
        if problem := unpaired(messages):
            self.wrong.append(f"request {request.number}: {problem}")
        kinds = ("text", "calls", "bad calls", "503", "429", "cut", "garbled", "empty", "stall", "long")
        last_is_tool = bool(messages) and messages[-1].get("role") == "tool"
        if self.calm:
            return Reply("The answer is here.")
        weights = (50 if last_is_tool else 25, 12 if last_is_tool else 35, 4, 3, 3, 4, 2, 2, 2, 4)
        kind = self.chance.choices(kinds, weights)[0]
        self.counts[kind] += 1
        return self._answer(kind)

    def _answer(self, kind: str) -> Answer:
        match kind:
            case "calls":
                return Reply("Let me look.", calls=[self._call() for _ in range(self.chance.randrange(1, 4))])
            case "bad calls":
                return Reply(calls=[Call(self._id(), "read", "{not json"), Call(self._id(), "no_such_tool", {})])
            case "503" | "429":
                return HttpError(int(kind), "busy", retry_after=0)
            case "cut":
                return Reply(["begun ", "and cut"], fault=Stop("cut", after=2))
            case "garbled":
                return Reply(["one ", "two"], fault=Insert(b"data: {nonsense\n\n"))
            case "empty":
                return Reply("")
            case "stall":
                return Reply(["slow ", "answer"], fault=Stop("stall", after=1, seconds=self.chance.random()))
            case "long":
                return Reply("\n\n".join(f"**{number}** `code` and words that go on." for number in range(60)))
        return Reply("The answer is here. " * self.chance.randrange(1, 20))

    def _call(self) -> Call:
        background = self.chance.random() < 0.1
        command = "sleep 0.5; echo over" if background else self.chance.choice(_BASH)
        return self.chance.choice((
            Call(self._id(), "bash", {"command": command, "background": background}),
            Call(self._id(), "read", {"path": self.chance.choice(("app.py", "missing", ".env"))}),
            Call(self._id(), "write", {"path": f"made{self.chance.randrange(9)}.txt", "content": "x\n" * 50}),
            Call(self._id(), "grep", {"pattern": "o"}),
        ))  # fmt: skip

    def _id(self) -> str:
        self.made += 1
        return f"call-{self.made}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=2_000)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--interrupts", type=float, default=0.1, help="share of the turns that ESC stops")
    options = parser.parse_args(arguments)
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder, ModelServer() as server:
        return _soak(Path(folder), server, options.turns, random.Random(seed), options.interrupts)


def _soak(folder: Path, server: ModelServer, turns: int, chance: random.Random, interrupts: float) -> int:
    workspace = repo.plain(folder / "workspace")
    home = folder / "home"
    home.mkdir()
    model = Model(chance)
    server.script = model
    words = ("--model", "openai/scripted", "--api-base", server.openai, "--yes", "--window", "24000")
    begun, problems, measured = time.monotonic(), [], []
    with Terminal(
        *words, cwd=workspace, home=home, env={"OPENAI_API_KEY": "k", "CODELET_RETRIES": "1"}, columns=100, rows=40
    ) as terminal:
        _warm_up(terminal)
        model.calm = False
        for turn in range(turns):
            problems += _do_turn(terminal, server, chance, turn, interrupts)
            server.requests.clear()
            if not Path(f"/proc/{terminal.pid}/fd").exists():
                problems.append(f"codelet ended in turn {turn}, {_how_it_ended(terminal)}")
                break
            if (ends := (turn + 1) * _PARTS // turns > turn * _PARTS // turns) or turn % 50 == 49:
                terminal.settle(1.0)
                print(turn + 1, json.dumps(_measure(terminal.pid)), flush=True)
                terminal.raw, shown = b"", terminal.raw
                problems += [word for word in ("Traceback", "a bug in codelet") if word.encode() in shown]
            if ends:
                measured.append(_cleared(terminal))
                print(turn + 1, "cleared", json.dumps(measured[-1]), flush=True)
        problems += _left(terminal)
    problems += model.wrong[:10] + _grown(measured, turns)
    for problem in problems:
        print(problem)
    done = (time.monotonic() - begun) / 60
    print(f"{turns} turns in {done:.0f} minutes; answers {dict(model.counts)}; {len(problems)} problems")
    return 1 if problems else 0


def _warm_up(terminal: Terminal) -> None:
    """Each command once, as it brings modules that stay; /context counts exactly, which loads the tokeniser's table."""
    terminal.wait_for("›")
    terminal.line("look around")
    terminal.wait_for("The answer is here.")
    for command in _COMMANDS:
        terminal.settle(0.5, timeout=20.0)
        terminal.line(command)
        if command == "/context all":
            terminal.wait_for("exact ")
    terminal.settle(0.5, timeout=20.0)
    terminal.key("esc")


def _cleared(terminal: Terminal) -> dict[str, int]:
    """Clear the conversation and measure."""
    terminal.settle(1.5, timeout=20.0)  # ESC twice within a second, on an empty line, is /rewind
    terminal.key("esc")
    terminal.settle(2.0, timeout=20.0)  # a background task of the last turns ends within a second
    terminal.type(_EMPTIED)  # /rewind or ESC may have put a prompt into the line
    terminal.raw = b""
    terminal.line("/clear")
    terminal.until(lambda: b"conversation cleared" in terminal.raw, "the conversation is cleared")
    terminal.settle(1.0)
    return _measure(terminal.pid)


def _how_it_ended(terminal: Terminal) -> str:
    """Its exit status, negative for a signal, and what it wrote last."""
    status = terminal.wait_exit()
    return f"status {status}; its screen:\n{terminal.text}\nits last bytes: {terminal.raw[-2_000:]!r}"


def _do_turn(terminal: Terminal, server: ModelServer, chance: random.Random, turn: int, interrupts: float) -> list[str]:
    """One line, and perhaps ESC at any moment after it, with another line queued before; what went wrong."""
    is_command = chance.random() < 0.15
    terminal.line(chance.choice(_COMMANDS) if is_command else f"{chance.choice(_LINES)} {turn}")
    queued = f"queued{turn}" if not is_command and chance.random() < 0.3 else ""  # a list takes its own keys
    if chance.random() < interrupts:
        terminal.pump(chance.random() * 0.5)
        if queued:
            terminal.line(queued)
            terminal.pump(chance.random() * 0.1)
        terminal.key("esc" if queued else chance.choice(("esc", "ctrl-c")))  # Ctrl-C at a prompt clears its line
    else:
        queued = ""
    text = terminal.settle(0.15, timeout=20.0)
    if not queued:
        return []
    is_kept = queued in text or any(queued.encode() in request.body for request in server.requests)
    terminal.type(_EMPTIED)
    return [] if is_kept else [f"turn {turn}: {queued} is lost; the screen:\n{text}"]


def _left(terminal: Terminal) -> list[str]:
    """Leave, and look at the terminal's mode."""
    terminal.settle(1.5, timeout=20.0)
    terminal.type(f"{_EMPTIED}/exit\r")
    terminal.wait_exit()
    flags = termios.tcgetattr(terminal.child.child_fd)[3]
    is_whole = flags & termios.ICANON and flags & termios.ECHO and flags & termios.ISIG
    return [] if is_whole else ["the terminal was not given back unchanged"]


def _measure(pid: int) -> dict[str, int]:
    status = Path(f"/proc/{pid}/status").read_text()
    memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    return {"kib": memory, "descriptors": len(os.listdir(f"/proc/{pid}/fd")), "children": len(descendants(pid))}


def _grown(measured: list[dict[str, int]], turns: int) -> list[str]:
    """Report growth since the first part beyond the bounds; a background task is two children."""
    if len(measured) < 3:
        return []
    first, last = measured[0], measured[-1]
    most_kib = _MOST_KIB + _MOST_KIB_A_TURN * turns * (len(measured) - 1) // _PARTS
    bounds = {"kib": most_kib, "descriptors": _MOST_DESCRIPTORS, "children": _MOST_CHILDREN}
    return [
        f"{name}: {first[name]}, at the end {last[name]}"
        for name, most in bounds.items()
        if last[name] - first[name] > most
    ]


if __name__ == "__main__":
    sys.exit(main())
