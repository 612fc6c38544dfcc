"""The console that front ends print through."""

from __future__ import annotations

from typing import NoReturn

from rich.console import Console


class OutputConsole(Console):
    """rich's console on stdout, printing text as it stands: no markup, no emoji names, no highlighting."""

    def __init__(self) -> None:
        # "auto" finds out whether there are colours at all; only the palette's sixteen are used.
        super().__init__(markup=False, highlight=False, emoji=False, color_system="auto")

    def on_broken_pipe(self) -> NoReturn:
        """Leave a broken pipe to the command line, which knows that the reader has what it wanted."""
        raise BrokenPipeError
