"""The console that front ends print through, and rich text broken into rows of a given width."""

from __future__ import annotations

from functools import lru_cache
from io import StringIO
from typing import NoReturn

from rich.console import Console
from rich.text import Text


class OutputConsole(Console):
    """rich's console on stdout, printing text as it stands: no markup, no emoji names, no highlighting."""

    def __init__(self) -> None:
        # "auto" finds out whether there are colours at all; only the palette's sixteen are used.
        super().__init__(markup=False, highlight=False, emoji=False, color_system="auto")

    def on_broken_pipe(self) -> NoReturn:
        """Leave a broken pipe to the command line, which knows that the reader has what it wanted."""
        raise BrokenPipeError


@lru_cache(maxsize=1)
def _ruler() -> Console:
    """A console that only measures: rich needs one to break lines."""
    return Console(file=StringIO(), width=80, no_color=True, markup=False, highlight=False)


def wrap(text: Text, width: int) -> list[Text]:
    """Rows of at most `width` columns, broken between words; a word that is longer is broken anywhere."""
    rows = list(text.wrap(_ruler(), max(width, 1), overflow="fold", tab_size=4))
    for row in rows:
        row.rstrip()
    return rows or [Text()]


def truncate(text: Text, width: int, more: str = "…") -> Text:
    """One row of at most `width` columns; what is left out is marked with `more`."""
    row = text.copy()
    row.expand_tabs(4)
    if row.cell_len <= width:
        return row
    row.truncate(max(width - len(more), 0), overflow="crop")
    row.append(more)
    return row
