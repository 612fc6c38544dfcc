"""Runs a turn on the terminal: shows its events, reads keys meanwhile, and stops it when the user asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import aclosing
from typing import Literal

from codelet.errors import CodeletError
from codelet.events import Event, Interrupted, Steering, TurnEnd
from codelet.events import Text as TextDelta
from codelet.frontends.terminal.approval import ApprovalDialog
from codelet.frontends.terminal.draft import Draft
from codelet.frontends.terminal.export_log import ExportLog
from codelet.frontends.terminal.prompt_line import PromptLine
from codelet.frontends.terminal.show.call_rows import titles_of
from codelet.frontends.terminal.show.highlight import prepare, unprepared
from codelet.frontends.terminal.show.renderer import FRAME_SECONDS, SLICE, Renderer
from codelet.frontends.terminal.show.style import BAD
from codelet.loop.session import Session
from codelet.system.text import clean

_TICK_SECONDS = 0.1
_OWED_SECONDS = 0.01
"""How often a terminal that is behind is looked at: a question's rows wait for it like any others."""
_TURN_SECONDS = 0.01
"""After so much work in a row the event loop gets a turn: a key waits no longer."""

_LONGEST_FENCE = 200
"""Characters of a line that is watched for a fence."""

TurnStatus = Literal["done", "stopped", "failed"]


class TurnView:
    """One for the whole session. `run` runs a turn, or anything else that the user may stop."""

    def __init__(self, renderer: Renderer, line: PromptLine, draft: Draft, session: Session, log: ExportLog) -> None:
        self._renderer = renderer
        self._line = line
        self._draft = draft
        self._session = session
        self._log = log
        self._task: asyncio.Task[None] | None = None
        self._stopped = self._ended = False
        self._begun = ""
        self._frame: asyncio.TimerHandle | None = None
        self._beside: set[asyncio.Task[None]] = set()
        line.pausing = self._pause
        line.entered = line.lay_out = self._show_waiting
        self.approver = ApprovalDialog(renderer, line, self.stop)

    async def run(self, turn: AsyncGenerator[Event, None]) -> TurnStatus:
        """Show the turn, or other events. Raises CancelledError only when the caller itself was cancelled."""
        self._stopped = self._ended = self._draft.is_over = False
        self._line.stop = self.stop
        self._show_waiting()
        ticker = asyncio.create_task(self._tick())
        self._task = asyncio.create_task(self._consume(turn))
        if self._line.take_stop():
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self.stop)  # behind the turn's first step
        try:
            await self._task
        except asyncio.CancelledError:
            if not self._stopped:
                raise
            return "stopped"
        except CodeletError as error:
            if not self._ended:  # else the turn's last event has told it
                self._renderer.say(self._renderer.rows.warning(clean(str(error)), BAD))
            return "failed"
        finally:
            self._task = self._line.stop = None
            self._draft.is_over = True
            if self._frame is not None:
                self._frame.cancel()
                self._frame = None
            ticker.cancel()
            await asyncio.gather(ticker, return_exceptions=True)
            self._renderer.stop()
        return "stopped" if self._stopped else "done"

    @property
    def is_running(self) -> bool:
        """Return whether a turn runs."""
        return self._task is not None

    def stop(self) -> None:
        """Stop the turn, as the user's interrupt. A second call changes nothing."""
        if self._task is None or self._stopped:
            return
        self._stopped = self._draft.is_over = True
        self._task.cancel()
        self._renderer.stopping()

    def beside(self, work: Coroutine[None, None, None]) -> None:
        """Do something beside the turn, which does not end before it; stopping the turn stops it too."""
        task = asyncio.create_task(self._told(work))
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def _told(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except CodeletError as error:
            self._renderer.say(self._renderer.rows.warning(clean(str(error)), BAD))

    async def _consume(self, turn: AsyncGenerator[Event, None]) -> None:
        since = time.monotonic()
        try:
            async with aclosing(turn) as events:
                async for event in events:
                    self._log.see(event)
                    self._ended = isinstance(event, TurnEnd)
                    if isinstance(event, Interrupted):
                        tools = [*self._session.toolbox.tools.values()]
                        self._renderer.name_calls(titles_of(self._session.messages, tools))
                    if isinstance(event, Steering):  # a question may come before the next tick
                        self._show_waiting()
                    if isinstance(event, TextDelta):
                        await self._prepare_colours(event.delta)
                    for piece in _slices(event):
                        self._renderer.show(piece)
                        if time.monotonic() - since >= _TURN_SECONDS:
                            await _undisturbed(_two_rounds())
                            since = time.monotonic()
                    if self._renderer.has_waiting and self._frame is None:
                        self._frame = asyncio.get_running_loop().call_later(FRAME_SECONDS, self._draw_frame)
            while self._beside:
                await asyncio.wait(self._beside)
        finally:
            for task in self._beside:
                task.cancel()
            await asyncio.gather(*self._beside, return_exceptions=True)
            self._log.save()

    async def _prepare_colours(self, delta: str) -> None:
        """Make the lexers of the fences that begin here in a thread, before the text is shown."""
        text = self._begun + delta
        self._begun = text[text.rfind("\n") + 1 :][:_LONGEST_FENCE]
        for name in unprepared(text):
            await _undisturbed(asyncio.to_thread(prepare, name))

    def _draw_frame(self) -> None:
        self._frame = None
        self._renderer.tick()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_OWED_SECONDS if self._renderer.is_owed else _TICK_SECONDS)
            if self._renderer.is_owed:
                self._renderer.tick()
            elif not self._renderer.is_asking and self._frame is None:  # a question stands still, a frame comes anyway
                self._show_waiting()
                self._line.refresh()

    def _pause(self, paused: bool) -> None:
        if self._task is not None:
            self._renderer.stand_still(paused)

    def _show_waiting(self) -> None:
        if self._task is not None or self._draft.queued:
            self._renderer.waiting = self._draft.rows(self._renderer.width)
            self._renderer.tick()


async def _two_rounds() -> None:
    """Give the event loop its turns: one reads a key, the next draws its letter."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def _undisturbed(work: Coroutine[None, None, None]) -> None:
    """Wait for this. A cancel meanwhile comes with the turn's own next wait."""
    try:
        await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
        task.cancel()


def _slices(event: Event) -> Iterator[Event]:
    """The event, or a long piece of text in several: so much at once that no key waits for it."""
    if not isinstance(event, TextDelta) or len(event.delta) <= SLICE:
        yield event
        return
    for start in range(0, len(event.delta), SLICE):
        yield TextDelta(event.delta[start : start + SLICE])
