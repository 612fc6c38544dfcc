"""Gather candidate lines from what is about to be replaced, and weigh the names in them.

Each distinct line is read once; each occurrence adds to the weights of its names by who said it and how recently. Lines
in a file that was read five times are one candidate, placed where they stood last. Lines are collected first and then
read together: that is several times faster than one by one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import compress, count
from operator import not_

from codelet.context.compaction.coverage import Candidates, log2_milli
from codelet.context.compaction.file_changes import StaleLines, squeezed
from codelet.context.compaction.identifiers import Lexicon
from codelet.context.compaction.segments import WrittenOut, heading
from codelet.context.compaction.signals import ERROR_WORDS, RULE_WORDS, has_measure, is_error_line, reports_error

SPEAKER_WEIGHT = {"assistant": 60, "user": 40, "result": 4, "other": 4, "output": 4, "segment": 40}
LONGEST_LINE = 320
SHORTEST_LINE = 4
_PIECE = 240
# A failed build prints hundreds of errors; the first few stand for it.
FACTS_OF_ONE = 8
# A fence, a bare UUID, the rule of a table, what a tool says of its own run.
_SAYS_NOTHING = re.compile(
    r"(?:Chunk ID: \w+|Wall time: [\d.]+ \w+|Original token count: \d+|Total output lines: \d+|"
    r"Process exited with code 0|</?[\w:.-]+>)\Z|"
    r"(?:```+|~~~+)[\w+-]*\Z|[\"']?[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}[\"']?,?\Z|[|+:\s=_-]+\Z"
)
# What differs between two reports of one kind of error.
_VARIABLE = re.compile(r"\d+|'[^']*'|\"[^\"]*\"|\S*/\S*")
# Lines of a file as tools number them; the numbers are wrong after the next edit, and cost room.
_NUMBER = re.compile(r"^ {0,7}\d{1,6}(?:\t|→)", re.MULTILINE)
_NUMBERED = re.compile(r"(?:[^\n]*\n){0,3} {0,7}\d{1,6}(?:\t|→)[^\n]*\n {0,7}\d{1,6}(?:\t|→)")
# A line of a log that reports no trouble, and what it is worth, in per mille: there are many alike, and each has names
# of its own, but what is needed later is rarely among them.
_ROUTINE_LEVELS = ("INFO", "DEBUG", "TRACE")
_ROUTINE = re.compile(
    r"\W{0,2}(?:\d{4}[-/]\d\d[-/]\d\d[T ])?\d\d:\d\d:\d\d\S*\s+(?:\S+\s+){0,2}?\W?(?:INFO|DEBUG|TRACE)\b"
)
_ROUTINE_WORTH = 200
# So much use counts as one.
_LEVEL = 500


@dataclass(frozen=True)
class LineSource:
    """Where candidate lines come from: a message or a call. `place` is the message's index and a number in it.

    `tells` marks the output of a command: an error in it happened, whereas one in a file that was read is only text.
    """

    place: tuple[int, int]
    turn: int
    label: str
    head: int
    tells: bool = False
    step: int = 0


class LineCollector:
    """Collects sources, candidate lines and weights. `length` is the number of messages in the list."""

    def __init__(self, length: int) -> None:
        self.lexicon = Lexicon()
        self.candidates = Candidates()
        self.sources: list[LineSource] = []
        self.headers: list[int] = []
        self.facts: list[int] = []
        # The newest line of each kind of error.
        self.errors: dict[str, int] = {}
        self.files: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self.stale = StaleLines(self.candidates.text, self.candidates.source, self._seen.get)
        self._length = max(1, length)
        self._written = WrittenOut()
        self._lines = 0
        self._unread: list[str] = []
        # How much each candidate was said, and from that each name.
        self._said: list[int] = []
        self._used: list[int] | None = None
        self._marks = dict.fromkeys(self.lexicon.read(" ".join(ERROR_WORDS)), 1)
        self._marks.update(dict.fromkeys(self.lexicon.read(" ".join(RULE_WORDS - ERROR_WORDS)), 2))

    def recency(self, place: int) -> int:
        """From 100 for the oldest message to 1000 for the newest."""
        return 100 + 900 * (place + 1) // self._length

    def source(
        self,
        place: tuple[int, int],
        turn: int,
        label: str,
        *,
        as_line: bool = False,
        tells: bool = False,
        step: int = 0,
    ) -> int:
        """Add a source; `as_line` makes its heading a candidate of its own (a call says much in one line)."""
        number = len(self.sources)
        text = heading(turn, self._written.short(label), step)
        head = -1
        if as_line:
            head = len(self.candidates.text)
            self._append([text], [label], number, 1000, [self._lines])
            self._said.append(0)
            self._lines += 1
            if "/" in label and label.count(" ") == 1:
                self.files[label.split(" ")[1]] = head
        self.sources.append(LineSource(place, turn, label, head, tells, step))
        self.headers.append(0 if as_line else len(text) + 1)
        return number

    def add_head(self, source: int, speaker: str) -> None:
        """Count the names in a source's heading, if the heading is a candidate."""
        head = self.sources[source].head
        if head >= 0:
            self._said[head] += self.recency(self.sources[source].place[0]) * SPEAKER_WEIGHT[speaker]
            self._used = None

    def _append(self, texts: list[str], words: list[str], source: int, factor: int, positions: list[int]) -> None:
        """Add candidates, all from one source; `words` are the texts that their names are read from."""
        candidates = self.candidates
        candidates.text += texts
        candidates.factor += [factor] * len(texts)
        candidates.source += [source] * len(texts)
        candidates.position += positions
        self._unread += words

    def add(self, source: int, text: str, speaker: str, factor: int = 1000) -> None:
        """Make candidates of the lines of a text. `factor` in per mille is the source's own worth."""
        weight = self.recency(self.sources[source].place[0]) * SPEAKER_WEIGHT[speaker]
        lines = [line for line in _bare(text) if len(line) >= SHORTEST_LINE]
        if len(text) > LONGEST_LINE and max(map(len, lines), default=0) > LONGEST_LINE:
            lines = [part for line in lines for part in parts_of_line(line)]
        last = dict(zip(lines, count(self._lines)))
        self._lines += len(lines)
        seen, of_log = self._seen, any(map(text.__contains__, _ROUTINE_LEVELS))
        fresh = [line for line in last if line not in seen]
        if len(fresh) < len(last):
            candidates = self.candidates
            again = []
            for line, position in last.items():
                index = seen.get(line)
                if index is not None:
                    again.append(index)
                    candidates.source[index] = source
                    candidates.position[index] = position
                    candidates.factor[index] = (
                        factor * _ROUTINE_WORTH // 1000 if of_log and _ROUTINE.match(line) else factor
                    )
                    self._said[index] += weight
            self.stale.revived(again)
            self.stale.took(source, again, ())
        first = len(self.candidates.text)
        seen.update(zip(fresh, count(first)))
        self._append(fresh, fresh, source, factor, [last[line] for line in fresh])
        if of_log:
            self.candidates.factor[first:] = [_worth(line, factor) for line in fresh]
        self._said += [weight] * len(fresh)
        self.stale.took(source, range(first, first + len(fresh)), last)
        if "|\n" in text:
            self._headers_of_tables(lines)
        if len(last) < len(lines):
            for line, times in Counter(lines).items():
                if times > 1:
                    self._said[seen[line]] += weight * (times - 1)
        self._used = None

    def _headers_of_tables(self, lines: list[str]) -> None:
        """Find for each row of a table its header, the first of the rows that follow one another."""
        header = ""
        for line in lines:
            if not (line.startswith("|") and line.endswith("|")):
                header = ""
            elif not header:
                header = line
            elif not _SAYS_NOTHING.match(line):
                self.candidates.above[self._seen[line]] = self._seen[header]

    def read(self) -> None:
        """Find the names in the lines that were added since the last time."""
        self.candidates.names += self.lexicon.lines(self._unread)
        self._unread.clear()
        self._used = None
        for number in self.stale.dead:
            self.candidates.names[number] = ()

    @property
    def used(self) -> list[int]:
        """How much each word was used, by everybody who used it."""
        if self._used is None:
            self._used = [0] * len(self.lexicon.words)
            used = self._used
            for names, weight in zip(self.candidates.names, self._said, strict=True):
                for name in names:
                    used[name] += weight
        return self._used

    def mark(self) -> None:
        """Raise the factor of lines that report an error or state a rule.

        Error reports and measurements in the assistant's text become facts.
        """
        marks, candidates = self._marks, self.candidates
        self._silence()
        marks.update(dict.fromkeys(self.lexicon.ending("Error", "Exception"), 1))
        factors, texts = candidates.factor, candidates.text
        told = [0] * len(self.sources)
        prose = {number for number, source in enumerate(self.sources) if not source.label}
        self.facts.extend(i for i, number in enumerate(candidates.source) if number in prose and has_measure(texts[i]))
        unmarked = map(marks.keys().isdisjoint, candidates.names)
        for index in compress(count(), map(not_, unmarked)):
            kinds = {marks[name] for name in candidates.names[index] if name in marks}
            if 1 in kinds and (is_error_line(texts[index]) or reports_error(texts[index])):
                factors[index] = factors[index] * 16 // 10
                source = candidates.source[index]
                if self.sources[source].tells and told[source] < FACTS_OF_ONE and reports_error(texts[index]):
                    told[source] += 1
                    self.facts.append(index)
                    self.errors[_VARIABLE.sub("", texts[index])] = index
            elif 2 in kinds:
                factors[index] = factors[index] * 13 // 10

    def _silence(self) -> None:
        """Take the names from lines that say nothing by themselves; a header that an edit removed heads nothing."""
        above = self.candidates.above
        for row in [row for row, header in above.items() if header in self.stale.dead]:
            del above[row]
        names = self.candidates.names
        for number in compress(count(), map(_SAYS_NOTHING.match, self.candidates.text)):
            names[number] = ()

    def weights(self) -> list[int]:
        """The weight of every name: its shape times the logarithm of how much it was used."""
        used = self.used
        logs = {level: log2_milli(2 + level) for level in {amount // _LEVEL for amount in used}}
        # Words of one shape and one level share one number: a million of their own would be cold in every cache.
        weights = {
            shape: {level: shape * log // 10 for level, log in logs.items()} for shape in set(self.lexicon.shape)
        }
        return [
            weights[shape][amount // _LEVEL] if amount else 0
            for shape, amount in zip(self.lexicon.shape, used, strict=True)
        ]


def _bare(text: str) -> Iterable[str]:
    """The lines without the numbers that a tool put before a file's lines, and without the blanks that align words."""
    if _NUMBERED.match(text):
        text = _NUMBER.sub("", text)
    # Most blanks in a row are indentation, which is gone by then.
    return map(squeezed if "    " in text else str.strip, text.split("\n"))


def parts_of_line(line: str) -> Iterable[str]:
    """The candidates that a line becomes: itself, or its pieces if it is too long."""
    if len(line) <= LONGEST_LINE:
        return (line,)
    return [piece for piece in map(str.strip, pieces(line)) if len(piece) >= SHORTEST_LINE]


def pieces(line: str) -> Iterable[str]:
    """Split a long line into pieces of at most 240 characters, at blanks if there are any."""
    start = 0
    while start < len(line):
        stop = min(len(line), start + _PIECE)
        if stop < len(line):
            blank = line.rfind(" ", start + _PIECE // 2, stop)
            stop = blank + 1 if blank > 0 else stop
        yield line[start:stop]
        start = stop


def _worth(line: str, factor: int) -> int:
    """What a line of a text with lines of a log in it is worth, in per mille; `factor` is what its source is."""
    return factor * _ROUTINE_WORTH // 1000 if _ROUTINE.match(line) else factor
