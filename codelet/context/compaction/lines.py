"""The lines of segments: the user's words, the agent's prose, and evidence, which are lines of calls and results.

Prose and evidence are chosen alike: a line is worth the names in it that no chosen line has yet, for its length. A name
weighs more the more often and the more recently the agent used it. Left out are lines that an edit removed, base64, and
markup.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from codelet.context.compaction.lexicon import Lexicon, as_changed, clip, common_cap, is_noise, pieces, stripped
from codelet.context.compaction.reading import DecodedCall, ReadSession, SessionPiece, is_error, strings

# The share of all prompts in percent of the room; it grows up to `_WORDS_MOST` while a prompt has less than `_SHORT`.
# Below `_SHORTEST` characters a prompt has no line.
_WORDS, _WORDS_MOST, _SHORT, _SHORTEST = 20, 50, 240, 12
# Weights of a sentence: in a turn's last text, after a failed call, right before a call, in the oldest text.
_CLOSES, _AFTER_FAILURE, _BEFORE_CALL, _OLDEST_TEXT = 1.5, 2.0, 0.4, 0.3
_CODE_BLOCK = 160
_FENCE = re.compile(r"^\s*```.*?(?:^\s*```|\Z)", re.MULTILINE | re.DOTALL)
_AGAIN = re.compile(r" \(again at (t\d+(?:, t\d+)*)\)\Z")
_GONE, _LEADS_IN = "\0", (":", "：")
# A sentence ends at Unicode's sentence terminals: at some only if a space follows.
_SENTENCE = re.compile(r"(?<=[.!?…؟۔։।॥။።។])\s+|(?<=[。！？｡])")
_NO_SPACE_AFTER = ("。", "！", "？", "｡")
# The weight of a use by the agent (in a result: 1), and of the oldest use (the newest: 1).
_BY_AGENT, _OLDEST_USE = 15, 0.1
# Factors for a name's worth: if another part has it, if it is a plain word, if the user asked for it.
_KEPT, _PLAIN, _WANTED, _WANTED_IN_PROSE = 0.15, 0.003, 4.0, 6.0
# The part of a name's worth that is left each time a chosen line has it, and the characters added to a line's length,
# so that a short line with one name does not win over a long line with many: for evidence, for prose.
_COVERED, _FRAME, _SAID_BEFORE, _PROSE_FRAME = 0.18, 24, 0.3, 30
_LEAST_LEFT, _SAME_GAIN = 12, 0.95
# The most looks at a line's worth, per line: where all lines have the same few names, each choice changes all of them.
_MOST_LOOKS = 6
_SHORTEST_LINE = 9
# Errors of the commands that failed last: their share of the room in percent, the most lines, the most commands.
_ERRORS, _MOST_ERRORS, _OPEN = 6, 8, 2
_DIFFS = (".diff", ".patch")
# The shortest part of a line that tells which line an edit changed.
_LEAST_PART = 6
ENTRY = 12
"""Characters of an entry's heading."""


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


def _best(
    lines: Sequence[Line],
    weights: Sequence[float],
    names: Callable[[str], Collection[str]],
    worth: dict[str, float],
    room: int,
    *,
    covered: float,
    frame: int,
    least: float = 0.0,
    headings: bool = False,
) -> list[Line]:
    """Return the lines of most worth for their length in at most `room` characters, best first.

    `least` is the worth of any line. With `headings` the first line of a call pays for its heading.
    """
    known = [names(line.text) for line in lines]
    scale = [weight / (len(line.text) + frame) for line, weight in zip(lines, weights, strict=True)]

    def gain(place: int) -> float:
        return scale[place] * (least + sum(map(worth.__getitem__, known[place])))

    def cost(line: Line) -> int:
        heading = len(line.piece.label) + 8 if headings and line.heading not in headed else 0
        return heading + (0 if headings and line.is_in_heading else len(line.text) + 1)

    heap = [(-gain(place), place) for place in range(len(lines))]
    per_heading = {line.heading: len(line.piece.label) + 8 for line in lines} if headings else {}
    if sum(len(line.text) + 1 for line in lines) + sum(per_heading.values()) <= room:
        return [lines[place] for _, place in sorted(heap)]
    headed: set[object] = set()
    chosen: list[Line] = []
    heapq.heapify(heap)
    looks = _MOST_LOOKS * len(lines)
    while heap and room > _LEAST_LEFT:
        best, place = heapq.heappop(heap)
        now, line, looks = gain(place), lines[place], looks - 1
        if heap and looks > 0 and now < -best * _SAME_GAIN and now < -heap[0][0]:
            heapq.heappush(heap, (-now, place))
        elif now <= 0:
            break
        elif cost(line) <= room:
            room -= cost(line)
            headed.add(line.heading)
            chosen.append(line)
            for name in known[place]:
                worth[name] *= covered
    return chosen


