"""Snapshots in a folder from time to time, each under its own name; old ones of the same session are removed."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path

from codelet.errors import ExportError
from codelet.events import Notices
from codelet.export.document import Document
from codelet.export.encode import Encoder
from codelet.export.redaction import Mask
from codelet.export.stores.file import FileStore
from codelet.export.stores.store import write_problem


class Periodic:
    """At most one snapshot in `seconds`; the newest `keep` of this session stay."""

    def __init__(
        self,
        folder: Path,
        mask: Mask | None,
        *,
        seconds: float = 60.0,
        keep: int = 10,
        clock: Callable[[], float] = time.monotonic,
        notices: Notices | None = None,
    ) -> None:
        self._store = FileStore(folder)
        self._seconds = seconds
        self._keep = keep
        self._clock = clock
        self._next = 0.0
        self._work: asyncio.Task[None] | None = None
        self._newest: Document | None = None
        self.notices = notices or Notices()
        self._encoder = Encoder(mask, self.notices.say)

    def save(self, snapshot: Document) -> None:
        """Save it if it is time and the last save is over; returns at once."""
        self._newest = snapshot
        busy = self._work is not None and not self._work.done()
        if not busy and self._clock() >= self._next:
            self._next = self._clock() + self._seconds
            self._work = asyncio.create_task(self._save(snapshot))

    async def close(self) -> None:
        """Save the newest state."""
        if self._work is not None:
            await asyncio.shield(self._work)
        if self._newest is not None:
            await self._save(self._newest)

    async def _save(self, snapshot: Document) -> None:
        if self._newest is snapshot:
            self._newest = None
        try:
            await asyncio.to_thread(self._write, snapshot)
        except ExportError as error:
            self.notices.say(str(error))

    def _write(self, snapshot: Document) -> None:
        try:
            self._store.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ExportError(f"{self._store.folder}: {write_problem(error)}") from None
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(snapshot.timestamp))
        session = re.sub(r"[^A-Za-z0-9_]", "_", snapshot.session_id)[:64] or "session"
        name = f"{session}-{stamp}-{int(snapshot.timestamp * 1000) % 1000:03}.json"
        lease = self._store.lock(name)
        try:
            expected = self._store.revision(name)
            self._store.save(name, self._encoder.parts(snapshot), lease=lease, expected=expected)
        finally:
            lease.release()
        own = sorted(path.name for path in self._store.folder.glob(f"{session}-*.json"))
        for old in own[: -self._keep]:
            self._store.delete(old)
