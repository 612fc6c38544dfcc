"""Shows a unified diff: line numbers, signs and colour; without its file headers where one file is meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from codelet.frontends.terminal.show.changed_words import CharacterSpan, changed_words
from codelet.frontends.terminal.show.console import truncate
from codelet.frontends.terminal.show.style import ADDED, CHANGED, MARGIN, QUIET, REMOVED, Signs
from codelet.system.text import clean

_MOST_COMPARED = 200
"""Pairs of lines of one diff that are compared word by word."""

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True)
class DiffCount:
    """Lines that a diff adds and removes."""

    added: int
    removed: int


def is_diff(text: str) -> bool:
    """Whether the text is a unified diff from its first line on."""
    head = text.lstrip("\n")[:4000]
    return head.startswith(("--- ", "diff --git ", "@@ -")) and _HUNK.search(head) is not None


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


def diff_rows(text: str, width: int, signs: Signs, *, limit: int = 40, files: bool = False) -> list[Text]:
    """The rows of a diff, `limit` at most; `files` shows each file's name above its hunks."""
    rows: list[Text] = []
    old = new = 0
    body = False
    run = _Run(width, signs)
    for line in clean(text).rstrip("\n").split("\n"):
        sign = line[:1] or " "
        if body and sign in "+-":
            if sign == "-" and run.added:
                rows += run.taken()
            run.add(new if sign == "+" else old, sign, line[1:])
            old, new = old + (sign == "-"), new + (sign == "+")
            continue
        if line.startswith("\\"):  # no line, but a remark on the one before
            continue
        rows += run.taken()
        if hunk := _HUNK.match(line):
            if body:
                rows.append(Text(" " * MARGIN + signs.more, QUIET))
            old, new, body = int(hunk[1]), int(hunk[2]), True
        elif line.startswith(("diff --git ", "--- ")):
            body = False
        elif line.startswith("+++ "):
            if files:
                rows.append(Text(line[4:].removeprefix("b/"), "bold"))
        elif body and sign == " ":
            rows.append(_row(new, sign, line[1:], width, signs))
            old, new = old + 1, new + 1
    rows += run.taken()
    if len(rows) > limit:
        left_out = len(rows) - limit + 1
        rows = [*rows[: limit - 1], Text(f"{' ' * MARGIN}{signs.more} {left_out} more rows", QUIET)]
    return rows


class _Run:
    """Lines that were removed, then lines that were added in their place: words that changed are marked in both."""

    def __init__(self, width: int, signs: Signs) -> None:
        self._width = width
        self._signs = signs
        self._removed: list[tuple[int, str]] = []
        self.added: list[tuple[int, str]] = []
        self._compared = 0

    def add(self, number: int, sign: str, line: str) -> None:
        """One more line."""
        (self._removed if sign == "-" else self.added).append((number, line))

    def taken(self) -> list[Text]:
        """The rows of the lines so far, which are over."""
        removed, added = self._removed, self.added
        self._removed, self.added = [], []
        pairs = min(len(removed), len(added), _MOST_COMPARED - self._compared)
        self._compared += pairs
        spans = [changed_words(one[1], other[1]) for one, other in zip(removed[:pairs], added[:pairs], strict=True)]
        none: tuple[list[CharacterSpan], list[CharacterSpan]] = ([], [])
        rows = []
        for side, sign, lines in ((0, "-", removed), (1, "+", added)):
            for at, (number, line) in enumerate(lines):
                marked = (spans[at] if at < pairs else none)[side]
                rows.append(_row(number, sign, line, self._width, self._signs, marked))
        return rows


def _row(number: int, mark: str, line: str, width: int, signs: Signs, spans: Sequence[CharacterSpan] = ()) -> Text:
    style = {"+": ADDED, "-": REMOVED}.get(mark, "")
    row = Text(" " * MARGIN)
    row.append(f"{number:>4} ", QUIET)
    first = len(row) + 2
    row.append(f"{mark} {line}", style or QUIET)
    for low, high in spans:
        row.stylize(CHANGED, first + low, first + high)
    if not line.strip():
        row.rstrip()
    return truncate(row, width, signs.more)
