"""Runs a turn on the terminal: shows its events and stops it when the user asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing, suppress
from typing import Literal

from codelet.errors import CodeletError
from codelet.events import Event, Interrupted, Steering, TurnEnd
from codelet.events import Text as TextDelta
from codelet.frontends.terminal.dialogs import ApprovalDialog
from codelet.frontends.terminal.export_log import ExportLog
from codelet.frontends.terminal.prompt_line import PromptLine
from codelet.frontends.terminal.show.event_rows import titles_of
from codelet.frontends.terminal.show.renderer import FRAME_SECONDS, SLICE, Renderer
from codelet.frontends.terminal.show.style import BAD
from codelet.frontends.terminal.status_row import Attention
from codelet.loop.session import Session
from codelet.system.text import clean

_TICK_SECONDS = 0.1
_OWED_SECONDS = 0.01
"""Between two looks at a terminal that is behind: a question's rows wait for it, too."""
_TURN_SECONDS = 0.01
"""The longest work between two turns of the event loop, so that no key waits longer."""
_REST_SECONDS, _MOST_RESTS = 0.001, 10
"""A rest for a terminal that is behind, and how many it gets in a row: one that is frozen delays no turn for long."""

TurnStatus = Literal["done", "stopped", "failed"]


class TurnView:
    """Shows the turns of a session. `run` runs a turn, or other events, until they end or the user stops them."""

    def __init__(
        self, renderer: Renderer, line: PromptLine, session: Session, log: ExportLog, attention: Attention
    ) -> None:
        self._renderer, self._line, self._draft = renderer, line, line.draft
        self._session, self._log, self._attention = session, log, attention
        self.task: asyncio.Task[object] | None = None
        self._stopped = self._ended = False
        self._frame: asyncio.TimerHandle | None = None
        self._drawn_at = 0.0
        self._ticker: asyncio.TimerHandle | None = None
        self._beside: set[asyncio.Task[None]] = set()
        line.pausing = self._pause
        line.changed = self._show_waiting
        session.toolbox.ask = ApprovalDialog(renderer, line, self.stop, attention).ask

    async def run(self, turn: AsyncGenerator[Event, None]) -> TurnStatus:
        """Show events until they end or the user stops them. Raises CancelledError if the caller is cancelled."""
        task = self._begin()
        begun = since = time.monotonic()
        status: TurnStatus = "done"
        try:
            async with aclosing(turn) as events:
                async for event in events:
                    self._see(event)
                    for piece in _slices(event):
                        self._renderer.show(piece)
                        if time.monotonic() - since >= _TURN_SECONDS:
                            await self._give_way()
                            since = time.monotonic()
                    if self._renderer.has_waiting and self._frame is None:
                        loop = asyncio.get_running_loop()
                        wait = FRAME_SECONDS if loop.time() - self._drawn_at < FRAME_SECONDS else 0
                        self._frame = loop.call_later(wait, self._draw_frame)
            while self._beside:
                await asyncio.wait(self._beside)
        except asyncio.CancelledError:
            if not self._stopped:
                raise
        except CodeletError as error:
            status = "failed"
            if not self._ended:  # else the turn's last event has said so
                self._fail(error)
        finally:
            await self._finish()
        if self._stopped:
            status = "stopped" if status == "done" else status
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)  # a stop after the last wait is delivered here
            if task.uncancel():
                raise asyncio.CancelledError
        self._draft.is_cut = status != "done"
        self._attention.ended(time.monotonic() - begun, status)
        return status

    async def _give_way(self) -> None:
        """Let keys be read and drawn. A terminal that is behind gets time to take what was written, before more is.

        A cancel in the meantime is delivered at the turn's next wait.
        """
        for count in range(_MOST_RESTS):
            is_owed = self._renderer.is_owed
            try:
                await asyncio.sleep(_REST_SECONDS if is_owed else 0)
            except asyncio.CancelledError:
                assert self.task is not None
                self.task.uncancel()
                self.task.cancel()
            if count and not is_owed:  # one round of the event loop has read a key, the next has drawn it
                break

    def _begin(self) -> asyncio.Task[object]:
        """Prepare for events; return the task that a stop cancels."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._stopped = self._ended = self._draft.is_over = False
        self.task, self._line.stop = task, self.stop
        self._attention.title("working")
        self._show_waiting()
        self._ticker = loop.call_later(_TICK_SECONDS, self._tick)
        if self._line.stop_wanted:
            loop.call_soon(loop.call_soon, self.stop)  # after the turn's first step
        self._line.stop_wanted = False
        return task

    async def _finish(self) -> None:
        self.task = self._line.stop = None
        self._draft.is_over = True
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        self._log.save()
        for timer in (self._frame, self._ticker):
            if timer is not None:
                timer.cancel()
        self._frame = self._ticker = None
        self._renderer.stop()

    def stop(self) -> None:
        """Stop the turn, as the user's interrupt."""
        if self.task is None or self._stopped:
            return
        self._stopped = self._draft.is_over = True
        self.task.cancel()
        self._renderer.stopping()

    def beside(self, work: Awaitable[None]) -> None:
        """Run a command during the turn. The turn waits for its end; a stop cancels it, too."""

        async def run() -> None:
            try:
                await work
            except CodeletError as error:
                self._fail(error)

        task = asyncio.create_task(run())
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def _fail(self, error: CodeletError) -> None:
        self._renderer.say(self._renderer.rows.warning(clean(str(error)), BAD))

    def _see(self, event: Event) -> None:
        """Log an event, and note what it says besides what is shown."""
        self._log.see(event)
        self._ended = isinstance(event, TurnEnd)
        if isinstance(event, Interrupted):
            self._renderer.name_calls(titles_of(self._session.messages))
        if isinstance(event, Steering):  # a question may come before the next tick
            self._show_waiting()

    def _draw_frame(self) -> None:
        self._frame = None
        self._renderer.tick()
        self._drawn_at = asyncio.get_running_loop().time()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        if self._renderer.is_owed:
            self._renderer.tick()
        elif not self._renderer.asking and loop.time() - self._drawn_at >= _TICK_SECONDS:
            self._show_waiting()  # a question does not change, a stream draws often enough
            self._line.refresh()
        self._ticker = loop.call_later(_OWED_SECONDS if self._renderer.is_owed else _TICK_SECONDS, self._tick)

    def _pause(self, paused: bool) -> None:
        if self.task is not None:
            self._renderer.stand_still(paused)

    def _show_waiting(self) -> None:
        if self.task is not None or self._draft.queued or self._renderer.waiting:
            self._renderer.waiting = self._draft.rows(self._renderer.width)
            self._renderer.tick()


def _slices(event: Event) -> Sequence[Event]:
    """Split a long piece of text, so that no key waits for it."""
    if isinstance(event, TextDelta):
        return [TextDelta(event.delta[start : start + SLICE]) for start in range(0, len(event.delta), SLICE)]
    return [event]