class Words(NamedTuple):
    """The user's words, a line for each of `wanted` messages, of at most `each` characters (None: whole)."""

    lines: list[Line]
    wanted: int
    each: int | None


def users_words(prompts: Sequence[tuple[int, SessionPiece]], room: int, most: int) -> Words:
    """Fit the user's messages into a share of the room, in characters, under one cap; `most` bounds that share.

    Of equal prompts only the first is written, with the turns of the others.
    """
    lines, again = list[Line](), dict[str, list[str]]()
    for number, piece in prompts:
        text = piece.text.strip()
        earlier = _AGAIN.search(text)  # by an earlier compaction
        if text := text[: earlier.start()] if earlier else text:
            if text not in again:
                lines.append(Line(number, piece, text))
            again.setdefault(text, []).extend([f"t{piece.turn}", *(earlier[1].split(", ") if earlier else ())])
    repeats = {text: f" (again at {', '.join(turns[1:])})" for text, turns in again.items() if turns[1:]}
    most -= sum(map(len, repeats.values()))
    lengths = [len(line.text) for line in lines]
    cap = common_cap(lengths, min(most, room * _WORDS // 100))
    if cap < _SHORT:
        larger = min(most, room * _WORDS_MOST // 100)
        cap = min(_SHORT, max(cap, common_cap([min(length, _SHORT) for length in lengths], larger)))
    if cap < min(_SHORTEST, max(lengths, default=0)):
        return Words([], len(lines), cap)
    fitted = [line._replace(text=f"{clip(line.text, cap)}{repeats.get(line.text, '')}") for line in lines]
    return Words(fitted, len(lines), None if cap >= max(lengths, default=0) else cap)


def prose_lines(text: str) -> list[str]:
    """Return the lines of a text without long code blocks and the sentences that lead into them."""
    shortened = _FENCE.sub(lambda found: found[0] if len(found[0]) < _CODE_BLOCK else _GONE, text)
    lines = [line for each in shortened.split("\n") if (line := each.strip())]
    return [
        line
        for line, after in zip(lines, [*lines[1:], ""], strict=bool(lines))
        if line != _GONE and not (after == _GONE and line.endswith(_LEADS_IN))
    ]


def agents_prose(
    old: Sequence[tuple[int, SessionPiece]],
    total: int,
    room: int,
    lexicon: Lexicon,
    lift: Callable[[int], float],
    wanted: Collection[str],
) -> list[Line]:
    """Return the agent's sentences in at most `room` characters.

    `lift` is a factor for each turn, `wanted` are words in the user's instruction.
    """
    found: dict[str, tuple[float, tuple[int, int, int], Line]] = {}
    after_failure = False
    for number, piece in old:
        if piece.kind == "result":
            after_failure = after_failure or piece.failed
        elif piece.kind == "user":
            after_failure = False
        elif piece.kind == "agent" and (lines := prose_lines(as_changed(piece.text)[0])):
            weight = (_OLDEST_TEXT + (1 - _OLDEST_TEXT) * number / total) * lift(piece.turn)
            weight *= _CLOSES if piece.closes else _AFTER_FAILURE if after_failure else 1.0
            lines = lines[:-1] if piece.calls and lines[-1].endswith(_LEADS_IN) else lines
            rows_of = [(row, part) for row, line in enumerate(lines) for part in _SENTENCE.split(line) if part]
            sentences = [(row, text) for row, part in rows_of for text in map(str.strip, pieces(part)) if text]
            for place, (row, text) in enumerate(sentences, 1):
                announces = piece.calls and place == len(sentences)
                own = weight * _BEFORE_CALL if announces else weight
                found[text] = own, (number, row, place), Line(number, piece, text)
            after_failure = False
    lines_found = [line for _, _, line in found.values()]
    if sum(len(line.text) + 1 for line in lines_found) > room:
        words = {word: is_name for text in found for word, is_name in lexicon.names(text).items()}
        worth = {word: _WANTED_IN_PROSE if word in wanted else 1.0 + is_name for word, is_name in words.items()}
        weights = [weight for weight, _, _ in found.values()]
        lines_found = _best(
            lines_found, weights, lexicon.names, worth, room, covered=_SAID_BEFORE, frame=_PROSE_FRAME, least=1.0
        )
    rows: dict[tuple[int, int], str] = {}
    firsts: dict[tuple[int, int], Line] = {}
    for line in sorted(lines_found, key=lambda line: found[line.text][1]):
        row_place = found[line.text][1][:2]
        rows[row_place] = f"{rows.get(row_place, '')}{line.text}{'' if line.text.endswith(_NO_SPACE_AFTER) else ' '}"
        firsts.setdefault(row_place, line)
    return [firsts[row_place]._replace(text=text.strip()) for row_place, text in rows.items()]


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
        """Add a call's arguments, without the old text of its edits; none of a write that failed."""
        replaced, removed = {before for before, _ in call.edits}, set[str]()
        if call.writes and failed:
            return
        for before, after in call.edits:
            removed |= stripped(before) - stripped(after) | self._changed_in_part(call.path, before, after)
        if call.writes and not call.edits:
            removed |= self._of_file.pop(call.path, set()) - stripped("\n".join(strings(call.values)))
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

    def _add(self, number: int, piece: SessionPiece, text: str) -> None:
        used, gone, place = self.used, self._gone, self._place
        use = (_OLDEST_USE + (1 - _OLDEST_USE) * number / self._total) * (1 if piece.kind == "result" else _BY_AGENT)
        plain, of_file = use * _PLAIN, self._of_file[piece.path] if piece.path else None
        for raw in text.split("\n"):
            parts = self._prepared.get(raw)
            if parts is None:
                lines = [each for each in pieces(raw) if len(each) >= _SHORTEST_LINE and each not in self._taken]
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
        worth = {
            name: weight**0.5 * (_KEPT if name in have else 1.0) * (_WANTED if name in wanted else 1.0)
            for name, weight in self.used.items()
        }
        still_open, spare, first = set(failures[:_OPEN]), room * _ERRORS // 100, list[Line]()
        of_failures = [line for line in self._place.values() if line.number in still_open and is_error(line.text)]
        for line in of_failures[: -_MOST_ERRORS - 1 : -1]:
            cost = len(line.text) + len(line.piece.label) + 8
            if cost <= spare:
                spare, room = spare - cost, room - cost
                first.append(line)
                for name in self._lexicon.names(line.text):
                    worth[name] *= _COVERED
        rest = [
            line
            for text, line in self._place.items()
            if text not in self._gone
            and line not in first
            and not (line.piece.failed and line.number not in still_open and is_error(text))
        ]
        lifts = {turn: lift(turn) for turn in {line.piece.turn for line in rest}}
        weights = [lifts[line.piece.turn] for line in rest]
        return first + _best(
            rest, weights, self._lexicon.names, worth, room, covered=_COVERED, frame=_FRAME, headings=True
        )
