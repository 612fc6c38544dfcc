"""The colours of the code in a diff: each line has those that its file's language gives it.

Of each hunk the old and the new text are read apart: a string or comment goes on over the lines of its own side. What
stands above a hunk is not known. Where a side then ends inside a string or a comment it may as well have begun in one,
and all of it would be coloured the wrong way round: it stays plain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rich.style import Style
from rich.text import Span

from codelet.frontends.terminal.show.highlight import COMMENT, KEYWORD, NAME, STRING, VALUE, part_of_file
from codelet.record import Record

HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@")

_MOST_CHARACTERS = 20_000
"""What comes behind these in a diff is not coloured: so much is read in some milliseconds, and a key may be waiting."""
_LONGEST = 1_000
"""Nor is a hunk with a longer line, which a program made."""

_NAMES: dict[str | Style, str] = {
    Style.parse(COMMENT): "look.comment",
    Style.parse(STRING): "look.string",
    Style.parse(KEYWORD): "look.keyword",
    Style.parse(VALUE): "look.value",
    Style.parse(NAME): "look.name",
}
"""What the colours of code are called in a diff, where a theme may want others."""


class _Hunk(Record):
    """The numbers of a hunk's lines in the diff; `starts` are its first lines in the file's old and new text."""

    file: str
    starts: tuple[int, int]
    lines: list[int]


def code_colours(lines: Sequence[str]) -> Mapping[int, Sequence[Span]]:
    """The colours by the number of the line, counted from 0 over the lines of a unified diff, without its sign."""
    found: dict[int, Sequence[Span]] = {}
    left = _MOST_CHARACTERS
    for hunk in _hunks(lines):
        taken = []
        for number in hunk.lines:
            left -= len(lines[number])
            if left < 0:
                break
            taken.append(number)
        if all(len(lines[number]) <= _LONGEST for number in taken):
            for sign, start in zip("-+", hunk.starts, strict=True):
                found.update(_side(lines, hunk.file, taken, sign, is_begin=start <= 1))
        if left < 0:
            break
    return found


def _side(
    lines: Sequence[str], file: str, numbers: Sequence[int], sign: str, *, is_begin: bool
) -> Mapping[int, Sequence[Span]]:
    """The colours of the old or the new text of a hunk: of a line that both have the new one's are taken."""
    own = [number for number in numbers if lines[number][:1] in (sign, " ", "")]
    read = part_of_file(file, [lines[number][1:] for number in own])
    if read is None or (read[1] and not is_begin):
        return {}
    return {
        number: [Span(start, end, _NAMES[style]) for start, end, style in row.spans if style in _NAMES]
        for number, row in zip(own, read[0], strict=True)
    }


def _hunks(lines: Sequence[str]) -> Iterator[_Hunk]:
    """The hunks of files whose names are told."""
    file, hunk = "", None
    for number, line in enumerate(lines):
        if found := HUNK.match(line):
            if hunk is not None:
                yield hunk
            hunk = _Hunk(file, (int(found[1]), int(found[2])), [])
        elif line.startswith("diff --git "):
            if hunk is not None:
                yield hunk
            file, hunk = "", None
        elif hunk is not None:
            if line[:1] in ("+", "-", " ", ""):
                hunk.lines.append(number)
        elif line.startswith(("--- ", "+++ ")) and (name := line[4:].partition("\t")[0]) != "/dev/null":
            file = name
    if hunk is not None:
        yield hunk
