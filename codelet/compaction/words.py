"""The user's words in a segment: verbatim while there is room, then head and tail of each, never none of any.

Order is kept. What a later message replaced is marked. Where even the head of each message does not fit, messages
become one short line each, rules and values before small talk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from codelet.compaction.segments import REQUESTS, SUPERSEDED, USER, Entry, heading
from codelet.compaction.signals import states_rule
from codelet.compaction.vocabulary import STOP_WORDS

LEAST = 160
# How a user's words are represented, the shortest first.
MODES = ("stubs", "head", "head and tail", "verbatim")
_READABLE = 60
SHORTEST = 6
# Passes over the messages where it is tight: characters for each (0: all), and the least rank that gets them.
_STEPS = ((50, 1), (80, 1), (10, -9), (0, 1), (36, -5), (0, -5))
# A word that so many of the messages share tells little of any of them.
_SHARED = 3
_MARKS = ".,;:!?()\"'"
_GAP = " […] "
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_VALUE = re.compile(r"\d|[`\"'][^`\"'\n]{2,60}[`\"']|\w[/_]\w|[a-z][A-Z]")


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
            (0 if e.label == REQUESTS else len(heading(e.turn, e.label)) + 1) + sum(len(line) + 1 for line in e.lines)
            for e in self.entries
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


@dataclass(frozen=True)
class Telling:
    """A text as words and how telling each of them is."""

    words: tuple[str, ...]
    worth: tuple[int, ...]

    @classmethod
    def of(cls, text: str, common: Mapping[str, int]) -> Telling:
        """Read a text; `common` counts in how many of the messages each word occurs."""
        words = tuple(word.rstrip(".,;:!") for word in text.split())
        return cls(words, tuple(_worth(word, common) for word in words))

    def shares(self, common: Mapping[str, int]) -> bool:
        """Whether most of its telling words are those of several other messages too."""
        own = [word.strip(_MARKS).lower() for word, worth in zip(self.words, self.worth, strict=True) if worth]
        return 3 * sum(common.get(word, 0) >= _SHARED for word in own) >= 2 * len(own)

    def abridged(self, cap: int) -> str:
        """The most telling words, in order, as many as `cap` characters take.

        Articles, auxiliaries and courtesies go first, then words that many of the messages share; values, names,
        negations and bounds go last.
        """
        words, worth = self.words, self.worth
        left = cap + 1
        taken: list[int] = []
        for index in sorted(range(len(words)), key=lambda i: -worth[i]):
            if worth[index] > 0 and len(words[index]) + 1 <= left:
                taken.append(index)
                left -= len(words[index]) + 1
        return " ".join(words[i] for i in sorted(taken)) or " ".join(words)[: min(cap, 20)]


def _worth(word: str, common: Mapping[str, int]) -> int:
    """How telling a word is: 0 for none of its own, most for a value or a name."""
    low = word.strip(_MARKS).lower()
    if not low or low in STOP_WORDS:
        return 0
    if any(c.isdigit() for c in low) or _VALUE.search(word) or word[:1] in "\"'`":
        return 100
    if states_rule(low):
        return 60
    return 50 - min(40, 6 * (common.get(low, 1) - 1)) + 5 * word[:1].isupper()


def _tight(said: Sequence[Said], room: int) -> Represented:
    """One short line per distinct message, with more words while there is room; what was said once goes first."""
    counts: dict[str, int] = {}
    for one in said:
        text = " ".join(one.text.split())
        counts[text] = counts.get(text, 0) + 1
    gone = {" ".join(one.text.split()) for one in said if one.superseded}
    texts = [text for text in counts if text]
    common: dict[str, int] = {}
    for text in texts:
        for word in {word.strip(_MARKS).lower() for word in text.split()}:
            common[word] = common.get(word, 0) + 1
    telling = [Telling.of(text[:600], common) for text in texts]
    ranks = [
        _rank(text, counts[text] + one.shares(common), text in gone) for text, one in zip(texts, telling, strict=True)
    ]
    shown = [""] * len(texts)
    turn = said[0].turn
    left = room
    for cap, least in _STEPS:
        for index in sorted(range(len(texts)), key=lambda i: (-ranks[i], len(texts[i]), -i)):
            if left < SHORTEST:
                break
            if ranks[index] < least:
                continue
            version = telling[index].abridged(_fitting(cap, left)) if cap else texts[index]
            more = len(version) - len(shown[index]) + (not shown[index])
            if 0 < more <= left:
                shown[index] = version
                left -= more
    lines = [line for line in shown if line]
    entries = [Entry(turn, REQUESTS, lines)] if lines else []
    return Represented(entries, mode="stubs", left_out=len(texts) - len(lines))


def _fitting(cap: int, left: int) -> int:
    """The cap, or a little less where just that is left: a shorter line is better than none."""
    return left - 1 if 2 * cap // 3 <= left - 1 < cap else cap


def _rank(text: str, times: int, superseded: bool) -> int:
    """How much a message must be kept whole: rules and values count, repetition and what was replaced do not."""
    if superseded:
        return -6
    return 1 + 2 * states_rule(text) + 2 * bool(_VALUE.search(text)) - 3 * min(2, times - 1)


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text."""
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]
