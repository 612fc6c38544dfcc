"""The lines of calls and results that cover most of the names the agent works with, in the room that is left.

A name weighs more the more often and the more recently the agent used it; once covered, it counts little. Left out are
lines that an edit removed, base64, and markup.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from codelet.context.compaction.lexicon import Lexicon, as_changed, is_noise, pieces, stripped
from codelet.context.compaction.reading import DecodedCall, ReadSession, SessionPiece, is_error, strings

_LEAST_LEFT, _SAME_GAIN = 12, 0.95
# The weight of a use by the agent (in a result: 1), and of the oldest use (the newest: 1).
_BY_AGENT, _OLDEST = 15, 0.1
# Factors for a name: each time it is covered, if another part has it, if it is a plain word, if the user asked for it.
_COVERED, _KEPT, _PLAIN, _WANTED = 0.18, 0.15, 0.003, 4.0
_FRAME, _SHORTEST = 24, 9
# Errors of the commands that failed last: their share of the room in percent, the most lines, the most commands.
_ERRORS, _MOST_ERRORS, _OPEN = 6, 8, 2
_DIFFS = (".diff", ".patch")
# The shortest part of a line that tells which line an edit changed.
_LEAST_PART = 6


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
        headings = {line.heading: len(line.piece.label) + 8 for line in lines} if self._headings else {}
        if sum(len(line.text) + 1 for line in lines) + sum(headings.values()) <= self._left:
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


class Evidence:
    """The candidate lines of a session's old pieces: each text once, at its last place.

    Pieces whose message is `kept` give no lines, but what they remove counts. `removals` are, by the number of a piece,
    the files that may be gone or changed; `taken` are lines in other parts.
    """

    def __init__(
        self,
        session: ReadSession,
        lexicon: Lexicon,
        kept: Collection[int],
        removals: Mapping[int, Collection[str]],
        taken: Collection[str],
    ) -> None:
        self.used: defaultdict[str, float] = defaultdict(float)
        """The weight of all uses of each name."""
        self._lexicon, self._taken, self._total = lexicon, taken, max(1, len(session.pieces))
        self._place: dict[str, Line] = {}
        self._gone: set[str] = set()
        self._of_file: dict[str, set[str]] = defaultdict(set)
        self._prepared: dict[str, list[tuple[str, dict[str, bool]]]] = {}
        failed = {piece.call.id for piece in session.pieces if piece.failed and piece.call is not None}
        for number, piece in enumerate(session.pieces[session.recent :], session.recent):
            shows = piece.at not in kept
            if piece.kind == "call" and piece.call is not None:
                self._add_call(number, piece, piece.call, shows, failed=piece.call.id in failed)
            elif piece.kind in ("agent", "result"):
                text, removed = (piece.text, set[str]()) if piece.path.endswith(_DIFFS) else as_changed(piece.text)
                self._remove(removed, piece.path)
                if shows:
                    self._add(number, piece, text)
            for path in removals.get(number, ()):
                self._gone |= self._of_file.pop(path, set())

    def _add_call(self, number: int, piece: SessionPiece, call: DecodedCall, shows: bool, failed: bool) -> None:
        """Add a call's arguments, without the old text of its edits; only the names of a write that failed."""
        edits, removed = call.edits, set[str]()
        if call.writes and failed:
            for name in filter(self._lexicon.is_name, self._lexicon.of_text("\n".join(before for before, _ in edits))):
                self.used[name] += self._weight(number, piece)
            return
        for before, after in edits:
            removed |= stripped(before) - stripped(after) | self._changed_in_part(call.path, before, after)
        if call.writes and not edits:
            removed |= self._of_file.pop(call.path, set()) - stripped("\n".join(strings(call.values)))
        replaced = {before for before, _ in edits}
        for value in strings(call.values):
            if value not in replaced:
                text, more = as_changed(value)
                removed |= more
                if shows:
                    self._add(number, piece, text)
        self._remove(removed, call.path)

    def _remove(self, lines: set[str], path: str) -> None:
        """Note lines that an edit of a file removed, unless their last place is in another file."""
        for part in (part for line in lines for part in pieces(line)):
            last = self._place.get(part)
            known = last.piece.path if last is not None else ""
            # Paths may be relative or absolute; an unknown one may be any file.
            if not known or not path or known.endswith(path) or path.endswith(known):
                self._gone.add(part)

    def _changed_in_part(self, path: str, before: str, after: str) -> set[str]:
        """Return the lines of a file that an edit changed in part: those around the ends of its old text."""
        lines = before.split("\n")
        ends = {part for part in (lines[0].strip(), lines[-1].strip()) if len(part) >= _LEAST_PART}
        return {
            line
            for line in self._of_file.get(path, ())
            if any(part in line for part in ends) or (line in before and line not in after)
        }

    def _weight(self, number: int, piece: SessionPiece) -> float:
        return (_OLDEST + (1 - _OLDEST) * number / self._total) * (1 if piece.kind == "result" else _BY_AGENT)

    def _add(self, number: int, piece: SessionPiece, text: str) -> None:
        use, used, gone, place = self._weight(number, piece), self.used, self._gone, self._place
        plain, of_file = use * _PLAIN, self._of_file[piece.path] if piece.path else None
        for raw in text.split("\n"):
            parts = self._prepared.get(raw)
            if parts is None:
                lines = [each for each in pieces(raw) if len(each) >= _SHORTEST and each not in self._taken]
                named = [(line, self._lexicon.names(line)) for line in lines if not is_noise(line)]
                parts = self._prepared[raw] = [(line, names) for line, names in named if names]
            for line, names in parts:
                gone.discard(line)
                place[line] = Line(number, piece, line)
                if of_file is not None:
                    of_file.add(line)
                for name, is_name in names.items():
                    used[name] += use if is_name else plain

    def choose(
        self, room: int, have: set[str], failures: Sequence[int], lift: Callable[[int], float], wanted: Collection[str]
    ) -> list[Line]:
        """Return lines of at most `room` characters with their headings, best first.

        `have` are names in other parts, `failures` the failed results of commands that did not run again, newest first,
        `wanted` names in the user's instruction.
        """
        value = {
            name: weight**0.5 * (_KEPT if name in have else 1.0) * (_WANTED if name in wanted else 1.0)
            for name, weight in self.used.items()
        }
        coverage = Coverage(self._lexicon.names, value, room, covered=_COVERED, frame=_FRAME, headings=True)
        open_ones, errors = set(failures[:_OPEN]), room * _ERRORS // 100
        of_failures = [line for line in self._place.values() if line.number in open_ones and is_error(line.text)]
        for line in of_failures[: -_MOST_ERRORS - 1 : -1]:
            if (cost := coverage.cost(line)) <= errors:
                errors -= cost
                coverage.take(line)
        first = set(map(id, coverage.lines))
        rest = [
            line
            for text, line in self._place.items()
            if text not in self._gone
            and id(line) not in first
            and not (line.piece.failed and line.number not in open_ones and is_error(text))
        ]
        lifts = {turn: lift(turn) for turn in {line.piece.turn for line in rest}}
        coverage.fill(rest, [lifts[line.piece.turn] for line in rest])
        return coverage.lines
