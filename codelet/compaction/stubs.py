"""Stubs: one short line for each of many messages, where not even their heads fit.

What was laid down (rules, values) comes first, the shortest of it before the longer, so that most of it gets in whole;
then what tells most; small talk and repetition come last. Order is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codelet.compaction.signals import chats, states_rule
from codelet.compaction.vocabulary import STOP_WORDS

SHORTEST = 6
# Passes over the messages: characters for each (0: all), and the least rank that gets them.
_STEPS = ((50, 1), (80, 1), (10, -9), (0, 1), (18, -5), (26, -5), (36, -5), (50, -5), (0, -5))
# From this rank on, a message lays something down.
_LAID_DOWN = 3
# A word that so many of the messages share tells little of any of them.
_SHARED = 3
_READ = 600
_MARKS = ".,;:!?()\"'"
_VALUE = re.compile(r"\d|[`\"'][^`\"'\n]{2,60}[`\"']|\w[/_]\w|[a-z][A-Z]")


@dataclass(frozen=True)
class Telling:
    """A text as words and how telling each of them is; `count` words tell something of their own."""

    words: tuple[str, ...]
    worth: tuple[int, ...]
    count: int

    @classmethod
    def of(cls, text: str, common: Mapping[str, int]) -> Telling:
        """Read a text; `common` counts in how many of the messages each word occurs."""
        words = tuple(word.rstrip(".,;:!") for word in text.split())
        worth = tuple(_worth(word, common) for word in words)
        return cls(words, worth, sum(one > 0 for one in worth))

    def repeats(self, common: Mapping[str, int]) -> bool:
        """Whether most of what it tells stands in several other messages too."""
        own = [_bare(word) for word, worth in zip(self.words, self.worth, strict=True) if worth]
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


def _bare(word: str) -> str:
    return word.strip(_MARKS).lower()


def _worth(word: str, common: Mapping[str, int]) -> int:
    """How telling a word is: 0 for none of its own, most for a value or a name."""
    low = _bare(word)
    if not low or low in STOP_WORDS:
        return 0
    if any(c.isdigit() for c in low) or _VALUE.search(word) or word[:1] in "\"'`":
        return 100
    if states_rule(low):
        return 60
    return 50 - min(40, 6 * (common.get(low, 1) - 1)) + 5 * word[:1].isupper()


def stubs(said: Sequence[str], room: int) -> tuple[list[str], int]:
    """One line per distinct message in at most `room` characters, and how many messages got none."""
    counts: dict[str, int] = {}
    for spoken in said:
        text = " ".join(spoken.split())
        counts[text] = counts.get(text, 0) + 1
    texts = [text for text in counts if text]
    common: dict[str, int] = {}
    for text in texts:
        for word in set(map(_bare, text.split())):
            common[word] = common.get(word, 0) + 1
    telling = [Telling.of(text[:_READ], common) for text in texts]
    ranks = [_rank(text, counts[text] + one.repeats(common)) for text, one in zip(texts, telling, strict=True)]
    lines = _fill(texts, telling, ranks, room)
    return lines, len(texts) - len(lines)


def _fill(texts: Sequence[str], telling: Sequence[Telling], ranks: Sequence[int], room: int) -> list[str]:
    """The lines, in order, as the passes make them: each may replace a shorter one of the same message."""
    shown = [""] * len(texts)
    left = room
    for cap, least in _STEPS:
        wanting = [i for i, rank in enumerate(ranks) if rank >= least and shown[i] != texts[i]]
        drafts = {i: telling[i].abridged(cap) if cap else texts[i] for i in wanting}

        def order(i: int, drafts: Mapping[int, str] = drafts) -> tuple[int, int, int]:
            rank = min(ranks[i], _LAID_DOWN)
            return -rank, len(drafts[i]) if rank == _LAID_DOWN else -telling[i].count, -i

        for index in sorted(wanting, key=order):
            if left < SHORTEST:
                break
            fitting = _fitting(cap, left)
            version = drafts[index] if fitting == cap else telling[index].abridged(fitting)
            more = len(version) - len(shown[index]) + (not shown[index])
            if 0 < more <= left:
                shown[index] = version
                left -= more
    return [line for line in shown if line]


def _fitting(cap: int, left: int) -> int:
    """The cap, or a little less where just that is left: a shorter line is better than none. 0 is no cap."""
    return left - 1 if 2 * cap // 3 <= left - 1 < cap else cap


def _rank(text: str, times: int) -> int:
    """How much a message must be kept whole: rules and values count; small talk and repetition do not."""
    laid_down = 2 * states_rule(text) + 2 * bool(_VALUE.search(text))
    again = 3 * min(2, times - 1)
    return (laid_down or -2 * chats(text)) + 1 - again
