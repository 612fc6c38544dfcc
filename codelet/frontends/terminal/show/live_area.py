"""The live area: a few rows at the bottom of what was printed, redrawn in place while a turn runs.

Every frame is one write: erase the old rows, print what is finished, draw the new rows. Rows are cut to the
width, never wrapped, so their number is known. A frame that leaves no live rows is waited for: others may write
next. Without a terminal that moves its cursor nothing is live: finished rows are printed and that is all.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from codelet.frontends.terminal.show.console import OutputConsole, truncate
from codelet.frontends.terminal.show.terminal_writer import TerminalWriter

_BEGIN = "\x1b[?2026h"
_END = "\x1b[?2026l"
_HIDE = "\x1b[?25l"
_SHOW = "\x1b[?25h"


class LiveArea:
    """Draws the rows below the printed text. `enabled` is False on a pipe, a file and a dumb terminal."""

    def __init__(self, console: OutputConsole) -> None:
        self._console = console
        self.enabled = console.is_terminal and not console.is_dumb_terminal
        self._drawn: list[int] = []  # the cells of each row down to that of the cursor
        self._cursor = True
        self._writer = TerminalWriter(console.file)

    @property
    def is_behind(self) -> bool:
        """Whether the terminal has not taken the last frame yet: the next one is better drawn later."""
        return self._writer.is_behind

    def frame(self, printed: Sequence[Text], rows: Sequence[Text], *, cursor: bool = False, below: int = 0) -> None:
        """Print finished rows, draw the live ones below; `cursor` leaves the cursor seen at the end of the row that
        has `below` others below it. Of more rows than the screen has, the last are drawn.
        """
        if not self.enabled:
            if printed:
                self._writer.write(self.text(printed))
                self._writer.finish()
            return
        if not printed and not rows and not self._drawn:
            return
        width = max(self._console.width, 1)
        live = [truncate(row, width) for row in rows[-max(self._console.height - 1, 1) :]]
        parts = [_BEGIN, self._erased(), self.text(printed)]
        if live:
            parts.append(self.text(live)[:-1])
        self._drawn = [row.cell_len for row in live]
        if live and below:
            columns = min(self._drawn[-1 - below], width - 1)
            parts.append(f"\x1b[{below}A\r" + (f"\x1b[{columns}C" if columns else ""))
            del self._drawn[-below:]
        parts.append(self._cursor_change(cursor or not live))
        parts.append(_END)
        self._writer.write("".join(parts))
        if not live:
            self._writer.finish()

    def send(self, sequence: str) -> None:
        """Write a sequence that moves nothing, such as a bell, between two frames."""
        if self._console.is_terminal:
            self._writer.write(sequence)

    def _cursor_change(self, seen: bool) -> str:
        if seen == self._cursor:
            return ""
        self._cursor = seen
        return _SHOW if seen else _HIDE

    def _erased(self) -> str:
        """Back to the start of the live rows. A narrower window has broken those that no longer fit."""
        if not self._drawn:
            return ""
        width = max(self._console.width, 1)
        height = sum(max(1, -(-cells // width)) for cells in self._drawn)
        up = f"\x1b[{height - 1}A" if height > 1 else ""
        return f"\r{up}\x1b[J"

    def text(self, rows: Sequence[Text]) -> str:
        """The rows as the console's terminal takes them, each with its line end."""
        return "".join(self._console.written(row) for row in rows)
