"""The lines of segments: the user's words, the agent's prose, and evidence, which are lines of calls and results.

Prose and evidence are chosen alike: a line is worth the names in it that no chosen line has yet, for its length. A name
weighs more the more often and the more recently the agent used it. Left out are lines that an edit removed, base64, and
markup.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from codelet.context.compaction.observed import Observation, gone_after
from codelet.context.compaction.reading import (
    DecodedCall,
    ReadSession,
    SessionPiece,
    as_changed,
    clip,
    common_cap,
    named_pieces,
    names_of,
    pieces,
    pieces_in,
    strings,
)

# The share of all prompts in percent of the room; it grows up to `_WORDS_MOST` while a prompt has less than `_SHORT`.
# If prompts would get less than `_SHORTEST` characters, only the newest get a line, of `_SHORT` characters at most.
_WORDS, _WORDS_MOST, _SHORT, _SHORTEST = 20, 50, 240, 24
# Of a prompt with this many turns, only the first three and the last are named.
_MOST_REPEATS = 9
# Weights of a sentence: in a turn's last text, right before a call, in the oldest text.
_CLOSES, _BEFORE_CALL, _OLDEST_TEXT = 1.5, 0.4, 0.3
_CODE_BLOCK = 160
_FENCE = re.compile(r"(?:^[^\n]*[:：][ \t]*\n\s*)?(^[ \t]*```.*?(?:^[ \t]*```|\Z))", re.MULTILINE | re.DOTALL)
_LEADS_IN = (":", "：")
# A sentence ends at Unicode's sentence terminals: at some only if a space follows.
_SENTENCE = re.compile(r"(?<=[.!?…؟۔։।॥။።។])\s+|(?<=[。！？｡])")
_NO_SPACE_AFTER = ("。", "！", "？", "｡")
# The weight of a use by the agent (in a result: 1), and of the oldest use (the newest: 1).
_BY_AGENT, _OLDEST_USE = 15, 0.1
# Factors for a name's worth: if another part has it, if it is a plain word, if the user asked for it.
_KEPT, _PLAIN, _WANTED = 0.15, 0.003, 4.0
# The part of a name's worth that is left each time a chosen line has it, and the characters added to a line's length,
# so that a short line with one name does not win over a long line with many.
_COVERED, _FRAME = 0.2, 27
_LEAST_LEFT, _SAME_GAIN = 12, 0.95
# The most looks at a line's worth, per line: where all lines have the same few names, each choice changes all of them.
_MOST_LOOKS = 6
# The shortest part of a line that tells which line an edit changed.
_LEAST_PART = 6


class Line(NamedTuple):
    """One line of a segment, at a place in its piece."""

    piece: SessionPiece
    place: int
    text: str

    @property
    def is_in_heading(self) -> bool:
        """Return whether the heading of its call has the same text."""
        return self.piece.kind == "call" and self.piece.label.endswith(f" {self.text}")

    @property
    def heading(self) -> object:
        """A key that lines under one heading share, as a call and its result do."""
        return self.piece.call.id if self.piece.call is not None else self.piece.number


def in_order(line: Line) -> tuple[int, int]:
    """A key that sorts lines by time."""
    return line.piece.number, line.place


def size_of(lines: Sequence[Line]) -> int:
    """Return the characters of lines with their headings."""
    headings = {line.heading: len(line.piece.label) + 8 for line in lines}
    return sum(headings.values()) + sum(len(line.text) + 1 for line in lines if not line.is_in_heading)


def _best(lines: Sequence[Line], weights: Sequence[float], worth: dict[str, float], room: int) -> list[Line]:
    """Return the lines of most worth for their length in at most `room` characters with headings, best first.

    If all fit, the newest are first.
    """
    if size_of(lines) <= room:
        return list(lines[::-1])
    known = [names_of(line.text) for line in lines]
    scale = [weight / (len(line.text) + _FRAME) for line, weight in zip(lines, weights, strict=True)]

    def gain(place: int) -> float:
        return scale[place] * sum(map(worth.__getitem__, known[place]))

    heap = [(-gain(place), place) for place in range(len(lines))]
    heapq.heapify(heap)
    headed: set[object] = set()
    chosen: list[Line] = []
    looks = _MOST_LOOKS * len(lines)
    while heap and room > _LEAST_LEFT:
        best, place = heapq.heappop(heap)
        now, line, looks = gain(place), lines[place], looks - 1
        if heap and looks > 0 and now < -best * _SAME_GAIN and now < -heap[0][0]:
            heapq.heappush(heap, (-now, place))
            continue
        cost = 0 if line.is_in_heading else len(line.text) + 1
        cost += 0 if line.heading in headed else len(line.piece.label) + 8
        if cost <= room:
            room -= cost
            headed.add(line.heading)
            chosen.append(line)
            for name in known[place]:
                worth[name] *= _COVERED
    return chosen


def users_words(prompts: Sequence[SessionPiece], room: int, most: int) -> list[Line]:
    """Fit the user's messages into a share of the room, in characters, under one cap; `most` bounds that share.

    If the cap would be too small to be of use, only the newest messages that fit are returned. Of equal prompts only
    the first is written, with the turns of the others.
    """
    turns: dict[str, list[str]] = {}
    for piece in prompts:
        turns.setdefault(piece.text.strip(), []).append(f"t{piece.turn}")
    turns.pop("", None)
    firsts = {piece.text.strip(): piece for piece in reversed(prompts)}
    shown = {text: at[1:] if len(at) < _MOST_REPEATS else [*at[1:3], "…", at[-1]] for text, at in turns.items()}
    again = {text: f" (again at {', '.join(at)})" if at else "" for text, at in shown.items()}
    most -= sum(map(len, again.values()))
    lengths = list(map(len, turns))
    cap, larger = common_cap(lengths, min(most, room * _WORDS // 100)), min(most, room * _WORDS_MOST // 100)
    if cap < _SHORT:
        cap = min(_SHORT, max(cap, common_cap([min(length, _SHORT) for length in lengths], larger)))
    if cap < min(_SHORTEST, max(lengths, default=0)):
        newest = [Line(firsts[text], 0, f"{clip(text, _SHORT)}{again[text]}") for text in reversed(turns)]
        ends = accumulate(size_of([line]) for line in newest)
        return [line for line, end in zip(newest, ends, strict=True) if end <= larger][::-1]
    return [Line(firsts[text], 0, f"{clip(text, cap)}{again[text]}") for text in turns]


def prose_lines(text: str) -> list[str]:
    """Return the lines of a text without long code blocks and the lines that lead into them."""
    shortened = _FENCE.sub(lambda found: found[0] if len(found[1]) < _CODE_BLOCK else "", text)
    return [line for each in shortened.split("\n") if (line := each.strip())]


def agents_prose(
    session: ReadSession, old: Collection[int], room: int, lifts: Mapping[int, float], wanted: Collection[str]
) -> list[Line]:
    """Return the agent's sentences in old pieces, in at most `room` characters.

    `lifts` are factors by turn, `wanted` are words in the user's instruction.
    """
    closing = {each.turn: each.number for each in session.pieces if each.kind == "agent" and each.text.strip()}
    found: dict[str, tuple[Line, float]] = {}
    for piece, following in zip(session.pieces, [*session.pieces[1:], None], strict=True):
        if piece.number not in old or piece.kind != "agent":
            continue
        calls = following is not None and following.kind == "call"
        weight = (_OLDEST_TEXT + (1 - _OLDEST_TEXT) * piece.number / len(session.pieces)) * lifts[piece.turn]
        weight *= _CLOSES if closing.get(piece.turn) == piece.number else 1
        lines = prose_lines(as_changed(piece.text)[0])
        lines = lines[:-1] if calls and lines and lines[-1].endswith(_LEADS_IN) else lines
        rows_of = [(row, part) for row, line in enumerate(lines) for part in _SENTENCE.split(line) if part]
        sentences = [(row, text) for row, part in rows_of for text in map(str.strip, pieces(part)) if text]
        for place, (row, text) in enumerate(sentences, 1):
            announces = calls and place == len(sentences)
            found.pop(text, None)
            found[text] = Line(piece, row, text), weight * (_BEFORE_CALL if announces else 1)
    words = {word: is_name for text in found for word, is_name in names_of(text).items()}
    worth = {word: _WANTED if word in wanted else 1.0 + is_name for word, is_name in words.items()}
    best = _best([line for line, _ in found.values()], [weight for _, weight in found.values()], worth, room)
    chosen = {line.text for line in best}
    rows: dict[tuple[int, int], Line] = {}
    for line in (line for line, _ in found.values() if line.text in chosen):
        before = rows[in_order(line)].text if in_order(line) in rows else ""
        space = " " if before and not before.endswith(_NO_SPACE_AFTER) else ""
        rows[in_order(line)] = line._replace(text=f"{before}{space}{line.text}")
    return list(rows.values())


class Evidence:
    """The lines of calls, results, and prose, each text once, at its last place, without what is gone."""

    def __init__(self, session: ReadSession, facts: Iterable[Observation]) -> None:
        self.used: defaultdict[str, float] = defaultdict(float)
        """The weight of all uses of each name."""
        self._total = max(1, len(session.pieces))
        self._last: dict[str, Line] = {}
        self._gone: set[str] = set()
        self._of_file: dict[str, set[str]] = defaultdict(set)
        events: dict[int, list[Observation]] = {}
        for fact in facts:
            events.setdefault(fact.number, []).append(fact)
        failed = {piece.call.id for piece in session.pieces if piece.failed and piece.call is not None}
        for piece in session.pieces[session.recent :]:
            if piece.kind == "call" and piece.call is not None:
                if not (piece.call.writes and piece.call.id in failed):
                    self._add_call(piece, piece.call)
            elif piece.kind in ("agent", "result"):
                text, removed = as_changed(piece.text)
                self._gone |= removed
                self._add(piece, text)
            for path in [path for fact in events.get(piece.number, ()) for path in gone_after(fact, self._of_file)]:
                self._gone |= self._of_file.pop(path, set())

    def _add_call(self, piece: SessionPiece, call: DecodedCall) -> None:
        """Add a call's arguments, without the old text of its edits."""
        replaced, removed = {before for before, _ in call.edits}, set[str]()
        for before, after in call.edits:
            removed |= pieces_in(before) - pieces_in(after) | self._changed_in_part(call.path, before, after)
        if call.writes and not call.edits:
            removed |= self._of_file.pop(call.path, set()) - pieces_in("\n".join(strings(call.values)))
        for value in (value for value in strings(call.values) if value not in replaced):
            text, more = as_changed(value)
            removed |= more
            self._add(piece, text)
        self._gone |= removed

    def _changed_in_part(self, path: str, before: str, after: str) -> set[str]:
        """Return the lines of a file that an edit changed in part: those around the ends of its old text."""
        lines = before.split("\n")
        ends = {part for part in (lines[0].strip(), lines[-1].strip()) if len(part) >= _LEAST_PART}
        own = self._of_file.get(path, ())
        return {line for line in own if any(part in line for part in ends) or (line in before and line not in after)}

    def _add(self, piece: SessionPiece, text: str) -> None:
        used, gone, last = self.used, self._gone, self._last
        use = _OLDEST_USE + (1 - _OLDEST_USE) * piece.number / self._total
        use *= 1 if piece.kind == "result" else _BY_AGENT
        plain, of_file = use * _PLAIN, self._of_file[piece.path] if piece.path else set()
        for place, raw in enumerate(text.split("\n")):
            for line, found in named_pieces(raw):
                gone.discard(line)
                last[line] = Line(piece, place, line)
                of_file.add(line)
                for name, is_name in found.items():
                    used[name] += use if is_name else plain

    def choose(
        self,
        old: Collection[int],
        prose: Collection[Line],
        room: int,
        have: Collection[str],
        lifts: Mapping[int, float],
        wanted: Collection[str],
    ) -> list[Line]:
        """Return lines of old pieces that are not prose, of at most `room` characters with their headings, best first.

        `have` are names in other parts, `wanted` names in the user's instruction.
        """
        unfit = self._gone.union(line.text for line in prose)
        worth = {
            name: weight**0.5 * (_KEPT if name in have else 1.0) * (_WANTED if name in wanted else 1.0)
            for name, weight in self.used.items()
        }
        lines = [line for text, line in self._last.items() if text not in unfit and line.piece.number in old]
        weights = [lifts[line.piece.turn] for line in lines]
        return _best(lines, weights, worth, room)
