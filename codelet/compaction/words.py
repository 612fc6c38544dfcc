"""The user's words in a segment: verbatim while there is room, then head and tail of each, never none of any.

Order is kept. What a later message replaced is marked. Where even the head of each message does not fit, messages
become one short line each, rules and values before small talk.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from codelet.compaction.segments import REQUESTS, SUPERSEDED, USER, Entry, heading
from codelet.compaction.signals import states_rule

LEAST = 160
_READABLE = 60
_GAP = " […] "
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_VALUE = re.compile(r"\d|[`\"'][^`\"'\n]{2,60}[`\"']|\w[/_]\w|[a-z][A-Z]")
_STOP = frozenset(
    """a an the is are was were be been being am do does did will would can could shall should may might have has had
    i we you he she it they me us him them my our your his her its their this that these those there here of to in on at
    for from with as by and or but if then so than too very just also please really quite some any all both each
    which who whom whose what when where how about into over under out up down off again further still already yet
    ok okay yes yeah well hey hi thanks thank like want need let lets get got going go make sure keep""".split()
)


@dataclass(frozen=True)
class Said:
    """One user message of an earlier turn."""

    turn: int
    text: str
    superseded: bool = False


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
            len(heading(e.turn, e.label)) + 1 + sum(len(line) + 1 for line in e.lines) for e in self.entries
        )


def represent(said: Sequence[Said], budget: int, room: int) -> Represented:
    """Represent every message within `budget` characters, or `room` where `budget` is not enough for the least."""
    if not said:
        return Represented()
    frame = sum(len(heading(one.turn, _label(one))) + 2 for one in said)
    if frame + sum(len(one.text) for one in said) <= budget:
        return Represented([_entry(one, one.text) for one in said])
    lengths = sorted(len(one.text) for one in said)
    cap = _cap(lengths, budget - frame)
    if cap < LEAST:
        cap = min(LEAST, _cap(lengths, room - frame))
    if cap < _READABLE:
        return _tight(said, room)
    result = Represented(mode="head and tail" if cap > LEAST else "head")
    for position, one in enumerate(said):
        head, tail = clip(one.text, cap)
        result.entries.append(_entry(one, head + (_GAP + tail if tail else "")))
        if len(one.text) > cap:
            result.cut.append((position, one.text[len(head) : len(one.text) - len(tail)]))
    return result


def _label(one: Said) -> str:
    return SUPERSEDED if one.superseded else USER


def _entry(one: Said, text: str) -> Entry:
    return Entry(one.turn, _label(one), text.split("\n"))


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


def abridge(text: str) -> str:
    """A text in its telling words: no articles, auxiliaries, courtesies; numbers, names and negations stay."""
    words = [word for word in text.split() if word.strip(".,;:!?").lower() not in _STOP]
    return " ".join(word.rstrip(".,;:!") for word in words) or text.strip()[:20]


def _tight(said: Sequence[Said], room: int) -> Represented:
    """One short line per distinct message: a stub of each, then the whole of as many as fit, rules and values first."""
    counts: dict[str, int] = {}
    for one in said:
        counts[one.text] = counts.get(one.text, 0) + 1
    lines = [(" ".join(text.split()), times) for text, times in counts.items() if text.strip()]
    gone = {" ".join(one.text.split()) for one in said if one.superseded}
    turn = said[0].turn
    left = room - len(heading(turn, REQUESTS)) - 2
    short = [abridge(text[:600]) for text, _ in lines]
    stubs = [_stub(text) for text in short]
    shown = list(stubs)
    left -= sum(len(stub) + 1 for stub in stubs)
    left_out = 0
    ranks = [_rank(text, times, text in gone) for text, times in lines]
    for index in sorted(range(len(lines)), key=lambda i: (ranks[i], -len(stubs[i]), i)):
        if left >= 0:
            break
        left += len(shown[index]) + 1
        shown[index] = ""
        left_out += 1
    for index in sorted(range(len(lines)), key=lambda i: (-ranks[i], len(short[i]), -i)):
        more = len(short[index]) - len(shown[index])
        if shown[index] and 0 < more <= left and ranks[index] > 0:
            shown[index] = short[index]
            left -= more
    for index in sorted(range(len(lines)), key=lambda i: (-ranks[i], -i)):
        more = len(lines[index][0]) - len(shown[index])
        if shown[index] == short[index] and 0 < more <= left:
            shown[index] = lines[index][0]
            left -= more
    return Represented([Entry(turn, REQUESTS, [line for line in shown if line])], mode="stubs", left_out=left_out)


def _stub(text: str) -> str:
    """The first words of a text, up to ten characters."""
    cut = text[:10]
    return cut if len(text) <= 10 or " " not in cut else cut[: cut.rindex(" ")]


def _rank(text: str, times: int, superseded: bool) -> int:
    """How much a message must be kept whole: rules and values count, repetition and what was replaced do not."""
    if superseded:
        return 0
    return 1 + 2 * states_rule(text) + 2 * bool(_VALUE.search(text)) - 2 * (times > 1)


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text."""
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]
