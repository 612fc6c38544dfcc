"""The terminal in raw mode from the first moment on: keys typed while codelet starts keep their meaning."""

from __future__ import annotations

import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def raw_terminal() -> Iterator[None]:
    """No echo, no line editing, no signals from keys, Enter as it comes; at the end the terminal as it was."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    raw = list(before)
    raw[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON | termios.IXOFF)
    raw[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
    termios.tcsetattr(terminal, termios.TCSANOW, raw)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
