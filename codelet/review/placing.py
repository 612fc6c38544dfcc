"""A finding's place: the lines that its quote names, and no others.

A quote is compared with the rows in the request, removed ones too, without white space: as whole rows, then as a part
of rows, then with one edit for each row. Where several places hold it, the line number that came with it decides, then
the white space. A quote of removed rows is placed on the row after them. A quote that is nowhere has no place.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from codelet.record import Record
from codelet.review.diff import FileDiff, Hunk, HunkLine, lines_of
from codelet.review.findings import Finding
from codelet.safety.secrets import mask
from codelet.system.text import clean, one_line, valid_unicode, with_codes

NEIGHBOURS = 3  # lines on either side of a quote that a finding keeps

_LONGEST_TITLE = 160
_LEAST_PART = 6
_GUTTER = re.compile(r"^ {0,5}\d* ?[-+ ] ?|^ *\d+ ?[:|] ?", re.MULTILINE)
_SIGN = re.compile(r"^[-+]", re.MULTILINE)
_FENCE = re.compile(r"^\s*```.*\n?", re.MULTILINE)
_GAP = re.compile(r"…|\.\.\.")
_Same = Callable[[str, str], bool]
_PLAIN_QUOTES = str.maketrans("‘’“”\u00a0", "''\"\" ")


class _Place(Record, kw_only=True):
    """The rows of a hunk that a quote names, by their indices; `exact` if it has their white space."""

    file: FileDiff
    rows: Sequence[HunkLine]
    found: tuple[int, ...]
    exact: bool = True

    @property
    def new(self) -> list[HunkLine]:
        """The rows of the new side from the first to the last of the quote."""
        kept = [index for index in self.found if self.rows[index].sign != "-"]
        return [each for each in self.rows[kept[0] : kept[-1] + 1] if each.sign != "-"] if kept else []

    @property
    def is_touched(self) -> bool:
        """Return whether one of the rows was added or removed, or is next to removed ones."""
        first, last = self.found[0], self.found[-1]
        beside = (*self.rows[max(0, first - 1) : first], *self.rows[last + 1 : last + 2])
        return any(row.sign != " " for row in self.rows[first : last + 1]) or any(row.sign == "-" for row in beside)

    def names(self, line: int) -> bool:
        return any(self.rows[index].number == line for index in self.found)

    def distance(self, line: int) -> tuple[bool, bool, bool, bool, int]:
        """The sort key of places for the named line, the best one first."""
        first = self.new[0] if self.new else self.rows[self.found[0]]
        return not self.names(line), not self.exact, not self.new, not self.is_touched, abs(first.number - line)


def placed(claim: Finding, files: Sequence[FileDiff]) -> Finding:
    """The finding of a model on its lines in the change, which may be unchanged; `misplaced` if it has no place."""
    claim = claim.replace(
        title=one_line(mask(claim.title, patterns=True), _LONGEST_TITLE),
        explanation=clean(mask(valid_unicode(claim.explanation), patterns=True)).strip(),
    )
    named = files_named(claim.path, files)
    places = _places(claim, [(file, hunk) for file in named for hunk in file.hunks if hunk.body])
    if places:
        return _on_lines(claim, min(places, key=lambda each: each.distance(claim.line)))
    return claim.replace(
        kind="misplaced",
        why="the quoted lines are not in the change" if named else "the file that it names is not in the change",
        path=named[0].path if named else one_line(claim.path, _LONGEST_TITLE),
        line=0,
        quote=clean(mask(valid_unicode(claim.quote), patterns=True)).strip("\n"),
        replacement=None,
    )


def files_named(path: str, files: Sequence[FileDiff]) -> list[FileDiff]:
    """The files that a model may mean: by name, by a former one, or by the end of a path if it is that of no other."""
    bare = path.strip("\"'` ").replace("\\\\", "\\").removeprefix("./")
    words = dict.fromkeys((path, bare, bare[2:] if bare[:2] in ("a/", "b/") else bare, bare.replace("\\", "/")))
    for word in words:
        if found := [file for file in files if word in (file.path, with_codes(file.path))]:
            return found
    if found := [file for file in files if file.old_path is not None and file.old_path in words]:
        return found
    for word in reversed(words):
        end = f"/{word.lstrip('/')}"
        if end != "/" and (found := [file for file in files if f"/{file.path}".endswith(end)]):
            return found if len(found) == 1 else []
    longer = [file for file in files if any(word.endswith(f"/{file.path}") for word in words)]
    longest = max(map(len, (file.path for file in longer)), default=0)
    return [file for file in longer if len(file.path) == longest]


def _places(claim: Finding, hunks: Sequence[tuple[FileDiff, Hunk]]) -> list[_Place]:
    """All places of the quote, by the first way of comparing that finds any; without a quote that of its line."""
    if not claim.quote.strip():
        rows = [(file, lines_of(hunk), n) for file, hunk in hunks for n in range(len(lines_of(hunk)))]
        places = [_Place(file=file, rows=rows_of, found=(n,)) for file, rows_of, n in rows]
        return [place for place in places if place.new and place.names(claim.line)]
    for is_same in (str.__eq__, _is_part, _is_near):
        found: list[_Place] = []
        for quote in _readings(claim.quote):
            wanted = [None if _GAP.fullmatch(row.strip()) else _squashed(row) for row in quote.split("\n")]
            places = [
                _Place(file=file, rows=rows, found=at, exact="\n".join(rows[n].shown for n in at) in quote)
                for file, hunk in hunks
                for rows in [lines_of(hunk)]
                for at in _matches(wanted, rows, _texts(hunk), is_same)
            ]
            if is_same is _is_near and len(places) > 1:  # which of them is meant, only the number can say
                places = [place for place in places if place.names(claim.line)]
            found += places
        if found:
            return found
    return []


@lru_cache(maxsize=64)
def _texts(hunk: Hunk) -> tuple[str, ...]:
    return tuple(_squashed(row.shown) for row in lines_of(hunk))


def _readings(quote: str) -> list[str]:
    """The quote verbatim, and without fences, gutters, signs and escapes that models copy with it."""
    text = quote.replace("\r\n", "\n").strip("\n")
    bare = _FENCE.sub("", text).strip("\n")
    unescaped = text.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"') if "\n" not in text else text
    readings = (text, bare, _GUTTER.sub("", bare), _SIGN.sub("", bare), bare.strip("` "), unescaped)
    return [each for each in dict.fromkeys(readings) if each.strip()]


def _matches(
    wanted: Sequence[str | None], rows: Sequence[HunkLine], texts: Sequence[str], is_same: _Same
) -> Iterator[tuple[int, ...]]:
    """Rows in which the wanted ones follow each other, empty ones not counted.

    Between two, rows of the other side may be left out, and any where the quote has a row of dots.
    """
    first = next((number for number, row in enumerate(wanted) if row), None)
    if first is None or (is_same is str.__eq__ and wanted[first] not in texts):
        return
    for start, text in enumerate(texts):
        found: list[int] = [start]
        is_gap = False
        for row in wanted[first + 1 :] if is_same(wanted[first] or "", text) else ():
            is_gap = is_gap or row is None
            if not row:
                continue
            place = found[-1] + 1
            while place < len(rows) and not is_same(row, texts[place]):
                skipped = is_gap or rows[place].sign != " " or not texts[place].strip()
                place = place + 1 if skipped else len(rows)
            if place == len(rows):
                found = []
                break
            found.append(place)
            is_gap = False
        if found and is_same(wanted[first] or "", text):
            yield tuple(found)


def _squashed(text: str) -> str:
    """A row without what models change when they copy: white space, typographic quotes, HTML's names of signs."""
    text = html.unescape(text) if "&" in text else text
    return "".join((text if text.isascii() else text.translate(_PLAIN_QUOTES)).split())


