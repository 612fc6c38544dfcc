"""Anchors: turns in which something was settled. They are weights, not places to cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codelet.compaction.attempts import Attempt
from codelet.compaction.reading import Reading
from codelet.compaction.signals import moves_on, states_decision

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


def find(readings: Sequence[Reading], attempts: Sequence[Attempt]) -> list[Anchor]:
    """The anchors of a list, in order of their turns; at most one of a kind in a turn."""
    found: dict[tuple[int, str], Anchor] = {}
    wrote = {reading.turn for reading in readings for deed in reading.deeds if deed.kind == "write"}
    failing: list[str] = []
    for run in attempts:
        if run.run is None or run.passed is None:
            continue
        if not run.passed:
            failing.append(run.text)
            continue
        mended = [text for text in failing if run.covers(text)]
        kind = _kind_of(run, run.turn in wrote, bool(mended))
        failing = [text for text in failing if text not in mended]
        if kind is not None:
            text = f"{run.text[:80]}: {run.line[:100]}" if run.line else run.text[:80]
            found[run.turn, kind] = Anchor(run.turn, kind, " ".join(text.split()))
    for reading in readings:
        if reading.kind == "user":
            _from_user(reading, found)
    return sorted(found.values(), key=lambda anchor: (anchor.turn, -anchor.weight, anchor.kind))


def _kind_of(run: Attempt, wrote: bool, mended: bool) -> str | None:
    """What a run that passed settles."""
    if run.what == "tests":
        if not wrote:
            return None
        return "error fixed" if mended else "task done"
    return "milestone" if run.what == "build" else "checkpoint"


def _from_user(reading: Reading, found: dict[tuple[int, str], Anchor]) -> None:
    text = " ".join(reading.text[:2000].split())
    if len(text) <= 1200 and states_decision(text):
        found.setdefault((reading.turn, "decision"), Anchor(reading.turn, "decision", text[:160]))
    elif moves_on(text):
        found.setdefault((reading.turn, "checkpoint"), Anchor(reading.turn, "checkpoint", text[:80]))
