"""Renders a unified diff: line numbers, signs, syntax colours, changed words.

The old and the new side of a hunk are coloured separately, so strings and comments continue on their own side. A side
that ends inside a string or comment may have begun in one, so it stays plain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import NamedTuple

from rich.text import Span, Text

from codelet.frontends.terminal.show.console import hanging, truncate
from codelet.frontends.terminal.show.highlight import STRING, highlight, lexer_of_file
from codelet.frontends.terminal.show.style import ADDED, MARGIN, QUIET, REMOVED, TAB_COLUMNS
from codelet.system.text import clean

HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@")

_MOST_COLOURED = 500
"""Lines of a diff that are coloured: more would delay keys."""
_LONGEST = 1_000
"""A longer line is generated: it is cut, and its hunk stays plain."""
_STRING = "look.string"
"""On the terminal's own background a line's colour tells an added from a removed one: green strings would hide it."""
_STYLES = {"+": (ADDED, "look.added_line", "look.added"), "-": (REMOVED, "look.removed_line", "look.removed")}
"""By sign, the styles of the sign, its line, and changed words."""
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_ALIKE = 0.4
"""Below this similarity a line is new, not changed."""


class _Hunk(NamedTuple):
    """A hunk: its file, the first line of both sides, and its lines with their signs."""

    file: str
    old: int
    new: int
    lines: list[str]


def is_diff(text: str) -> bool:
    """Return whether the text is a unified diff from its first line."""
    head = text.lstrip("\n")[:4000]
    return head.startswith(("--- ", "diff --git ", "@@ -")) and HUNK.search(head) is not None


def diff_size(text: str) -> str:
    """The added and removed lines of a diff: `+3 -1`, `+2`."""
    signs = [line[0] for hunk in _hunks(text) for line in hunk.lines]
    return " ".join(f"{sign}{count}" for sign in "+-" if (count := signs.count(sign)))


def _hunks(text: str) -> list[_Hunk]:
    hunks: list[_Hunk] = []
    file, is_head = "", True
    for line in clean(text).rstrip("\n").split("\n"):
        if found := HUNK.match(line):
            hunks.append(_Hunk(file, int(found[1]), int(found[2]), []))
            is_head = False
        elif line.startswith("diff --git "):
            file, is_head = "", True
        elif not is_head:
            if line[:1] in ("+", "-", " ", ""):
                hunks[-1].lines.append(line or " ")
        elif line.startswith(("--- ", "+++ ")) and (name := line[4:].partition("\t")[0]) != "/dev/null":
            file = name.removeprefix("a/" if line[0] == "-" else "b/")
    return hunks


def diff_rows(text: str, width: int, *, limit: int = 40, files: bool = False, hint: str = "") -> list[Text]:
    """Return a diff's rows, at most `limit`; `hint` says how to see more; `files` names each file."""
    rows: list[Text] = []
    above, hidden, room = "", 0, min(_MOST_COLOURED, limit)
    for number, hunk in enumerate(_hunks(text)):
        if number and above == hunk.file:
            rows.append(Text(f"{' ' * MARGIN}…", QUIET))
        elif files:
            rows.append(Text(hunk.file, "bold"))
        above = hunk.file
        colours, words = _colours(hunk, hunk.lines[:room]), changed_words(hunk.lines[:room])
        room = max(room - len(hunk.lines), 0)
        old, new = hunk.old, hunk.new
        for place, line in enumerate(hunk.lines):
            if len(rows) < limit:
                spans = [*colours.get(place, ()), *words.get(place, ())]
                rows += _line_rows(old if line[0] == "-" else new, line, spans, width)
            else:
                hidden += 1
            old += line[0] != "+"
            new += line[0] != "-"
    if hidden or len(rows) > limit:
        hidden += len(rows) - limit + 1
        rows = [*rows[: limit - 1], Text(f"{' ' * MARGIN}… {hidden} more rows{hint}", QUIET)]
    return rows


def _line_rows(number: int, line: str, spans: Sequence[Span], width: int) -> list[Text]:
    """Return a line's rows: number, sign, and text in its colours."""
    mark, code = line[0], line[1:]
    sign_style, line_style, _ = _STYLES.get(mark, (QUIET, QUIET, ""))
    head = Text.assemble(" " * MARGIN, (f"{number:>4} ", QUIET), (f"{mark} ", line_style))
    head.stylize(sign_style, len(head) - 2)
    text = Text(code, spans=[Span(0, len(code), line_style), *spans])
    text.expand_tabs(TAB_COLUMNS)
    if not code.strip():
        head.rstrip()
        return [head]
    if len(code) > _LONGEST:
        return [truncate(head + text, width)]
    first, *others = hanging(text, max(width - len(head), MARGIN))
    return [head + first, *(Text.assemble(" " * len(head), row) for row in others)]


def _colours(hunk: _Hunk, lines: Sequence[str]) -> Mapping[int, Sequence[Span]]:
    """Syntax colours by index of the line; common lines have the new side's."""
    found: dict[int, Sequence[Span]] = {}
    lexer = lexer_of_file(hunk.file.rpartition("/")[2])
    if lexer is None or max(map(len, lines), default=0) > _LONGEST:
        return found
    for sign, start in (("-", hunk.old), ("+", hunk.new)):
        own = [place for place, line in enumerate(lines) if line[0] in (sign, " ")]
        rows, is_inside = highlight(lexer, [lines[place][1:] for place in own])
        for place, row in zip(own, rows, strict=True) if start <= 1 or not is_inside else ():
            found[place] = [span._replace(style=_STRING) if span.style == STRING else span for span in row.spans]
    return found


def changed_words(lines: Sequence[str]) -> Mapping[int, Sequence[Span]]:
    """Changed parts by index of the line, where as many lines were added as removed."""
    found: dict[int, Sequence[Span]] = {}
    signs = "".join(line[:1] for line in lines)
    for run in re.finditer(r"(-+)(\++)", signs):
        if len(run[1]) == len(run[2]):
            for old, new in zip(range(*run.span(1)), range(*run.span(2)), strict=True):
                if max(len(lines[old]), len(lines[new])) <= _LONGEST:
                    found[old], found[new] = _between(lines[old][1:], lines[new][1:])
    return found


def _between(before: str, after: str) -> tuple[list[Span], list[Span]]:
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    spans: tuple[list[Span], list[Span]] = [], []
    places = [[0, *accumulate(map(len, side))] for side in (old, new)]
    for kind, first, last, start, end in matcher.get_opcodes() if matcher.ratio() >= _ALIKE else ():
        if kind != "equal" and first < last:
            spans[0].append(Span(places[0][first], places[0][last], "look.removed"))
        if kind != "equal" and start < end:
            spans[1].append(Span(places[1][start], places[1][end], "look.added"))
    return spans
