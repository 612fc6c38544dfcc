"""Everything the screen shows in part, in full: prompts, reasoning, answers, results."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Literal

from rich.text import Text

from codelet.frontends.terminal.show.console import wrap, wrap_indented
from codelet.frontends.terminal.show.diff_rows import diff_rows, is_diff
from codelet.frontends.terminal.show.markdown import markdown_rows
from codelet.frontends.terminal.show.style import MARGIN
from codelet.record import Record
from codelet.system.text import clean

_MOST_PARTS = 500
_NO_LIMIT = 1_000_000

PartKind = Literal["prompt", "reasoning", "answer", "call"]


class ShownPart(Record):
    """One part; `folded`: the screen shows only some of it."""

    kind: PartKind
    title: str
    text: str
    folded: bool = False


class ShownParts:
    """A session's newest parts. `asked` are the rows of the open question."""

    def __init__(self) -> None:
        self.asked: Sequence[Text] = ()
        self._parts: deque[ShownPart] = deque(maxlen=_MOST_PARTS)

    def add(self, part: ShownPart) -> None:
        """Add a part; drop the oldest if needed."""
        self._parts.append(part)

    def forget(self) -> None:
        """Drop all parts."""
        self._parts.clear()

    def last(self) -> ShownPart | None:
        """The last folded part, else the last part, or None."""
        return next((part for part in reversed(self._parts) if part.folded), self._parts[-1] if self._parts else None)

    def rows(self, width: int) -> tuple[list[Text], int]:
        """All parts, oldest first, and the index of the row to show first."""
        rows: list[Text] = []
        wanted, place = self.last(), 0
        for part in self._parts:
            if part is wanted:
                place = len(rows)
            rows += [*part_rows(part, width), Text()]
        return ([*rows, *self.asked], len(rows)) if self.asked else (rows, place)


def part_rows(part: ShownPart, width: int) -> list[Text]:
    """One part in full, below its title."""
    title = wrap(Text(part.title, "bold"), width)
    if part.kind == "answer":
        return [*title, *markdown_rows(clean(part.text), width)]
    if is_diff(part.text):
        return [*title, *diff_rows(part.text, width, limit=_NO_LIMIT)]
    style = "dim italic" if part.kind == "reasoning" else ""
    return [*title, *wrap_indented(Text(clean(part.text).rstrip("\n"), style), width, " " * MARGIN)]
