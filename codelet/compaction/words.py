"""The user's words in a segment: verbatim while there is room, then head and tail of each, never none of any.

Order is kept. Where even the head of each message does not fit, messages
become stubs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from codelet.compaction.segments import REQUESTS, USER, Entry, heading
from codelet.compaction.stubs import stubs

LEAST = 160
_READABLE = 60
_GAP = " […] "
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")


@dataclass(frozen=True)
class Said:
    """One user message of an earlier turn."""

    turn: int
    text: str


@dataclass
class Represented:
    """Entries for a segment, one per message (or one for all, where it is tight).

    `cut` holds what was cut away, with the position of its message; `left_out` counts messages without any line.
    """

    entries: list[Entry] = field(default_factory=list)
    cut: list[tuple[int, str]] = field(default_factory=list)
    mode: str = "verbatim"
    left_out: int = 0

    def size(self) -> int:
        """Characters of the rendered entries."""
        return sum(
            (0 if e.label == REQUESTS else len(heading(e.turn, e.label)) + 1) + sum(len(line) + 1 for line in e.lines)
            for e in self.entries
        )


def represent(said: Sequence[Said], budget: int, room: int) -> Represented:
    """Represent every message within `budget` characters, or `room` where `budget` is not enough for the least."""
    if not said:
        return Represented()
    frame = sum(len(heading(one.turn, USER)) + 2 for one in said)
    if frame + sum(len(one.text) for one in said) <= budget:
        return Represented([_entry(one, one.text) for one in said])
    lengths = sorted(len(one.text) for one in said)
    cap = _cap(lengths, budget - frame)
    if cap < LEAST:
        cap = min(LEAST, _cap(lengths, room - frame))
    if cap < _READABLE:
        lines, left_out = stubs([one.text for one in said], room)
        entries = [Entry(said[0].turn, REQUESTS, lines)] if lines else []
        return Represented(entries, mode="stubs", left_out=left_out)
    result = Represented(mode="head and tail" if cap > LEAST else "head")
    for position, one in enumerate(said):
        head, tail = clip(one.text, cap)
        result.entries.append(_entry(one, head + (_GAP + tail if tail else "")))
        if len(one.text) > cap:
            result.cut.append((position, one.text[len(head) : len(one.text) - len(tail)]))
    return result


def _entry(one: Said, text: str) -> Entry:
    return Entry(one.turn, USER, text.split("\n"))


def _cap(lengths: Sequence[int], budget: int) -> int:
    """The largest cap under which the sum of the (sorted) lengths fits the budget; 0 if none."""
    spent = 0
    for place, length in enumerate(lengths):
        rest = len(lengths) - place
        if spent + length * rest > budget:
            return max(0, (budget - spent) // rest)
        spent += length
    return lengths[-1] if lengths else 0


def clip(text: str, cap: int) -> tuple[str, str]:
    """Head and tail of a text, together with their gap at most `cap` long; the head gets two thirds, at least 160."""
    if len(text) <= cap:
        return text, ""
    head = min(cap, max(LEAST, cap * 2 // 3))
    tail = cap - head - len(_GAP)
    if tail < 20:
        return text[:cap], ""
    return text[:head], text[len(text) - tail :]


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text."""
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]
