"""The greedy choice of lines: those that cover the most value for their length."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from codelet.context.compaction.reading import SessionPiece

_LEAST_LEFT, _SAME_GAIN = 12, 0.95


class Line(NamedTuple):
    """One line of a segment: the number of its piece, the piece, and the text."""

    number: int
    piece: SessionPiece
    text: str

    @property
    def is_in_heading(self) -> bool:
        """Return whether the heading of its call has the same text."""
        return self.piece.kind == "call" and self.piece.label.endswith(f" {self.text}")

    @property
    def heading(self) -> object:
        """A key that lines under one heading share, as a call and its result do."""
        piece = self.piece
        return piece.call.id if piece.call is not None else (piece.turn, piece.label, self.number)


class Coverage:
    """The lines chosen so far, in `room` characters.

    `covered` is the share of a name's value that is left each time a chosen line has it. `frame` is added to a line's
    length, so that a short line with one name does not win over a long line with many. With `headings` the first line
    of a call pays for its heading.
    """

    def __init__(
        self,
        names: Callable[[str], Collection[str]],
        value: dict[str, float],
        room: int,
        *,
        covered: float,
        frame: int,
        headings: bool = False,
    ) -> None:
        self.lines: list[Line] = []
        self._names, self._value, self._left, self._covered, self._frame = names, value, room, covered, frame
        self._headings, self._headed = headings, set[object]()

    def cost(self, line: Line) -> int:
        """Return the cost of a line in characters."""
        if not self._headings:
            return len(line.text) + 1
        heading = 0 if line.heading in self._headed else len(line.piece.label) + 8
        return heading + (0 if line.is_in_heading else len(line.text) + 1)

    def take(self, line: Line) -> None:
        """Choose a line; the names in it count less from now on."""
        self._left -= self.cost(line)
        self.lines.append(line)
        if self._headings:
            self._headed.add(line.heading)
        for name in self._names(line.text):
            self._value[name] *= self._covered

    def fill(self, lines: Sequence[Line], weights: Sequence[float], least: float = 0.0) -> None:
        """Choose the lines of most gain for their length until the room is full. `least` is the value of any line."""
        value, frame = self._value, self._frame
        known = [self._names(line.text) for line in lines]
        scale = [weight / (len(line.text) + frame) for line, weight in zip(lines, weights, strict=True)]

        def gain(place: int) -> float:
            return scale[place] * (least + sum([value[name] for name in known[place]]))

        heap = [(-gain(place), place) for place in range(len(lines))]
        if sum(map(self.cost, lines)) <= self._left:
            self.lines += [lines[place] for _, place in sorted(heap)]
            return
        heapq.heapify(heap)
        while heap and self._left > _LEAST_LEFT:
            best, place = heapq.heappop(heap)
            now = gain(place)
            if heap and now < -best * _SAME_GAIN and now < -heap[0][0]:
                heapq.heappush(heap, (-now, place))
            elif now <= 0:
                break
            elif self.cost(lines[place]) <= self._left:
                self.take(lines[place])
