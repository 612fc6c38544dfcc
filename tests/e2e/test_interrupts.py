"""Interrupts at moments drawn over a whole run, in both front ends: at any of them the list is valid, nothing lives on.

One shot is stopped by SIGINT, the terminal by ESC and Ctrl-C. The model reasons, speaks, calls tools, is overloaded and
fills the window, so that a moment may fall before the first byte, into text, arguments, a tool, a wait to send again, a
compaction, a question or a save. Five hundred at full size. The seed is printed; CODELET_SEED gives one.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from codelet.export.decode import from_json
from codelet.messages import unpaired
from tests.e2e.conftest import KEYS, Codelet
from tests.e2e.test_cancel import assert_valid
from tests.support.amount import amount
from tests.support.program import CODELET, ROOT, descendants, environment, processes_with, stop
from tests.support.script import Call, Delivery, HttpError, Reply, Step, Tokens
from tests.support.server import Recorded
from tests.support.terminal import Terminal
from tests.support.waiting import PATIENCE, until

SEED = int(os.environ.get("CODELET_SEED", "0")) or random.SystemRandom().randint(1, 2**32)
MARK = f"4713.{os.getpid()}"
LEAK = f"(setsid sleep {MARK} &); echo begun; sleep 0.25; echo done"
PACE = Delivery(pause=0.01)
WORDS = [f"word{number}" for number in range(2_000)]
ASIDE = 12
SESSION = 12
"""Interrupts in one terminal session, after which the next begins."""


class Model:
    """Plays turns drawn by `chance`, each ended by an answer; a request with a call that has no result is refused.

    `answers` counts the turns that came to their end. `calm` answers at once.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.steps: list[Step] = []
        self.answers = 0
        self.calm = False
        self.broken: list[str] = []

    def begin(self) -> None:
        """Draw the next turn."""
        drawn = self.chance.random
        self.steps = [HttpError(429, retry_after=0.3)] if drawn() < 0.4 else []
        self.steps.append(self._calling("read", "bash", "write"))
        if drawn() < 0.7:
            self.steps.append(self._calling("read", "grep", "read"))

    def __call__(self, request: Recorded) -> Step:
        try:
            assert_valid(request)
        except (AssertionError, KeyError) as error:
            self.broken.append(f"request {request.number}: {error}")
            return HttpError(400, "a call has no result")
        step = Reply("Calm.") if self.calm else self.steps.pop(0) if self.steps else None
        if step is None:
            self.answers += 1
            step = Reply(["So ", "it ", "is: ", f"answer {self.answers} ", "is complete."], delivery=PACE)
        if not isinstance(step, Reply):
            return step
        calls = [dataclasses.replace(call, id=f"c{request.number}-{place}") for place, call in enumerate(step.calls)]
        return dataclasses.replace(step, calls=calls, usage=Tokens(total_input=len(request.body) // 3))

    def _calling(self, *names: str) -> Reply:
        calls = [self._call(name) for name in names]
        return Reply(["Let ", "me ", "see. "], reasoning=["Hm, ", "simple."], calls=calls, delivery=PACE)

    def _call(self, name: str) -> Call:
        number = self.chance.randrange(ASIDE)
        arguments = {
            "read": {"path": f"aside{number}.txt"},
            "grep": {"pattern": f"word{number}1"},
            "write": {"path": f"made{number}.txt", "content": f"made by {self.chance.random()}\n"},
            "bash": {"command": LEAK},
        }[name]
        return Call("", name, arguments, (4, 9))


@pytest.fixture(params=["openai", "openai/responses", "anthropic"])
def scene(request: pytest.FixtureRequest, codelet: Codelet) -> tuple[Codelet, Model]:
    """codelet on each wire, in a repository with files to fill the window, and the model that it asks."""
    print(f"CODELET_SEED={SEED}")
    codelet.wire = request.param
    chance = random.Random(f"{SEED} {request.node.name}")
    for number in range(ASIDE):
        words = "\n".join(" ".join(chance.choices(WORDS, k=12)) for _ in range(160))
        (codelet.cwd / f"aside{number}.txt").write_text(words)
    codelet.server.script = model = Model(chance)
    return codelet, model


FLAGS = ("--budget", "24000", "--export", "kept.json")


def assert_nothing_lives(codelet: Codelet, *, connections: int | None) -> None:
    """No child, and no request that the server still answers; so many connections are left."""
    until(lambda: not processes_with(MARK), "the end of the tool's children")
    requests = codelet.server.requests
    until(lambda: all(one.done.is_set() or one.gone.is_set() for one in requests), "the end of each request")
    if connections is not None:
        until(lambda: codelet.server.open_connections <= connections, "the end of the connections")


def assert_kept(path: Path) -> str | None:
    """What is kept, if anything is, is whole and its list valid; the newest words of the model."""
    if not path.exists():
        return None
    snapshot = from_json(path.read_bytes(), path.name)
    assert unpaired(snapshot.messages) == []
    return next((one["content"] or "" for one in reversed(snapshot.messages) if one["role"] == "assistant"), "")


def fresh(codelet: Codelet) -> Path:
    path = codelet.cwd / "kept.json"
    for each in codelet.cwd.glob("*kept.json*"):
        each.unlink()
    return path


def started(codelet: Codelet, *arguments: str) -> subprocess.Popen[bytes]:
    """One shot in a process group of its own, with its output in pipes."""
    words = [*CODELET, *codelet.arguments, *FLAGS, "--yes", "--output-format", "stream-json", *arguments]
    clean = environment(codelet.home, KEYS)
    pipe, none = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(
        words, cwd=codelet.cwd, env=clean, stdin=none, stdout=pipe, stderr=pipe, start_new_session=True
    )


def run_out(codelet: Codelet, model: Model) -> float:
    """The seconds that a run takes that nobody stops, the longest of two."""
    took = []
    for _ in range(2):
        fresh(codelet)
        model.begin()
        begun = time.monotonic()  # clock: what moments are drawn from
        child = started(codelet, "-p", "go on")
        _, err = child.communicate(timeout=PATIENCE)
        assert child.returncode == 0, err.decode()
        took.append(time.monotonic() - begun)  # clock: what moments are drawn from
    return max(took)


def place_of(out: bytes, requests: int) -> str:
    """Where a run was stopped, by its last event before the word of it."""
    kinds = [json.loads(line)["type"] for line in out.splitlines()]
    before = [kind for kind in kinds if kind not in ("interrupted", "turn_end", "result")]
    return before[-1] if before else "before the first event" if requests == 0 else "before any word"


def in_python_itself(err: str) -> bool:
    """Whether a traceback names no function of ours: Python was starting, nothing of codelet ran."""
    return not re.search(r'File "[^"]*/codelet/(?!__main__)[^"]*", line \d+, in (?!<module>)', err)


@pytest.mark.timeout(3600)
def test_one_shot(scene: tuple[Codelet, Model]) -> None:
    codelet, model = scene
    whole = run_out(codelet, model)
    places: Counter[str] = Counter()
    for number in range(amount(2, 84)):
        path = fresh(codelet)
        model.begin()
        model.calm = False
        moment = model.chance.uniform(0, 1.05 * whole)
        told = f"interrupt {number} after {moment:.3f} of {whole:.3f} s, CODELET_SEED={SEED}"
        before = len(codelet.server.requests)
        child = started(codelet, "-p", "go on")
        try:
            with suppress(subprocess.TimeoutExpired):
                child.wait(moment)
            with suppress(ProcessLookupError):
                child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=PATIENCE)
        finally:
            stop(child)
        said = err.decode()
        assert "Traceback" not in said or in_python_itself(said), f"{told}: {said}"
        if "Traceback" not in said:
            assert child.returncode in (130, 0, -signal.SIGINT), f"{told}: {child.returncode} {said}"
        places[f"{place_of(out, len(codelet.server.requests) - before)}, exit {child.returncode}"] += 1
        assert_nothing_lives(codelet, connections=0)
        assert model.broken == [], told
        if assert_kept(path) is None:
            continue
        model.calm = True
        again = codelet(*FLAGS, "--resume", "kept.json", "-p", "continue" if number % 2 else "and now?")
        assert (again.exit, again.out) == (0, "Calm.\n"), f"{told}: {again.err} {model.broken}"
        assert assert_kept(path) == "Calm."
        assert model.broken == [], told
    print("one shot:", codelet.wire, dict(places.most_common()))


@pytest.mark.timeout(3600)
def test_terminal(scene: tuple[Codelet, Model]) -> None:
    codelet, model = scene
    whole = run_out(codelet, model)
    places: Counter[str] = Counter()
    count = amount(3, 84)
    for first in range(0, count, SESSION):
        path = fresh(codelet)
        asks = first // SESSION % 3 == 2
        model.calm = False
        with codelet.terminal(*FLAGS, *([] if asks else ["--yes"]), rows=40) as terminal:
            place = ""
            for number in range(first, min(count, first + SESSION)):
                model.begin()
                line = "continue" if place.startswith("at") and number % 3 == 1 else f"prompt {number}"
                place = interrupted(codelet, model, terminal, line, model.chance.uniform(0, 0.8 * whole))
                places[place] += 1
                assert_kept(path)
            model.calm = True
            before = terminal.scrollback.count("Calm.")
            terminal.line("and now?")
            terminal.until(lambda before=before: terminal.scrollback.count("Calm.") > before, "the last answer")
            terminal.settle(0.2)
            terminal.line("exit")
            assert terminal.wait_exit() == 0
        assert_nothing_lives(codelet, connections=0)
        assert assert_kept(path) == "Calm."
        assert model.broken == []
    print("terminal:", codelet.wire, dict(places.most_common()))


def interrupted(codelet: Codelet, model: Model, terminal: Terminal, line: str, moment: float) -> str:
    """One turn, stopped by a key at a moment; where that was."""
    key = model.chance.choice(["esc", "ctrl-c"])
    told = f"{key} after {line!r} and {moment:.3f} s, CODELET_SEED={SEED}"
    stopped, answers, requests = terminal.scrollback.count("stopped"), model.answers, len(codelet.server.requests)
    terminal.line(line)
    for wait in _slices(moment):
        assert terminal.pump(wait), f"{told}: the program ended"
    asking = "made" in terminal.text and "Allow" in terminal.text
    terminal.key(key)
    terminal.until(
        lambda: terminal.scrollback.count("stopped") > stopped or model.answers > answers, f"{told}: the turn's end"
    )
    terminal.settle(0.15)
    if terminal.scrollback.count("stopped") > stopped:
        place = "at a question" if asking else f"at request {len(codelet.server.requests) - requests}"
    else:
        place = "after the turn"
        for wait in _slices(2.3):  # clock: on an idle prompt, Ctrl-C twice would leave and ESC begin a combination
            terminal.pump(wait)
    until(lambda: not descendants(terminal.pid), f"{told}: the end of children")
    assert_nothing_lives(codelet, connections=1)
    assert model.broken == [], told
    return place


def test_an_interrupt_in_the_middle_of_an_import(codelet: Codelet, tmp_path: Path) -> None:
    """Before 3.12 Python wraps what `__set_name__` raises: such an interrupt would be told as a bug."""
    shadow = tmp_path / "shadow"
    shadow.mkdir()
    (shadow / "argparse.py").write_text(MAKES_A_CLASS)
    done = codelet("-p", "go on", env={"PYTHONPATH": f"{shadow}{os.pathsep}{ROOT}"})
    assert (done.exit, done.out, done.err) == (130, "", "")


MAKES_A_CLASS = """
import os, signal

class Name:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signal.SIGINT)

class Owner:
    name = Name()
"""


def _slices(seconds: float) -> Iterator[float]:
    """What is left to wait, again and again, until the time is over."""
    end = time.monotonic() + seconds  # clock: a moment of the run
    while (left := end - time.monotonic()) > 0:  # clock: a moment of the run
        yield min(left, 0.05)
