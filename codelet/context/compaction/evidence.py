"""The lines of calls and results that cover most of the names which the agent works with, in the room that is left.

A name weighs more the more the agent used it itself and the more recently; covered once, it counts little. Lines that
an edit removed are left out, and so are base64 and markup.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from codelet.context.compaction.lexicon import Lexicon, as_changed, is_noise, pieces, stripped
from codelet.context.compaction.prose import Line
from codelet.context.compaction.reading import DecodedCall, ReadSession, SessionPiece, is_error, strings

# A use by the agent next to one in a result; the oldest use next to the newest.
_BY_AGENT, _OLDEST = 15, 0.1
# What stays of a name's weight once it is covered, if it stands elsewhere, and if it is a plain word.
_COVERED, _KEPT, _PLAIN = 0.18, 0.15, 0.003
_WANTED = 4.0
# Characters added to a line's length: a short line with one name is worth no more than a long one with many.
_FRAME = 24
_SHORTEST, _LEAST_LEFT = 9, 12
# In percent of the room: errors of the commands that failed last; at most so many lines of so many commands.
_ERRORS, _MOST_ERRORS, _OPEN = 6, 8, 2
_DIFFS = (".diff", ".patch")
# The shortest part of a line that tells which line an edit changed.
_LEAST_PART = 6


class Evidence:
    """The candidate lines of a session's old pieces: each text once, at its last place."""

    def __init__(self, lexicon: Lexicon, total: int, taken: Collection[str]) -> None:
        self._lexicon, self._total, self._taken = lexicon, total, taken
        self._place: dict[str, Line] = {}
        self._weight: defaultdict[str, float] = defaultdict(float)
        self._gone: set[str] = set()
        self._shows = True
        self._of_file: dict[str, set[str]] = defaultdict(set)
        self._known: dict[str, dict[str, bool]] = {}
        self._prepared: dict[str, list[tuple[str, dict[str, bool]]]] = {}

    def collect(self, session: ReadSession, kept: Collection[int], removals: Mapping[int, Collection[str]]) -> None:
        """Take in the lines of the recent pieces, in order; of those whose message is `kept` only what they remove.

        `removals` are by the number of a piece the files that may not be there as they were any more.
        """
        failed = {
            piece.call.id
            for piece in session.pieces
            if piece.kind == "result" and piece.failed and piece.call is not None
        }
        for number, piece in enumerate(session.pieces[session.recent :], session.recent):
            self._shows = piece.at not in kept
            if piece.kind == "call" and piece.call is not None:
                if not (piece.call.writes and piece.call.id in failed):
                    self._add_call(number, piece, piece.call)
            elif piece.kind in ("agent", "result"):
                path = _path_of(piece)
                text, removed = (piece.text, set()) if path.endswith(_DIFFS) else as_changed(piece.text)
                self._remove(removed, path)
                self._add(number, piece, text, path)
            for path in removals.get(number, ()):
                self._gone |= self._of_file.pop(path, set())

    def _add_call(self, number: int, piece: SessionPiece, call: DecodedCall) -> None:
        removed: set[str] = set()
        edits = call.edits
        for before, after in edits:
            removed |= stripped(before) - stripped(after)
            removed |= self._changed_in_part(call.path, before, after)
        if call.writes and not edits:
            removed |= self._of_file.pop(call.path, set()) - stripped("\n".join(strings(call.values)))
        replaced = {before for before, _ in edits}
        for value in strings(call.values):
            if value not in replaced:
                text, more = as_changed(value)
                removed |= more
                self._add(number, piece, text, call.path)
        self._remove(removed, call.path)

    def _remove(self, lines: set[str], path: str) -> None:
        """Note that an edit of a file removed lines; one whose last place is in another file stays."""
        for line in lines:
            for piece in pieces(line):
                last = self._place.get(piece)
                if last is None or _is_same_file(_path_of(last.piece), path):
                    self._gone.add(piece)

    def _changed_in_part(self, path: str, before: str, after: str) -> set[str]:
        """Return the lines of a file of which an edit changed a part: those around the ends of its old text."""
        lines = before.split("\n")
        ends = {part for part in (lines[0].strip(), lines[-1].strip()) if len(part) >= _LEAST_PART}
        return {
            line
            for line in self._of_file.get(path, ())
            if any(part in line for part in ends) or (line in before and line not in after)
        }

    def _add(self, number: int, piece: SessionPiece, text: str, path: str = "") -> None:
        by_agent = piece.kind in ("call", "agent")
        use = (_OLDEST + (1 - _OLDEST) * number / self._total) * (_BY_AGENT if by_agent else 1)
        plain = use * _PLAIN
        if not self._shows:
            return
        prepared, weight, of_file = self._prepared, self._weight, self._of_file[path] if path else None
        for raw in text.split("\n"):
            parts = prepared.get(raw)
            if parts is None:
                parts = prepared[raw] = self._prepare(raw)
            for line, found in parts:
                self._gone.discard(line)
                self._place[line] = Line(number, piece, line)
                if of_file is not None:
                    of_file.add(line)
                for name, is_name in found.items():
                    weight[name] += use if is_name else plain

    def _prepare(self, raw: str) -> list[tuple[str, dict[str, bool]]]:
        found = []
        for line in pieces(raw):
            if len(line) >= _SHORTEST and line not in self._taken:
                names = self._known.get(line)
                if names is None:
                    names = self._known[line] = {} if is_noise(line) else self._lexicon.names(line)
                if names:
                    found.append((line, names))
        return found

    def used(self) -> dict[str, float]:
        """Return how much each name was used in what was collected."""
        return dict(self._weight)

    def choose(
        self, room: int, have: set[str], failures: Sequence[int], lift: Callable[[int], float], wanted: Collection[str]
    ) -> list[Line]:
        """Return lines of at most `room` characters with their headings, best first.

        `have` are names that stand elsewhere, `failures` the results that failed and were not run again, newest first;
        `wanted` are names of which the user spoke.
        """
        value = {
            name: weight**0.5 * (_KEPT if name in have else 1.0) * (_WANTED if name in wanted else 1.0)
            for name, weight in self._weight.items()
        }
        selection = _Selection(value, self._known, room)
        open_ones = set(failures[:_OPEN])
        errors = room * _ERRORS // 100
        of_failures = [line for line in self._place.values() if line.number in open_ones and is_error(line.text)]
        for line in of_failures[: -_MOST_ERRORS - 1 : -1]:
            if selection.cost(line) <= errors:
                errors -= selection.cost(line)
                selection.take(line)
        first = {id(line) for line in selection.lines}
        rest = [
            line
            for text, line in self._place.items()
            if text not in self._gone
            and id(line) not in first
            and not (line.piece.failed and line.number not in open_ones and is_error(text))
        ]
        selection.fill(rest, lift)
        return selection.lines


