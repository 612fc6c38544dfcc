"""Which candidate lines are no more what their file says: an edit, a deletion or a rewrite took them out.

Lines are told by their text, as collected: one that comes again later (read again, written again) is current again. A
line that a file is known to hold is not made stale by an edit of another file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from codelet.compaction.files import Effect, meant, same_file

# A line as tools print it beside its number: `12\tx = 1`, `12: x = 1`, `src/a.py:12:x = 1`, `[12] x`.
_NUMBERED = re.compile(r"(?:[\w./@-]+[:-])?\[?\d+(?:\]|[:|\u2192\u2502\t-])[ \t|]*|\d+ +(?=\S)")
_SHORTEST_PART = 6


class Stale:
    """Keeps the numbers of stale candidates in `dead`, and in `gone` the texts that were taken out.

    `texts` are the candidates' texts, `source_of` the number of the source that each stood in last, `numbers` finds a
    candidate by its text. `files[source]` is the file that a source shows, if it is known.
    """

    def __init__(self, texts: Sequence[str], source_of: Sequence[int], number: Callable[[str], int | None]) -> None:
        self.dead: set[int] = set()
        self.gone: set[str] = set()
        # The sources that changed a file since the last commit: what goes back to the commit loses what they put in.
        self.wrote: set[int] = set()
        self.files: dict[int, str] = {}
        self._texts = texts
        self._source_of = source_of
        self._number = number
        self._of_source: dict[int, list[int]] = {}
        # The sources that show a file, and the files by their last name.
        self._showing: dict[str, list[int]] = {}
        self._named: dict[str, list[str]] = {}
        self._numbered: dict[str, list[int]] = {}
        self._looked_at = 0

    def shows(self, source: int, file: str, *, wrote: bool) -> None:
        """Say which file a source shows, and whether it changed it."""
        if file:
            self.files[source] = file
            if file not in self._showing:
                self._named.setdefault(file.rpartition("/")[2], []).append(file)
            self._showing.setdefault(file, []).append(source)
        if wrote:
            self.wrote.add(source)

    def took(self, source: int, numbers: Iterable[int], texts: Iterable[str]) -> None:
        """Candidates came in, or came again: they are current."""
        if source in self.files or source in self._of_source or source in self.wrote:
            self._of_source.setdefault(source, []).extend(numbers)
        if self.gone:
            self.gone.difference_update(texts)

    def revived(self, numbers: Iterable[int]) -> None:
        """Candidates came again."""
        self.dead.difference_update(numbers)

    def remove(self, file: str, lines: Sequence[str], kept: Iterable[str] = ()) -> None:
        """An edit of a file ("" if unknown) took out `lines`, but for those that it put in again."""
        bare = [line.strip() for line in lines]
        stays = {line.strip() for line in kept}
        self._look_at_numbered()
        for place, line in enumerate(bare):
            if not line or line in stays:
                continue
            self.gone.add(line)
            first = self._number(line)
            hits = [*self._numbered.get(line, ()), *([] if first is None else [first])]
            self.dead.update(hit for hit in hits if self._may_be_of(hit, file))
            if not hits and place in (0, len(bare) - 1) and len(line) >= _SHORTEST_PART:
                self._remove_part(file, line)

    def _remove_part(self, file: str, part: str) -> None:
        """The first and the last line of an old text may be a part of a line only."""
        self.dead.update(number for number in self._of_file(file) if part in self._texts[number])

    def rewrite(self, file: str, kept: Iterable[str] = ()) -> None:
        """A file was deleted, or written anew as `kept`: what was seen of it before is no more."""
        stays = {line.strip() for line in kept}
        self.dead.update(number for number in self._of_file(file) if self._texts[number] not in stays)

    def happened(self, effects: Iterable[Effect]) -> None:
        """Commands of one line did something to files."""
        patterns: dict[str, list[re.Pattern[str]]] = {}
        for effect in effects:
            if effect.pattern is not None:
                patterns.setdefault(effect.path, []).append(effect.pattern)
            else:
                self._happened(effect)
        for path, own in patterns.items():
            self._edited(path, own)

    def _happened(self, effect: Effect) -> None:
        if effect.how == "deleted":
            self.dead.update(number for file in self._meant(effect.path) for number in self._of_file(file))
        elif effect.how == "committed":
            self.wrote.clear()
        elif effect.how == "reverted":
            for source in self.wrote:
                file = self.files.get(source, "")
                if not effect.path or not file or meant(effect.path, file):
                    self.dead.update(self._of(source))

    def _edited(self, path: str, patterns: Iterable[re.Pattern[str]]) -> None:
        """A command replaced what matches one of the patterns in the files that a path means."""
        for file in self._meant(path):
            numbers = list(self._of_file(file))
            texts = [self._texts[number] for number in numbers]
            ends = list(accumulate(len(text) + 1 for text in texts))
            # One search in all lines is far cheaper than one in each.
            whole = "\n".join(texts)
            places = (found.start() for pattern in patterns for found in pattern.finditer(whole))
            self.dead.update(numbers[bisect_right(ends, place)] for place in places if place < len(whole))

    def _meant(self, path: str) -> list[str]:
        return [file for file in self._showing if meant(path, file)]

    def _of_file(self, file: str) -> Iterator[int]:
        """The candidates that stood last in a source that shows a file."""
        for shown in self._named.get(file.rpartition("/")[2], ()) if file else ():
            if same_file(shown, file):
                for source in self._showing[shown]:
                    yield from self._of(source)

    def _of(self, source: int) -> list[int]:
        return [n for n in self._of_source.get(source, ()) if self._source_of[n] == source]

    def _may_be_of(self, number: int, file: str) -> bool:
        """Whether a candidate may be a line of a file: it is not known to be one of another."""
        own = self.files.get(self._source_of[number], "")
        return not own or not file or same_file(own, file)

    def _look_at_numbered(self) -> None:
        """Learn the candidates that are a numbered line, by the line."""
        for number in range(self._looked_at, len(self._texts)):
            found = _NUMBERED.match(self._texts[number])
            if found:
                self._numbered.setdefault(self._texts[number][found.end() :], []).append(number)
        self._looked_at = len(self._texts)
