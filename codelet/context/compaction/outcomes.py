"""Outcomes: what the agent said came of a turn, in its own whole sentences.

Of each old turn one line stands: of the agent's last text in it the sentence that gives a verdict, a cause or a
decision, or else its first sentence. Then come other sentences that do so, from wherever they were said.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, count
from typing import NamedTuple

from codelet.context.compaction.candidates import LineCollector
from codelet.context.compaction.signals import outcome_strength

# A line of prose: words of letters, no code, no row of a table, no heading.
_WORDS = re.compile(r"[^\W\d_]{2,}")
_NOT_PROSE = re.compile(
    r"[|#<{}()\[\]/@$+]|//|import |const |let |def |class |return |from |if \(|\.\.\.\Z|[\"'`]?[\w-]+[\"'`]?: [\"'\[{]"
)
_CODE_END = re.compile(r"[{};,(\[=]\Z|=>\Z")
_BULLET = re.compile(r"(?:[-*•]|\d{1,3}[.)]|\W{1,3})\s+")
_LEAST_WORDS = 4
_SHORTEST = 24


@dataclass(frozen=True)
class TurnOutcome:
    """A line that tells what came of something. `strength` 0 to 4, `closes` says that it ends its turn."""

    index: int
    turn: int
    strength: int
    closes: bool


def is_sentence(line: str) -> bool:
    """Whether a line reads as a sentence rather than as code, a heading or a row of a table."""
    body = _BULLET.sub("", line, count=1)
    if len(body) < _SHORTEST or _NOT_PROSE.match(body) or _CODE_END.search(body):
        return False
    letters = _WORDS.findall(body)
    return len(letters) >= _LEAST_WORDS and 2 * sum(map(len, letters)) >= len(body)


def outcomes(collector: LineCollector, turns: Iterable[int]) -> list[TurnOutcome]:
    """The outcome lines of the agent's prose, in order; of each of `turns` at most one closes it."""
    candidates, sources = collector.candidates, collector.sources
    by_source: dict[int, list[int]] = {}
    prose = {number for number, source in enumerate(sources) if not source.label}
    for index in compress(count(), map(prose.__contains__, candidates.source)):
        if candidates.names[index]:
            by_source.setdefault(candidates.source[index], []).append(index)
    found: dict[int, TurnOutcome] = {}
    closing: dict[int, tuple[tuple[int, int], int]] = {}
    for number, indices in by_source.items():
        source = sources[number]
        told = [(i, outcome_strength(candidates.text[i])) for i in indices if is_sentence(candidates.text[i])]
        found.update((i, TurnOutcome(i, source.turn, strength, False)) for i, strength in told if strength)
        if told:
            best = max(told, key=lambda pair: (pair[1], -candidates.position[pair[0]]))[0]
            closing[source.turn] = max(closing.get(source.turn, ((-1, 0), -1)), (source.place, best))
    for turn in turns:
        if turn in closing:
            index = closing[turn][1]
            own = found.get(index)
            found[index] = TurnOutcome(index, turn, own.strength if own else 0, closes=True)
    return sorted(found.values(), key=lambda one: candidates.position[one.index])


class Ranked(NamedTuple):
    """Lines that tell what came of something, those to be kept first in front: what closes a turn, and the others."""

    closing: tuple[int, ...] = ()
    others: tuple[int, ...] = ()


def ranked(
    collector: LineCollector, told: Sequence[TurnOutcome], scores: Mapping[int, int], anchored: Collection[int]
) -> Ranked:
    """The outcomes' lines: what closes a turn with an anchor goes first, then what tells most by its length."""
    text = collector.candidates.text

    def worth(one: TurnOutcome) -> tuple[bool, int, int]:
        most = 1000 * (one.strength + one.closes) * (100 + scores.get(one.turn, 0))
        return one.closes and one.turn in anchored, most // (len(text[one.index]) + 60), one.index

    best = sorted(told, key=worth, reverse=True)
    closing = tuple(one.index for one in best if one.closes)
    return Ranked(closing, tuple(one.index for one in best if not one.closes))
