"""Renders a unified diff: line numbers, signs, syntax colours, changed words.

The old and the new side of a hunk are coloured separately, so strings and comments continue on their own side. A side
that ends inside a string or comment may have begun in one, so it stays plain.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate

from rich.style import Style
from rich.text import Span, Text

from codelet.frontends.terminal.show.console import truncate
from codelet.frontends.terminal.show.highlight import COMMENT, KEYWORD, NAME, STRING, VALUE, part_of_file
from codelet.frontends.terminal.show.style import ADDED, MARGIN, QUIET, REMOVED, Signs
from codelet.system.text import clean

HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@")
WordSpan = tuple[int, int]
"""Start and end of a changed part in a line without its sign; equal where the other line has more."""

_SHOWN = 12
"""The least number of visible columns of a change."""
_MOST_CHARACTERS = 20_000
"""Characters of a diff that are coloured: more would delay keys."""
_LONGEST_CODE = 1_000
"""A hunk with a longer line is generated and stays plain."""
_NAMES: dict[str | Style, str] = {
    Style.parse(COMMENT): "look.comment",
    Style.parse(STRING): "look.string",
    Style.parse(KEYWORD): "look.keyword",
    Style.parse(VALUE): "look.value",
    Style.parse(NAME): "look.name",
}
"""The theme names of syntax colours in a diff."""
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_SIGNIFICANT = re.compile(r"\w+|[^\w\s]")
_LONGEST = 400
_MOST_LINES = 200
"""In longer lines, or more changed lines in a row, no words are marked."""
_ALIKE = 0.4
"""Below this similarity a line is new, not changed."""
_NEARLY = 0.6
"""The similarity of a changed line, if lines were added or removed as well."""
_MOST_COMPARED = 400
"""The most pairs compared to match changed lines."""


@dataclass(frozen=True)
class DiffCount:
    """Added and removed lines."""

    added: int
    removed: int


def is_diff(text: str) -> bool:
    """Return whether the text is a unified diff from its first line."""
    head = text.lstrip("\n")[:4000]
    return head.startswith(("--- ", "diff --git ", "@@ -")) and HUNK.search(head) is not None


def count_diff(text: str) -> DiffCount:
    """Return how many lines the diff adds and removes."""
    added = removed = 0
    body = False
    for line in text.split("\n"):
        if line.startswith("@@"):
            body = True
        elif line.startswith(("diff --git ", "--- ")) and (not body or line.startswith("diff")):
            body = False
        elif body:
            added += line.startswith("+")
            removed += line.startswith("-")
    return DiffCount(added, removed)


def diff_rows(
    text: str, width: int, signs: Signs, *, limit: int = 40, files: bool = False, hint: str = ""
) -> list[Text]:
    """Return a diff's rows, at most `limit`; `hint` says how to see more; `files` names each file."""
    rows: list[Text] = []
    old = new = 0
    body = False
    source = clean(text).rstrip("\n").split("\n")
    marked, coloured = changed_words(source), _code_colours(source)
    for number, line in enumerate(source):
        if hunk := HUNK.match(line):
            if body:
                rows.append(Text(" " * MARGIN + signs.more, QUIET))
            old, new, body = int(hunk[1]), int(hunk[2]), True
        elif line.startswith("diff --git ") or (line.startswith("--- ") and not body):
            body = False
        elif line.startswith("+++ ") and not body:
            if files:
                rows.append(Text(line[4:].removeprefix("b/"), "bold"))
        elif body and line[:1] in ("+", "-", " ", ""):
            mark = line[:1] or " "
            changed = marked.get(number, ())
            row = _row(new if mark != "-" else old, mark, line[1:], coloured.get(number, ()), changed)
            if changed and line.strip():
                row = _with_change(row, len(row) - len(line) + 1, changed[0][0], width, signs.more)
            rows.append(truncate(row, width, signs.more))
            old += mark != "+"
            new += mark != "-"
    if len(rows) > limit:
        left_out = len(rows) - limit + 1
        rows = [*rows[: limit - 1], Text(f"{' ' * MARGIN}{signs.more} {left_out} more rows{hint}", QUIET)]
    return rows


