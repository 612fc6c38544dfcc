"""Budgeted weighted coverage: which lines of the old messages say most about what was worked on.

Every line is a candidate. A name's weight grows with how often, how recently and by whom it was used; a line's gain is
the sum of the weights of its names, and each time a name is covered its weight shrinks, so that the selection spreads
over names instead of repeating the loudest. Lines are taken by gain per character, lazily from a heap: n log n.
Integers throughout: the same lines on every machine and under every hash seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

# What is left of a name's weight once a line shows it; more is left if the line shows it without company, because
# a name tells less without the names that it stood beside.
REPEAT_PERCENT = 18
ALONE_PERCENT = 70
FRAME = 24
SMALLEST_ROOM = 8
# A name that a line shows alone may have a line up to so many characters longer that shows it in company.
COMPANY_EXTRA = 60
# A gain that has shrunk no further than to this share of what it was still counts as the best.
STALE_PERCENT = 95


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
    # The candidate that another one cannot be read without: of the row of a table its header.
    above: dict[int, int] = field(default_factory=dict)


def log2_milli(number: int) -> int:
    """1000 · log2 of a positive integer, by integers, linear between powers of two."""
    power = number.bit_length() - 1
    return 1000 * power + ((number << 10 >> power) - 1024) * 1000 // 1024


class Selection:
    """Lines chosen so far, best first, and what they cost in characters: a line costs its length and a line end.

    The first line of a source also pays for its heading: `headers[source]` characters, or, where the heading is
    itself the candidate `heads[source]` (≥ 0), that line.
    """

    def __init__(self, candidates: Candidates, headers: Sequence[int], heads: Sequence[int]) -> None:
        self.candidates = candidates
        self.chosen: list[int] = []
        self.spent = 0
        self._costs = [len(text) + FRAME for text in candidates.text]
        self._headers = headers
        self._heads = heads
        self._alone = {head for head in heads if head >= 0}
        self._opened: set[int] = set()
        self._taken: set[int] = set()

    def take(self, among: Sequence[int], weights: list[int], budget: int, alone: int = ALONE_PERCENT) -> list[int]:
        """Choose among some lines until `budget` is spent; return those chosen now.

        `weights` shrink as names are covered: to `alone` per cent by a heading or a line with one name.
        """
        names, factor = self.candidates.names, self.candidates.factor
        weight = weights.__getitem__
        costs = self._costs
        # A gain and an index in one number, as numbers compare faster than pairs; of equal gains the newer line first.
        shift = len(names).bit_length()
        mask = (1 << shift) - 1
        heap = [-((sum(map(weight, names[i])) * factor[i] // costs[i] << shift) + i) for i in among if names[i]]
        heapq.heapify(heap)
        pop, replace = heapq.heappop, heapq.heapreplace
        begun, spent, limit = len(self.chosen), self.spent, self.spent + budget - SMALLEST_ROOM
        longest, refused = limit + SMALLEST_ROOM - spent + FRAME - 1, 0
        while heap and spent < limit:
            best = -heap[0]
            i = best & mask
            if costs[i] > longest:  # without any heading already too long for what is left, which only shrinks
                pop(heap)
                refused += 1
                if 32 * refused > len(heap):  # most are too long by now: leaving them in one go is linear
                    refused, heap = 0, [one for one in heap if costs[-one & mask] <= longest]
                    heapq.heapify(heap)
                continue
            gain = sum(map(weight, names[i])) * factor[i] // costs[i]
            if 100 * gain < STALE_PERCENT * (best >> shift) and gain > 0:
                replace(heap, -((gain << shift) + i))
                continue
            pop(heap)
            if gain > 0 and i not in self._taken:
                for one in self._fitting(i, limit + SMALLEST_ROOM):
                    cover(weights, names[one], alone if one in self._alone or len(names[one]) < 2 else REPEAT_PERCENT)
                spent = self.spent
                longest = limit + SMALLEST_ROOM - spent + FRAME - 1
        return self.chosen[begun:]

    def put(self, lines: Iterable[int], budget: int) -> list[int]:
        """Choose lines in the order given, as many as `budget` more characters take; return those chosen now."""
        begun, limit = len(self.chosen), self.spent + budget
        for index in lines:
            if index not in self._taken and self.candidates.factor[index]:
                self._fitting(index, limit)
        return self.chosen[begun:]

    def accompany(self, lines: Sequence[int], is_name: Sequence[bool], budget: int) -> None:
        """Replace lines on which a name stands alone by lines on which it stands beside others, the cheapest first.

        `lines` are those that may go. A line comes only from a source that others were chosen from, and all of them
        together cost at most `budget` characters more. `is_name` tells the names among the words.
        """
        text = self.candidates.text
        alone = self._alone_in(lines, is_name)
        offers: dict[int, int] = {}
        nothing = alone.keys().isdisjoint
        for i, words in enumerate(self.candidates.names):
            if nothing(words) or i in self._taken or self.candidates.source[i] not in self._opened:
                continue
            named = [word for word in words if is_name[word]]
            for name in named if len(named) > 1 and i not in self._alone else ():
                if name in alone and (name not in offers or len(text[i]) < len(text[offers[name]])):
                    offers[name] = i
        place = {line: number for number, line in enumerate(self.chosen)}
        exchanges = sorted(
            (len(text[new]) - len(text[alone[name]]), place[alone[name]], name) for name, new in offers.items()
        )
        for extra, number, name in exchanges:
            new = offers[name]
            if extra > min(COMPANY_EXTRA, budget):
                break
            if new not in self._taken:
                self._taken.add(new)
                self.chosen[number] = new
                self.spent += extra
                budget -= extra

    def _alone_in(self, lines: Sequence[int], is_name: Sequence[bool]) -> dict[int, int]:
        """For each name that no chosen line shows beside another name: the line among `lines` that shows it alone."""
        alone: dict[int, int] = {}
        together: set[int] = set()
        mine = set(lines)
        for i in self.chosen:
            named = [name for name in self.candidates.names[i] if is_name[name]]
            if i in self._alone:
                continue
            if len(named) > 1:
                together.update(named)
            elif named and i in mine:
                alone.setdefault(named[0], i)
        return {name: line for name, line in alone.items() if name not in together}

    def _fitting(self, index: int, limit: int) -> list[int]:
        """Take a line, and the heading if it is its source's first; return what was taken, [] if it does not fit."""
        own = self.candidates.source[index]
        head = self._heads[own]
        taken = [index]
        cost = self._costs[index] - FRAME + 1
        if own not in self._opened and head not in (-1, index):
            taken.append(head)
            cost += self._costs[head] - FRAME + 1
        elif own not in self._opened:
            cost += self._headers[own]
        above = self.candidates.above.get(index, index)
        if above not in self._taken and above not in taken and self.candidates.source[above] == own:
            taken.append(above)
            cost += self._costs[above] - FRAME + 1
        if self.spent + cost > limit:
            return []
        self.spent += cost
        self._opened.add(own)
        self._taken.update(taken)
        self.chosen += taken
        return taken


def cover(weights: list[int], names: Iterable[int], percent: int) -> None:
    """Shrink the weights of names that are already shown elsewhere."""
    for name in names:
        weights[name] = weights[name] * percent // 100
