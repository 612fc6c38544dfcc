"""Keeps the old bytes of every file that a call changes, so that the user can go back to them. In memory only.

What a shell command changes cannot be known before it runs: of it there is only a note that it ran.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.extensions.base import Extension, Guard, GuardedCall
from codelet.extensions.file_history.change_log import ChangeLog, KeptChange, RanCommand
from codelet.extensions.file_history.place_state import look
from codelet.tools.files import printable
from codelet.tools.tool import ToolOutput

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView


class FileHistory(Extension, Guard):
    """The guard looks at the files of a call right before it runs and right after; `log` is what came of it."""

    def __init__(self, log: ChangeLog | None = None) -> None:
        self.guards = (self,)
        self.log = ChangeLog() if log is None else log
        self._session: SessionView
        self._running: dict[asyncio.Task[object] | None, int] = {}
        """The numbers of running calls by their tasks: calls of subagents can have the same ids."""
        self._reported = 0

    def attach(self, session: SessionView) -> None:
        self._session = session

    async def starting(self, call: GuardedCall) -> None:
        """Keep the state of the places that the call writes, or note that it may write anywhere."""
        if call.verdict is not None and call.verdict.tier == "read":
            return
        turn = self._session.turns
        places = _written(call, self._session.workspace)
        if places:
            self._running[asyncio.current_task()] = number = self.log.next_call()
        for place, name in places:
            before = look(place, self.log.largest)
            change = KeptChange(
                call=number, turn=turn, at=time.time(), tool=call.name, place=place, name=name, before=before
            )
            self.log.begin(change)
        if call.touches is None or any(touch.kind == "run" for touch in call.touches):
            self.log.ran(RanCommand(turn, self._session.mask(call.described)[:300]))

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        """Take note of what the call left."""
        number = self._running.pop(asyncio.current_task(), None)
        if number is not None:
            self.log.ended(number)
        return output

    async def between_turns(self) -> None:
        """Say that old content had to go, once each time it did."""
        if (new := self.log.forgotten - self._reported) > 0:
            self._reported = self.log.forgotten
            files = "one change" if new == 1 else f"{new:,} changes"
            self._session.notices.say(
                f"too much old content to keep in memory: {files} of the oldest can no longer be undone"
            )

    def clear(self) -> None:
        self.log.clear()
        self._running.clear()
        self._reported = 0


def _written(call: GuardedCall, workspace: Path) -> list[tuple[Path, str]]:
    """The places that the call writes, resolved as the policy judged them, with their names for people."""
    from codelet.safety.paths import judge_path, relative_name

    writes = [touch for touch in call.touches or () if touch.kind == "write" and not touch.own]
    if len(writes) == 1 and call.verdict is not None and call.verdict.place is not None:
        found: list[Path | None] = [call.verdict.place]
    else:
        found = [judge_path(touch.what or ".", "write", workspace).place for touch in writes]
    return [(place, printable(relative_name(place, workspace))) for place in dict.fromkeys(found) if place is not None]
