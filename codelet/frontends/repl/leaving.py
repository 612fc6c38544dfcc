"""The end of a REPL: the last save, and the way out where a store does not answer."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from codelet.errors import CodeletError
from codelet.frontends.stderr import say
from codelet.text import one_line

if TYPE_CHECKING:
    from codelet.frontends.exporting import Exporting

_PATIENCE = 1.0
"""Seconds that a save takes before the user is told what it waits for."""


class Leaving:
    """What ends the REPL, and what is left to say; `abandoned` where a thread still waits for the store."""

    def __init__(self) -> None:
        self.saved = True
        self.abandoned = False
        self._parting: list[str] = []
        self._again = asyncio.Event()
        self._saving = False

    def signalled(self) -> bool:
        """Take a signal in; True where it was meant for the last save, which is waited for no longer."""
        if self._saving:
            self._again.set()
        return self._saving

    async def save(self, export: Exporting) -> None:
        """Save for the last time. The terminal must be as it was found: ctrl-c counts as a signal here."""
        loop = asyncio.get_running_loop()
        self._saving = True
        loop.add_signal_handler(signal.SIGINT, self.signalled)
        closing = asyncio.create_task(export.close())
        leaving = asyncio.create_task(self._again.wait())
        try:
            if not (await asyncio.wait({closing, leaving}, timeout=_PATIENCE, return_when="FIRST_COMPLETED"))[0]:
                say(f"codelet: saving in {one_line(export.place or 'the store', 300)}; ctrl-c leaves without it")
                await asyncio.wait({closing, leaving}, return_when="FIRST_COMPLETED")
            problem = self._problem(closing)
        finally:
            leaving.cancel()
            loop.remove_signal_handler(signal.SIGINT)
        self._parting += filter(None, [*export.notices(), problem or export.parting])

    def part(self) -> None:
        """Say what is left to say."""
        for line in self._parting:
            say(f"codelet: {one_line(line, 1_000)}")

    def _problem(self, closing: asyncio.Task[None]) -> str | None:
        """Why the newest state is not saved."""
        if not closing.done():
            self.saved, self.abandoned = False, True
            return "left before the session was saved for the last time"
        try:
            closing.result()
        except CodeletError as error:
            self.saved = False
            return str(error)
        return None
