"""Anchors: turns in which something was settled. They are weights, not places to cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codelet.compaction.calls import Deed
from codelet.compaction.reading import Reading
from codelet.compaction.signals import builds, commits, moves_on, outcome, runs_tests, states_decision

WEIGHTS = {"error fixed": 36, "task done": 32, "milestone": 30, "decision": 28, "checkpoint": 28}
CONFIDENCE = {"error fixed": 95, "task done": 92, "milestone": 92, "decision": 90, "checkpoint": 91}
LEAST_CONFIDENCE = 90


@dataclass(frozen=True)
class Anchor:
    """Something settled in a turn. `confidence` in per cent; `weight` is its share of a turn's score, ≤ 40."""

    turn: int
    kind: str
    text: str

    @property
    def weight(self) -> int:
        """Points that this anchor is worth."""
        return WEIGHTS[self.kind]

    @property
    def confidence(self) -> int:
        """How sure its detector is, in per cent."""
        return CONFIDENCE[self.kind]


@dataclass(frozen=True)
class Run:
    """A test run, build or commit, and how it ended (None: its output does not say)."""

    turn: int
    what: str
    command: str
    passed: bool | None
    line: str


def runs(readings: Sequence[Reading]) -> list[Run]:
    """All test runs, builds and commits, in order, with the line that tells the outcome."""
    found: list[Run] = []
    for reading in readings:
        deed = reading.answers
        if reading.kind != "result" or deed is None or deed.kind != "command":
            continue
        tests, built, committed = runs_tests(deed.subject), builds(deed.subject), commits(deed.subject)
        if not (tests or built or committed):
            continue
        what = "tests" if tests else "build" if built else "commit"
        ended = outcome(deed.subject, reading.text)
        if ended is None and what != "tests" and len(reading.text) < 4000:
            ended = True
        found.append(Run(reading.turn, what, deed.subject, ended, _telling_line(reading.text)))
    return found


def _telling_line(text: str) -> str:
    lines = [line.strip() for line in text[-4000:].split("\n") if line.strip()]
    return lines[-1][:160] if lines else ""


def find(readings: Sequence[Reading], all_runs: Sequence[Run]) -> list[Anchor]:
    """The anchors of a list, in order of their turns; at most one of a kind in a turn."""
    found: dict[tuple[int, str], Anchor] = {}
    by_turn: dict[int, list[Run]] = {}
    for run in all_runs:
        by_turn.setdefault(run.turn, []).append(run)
    wrote = _writes(readings)
    failing = False
    for turn in sorted({reading.turn for reading in readings}):
        for run in by_turn.get(turn, []):
            kind = _kind_of(run, wrote.get(turn), failing)
            if kind is not None:
                text = f"{run.command[:80]}: {run.line[:100]}".replace("\n", " ")
                found[turn, kind] = Anchor(turn, kind, text)
            if run.what != "commit" and run.passed is not None:
                failing = not run.passed
    for reading in readings:
        if reading.kind == "user":
            _from_user(reading, found)
    return sorted(found.values(), key=lambda anchor: (anchor.turn, -anchor.weight, anchor.kind))


def _writes(readings: Sequence[Reading]) -> dict[int, Deed]:
    return {r.turn: deed for r in readings for deed in r.deeds if deed.kind == "write"}


def _kind_of(run: Run, wrote: Deed | None, failing: bool) -> str | None:
    if not run.passed:
        return None
    if run.what == "tests":
        if wrote is None:
            return None
        return "error fixed" if failing else "task done"
    return "milestone" if run.what == "build" else "checkpoint"


def _from_user(reading: Reading, found: dict[tuple[int, str], Anchor]) -> None:
    text = " ".join(reading.text[:2000].split())
    if len(text) <= 1200 and states_decision(text):
        found.setdefault((reading.turn, "decision"), Anchor(reading.turn, "decision", text[:160]))
    elif moves_on(text):
        found.setdefault((reading.turn, "checkpoint"), Anchor(reading.turn, "checkpoint", text[:80]))