class _Selection:
    """Takes lines greedily; the first line of a call pays for its heading."""

    def __init__(self, value: dict[str, float], known: dict[str, dict[str, bool]], room: int) -> None:
        self.lines: list[Line] = []
        self._value, self._known, self._left = value, known, room
        self._headed: set[object] = set()

    def cost(self, line: Line) -> int:
        """Characters that a line takes with its heading, if that does not stand yet."""
        key = _heading_key(line)
        text = 0 if is_in_heading(line) else len(line.text) + 1
        return text + (0 if key in self._headed else len(line.piece.label) + 8)

    def take(self, line: Line) -> None:
        """Take a line: what it covers counts less from now on."""
        self._left -= self.cost(line)
        self._headed.add(_heading_key(line))
        self.lines.append(line)
        for name in self._known[line.text]:
            self._value[name] *= _COVERED

    def fill(self, lines: Sequence[Line], lift: Callable[[int], float]) -> None:
        """Take the lines of most gain for their length until there is no room."""
        lifts: dict[int, float] = {line.piece.turn: lift(line.piece.turn) for line in lines}
        value, known = self._value, self._known

        def gain(line: Line) -> float:
            found = sum([value[name] for name in known[line.text]])
            return lifts[line.piece.turn] * found / (len(line.text) + _FRAME)

        heap = [(-gain(line), place) for place, line in enumerate(lines)]
        heapq.heapify(heap)
        while heap and self._left > _LEAST_LEFT:
            best, place = heapq.heappop(heap)
            now = gain(lines[place])
            if heap and now < -best * 0.95 and now < -heap[0][0]:
                heapq.heappush(heap, (-now, place))
            elif now <= 0:
                break
            elif self.cost(lines[place]) <= self._left:
                self.take(lines[place])


def is_in_heading(line: Line) -> bool:
    """Return whether the heading of a line says it already."""
    return line.piece.kind == "call" and line.piece.label.endswith(f" {line.text}")


def _heading_key(line: Line) -> object:
    """Return what lines under one heading share: a call and its result stand together."""
    piece = line.piece
    return piece.call.id if piece.call is not None else (piece.turn, piece.label, line.number)


def _path_of(piece: SessionPiece) -> str:
    """Return the file that a call was about; of a piece from a segment its heading tells."""
    return piece.call.path if piece.call is not None else piece.label.partition(" ")[2]


def _is_same_file(one: str, other: str) -> bool:
    """Return whether two paths may be one file, however they are written; an unknown one may be any."""
    return not one or not other or one.endswith(other) or other.endswith(one)
