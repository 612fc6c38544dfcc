"""Gather candidate lines from what is about to be replaced, and weigh the names in them.

One pass: each distinct line is read once, each occurrence adds to the weights of its names by who said it and how
recently. Lines in a file that was read five times are one candidate, placed where they stood last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from codelet.compaction.coverage import Candidates, log2_milli
from codelet.compaction.identifiers import Lexicon
from codelet.compaction.segments import heading
from codelet.compaction.signals import is_error_line, measures, reports_error
from codelet.compaction.vocabulary import ERROR_WORDS, RULE_WORDS

SPEAKER_WEIGHT = {"assistant": 60, "user": 40, "result": 4, "other": 4, "output": 4, "segment": 40}
LONGEST_LINE = 320
SHORTEST_LINE = 4
_PIECE = 240
# A failed build prints hundreds of errors; the first few stand for it.
FACTS_OF_ONE = 3


@dataclass(frozen=True)
class Source:
    """Where candidate lines come from: a message or a call. `place` is the message's index and a number in it.

    `tells` marks the output of a command: an error in it happened, one in a file that was read is only text.
    """

    place: tuple[int, int]
    turn: int
    label: str
    head: int
    tells: bool = False


class Gatherer:
    """Collects sources, candidate lines and weights. `length` is the number of messages in the list."""

    def __init__(self, length: int) -> None:
        self.lexicon = Lexicon()
        self.candidates = Candidates()
        self.sources: list[Source] = []
        self.headers: list[int] = []
        self.used: list[int] = []
        self.facts: list[int] = []
        self.files: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._length = max(1, length)
        self._moved = 0
        self._marks: dict[int, int] = {}
        for word in sorted(ERROR_WORDS):
            self._marks.update(dict.fromkeys(self.lexicon[word], 1))
        for word in sorted(RULE_WORDS - ERROR_WORDS):
            self._marks.update(dict.fromkeys(self.lexicon[word], 2))

    def recency(self, place: int) -> int:
        """100 for the oldest message to 1000 for the newest."""
        return 100 + 900 * (place + 1) // self._length

    def source(
        self, place: tuple[int, int], turn: int, label: str, *, as_line: bool = False, tells: bool = False
    ) -> int:
        """A new source; `as_line` makes its heading a candidate of its own (a call says much in one line)."""
        number = len(self.sources)
        text = heading(turn, label)
        head = -1
        if as_line:
            head = len(self.candidates.text)
            self._append(text, self.lexicon.line(label), number)
            if "/" in label and label.count(" ") == 1:
                self.files[label.split(" ")[1]] = head
        self.sources.append(Source(place, turn, label, head, tells))
        self.headers.append(0 if as_line else len(text) + 1)
        return number

    def add_head(self, source: int, speaker: str) -> None:
        """Count the names in a source's heading, where the heading is a candidate."""
        head = self.sources[source].head
        if head >= 0:
            weight = self.recency(self.sources[source].place[0]) * SPEAKER_WEIGHT[speaker]
            self._grow()
            for name in self.candidates.names[head]:
                self.used[name] += weight

    def _grow(self) -> None:
        missing = len(self.lexicon.shape) - len(self.used)
        if missing > 0:
            self.used.extend([0] * missing)

    def _append(self, text: str, names: tuple[int, ...], source: int) -> None:
        candidates = self.candidates
        candidates.text.append(text)
        candidates.names.append(names)
        candidates.factor.append(1000)
        candidates.source.append(source)
        candidates.position.append(len(candidates.position) + self._moved)

    def add(self, source: int, text: str, speaker: str, factor: int = 1000) -> None:
        """Make candidates of the lines of a text. `factor` in per mille is the source's own worth."""
        weight = self.recency(self.sources[source].place[0]) * SPEAKER_WEIGHT[speaker]
        seen, candidates, used = self._seen, self.candidates, self.used
        all_names, places, factors = candidates.names, candidates.source, candidates.factor
        positions, shape = candidates.position, self.lexicon.shape
        names_of = self.lexicon.line
        for raw in text.split("\n"):
            line = raw.strip()
            if len(line) < SHORTEST_LINE:
                continue
            if len(line) > LONGEST_LINE:
                self.add(source, "\n".join(pieces(line)), speaker, factor)
                continue
            index = seen.get(line)
            if index is None:
                names = names_of(line)
                index = seen[line] = len(all_names)
                self._append(line, names, source)
                if len(shape) > len(used):
                    used.extend([0] * (len(shape) - len(used)))
            else:
                names = all_names[index]
                places[index] = source
                positions[index] = len(positions) + self._moved
                self._moved += 1
            factors[index] = factor
            for name in names:
                used[name] += weight

    def mark(self) -> None:
        """Find the lines that report an error or state a rule: their factor grows.

        Error reports and measurements in the assistant's text become facts.
        """
        marks, candidates = self._marks, self.candidates
        for number, word in enumerate(self.lexicon.words):
            if word.endswith(("Error", "Exception")):
                marks[number] = 1
        factors, texts = candidates.factor, candidates.text
        told = [0] * len(self.sources)
        prose = {number for number, source in enumerate(self.sources) if not source.label}
        self.facts.extend(i for i, number in enumerate(candidates.source) if number in prose and measures(texts[i]))
        unmarked = marks.keys().isdisjoint
        for index, names in enumerate(candidates.names):
            if unmarked(names):
                continue
            kinds = {marks[name] for name in names if name in marks}
            if 1 in kinds and is_error_line(texts[index]):
                factors[index] = factors[index] * 16 // 10
                source = candidates.source[index]
                if self.sources[source].tells and told[source] < FACTS_OF_ONE and reports_error(texts[index]):
                    told[source] += 1
                    self.facts.append(index)
            elif 2 in kinds:
                factors[index] = factors[index] * 13 // 10

    def weights(self) -> list[int]:
        """The weight of every name: its shape times the logarithm of how much it was used."""
        self._grow()
        logs = {amount: log2_milli(2 + amount // 500) for amount in set(self.used) if amount}
        logs[0] = 0
        return [shape * logs[amount] // 10 for shape, amount in zip(self.lexicon.shape, self.used, strict=True)]


def pieces(line: str) -> Iterable[str]:
    """A long line in pieces of at most 240 characters, cut at blanks where there are any."""
    start = 0
    while start < len(line):
        stop = min(len(line), start + _PIECE)
        if stop < len(line):
            blank = line.rfind(" ", start + _PIECE // 2, stop)
            stop = blank + 1 if blank > 0 else stop
        yield line[start:stop]
        start = stop
