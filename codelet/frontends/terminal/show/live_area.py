"""The live area: a few rows at the bottom of what was printed, redrawn in place while a turn runs.

Every frame is one write: erase the old rows, print what is finished, draw the new rows, and below them the bottom of
the screen, where there is one. Rows are cut to the width, never wrapped, so their number is known. Without a terminal
that moves its cursor nothing is live: finished rows are printed and that is all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from codelet.frontends.terminal.show.console import OutputConsole, truncate
from codelet.frontends.terminal.show.terminal_writer import ERASE, TerminalWriter

if TYPE_CHECKING:
    from codelet.frontends.terminal.show.bottom import Bottom

_BEGIN = "\x1b[?2026h"
_END = "\x1b[?2026l"
_HIDE = "\x1b[?25l"
_SHOW = "\x1b[?25h"


class LiveArea:
    """Draws the rows below the printed text. `enabled` is False on a pipe, a file and a dumb terminal."""

    def __init__(self, console: OutputConsole, bottom: Bottom | None = None) -> None:
        self._console = console
        self.enabled = console.is_terminal and not console.is_dumb_terminal
        self._bottom = bottom
        if bottom is not None:
            bottom.again, bottom.erased, bottom.hold = self._again, self._erased, self.hold
        self._writer = TerminalWriter(console.file) if bottom is None else bottom.stream.writer
        self._rows: Sequence[Text] = ()
        self._drawn: list[int] = []  # the cells of each row
        self._kept = ""
        self._held = False

    @property
    def is_behind(self) -> bool:
        """Whether the terminal has not taken the last frame yet: the next one is better drawn later."""
        return self._writer.is_behind

    @property
    def room(self) -> int:
        """Rows that can be live now."""
        return max(self._console.height - 1 - (0 if self._bottom is None else self._bottom.height), 1)

    def frame(self, printed: Sequence[Text], rows: Sequence[Text]) -> None:
        """Print finished rows and draw the live ones below. Of more rows than there is room for, the last are drawn."""
        if not self.enabled:
            if printed:
                self._writer.write(self.text(printed))
                self._writer.finish()
            return
        if not (printed or rows or self._rows or self._kept):
            return
        self._kept += self.text(printed)
        self._rows = rows
        if self._held:
            return
        if self._bottom is not None:
            self._again(self._bottom.top())
            return
        self._writer.write(f"{_BEGIN}{self._next()}{_HIDE if rows else _SHOW}{_END}")
        if not rows:
            self._writer.finish()

    def _again(self, top: str) -> None:
        """Draw the rows and those of the bottom, whose first row is reached by `top`."""
        if self._bottom is not None:
            above = self._erased() if self._held else self._next()
            self._bottom.stream.write(f"{top}{above}{self._bottom.painted()}")

    def hold(self, held: bool) -> None:
        """Take the rows off the screen for another program, and keep what comes; then draw again."""
        rows = self._rows
        if held:
            self.frame((), ())
            self._writer.finish()
        self._held = held
        self._rows = rows
        if not held and self._bottom is None:
            self.frame((), rows)
        elif not held and self._bottom is not None and not self._bottom.is_lent:
            self._again(self._bottom.top())

    def send(self, sequence: str) -> None:
        """Write a sequence that moves nothing, such as a bell, between two frames."""
        if self._console.is_terminal:
            self._writer.write(sequence)

    def _erased(self) -> str:
        """From the row below to the start of the rows, and erase. A narrower window has broken those that no longer
        fit.
        """
        width = max(self._console.width, 1)
        height = sum(max(1, -(-cells // width)) for cells in self._drawn)
        self._drawn = []
        if self._bottom is None and not height:
            return ""
        return (f"\r\x1b[{height}A" if height else "") + ERASE

    def _next(self) -> str:
        """From below the old rows: erase them, what is to be printed, the new rows."""
        width = max(self._console.width, 1)
        live = [truncate(row, width) for row in self._rows[-self.room :]]
        parts = [self._erased(), self._kept, self.text(live)]
        self._kept = ""
        self._drawn = [row.cell_len for row in live]
        return "".join(parts)

    def text(self, rows: Sequence[Text]) -> str:
        """The rows as the console's terminal takes them, each with its line end."""
        return "".join(self._console.written(row) for row in rows)
