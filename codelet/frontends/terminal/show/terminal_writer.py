"""Writes to the terminal without waiting for it.

A terminal may be slow or frozen. So a second, non-blocking file description is opened: the standard one is shared with
other programs. What the terminal does not take now is written later.
"""

from __future__ import annotations

import os
import select
from typing import IO

from codelet.frontends.terminal.show.style import writable

ERASE = " \x1b[J\r"
"""Erases to the end of the screen.

tmux scrolls text into its history if it is erased from the first column of the first row, like "clear" does, so a space
is written and erased with it.
"""


class TerminalWriter:
    """Writes to one stream; only a terminal is non-blocking."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self.terminal: int | None = None
        """Its own descriptor, after the first write to a terminal."""
        self._opened = False
        self._kept = bytearray()

    @property
    def is_behind(self) -> bool:
        """Whether the terminal has not taken everything yet; writes what it takes now."""
        self._hand_on()
        return bool(self._kept)

    def write(self, text: str) -> None:
        """Write, or keep for later. Raises OSError if the terminal is gone."""
        text = writable(text, self._stream)
        if not self._opened:
            self._opened = True
            self.terminal = _unblocked(self._stream)
        if self.terminal is None:
            self._stream.write(text)
            self._stream.flush()
            return
        self._stream.flush()  # what others have written comes first
        self._kept += text.encode(getattr(self._stream, "encoding", None) or "utf-8")
        self._hand_on()

    def finish(self) -> None:
        """Wait until everything is written."""
        while self.is_behind and self.terminal is not None:
            select.select([], [self.terminal], [])

    def _hand_on(self) -> None:
        while self._kept and self.terminal is not None:
            try:
                taken = os.write(self.terminal, self._kept)
            except BlockingIOError:
                return
            del self._kept[:taken]

    def __del__(self) -> None:
        if self.terminal is not None:
            os.close(self.terminal)


def _unblocked(stream: IO[str]) -> int | None:
    """Open the stream's terminal again for non-blocking writes; None if that is impossible."""
    try:
        return os.open(os.ttyname(stream.fileno()), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):  # no terminal, a stream in memory, or one whose name is not to be had here
        return None