def _with_change(row: Text, begins: int, first: int, width: int, more: str) -> Text:
    """Cut the start of a long line whose first change would not be visible.

    Both lines of a pair are equal up to there, so both are cut alike.
    """
    place = begins + first
    before, whole = row[:place], row.copy()
    for part in (before, whole):
        part.expand_tabs(4)
    if whole.cell_len <= width or before.cell_len < width - _SHOWN:
        return row
    return Text.assemble(row[:begins], more, row[max(begins, place - (width - begins) // 3) :])


def _row(number: int, mark: str, line: str, coloured: Iterable[Span], changed: Iterable[WordSpan]) -> Text:
    """Return a line's row: number, sign, and text in syntax colours."""
    row = Text(" " * MARGIN)
    row.append(f"{number:>4} ", QUIET)
    begins = len(row) + 2
    row.append(f"{mark} {line}", {"+": "look.added_line", "-": "look.removed_line"}.get(mark, QUIET))
    if mark != " ":
        row.stylize(ADDED if mark == "+" else REMOVED, begins - 2, begins)
    for start, end, style in coloured:
        row.stylize(style, begins + start, begins + end)
    for start, end in changed:
        row.stylize("look.added" if mark == "+" else "look.removed", begins + start, begins + end)
    if not line.strip():
        row.rstrip()
    return row


def _code_colours(lines: Sequence[str]) -> Mapping[int, Sequence[Span]]:
    """Syntax colours by line index, for lines without their sign."""
    found: dict[int, Sequence[Span]] = {}
    left = _MOST_CHARACTERS
    for file, starts, numbers in _hunks(lines):
        sizes = list(accumulate(len(lines[number]) for number in numbers))
        taken = [number for number, size in zip(numbers, sizes, strict=True) if size <= left]
        if all(len(lines[number]) <= _LONGEST_CODE for number in taken):
            for sign, start in zip("-+", starts, strict=True):
                found.update(_side(lines, file, taken, sign, is_begin=start <= 1))
        if len(taken) < len(numbers):
            break
        left -= sizes[-1] if sizes else 0
    return found


def _side(
    lines: Sequence[str], file: str, numbers: Sequence[int], sign: str, *, is_begin: bool
) -> Mapping[int, Sequence[Span]]:
    """Syntax colours of one side of a hunk; common lines take the new side's."""
    own = [number for number in numbers if lines[number][:1] in (sign, " ", "")]
    read = part_of_file(file, [lines[number][1:] for number in own])
    if read is None or (read[1] and not is_begin):
        return {}
    return {
        number: [Span(start, end, _NAMES[style]) for start, end, style in row.spans if style in _NAMES]
        for number, row in zip(own, read[0], strict=True)
    }


def _hunks(lines: Sequence[str]) -> Iterator[tuple[str, tuple[int, int], list[int]]]:
    """Yield each hunk: file name, first lines of both sides, and the indexes of its lines."""
    file, numbers = "", list[int]()
    starts: tuple[int, int] | None = None
    for number, line in enumerate(lines):
        found = HUNK.match(line)
        if starts is not None and (found or line.startswith("diff --git ")):
            yield file, starts, numbers
        if found:
            starts, numbers = (int(found[1]), int(found[2])), []
        elif line.startswith("diff --git "):
            file, starts = "", None
        elif starts is not None:
            if line[:1] in ("+", "-", " ", ""):
                numbers.append(number)
        elif line.startswith(("--- ", "+++ ")) and (name := line[4:].partition("\t")[0]) != "/dev/null":
            file = name
    if starts is not None:
        yield file, starts, numbers


def changed_words(lines: Sequence[str]) -> Mapping[int, Sequence[WordSpan]]:
    """Changed parts by line index."""
    found: dict[int, Sequence[WordSpan]] = {}
    for removed, added in _pairs(lines):
        before, after = lines[removed][1:], lines[added][1:]
        if max(len(before), len(after)) <= _LONGEST:
            found[removed], found[added] = _between(before, after)
    return found


def _pairs(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Pair each removed line with the added line that replaces it: in order if there are equally many, else by
    similarity.

    Lines that begin with a backslash (no newline at end of file) separate nothing.
    """
    kept = [number for number, line in enumerate(lines) if not line.startswith("\\")]
    place = 0
    while place < len(kept):
        first = place
        while place < len(kept) and lines[kept[place]][:1] == "-":
            place += 1
        middle = place
        while place < len(kept) and lines[kept[place]][:1] == "+":
            place += 1
        removed, added = kept[first:middle], kept[middle:place]
        if not removed or not added or lines[removed[0]].startswith("--- "):
            pass  # nothing was replaced, or it is the head of a file
        elif len(removed) == len(added) <= _MOST_LINES:
            yield from zip(removed, added, strict=True)
        elif len(removed) * len(added) <= _MOST_COMPARED:
            yield from _alike(lines, removed, added)
        place = max(place, first + 1)


def _alike(lines: Sequence[str], removed: Sequence[int], added: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pair each removed line with the first similar added line, in order."""
    first = 0
    for old in removed:
        words = Counter(_SIGNIFICANT.findall(lines[old][1 : _LONGEST + 1]))
        for place in range(first, len(added)):
            others = Counter(_SIGNIFICANT.findall(lines[added[place]][1 : _LONGEST + 1]))
            if 2 * (words & others).total() >= _NEARLY * max((words + others).total(), 1):
                yield old, added[place]
                first = place + 1
                break


def _between(before: str, after: str) -> tuple[list[WordSpan], list[WordSpan]]:
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return [], []
    places = [[0, *accumulate(map(len, side))] for side in (old, new)]
    spans: tuple[list[WordSpan], list[WordSpan]] = [], []
    for kind, *ends in matcher.get_opcodes():
        if kind == "equal":
            continue
        for side, (start, end) in enumerate((ends[:2], ends[2:])):
            spans[side].append((places[side][start], places[side][end]))
    return spans
