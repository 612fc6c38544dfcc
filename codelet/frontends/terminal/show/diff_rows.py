"""Shows a unified diff: line numbers, signs and colours; without its file headers where one file is meant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.text import Span, Text

from codelet.frontends.terminal.show.changed_words import WordSpan, changed_words
from codelet.frontends.terminal.show.console import truncate
from codelet.frontends.terminal.show.diff_colours import HUNK, code_colours
from codelet.frontends.terminal.show.style import ADDED, MARGIN, QUIET, REMOVED, Signs
from codelet.system.text import clean

_SHOWN = 12
"""So many columns of what changed are to be seen."""


@dataclass(frozen=True)
class DiffCount:
    """Lines that a diff adds and removes."""

    added: int
    removed: int


def is_diff(text: str) -> bool:
    """Whether the text is a unified diff from its first line on."""
    head = text.lstrip("\n")[:4000]
    return head.startswith(("--- ", "diff --git ", "@@ -")) and HUNK.search(head) is not None


def count_diff(text: str) -> DiffCount:
    """How many lines the diff adds and removes."""
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
    """The rows of a diff, `limit` at most, of more `hint` tells how to see them; `files` names each file's hunks."""
    rows: list[Text] = []
    old = new = 0
    body = False
    source = clean(text).rstrip("\n").split("\n")
    marked, coloured = changed_words(source), code_colours(source)
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
    """The row without the beginning of its line where nothing of its `first` change would fit otherwise.

    A line and the one that took its place are the same so far, so that as much is left out of both.
    """
    place = begins + first
    before, whole = row[:place], row.copy()
    for part in (before, whole):
        part.expand_tabs(4)
    if whole.cell_len <= width or before.cell_len < width - _SHOWN:
        return row
    return Text.assemble(row[:begins], more, row[max(begins, place - (width - begins) // 3) :])


def _row(number: int, mark: str, line: str, coloured: Iterable[Span], changed: Iterable[WordSpan]) -> Text:
    """One line: its number and sign, and its text in the code's colours, on what tells an added from a removed one."""
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
