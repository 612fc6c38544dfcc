"""The last save of a REPL, and the exit if the store does not respond."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

from codelet.errors import EXIT_DONE, EXIT_USAGE, CodeletError
from codelet.frontends.streams import say
from codelet.system.text import one_line

if TYPE_CHECKING:
    from codelet.frontends.exporting import Exporting

_PATIENCE = 1.0
"""Seconds before the user sees what is waited for."""


class LastSave:
    """The last save and its outcome."""

    def __init__(self) -> None:
        self._saved = True
        self._abandoned = False
        self._unsaid: list[str] = []
        self._signal = asyncio.Event()
        self._saving = False

    def signalled(self) -> bool:
        """Handle a signal; return whether it only ended the wait for the last save."""
        if self._saving:
            self._signal.set()
        return self._saving

    async def save(self, export: Exporting) -> None:
        """Save for the last time. The terminal is restored, so ctrl-c is a signal here."""
        loop = asyncio.get_running_loop()
        self._saving = True
        loop.add_signal_handler(signal.SIGINT, self.signalled)
        closing = asyncio.create_task(export.close())
        signal_came = asyncio.create_task(self._signal.wait())
        try:
            if not (await asyncio.wait({closing, signal_came}, timeout=_PATIENCE, return_when="FIRST_COMPLETED"))[0]:
                say(f"codelet: saving in {one_line(export.place or 'the store', 300)}; ctrl-c leaves without it")
                await asyncio.wait({closing, signal_came}, return_when="FIRST_COMPLETED")
            problem = self._problem(closing)
        finally:
            signal_came.cancel()
            loop.remove_signal_handler(signal.SIGINT)
        self._unsaid += filter(None, [*export.notices.take(), problem or export.parting])

    def say_what_is_left(self) -> None:
        """Print notices about the save, now that the terminal is restored."""
        for line in self._unsaid:
            say(f"codelet: {one_line(line, 1_000)}")

    def exit_status(self, status: int) -> int:
        """Return the exit status: not 0 if unsaved. Exits immediately if the store still blocks."""
        if not self._saved and status == EXIT_DONE:
            status = EXIT_USAGE
        if self._abandoned:
            sys.stdout.flush()
            os._exit(status)  # the thread that still waits for the store would hold the exit up
        return status

    def _problem(self, closing: asyncio.Task[None]) -> str | None:
        """Return why the newest state is not saved, or None."""
        if not closing.done():
            self._saved, self._abandoned = False, True
            return "left before the session was saved for the last time"
        try:
            closing.result()
        except CodeletError as error:
            self._saved = False
            return str(error)
        return None
