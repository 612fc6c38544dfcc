"""Keeps the old bytes of every file that a call changes, so that the user can go back to them. In memory only.

What a shell command changes cannot be known before it runs: of it there is only a note that it ran.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.extensions.base import Extension, Guard, GuardedCall
from codelet.extensions.file_history.place_state import PlaceState, bring_back, look
from codelet.record import Record
from codelet.tools.files import printable
from codelet.tools.tool import ToolOutput

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

MOST_KEPT = 64 << 20
"""Bytes of old content in memory; the oldest are dropped first."""
LARGEST_KEPT = 16 << 20
"""The largest file, in bytes, whose old content is kept."""

_MOST_COMMANDS = 500


class KeptChange(Record, kw_only=True):
    """One call's change at one place. `turn` is the prompt's, `call` the number of the changing call.

    `after` is None while the call runs, and after an interrupt, because the result is unknown then.
    """

    call: int
    turn: int
    at: float
    tool: str
    place: Path
    name: str
    before: PlaceState
    after: PlaceState | None = None


class RanCommand(Record):
    """A call that may have changed unknown files: a command, or a tool without touches."""

    turn: int
    about: str


class FileBack(Record, kw_only=True):
    """A preview of one restored file: `target` would replace `now`, which undoes `changes`.

    `foreign` says how someone else may have changed the file ("it was …"), or is ""; `lost` says why the file cannot be
    restored, or is "".
    """

    place: Path
    name: str
    target: PlaceState
    now: PlaceState
    changes: tuple[KeptChange, ...]
    foreign: str = ""
    lost: str = ""

    @property
    def stands(self) -> bool:
        """Return whether the file already has the target state."""
        return self.target.same(self.now)


class ChangeLog:
    """The changes of a session in order. `forgotten` counts those whose old bytes were dropped.

    `most` is the limit of all old bytes, `largest` that of one file.
    """

    def __init__(self, most: int = MOST_KEPT, largest: int = LARGEST_KEPT) -> None:
        self.changes: list[KeptChange] = []
        self.commands: list[RanCommand] = []
        self.forgotten = 0
        self.largest = largest
        self._most = most
        self._kept = 0

    def begin(self, change: KeptChange) -> None:
        """Add the change of a call that is about to run. Drops the oldest bytes beyond the limit."""
        self.changes.append(change)
        self._kept += _size(change)
        for at, old in enumerate(self.changes):
            if self._kept <= self._most:
                break
            if size := _size(old):
                self._kept -= size
                self.forgotten += 1
                self.changes[at] = old.replace(before=old.before.without_data())

    def ended(self, call: int) -> None:
        """Read the state after a call. A change that left the old state is removed."""
        for at, change in enumerate(self.changes):
            if change.call == call:
                self.changes[at] = change.replace(after=look(change.place, self.largest).without_data())
        unchanged = [change for change in self.changes if change.call == call and change.before.same(change.after)]
        self._forget(unchanged)

    def ran(self, command: RanCommand) -> None:
        """A command ran that may have changed files; the newest 500 are kept."""
        self.commands = [*self.commands, command][-_MOST_COMMANDS:]

    def since(self, turn: int) -> list[KeptChange]:
        """The changes from the turn of that number on."""
        return [change for change in self.changes if change.turn >= turn]

    def last(self) -> list[KeptChange]:
        """The changes of the last call that made some."""
        return [change for change in self.changes if change.call == self.changes[-1].call]

    def plan(self, changes: Iterable[KeptChange]) -> list[FileBack]:
        """Return how the files of these changes would be put back to what they were before them, one entry a file."""
        by_place: dict[Path, list[KeptChange]] = {}
        for change in changes:
            by_place.setdefault(change.place, []).append(change)
        return [self._back(own) for own in by_place.values()]

    def put_back(self, back: FileBack) -> None:
        """Put one file back, and forget its changes. Raises ToolError; then the file and the changes are as before."""
        if not back.stands:
            bring_back(back.place, back.name, back.target, back.now)
        self._forget(back.changes)

    def clear(self) -> None:
        self.changes.clear()
        self.commands.clear()
        self._kept = self.forgotten = 0

    def _back(self, own: Sequence[KeptChange]) -> FileBack:
        first = own[0]
        now, lost = look(first.place, self.largest), ""
        if first.before.kind == "other":
            lost = "there was no regular file before"
        elif first.before.kind == "file" and first.before.data is None:
            lost = "its old content is no longer in memory"
        return FileBack(
            place=first.place,
            name=first.name,
            target=first.before,
            now=now,
            changes=tuple(own),
            foreign=_foreign(own, now) if not first.before.same(now) else "",
            lost=lost,
        )

    def _forget(self, changes: Sequence[KeptChange]) -> None:
        gone = {id(change) for change in changes}
        self._kept -= sum(_size(change) for change in self.changes if id(change) in gone)
        self.changes = [change for change in self.changes if id(change) not in gone]


def _size(change: KeptChange) -> int:
    return len(change.before.data or b"")


def _foreign(own: Sequence[KeptChange], now: PlaceState) -> str:
    """Return how someone else may have changed the current file, as text, or ""."""
    if own[-1].after is None:
        return "left by a call that was stopped, or by someone else"
    if not own[-1].after.same(now):
        return "changed since by a command, or by someone else"
    for one, following in pairwise(own):
        if one.after is None or not one.after.same(following.before):
            return "changed by a command, or by someone else, between two changes of codelet's"
    return ""


class FileHistory(Extension, Guard):
    """The guard looks at the files of a call right before it runs and right after; `log` is what came of it."""

    def __init__(self, log: ChangeLog | None = None) -> None:
        self.guards = (self,)
        self.log = ChangeLog() if log is None else log
        self._session: SessionView
        self._running: dict[asyncio.Task[object] | None, int] = {}
        """The numbers of running calls by their tasks: calls of subagents can have the same ids."""
        self._calls = self._reported = 0

    def attach(self, session: SessionView) -> None:
        self._session = session

    async def starting(self, call: GuardedCall) -> None:
        """Keep the state of the places that the call writes, or note that it may write anywhere."""
        if call.verdict is not None and call.verdict.tier == "read":
            return
        turn = self._session.turns
        places = _written(call, self._session.workspace)
        if places:
            self._calls += 1
            self._running[asyncio.current_task()] = self._calls
        for place, name in places:
            before = look(place, self.log.largest)
            change = KeptChange(
                call=self._calls, turn=turn, at=time.time(), tool=call.name, place=place, name=name, before=before
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
    """Return the places that the call writes, resolved as the policy judged them, with the names that users see."""
    from codelet.safety.paths import judge_path, relative_name

    writes = [touch for touch in call.touches or () if touch.kind == "write" and not touch.own]
    if len(writes) == 1 and call.verdict is not None and call.verdict.place is not None:
        found: list[Path | None] = [call.verdict.place]
    else:
        found = [judge_path(touch.what or ".", "write", workspace).place for touch in writes]
    return [(place, printable(relative_name(place, workspace))) for place in dict.fromkeys(found) if place is not None]
