"""What the screen shows in part, kept whole in memory: prompts, reasoning, answers, what tools gave and changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Literal

from rich.text import Text

from codelet.frontends.terminal.show.console import wrap
from codelet.frontends.terminal.show.diff_rows import diff_rows, is_diff
from codelet.frontends.terminal.show.markdown import markdown_rows
from codelet.frontends.terminal.show.numbers import plural
from codelet.frontends.terminal.show.style import MARGIN, QUIET, Signs
from codelet.record import Record
from codelet.system.text import clean

_MOST = 4_000_000
"""Characters that are kept in all; the oldest parts go first."""
_PART = 500
"""What a part takes besides its text, in characters: a session may have very many short ones."""
_NO_LIMIT = 1_000_000

PartKind = Literal["prompt", "reasoning", "answer", "call"]


class ShownPart(Record):
    """One part under its title; `folded` says that the screen shows only some of it."""

    kind: PartKind
    title: str
    text: str
    folded: bool = False


class ShownParts:
    """The newest parts of a session. `asked` are the rows of the question that is open, whole, below all of them."""

    def __init__(self) -> None:
        self.asked: Sequence[Text] = ()
        self._parts: deque[ShownPart] = deque()
        self._size = 0
        self._gone = 0

    def add(self, part: ShownPart) -> None:
        """Keep a part, and let the oldest go where there are too many."""
        self._parts.append(part)
        self._size += _size(part)
        while self._size > _MOST and len(self._parts) > 1:
            self._size -= _size(self._parts.popleft())
            self._gone += 1

    def forget(self) -> None:
        """Keep nothing of what was shown so far."""
        self._parts.clear()
        self._size = self._gone = 0

    def last(self) -> ShownPart | None:
        """The last part that was shown only in part; else the last one, None if there is none."""
        return next((part for part in reversed(self._parts) if part.folded), self._parts[-1] if self._parts else None)

    def rows(self, width: int, signs: Signs) -> tuple[list[Text], int]:
        """All parts whole, the oldest first; and the row, counted from 0, where the open question or `last` begins."""
        rows: list[Text] = []
        if self._gone:
            rows += [Text(f"{signs.more} {plural(self._gone, 'earlier part')} not kept", QUIET), Text()]
        wanted, place = self.last(), 0
        for part in self._parts:
            if part is wanted:
                place = len(rows)
            rows += [*part_rows(part, width, signs), Text()]
        return ([*rows, *self.asked], len(rows)) if self.asked else (rows, place)


def _size(part: ShownPart) -> int:
    return len(part.text) + len(part.title) + _PART


def part_rows(part: ShownPart, width: int, signs: Signs) -> list[Text]:
    """One part whole, below its title."""
    title = wrap(Text(part.title, "bold"), width)
    if part.kind == "answer":
        return [*title, *markdown_rows(clean(part.text), width, signs)]
    if is_diff(part.text):
        return [*title, *diff_rows(part.text, width, signs, limit=_NO_LIMIT)]
    style = "dim italic" if part.kind == "reasoning" else ""
    margin = " " * MARGIN
    lines = clean(part.text).rstrip("\n").split("\n")
    rows = [row for line in lines for row in wrap(Text(line, style), width - MARGIN)]
    return [*title, *(Text.assemble(margin, row) for row in rows)]
