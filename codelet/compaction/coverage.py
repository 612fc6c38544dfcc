"""Budgeted weighted coverage: which lines of the old messages say most about what was worked on.

Every line is a candidate. A name's weight grows with how often, how recently and by whom it was used; a line's gain is
the sum of the weights of its names, and each time a name is covered its weight shrinks, so that the choice spreads
over names instead of repeating the loudest. Lines are taken by gain per character, lazily from a heap: n log n.
Integers throughout: the same lines on every machine and under every hash seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

REPEAT_PERCENT = 18
FRAME = 12
SMALLEST_ROOM = 8


@dataclass
class Candidates:
    """Lines that may be kept, as columns: text, the names in it, its factor in per mille, its source's number, and
    its position in the list, counted in lines.
    """

    text: list[str] = field(default_factory=list)
    names: list[tuple[int, ...]] = field(default_factory=list)
    factor: list[int] = field(default_factory=list)
    source: list[int] = field(default_factory=list)
    position: list[int] = field(default_factory=list)


def log2_milli(number: int) -> int:
    """1000 · log2 of a positive integer, by integers, linear between powers of two."""
    power = number.bit_length() - 1
    return 1000 * power + ((number << 10 >> power) - 1024) * 1000 // 1024


def choose(
    candidates: Candidates,
    weights: list[int],
    budget: int,
    headers: Sequence[int],
    heads: Sequence[int],
) -> list[int]:
    """Indices of the chosen lines, best first. `budget` in characters; a line costs its length and a line end.

    The first line of a source also pays for its heading: `headers[source]` characters, or, where the heading is
    itself the candidate `heads[source]` (≥ 0), that line. `weights` is used up: pass a copy.
    """
    texts, names, factor, source = candidates.text, candidates.names, candidates.factor, candidates.source
    weight = weights.__getitem__
    costs = [len(text) + FRAME for text in texts]
    heap = [(-(sum(map(weight, found)) * factor[i] // costs[i]), -i) for i, found in enumerate(names) if found]
    heapq.heapify(heap)
    opened: set[int] = set()
    chosen: list[int] = []
    left = budget
    while heap and left > SMALLEST_ROOM:
        old, negative = heap[0]
        i = -negative
        gain = sum(map(weight, names[i])) * factor[i] // costs[i]
        if gain < -old and gain > 0:
            heapq.heapreplace(heap, (-gain, negative))
            continue
        heapq.heappop(heap)
        own = source[i]
        if gain <= 0 or (i == heads[own] and own in opened):
            continue
        taken = [i]
        cost = len(texts[i]) + 1
        if own not in opened and heads[own] not in (-1, i):
            taken.append(heads[own])
            cost += len(texts[heads[own]]) + 1
        elif own not in opened:
            cost += headers[own]
        if cost > left:
            continue
        left -= cost
        opened.add(own)
        chosen += taken
        for one in taken:
            for name in names[one]:
                weights[name] = weights[name] * REPEAT_PERCENT // 100
    return chosen


def cover(weights: list[int], names: Iterable[int], percent: int) -> None:
    """Shrink the weights of names that are already shown elsewhere."""
    for name in names:
        weights[name] = weights[name] * percent // 100