def _is_part(quote: str, row: str) -> bool:
    """Return whether a row holds the quote; dots match any text."""
    if quote in row:
        return len(quote) >= _LEAST_PART or quote == row
    if not row or not _GAP.search(quote):
        return False
    place = 0
    for part in _GAP.split(quote):
        place = row.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return len(_GAP.sub("", quote)) >= min(_LEAST_PART, len(row))


def _is_near(quote: str, row: str) -> bool:
    """Return whether one letter more, less or another one makes the row of what is quoted."""
    least = min(len(quote), len(row))
    if least < _LEAST_PART or not -2 < len(quote) - len(row) < 2:
        return quote == row
    start = next((n for n in range(least) if quote[n] != row[n]), least)
    rests = (quote[start + 1 :], row[start + 1 :]), (quote[start + 1 :], row[start:]), (quote[start:], row[start + 1 :])
    return any(one == other for one, other in rests)


def _on_lines(claim: Finding, place: _Place) -> Finding:
    side = [row for row in place.rows if row.sign != "-"]
    after_removed = place.rows[place.found[0]].number
    lines = place.new or [row for row in side if row.number >= after_removed][:1] or side[-1:]
    first = next((n for n, row in enumerate(side) if lines and row is lines[0]), len(side))
    last = first + len(lines)
    before, after = side[max(0, first - NEIGHBOURS) : first], side[last : last + NEIGHBOURS]
    text = claim.replacement
    new = clean(valid_unicode(text)).removesuffix("\n").split("\n") if text else []
    is_new = text is not None and place.new and [line.text for line in lines] != new and not lines[0].has_return
    return claim.replace(
        path=place.file.path,
        line=lines[0].number if lines else after_removed,
        end_line=lines[-1].number if lines else after_removed,
        quote=_code(lines),
        before=tuple(_code([line]) for line in before),
        after=tuple(_code([line]) for line in after),
        unchanged=not place.is_touched,
        removed=_code([place.rows[n] for n in place.found if place.rows[n].sign == "-"]),
        replacement=mask("\n".join(new)) if is_new else None,
    )


def _code(lines: Sequence[HunkLine]) -> str:
    """Lines of the change without secrets of this process."""
    return mask(valid_unicode("\n".join(line.text for line in lines)))
