"""A background task: a command that ends with codelet at the latest, and its output."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from codelet.safety.sandbox import Sandbox
from codelet.system.process.output import HeadAndTail
from codelet.system.process.service import Service

SHOWN = 30_000
"""Bytes of new output that a result shows of a task."""
_KEPT = 1 << 20
_EXPORTED = 4_000
_MOMENT = 1.0
_QUIET = 0.15
_END_SECONDS = 4.0


class KnownTask:
    """The known facts of a task; here of an earlier session's, from its `state` in an export. Times are Unix seconds.

    One that ran then was interrupted by its end. `name` is given where its own is taken. `is_reported` is true once the
    model knows of its end.
    """

    def __init__(self, state: Mapping[str, Any], name: str | None = None) -> None:
        interrupted = state["status"] == "Running"
        self.id = name or state["id"]
        self.command = state.get("command", "")
        self.status = "Interrupted" if interrupted else state["status"]
        self.created, self.updated = state["created_at"], state["updated_at"]
        self.exit_code: int | None = state.get("exit_code")
        self.is_reported = not interrupted
        self._state = state

    @property
    def runs(self) -> bool:
        return False

    @property
    def description(self) -> str:
        return " ".join((self.command or self._state["description"]).split())

    def output(self) -> str:
        """Return its output; the beginning and the end of a long one."""
        return str(self._state.get("output", ""))

    def state(self) -> dict[str, Any]:
        return {**self._state, "id": self.id, "status": self.status}

    async def stop(self) -> None:
        """End it and its children: SIGTERM first. Output until the end is kept."""


class BackgroundTask(KnownTask):
    """A task of this session.

    `confining` is the sandbox around it, or None, and `sandbox_note` describes its limits.
    """

    def __init__(self, name: str, command: str, service: Service, confining: Sandbox | None, sandbox_note: str) -> None:
        now = round(time.time(), 3)
        started = {"id": name, "status": "Running", "created_at": now, "updated_at": now, "command": command}
        super().__init__(started | {"description": ""})
        self.status, self.is_reported = "Running", False
        self.sandbox_note = sandbox_note
        self.over = asyncio.Event()
        self.lines = 0
        self.watchers: list[Callable[[bytes], object]] = []
        """Each gets what is printed from now on, and empty bytes at the end."""
        self._confining = confining
        self._service = service
        self._stopped = False
        self._whole, self._new, self._unsought = HeadAndTail(_KEPT), HeadAndTail(SHOWN), HeadAndTail(_KEPT)
        self._bytes = 0
        if confining is not None:
            confining.hold()
        self._following = asyncio.create_task(self._follow())

    @property
    def runs(self) -> bool:
        return not self.over.is_set()

    def output(self) -> str:
        return self._whole.text()[0]

    def news(self) -> str:
        """Return what it printed since this was asked last."""
        text, _ = self._new.text()
        self._new = HeadAndTail(SHOWN)
        return text

    def unsought(self) -> str:
        """Return what it printed since `sought`; of much its beginning and its end."""
        return self._unsought.text()[0]

    def sought(self) -> None:
        """Search only later output in the next wait: the awaited line came."""
        self._unsought = HeadAndTail(_KEPT)

    def state(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "description": self.description[:1_000],
            "status": self.status,
            "progress": 0.0 if self.runs else 1.0,
            "created_at": self.created,
            "updated_at": self.updated,
            "command": self.command,
            "exit_code": self.exit_code,
            "output": self.output()[-_EXPORTED:],
        }

    async def settle(self) -> None:
        """Give it a moment to fail, or to print what it begins with."""
        end, seen = time.monotonic() + _MOMENT, 0
        while time.monotonic() < end and not await self.ends_in(_QUIET):
            if seen == self._bytes and seen:
                return
            seen = self._bytes

    async def ends_in(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.over.wait()
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        self._stopped = True
        await self._service.terminate()
        if not await self.ends_in(_END_SECONDS):
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def _follow(self) -> None:
        """Take in what it prints until it has ended."""
        try:
            while data := await self._service.read_some():
                self._take(data)
            await self._service.wait()
        finally:
            await self._service.close(patience=0.0)
            self.exit_code = self._service.exit_code
            self.updated = round(time.time(), 3)
            self.status = "Stopped" if self._stopped else "Failed" if self.exit_code else "Completed"
            if self._confining is not None:
                self._confining.release()
            self.over.set()
            self._watch(b"")

    def _take(self, data: bytes) -> None:
        self._bytes += len(data)
        self.lines += data.count(b"\n")
        self._whole.feed(data)
        self._new.feed(data)
        self._unsought.feed(data)
        self._watch(data)

    def _watch(self, data: bytes) -> None:
        for watcher in list(self.watchers):
            watcher(data)
