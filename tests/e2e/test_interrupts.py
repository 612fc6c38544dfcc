"""Interrupts at moments drawn over a whole run, in both front ends: at any of them the list is valid, nothing lives on.

One shot is stopped by SIGINT, the terminal by ESC and Ctrl-C. The model reasons, speaks, calls tools, is overloaded and
fills the window. Every second moment is drawn over the whole run. What is short is seldom hit so: the others are drawn
within what was hit the least. What went on when the signal went out is looked at, and at full size, a thousand of
them, each kind of moment must have been hit. The seed is printed; CODELET_SEED gives one.
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
from contextlib import suppress
from pathlib import Path

import pytest

from codelet.export.decode import from_json
from codelet.messages import unpaired
from tests.e2e.conftest import KEYS, Codelet
from tests.e2e.test_cancel import assert_valid
from tests.support import moments
from tests.support.amount import FULL, amount
from tests.support.moments import COMPACTION, IDLE, NARRATIVE, QUESTION, REQUEST, RETRY, SAVE, STREAM, TOOL, Moments
from tests.support.program import CODELET, ROOT, descendants, environment, processes_with, stop
from tests.support.recorded import STATUS
from tests.support.script import Call, Delivery, HttpError, Reply, Step, Stop, Tokens
from tests.support.server import Recorded
from tests.support.terminal import Terminal
from tests.support.waiting import PATIENCE, until

SEED = int(os.environ.get("CODELET_SEED", "0")) or random.SystemRandom().randint(1, 2**32)
MARK = f"4713.{os.getpid()}"
LEAK = f"(setsid sleep {MARK} &); echo begun; sleep 0.25; echo done"
PACE = Delivery(pause=0.01)
WORDS = [f"word{number}" for number in range(2_000)]
ASIDE = 12
OF_EACH = 168
"""Interrupts on each wire and in each front end at full size: 1,008 in all."""
SESSION = 12
"""Interrupts in one terminal session, after which the next begins."""
LEAST = 3
"""How often each kind of moment is hit at full size, on each wire and in each front end."""
IN_ONE_SHOT = (REQUEST, STREAM, TOOL, RETRY, COMPACTION, NARRATIVE, SAVE)
IN_TERMINAL = (*IN_ONE_SHOT, QUESTION, IDLE)


class Model:
    """Plays turns drawn by `chance`, each ended by an answer; a request with a call that has no result is refused.

    `answers` counts the turns that came to their end, `overloaded` says that the newest request was turned away. `calm`
    answers at once. It turns no third request in a row away: codelet would not ask it again for half a minute.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.steps: list[Step] = []
        self.answers = 0
        self.calm = False
        self.overloaded = False
        self.answered = False
        self.in_a_row = 0
        self.broken: list[str] = []

    def begin(self) -> None:
        """Draw the next turn."""
        self.answered = False
        drawn = self.chance.random
        self.steps = [HttpError(429, retry_after=0.3)] if drawn() < 0.4 and self.in_a_row < 2 else []
        self.steps.append(self._calling("read", "bash", "write"))
        if drawn() < 0.7:
            self.steps.append(self._calling("read", "grep", "read"))

    def __call__(self, request: Recorded) -> Step:
        try:
            assert_valid(request)
        except (AssertionError, KeyError) as error:
            self.broken.append(f"request {request.number}: {error}")
            return HttpError(400, "a call has no result")
        step = self._step(request)
        self.overloaded = isinstance(step, HttpError)
        if not isinstance(step, Reply):
            return step
        calls = [dataclasses.replace(call, id=f"c{request.number}-{place}") for place, call in enumerate(step.calls)]
        thinks = None if self.calm else Stop("stall", None, self.chance.uniform(0.01, 0.2))
        used = Tokens(total_input=len(request.body) // 3)
        return dataclasses.replace(step, calls=calls, usage=used, fault=thinks)

    def _step(self, request: Recorded) -> Step:
        if moments.asks_for_narrative(request):
            return Reply(["We ", "decided ", "to ", "go ", "on."], delivery=PACE)
        if self.calm:
            return Reply("Calm.")
        if self.steps and isinstance(self.steps[0], HttpError):
            self.in_a_row += 1
            return self.steps.pop(0)
        if self.answered:  # the answer before this one was taken in whole
            self.in_a_row = 0
        self.answered = True
        if self.steps:
            return self.steps.pop(0)
        self.answers += 1
        return Reply(["So ", "it ", "is: ", f"answer {self.answers} ", "is complete."], delivery=PACE)

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
def scene(request: pytest.FixtureRequest, codelet: Codelet) -> tuple[Codelet, Model, Moments]:
    """codelet on each wire, in a repository with files to fill the window; the model that it asks; what it is doing."""
    print(f"CODELET_SEED={SEED}")
    codelet.wire = request.param
    chance = random.Random(f"{SEED} {request.node.name}")
    for number in range(ASIDE):
        (codelet.cwd / f"aside{number}.txt").write_text(prose(chance, 160))
    codelet.server.script = model = Model(chance)
    long = [{"role": role, "content": prose(chance, 45)} for _ in range(10) for role in ("user", "assistant")]
    document = {"version": "1.0", "timestamp": 1_767_225_600.0, "tokenCount": 1, "model": None, "messages": long}
    (codelet.cwd / LONG).write_text(json.dumps(document))
    return codelet, model, Moments(codelet.server, codelet.cwd / "kept.json", MARK)


def prose(chance: random.Random, lines: int) -> str:
    return "\n".join(" ".join(chance.choices(WORDS, k=12)) for _ in range(lines))


LONG = "long.json"
"""An export that nearly fills the budget: who goes on with it compacts at once, with a summary."""
FLAGS = ("--budget", "24000", "--export", "kept.json")
FILLED = ("--resume", LONG, "--narrative")


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


def assert_each_was_hit(seen: Moments, kinds: tuple[str, ...], title: str) -> None:
    """Print how often each kind of moment was hit; at full size none may be missing."""
    print(seen.table(title))
    for kind in kinds if FULL else ():
        assert seen.hits[kind] >= LEAST, f"{kind}: {seen.hits[kind]} hits, CODELET_SEED={SEED}"


def fresh(codelet: Codelet) -> Path:
    path = codelet.cwd / "kept.json"
    for each in codelet.cwd.glob("*kept.json*"):
        each.unlink()
    return path


class OneShot:
    """One shot in a process group of its own, whose events are read as they come."""

    def __init__(self, codelet: Codelet, *arguments: str) -> None:
        words = [*CODELET, *codelet.arguments, *FLAGS, "--yes", "--output-format", "stream-json", *arguments]
        clean = environment(codelet.home, KEYS)
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        self.child = subprocess.Popen(
            words, cwd=codelet.cwd, env=clean, stdin=none, stdout=pipe, stderr=pipe, start_new_session=True
        )
        assert self.child.stdout is not None
        self._stdout = self.child.stdout.fileno()
        os.set_blocking(self._stdout, False)
        self._out = b""

    def wait(self, seconds: float) -> bool:
        """Wait so long, unless it ends; False once it has."""
        self._read()
        with suppress(subprocess.TimeoutExpired):
            self.child.wait(seconds)
        return self.child.returncode is None

    def is_compacting(self) -> bool:
        """Whether it has said that it compacts, and not what came of it."""
        self._read()
        lines = [json.loads(line) for line in self._out.splitlines(keepends=True) if line.endswith(b"\n")]
        phases = [line["phase"] for line in lines if line["type"] == "compaction"]
        return bool(phases) and phases[-1] == "starting" and lines[-1]["type"] == "compaction"

    def end(self) -> str:
        """Wait for its end; what it said on stderr."""
        os.set_blocking(self._stdout, True)
        try:
            _, err = self.child.communicate(timeout=PATIENCE)
        finally:
            stop(self.child)
        return str(err.decode())

    def _read(self) -> None:
        with suppress(BlockingIOError):
            while piece := os.read(self._stdout, 65_536):
                self._out += piece


def run_out(codelet: Codelet, model: Model) -> float:
    """The seconds that a run takes that nobody stops, at full size the longest of two."""
    took = []
    for _ in range(amount(1, 2)):
        fresh(codelet)
        model.begin()
        begun = time.monotonic()  # clock: what moments are drawn from
        run = OneShot(codelet, "-p", "go on")
        while run.wait(0.01):  # clock: between two looks
            pass
        err = run.end()
        assert run.child.returncode == 0, err
        took.append(time.monotonic() - begun)  # clock: what moments are drawn from
    return max(took)


def in_python_itself(err: str) -> bool:
    """Whether a traceback names no function of ours: Python was starting, nothing of codelet ran."""
    return not re.search(r'File "[^"]*/codelet/(?!__main__)[^"]*", line \d+, in (?!<module>)', err)


def goes_on_outside(seen: Moments, model: Model, kind: str) -> bool:
    """Whether something goes on that is seen without the program's events or rows."""
    return model.overloaded if kind == RETRY else seen.goes_on(kind)


def told_apart(kinds: set[str], model: Model, *, compacting: bool) -> set[str]:
    """What goes on, with what is not seen from outside: a wait to send again, a compaction that no model tells."""
    waits = {RETRY} if model.overloaded and not kinds & {REQUEST, STREAM} else set()
    return kinds | waits | ({COMPACTION} if compacting and NARRATIVE not in kinds else set())


@pytest.mark.timeout(10_800)
def test_one_shot(scene: tuple[Codelet, Model, Moments]) -> None:
    codelet, model, seen = scene
    whole = run_out(codelet, model)
    for number in range(amount(1, OF_EACH)):
        path = fresh(codelet)
        model.begin()
        model.calm = model.overloaded = False
        seen.begin()
        aim = seen.aim(model.chance, IN_ONE_SHOT)
        moment = model.chance.uniform(0, 1.05 * whole)
        told = f"interrupt {number} after {moment:.3f} of {whole:.3f} s into {aim}, CODELET_SEED={SEED}"
        filled = aim in (COMPACTION, NARRATIVE) or (aim is None and number % 3 == 0)
        run = OneShot(codelet, *(FILLED if filled else ()), "-p", "go on")
        draw_near(run, seen, model, aim, moment, whole)
        with moments.standing_still(run.child.pid):
            kinds = told_apart(seen.under_way(), model, compacting=run.is_compacting())
            if run.child.poll() is not None:
                kinds = {moments.END}
            with suppress(ProcessLookupError):
                run.child.send_signal(signal.SIGINT)
        said = run.end()
        seen.hit(kinds)
        assert "Traceback" not in said or in_python_itself(said), f"{told}: {said}"
        if "Traceback" not in said:
            assert run.child.returncode in (130, 0, -signal.SIGINT), f"{told}: {run.child.returncode} {said}"
        assert_nothing_lives(codelet, connections=0)
        assert model.broken == [], told
        if assert_kept(path) is None:
            continue
        model.calm = True
        again = codelet(*FLAGS, "--resume", "kept.json", "-p", "continue" if number % 2 else "and now?")
        assert (again.exit, again.out) == (0, "Calm.\n"), f"{told}: {again.err} {model.broken}"
        assert assert_kept(path) == "Calm."
        assert model.broken == [], told
    assert_each_was_hit(seen, IN_ONE_SHOT, f"one shot, {codelet.wire}")


def draw_near(run: OneShot, seen: Moments, model: Model, aim: str | None, moment: float, whole: float) -> None:
    """Wait for the moment: so long after the start, or a part of that into what is aimed at."""

    def goes_on() -> bool:
        if aim is None:
            return False
        return run.is_compacting() if aim == COMPACTION else goes_on_outside(seen, model, aim)

    if aim is None:
        moments.wait_into(goes_on, run.wait, most=moment, further=0)
    else:
        further = 0.0 if aim == SAVE else moment / 20
        moments.wait_into(goes_on, run.wait, most=2 * whole, further=further)


@pytest.mark.timeout(10_800)
def test_terminal(scene: tuple[Codelet, Model, Moments]) -> None:
    codelet, model, seen = scene
    whole = run_out(codelet, model)
    count = amount(2, OF_EACH)
    for first in range(0, count, SESSION):
        path = fresh(codelet)
        asks, filled = first // SESSION % 3 == 2, first // SESSION % 2 == 0
        flags = [*FLAGS, *(() if asks else ("--yes",)), *(FILLED if filled else ())]
        model.calm = False
        with codelet.terminal(*flags, rows=40) as terminal:
            again = False
            for number in range(first, min(count, first + SESSION)):
                model.begin()
                kinds = [kind for kind in IN_TERMINAL if asks or kind != QUESTION]
                aim = seen.aim(model.chance, kinds)
                line = "continue" if again and number % 3 == 1 else f"prompt {number}"
                moment = model.chance.uniform(0, 0.8 * whole)
                again = interrupted(codelet, model, seen, terminal, line, (aim, moment, whole))
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
    assert_each_was_hit(seen, IN_TERMINAL, f"terminal, {codelet.wire}")


def interrupted(
    codelet: Codelet,
    model: Model,
    seen: Moments,
    terminal: Terminal,
    line: str,
    drawn: tuple[str | None, float, float],
) -> bool:
    """One turn, stopped by a key at the moment that was `drawn`; whether it was stopped in its middle."""
    aim, moment, whole = drawn
    key = model.chance.choice(["esc", "ctrl-c"])
    told = f"{key} after {line!r} and {moment:.3f} of {whole:.3f} s into {aim}, CODELET_SEED={SEED}"
    stopped, answers = terminal.scrollback.count("stopped"), model.answers
    model.overloaded = False
    seen.begin()
    terminal.line(line)

    def is_over() -> bool:
        return model.answers > answers and is_idle(terminal)

    def wait(seconds: float) -> bool:
        assert terminal.pump(seconds), f"{told}: the program ended: {terminal.scrollback[-1500:]}"
        return True

    def goes_on() -> bool:
        if aim is None or is_over():
            return aim is not None
        own = {QUESTION: is_asked, COMPACTION: is_compacting}
        return own[aim](terminal) if aim in own else goes_on_outside(seen, model, aim)

    if aim is None:
        moments.wait_into(goes_on, wait, most=moment, further=0)
    else:
        moments.wait_into(goes_on, wait, most=2 * whole, further=0 if aim == SAVE else moment / 20)
    with moments.standing_still(terminal.pid):
        terminal.drain()
        kinds = told_apart(seen.under_way(), model, compacting=is_compacting(terminal))
        kinds |= {QUESTION} if is_asked(terminal) else set()
        kinds |= {IDLE} if is_over() else set()
        terminal.key(key)
    seen.hit(kinds)

    def was_stopped() -> bool:
        return terminal.scrollback.count("stopped") > stopped

    terminal.until(lambda: was_stopped() or model.answers > answers, f"{told}: the turn's end")
    terminal.settle(0.15)
    in_its_middle = was_stopped()
    if not in_its_middle:
        for wait_left in moments.slices(2.3, 0.05):  # clock: on an idle prompt, Ctrl-C twice would leave
            terminal.pump(wait_left)  # and ESC begin a combination
    until(lambda: not descendants(terminal.pid), f"{told}: the end of children")
    assert_nothing_lives(codelet, connections=1)
    assert model.broken == [], told
    return in_its_middle


def is_asked(terminal: Terminal) -> bool:
    """Whether a question waits for an answer: below its choices stand what is queued, the state and the line."""
    return any("enter confirm" in row for row in terminal.text.split("\n")[-6:])


def is_idle(terminal: Terminal) -> bool:
    """Whether the line editor waits for a prompt: below it stands its row with the model."""
    return STATUS in terminal.text.rpartition("\n")[2]


def is_compacting(terminal: Terminal) -> bool:
    """Whether the newest row on a compaction is the one that says that it began, and the turn goes on."""
    rows = [row[2:] for row in terminal.text.splitlines()]
    newest = [row for row in rows if row.startswith(("compacting ", "compacted: ", "not compacted: ", "stopped"))]
    return bool(newest) and newest[-1].startswith("compacting ") and not is_idle(terminal)


def test_an_interrupt_in_the_middle_of_an_import(codelet: Codelet, tmp_path: Path) -> None:
    """Before 3.12 Python wraps what `__set_name__` raises: such an interrupt would be told as a bug."""
    shadow = tmp_path / "shadow"
    shadow.mkdir()
    (shadow / "asyncio.py").write_text(MAKES_A_CLASS)
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
