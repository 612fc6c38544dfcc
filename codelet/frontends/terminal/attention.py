"""The bell or a notification at a question and after a long turn, and the window's title."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from codelet.system.text import clean, one_line

LONG_SECONDS = 10.0
"""A shorter turn is still being watched."""

_KEEP_TITLE, _GIVE_TITLE_BACK = "\x1b[22;2t", "\x1b[23;2t"


class Attention:
    """Notifications and the window's title, written with `send`; nothing unless configured.

    `way` is off, bell, osc9 or osc777. With `title` the window's title shows the state, and is restored at the end.
    """

    def __init__(self, way: str, *, title: bool, workspace: Path, send: Callable[[str], None]) -> None:
        self._way = way
        self._titled = title
        self._name = one_line(clean(workspace.name or "/"), 40)
        self._send = send

    def begin(self) -> None:
        if self._titled:
            self._send(_KEEP_TITLE)
        self.title("")

    def end(self) -> None:
        """Restore the title, if the terminal saved it."""
        if self._titled:
            self._send(f"\x1b]2;\x07{_GIVE_TITLE_BACK}")

    def title(self, doing: str) -> None:
        """Show the activity in the title."""
        if self._titled:
            self._send(f"\x1b]2;{f'{doing} - ' if doing else ''}{self._name} - codelet\x07")

    def asked(self) -> None:
        self.title("asking")
        self._call("codelet asks you something")

    def ended(self, seconds: float, status: str) -> None:
        """Notify after a long turn."""
        self.title("")
        if seconds >= LONG_SECONDS:
            self._call(f"codelet: the turn is {status}")

    def _call(self, words: str) -> None:
        words = f"{words} ({self._name})"
        sequence = {
            "bell": "\x07",
            "osc9": f"\x1b]9;{words}\x07",
            "osc777": f"\x1b]777;notify;codelet;{words.replace(';', ',')}\x07",
        }.get(self._way, "")
        if len(sequence) > 1 and os.environ.get("TMUX"):  # tmux passes it to the outer terminal
            sequence = f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
        if sequence:
            self._send(sequence)
