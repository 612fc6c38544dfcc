"""Writes to the terminal without ever waiting for it while a turn runs.

A terminal may be slow, or stand still: over a bad line, in a frozen window. So a second description of it is opened,
which does not block: the standard one is shared with other programs and stays as it is. What the terminal does not take
at once is kept, and handed on later.
"""

from __future__ import annotations

import os
import select
from typing import IO

from codelet.frontends.terminal.show.style import writable

ERASE = " \x1b[J\r"
"""Erases to the end of the screen. tmux keeps in its scrollback what is erased from the first column of the first row
on, as "clear" does it, so a blank is written and erased with it.
"""


class TerminalWriter:
    """Text for one stream. Any stream but a terminal is written to as it is."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self.terminal: int | None = None
        """The descriptor of its own, once something was written to a terminal."""
        self._opened = False
        self._kept = bytearray()

    @property
    def is_behind(self) -> bool:
        """Return whether the terminal has not taken all yet; looking hands on what it takes now."""
        self._hand_on()
        return bool(self._kept)

    def write(self, text: str) -> None:
        """Write, or keep for later what the terminal does not take now. Raises OSError if it is gone."""
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
        """Wait until the terminal has taken everything."""
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
    """The stream's terminal, opened once more for writing that does not wait; None if that cannot be."""
    try:
        return os.open(os.ttyname(stream.fileno()), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):  # no terminal, a stream in memory, or one whose name is not to be had here
        return None
