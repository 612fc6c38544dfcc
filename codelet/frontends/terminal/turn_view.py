"""Runs a turn on the terminal: shows its events, reads keys meanwhile, and stops it when the user asks."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Literal

from rich.text import Text

from codelet.errors import CodeletError, LimitReached, ProviderError
from codelet.events import Event, Interrupted
from codelet.frontends.terminal.approval import ApprovalDialog
from codelet.frontends.terminal.draft import Draft
from codelet.frontends.terminal.export_log import ExportLog
from codelet.frontends.terminal.keys import Key, Keyboard
from codelet.frontends.terminal.show.call_rows import titles_of
from codelet.frontends.terminal.show.renderer import Renderer
from codelet.frontends.terminal.show.style import BAD
from codelet.loop.session import Session
from codelet.system.text import clean

_FRAME_SECONDS = 0.1

TurnStatus = Literal["done", "stopped", "failed"]


class TurnView:
    """One for the whole session. `run` runs a turn, or anything else that the user may stop."""

    def __init__(self, renderer: Renderer, keyboard: Keyboard, draft: Draft, session: Session, log: ExportLog) -> None:
        self._renderer = renderer
        self._keyboard = keyboard
        self._draft = draft
        self._session = session
        self._log = log
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self._typed_at = float("-inf")
        self._redraw: asyncio.Handle | None = None
        self.approver = ApprovalDialog(renderer, keyboard, self.stop, lambda: self._typed_at, draft)

    async def run(self, turn: AsyncGenerator[Event, None]) -> TurnStatus:
        """Show the turn. Raises CancelledError only when the caller itself was cancelled."""
        self._stopped = False
        with self._keyboard.listening(self._key), self._signals():
            self._show_draft()
            ticker = asyncio.create_task(self._tick())
            self._task = asyncio.create_task(self._consume(turn))
            try:
                await self._task
            except asyncio.CancelledError:
                if not self._stopped:
                    raise
                return "stopped"
            except (ProviderError, LimitReached):
                return "failed"  # the turn's last event has told why
            except CodeletError as error:
                self._renderer.say([Text(f"{self._renderer.signs.failed} {clean(str(error))}", BAD)])
                return "failed"
            finally:
                self._task = None
                if self._redraw is not None:
                    self._redraw.cancel()
                    self._redraw = None
                ticker.cancel()
                await asyncio.gather(ticker, return_exceptions=True)
                self._renderer.stop()
        return "stopped" if self._stopped else "done"

    def stop(self) -> None:
        """Stop the turn, as the user's interrupt. A second call changes nothing."""
        if self._task is None or self._stopped:
            return
        self._stopped = True
        self._task.cancel()
        self._renderer.stopping()

    async def _consume(self, turn: AsyncGenerator[Event, None]) -> None:
        try:
            await self._show(turn)
        finally:
            self._log.save()

    async def _show(self, turn: AsyncGenerator[Event, None]) -> None:
        async with aclosing(turn) as events:
            async for event in events:
                self._log.see(event)
                if isinstance(event, Interrupted):
                    self._renderer.name_calls(titles_of(self._session.messages, self._session.tools))
                self._renderer.show(event)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_FRAME_SECONDS)
            if not self._renderer.is_asking:  # a question stands still
                self._renderer.tick()

    def _key(self, key: Key) -> None:
        match key.meaning:
            case "escape" | "interrupt":
                self.stop()
            case "suspend":
                self._suspend()
            case _:
                self._typed_at = time.monotonic() if key.meaning != "enter" else float("-inf")
                self._draft.take(key)
                if self._redraw is None:  # once for all keys that came together
                    self._redraw = asyncio.get_running_loop().call_soon(self._show_draft)

    def _show_draft(self) -> None:
        self._redraw = None
        renderer = self._renderer
        renderer.footer = self._draft.rows(renderer.width, renderer.signs)
        renderer.cursor = bool(self._draft.text)
        renderer.tick()

    def _resized(self) -> None:
        self._show_draft()
        self.approver.redraw()

    def _suspend(self) -> None:
        """Ctrl-Z: give the terminal back, stop this process and its group, and go on when continued."""
        self._renderer.pause()
        with self._keyboard.released():
            os.kill(0, signal.SIGTSTP)
        self._show_draft()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGWINCH, self._resized)
        loop.add_signal_handler(signal.SIGINT, self.stop)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)
            loop.remove_signal_handler(signal.SIGINT)
