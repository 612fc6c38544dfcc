"""Saves a session repeatedly in a thread; the newest snapshot wins.

Nothing is lost silently. A failed save is reported and retried with the next one; if another process wrote
under the same name, this session continues under a similar name. `Periodic` also keeps copies in a folder.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from codelet.errors import ExportError, SaveConflict
from codelet.events import Notices
from codelet.export.document import Document
from codelet.export.encode import Encoder
from codelet.export.redaction import Mask
from codelet.export.store_target import Target
from codelet.export.stores.file import FileStore
from codelet.export.stores.store import Lease, write_problem

_SLOW_SECONDS = 5.0


class Saver:
    """Keeps one session under one name, whose lock it holds until `close`."""

    def __init__(self, target: Target, lease: Lease, mask: Mask | None, revision: str | None, notices: Notices) -> None:
        self.target = target
        self.saves = 0
        self._lease = lease
        self._revision = revision
        self._waiting: Document | None = None
        self.problem: str | None = None
        """The reason why the newest snapshot is not saved, in one line."""
        self.notices = notices
        self._encoder = Encoder(mask, notices.say)
        self._work: asyncio.Task[None] | None = None
        self._beat = asyncio.create_task(self._renew()) if lease.seconds is not None else None

    @classmethod
    async def open(
        cls,
        target: Target,
        *,
        mask: Mask | None,
        resumed: str | None = None,
        force: bool = False,
        notices: Notices | None = None,
        lease: Lease | None = None,
    ) -> Saver:
        """Lock `target`, unless a `lease` of it is given, and check that it is new, or of the revision `resumed`, or
        that `force` is set.

        Raises ExportError; the lease is released then.
        """
        taken, revision = await asyncio.to_thread(_taken, target, resumed, force, lease)
        return cls(target, taken, mask, revision, notices or Notices())

    def save(self, snapshot: Document) -> None:
        """Save soon, without waiting. Replaces a snapshot that is still waiting."""
        self._waiting = snapshot
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._save_all())

    async def settle(self) -> None:
        """Wait until no save is under way or waiting. A failed one is not tried again."""
        while self._work is not None and not self._work.done():
            await asyncio.shield(self._work)

    async def close(self) -> None:
        """Finish, try a failed save once more, give up the lock. Raises ExportError if something is not saved."""
        try:
            await self.settle()
            if self.problem is not None and self._waiting is not None:
                await self._save_all()
        finally:
            if self._beat is not None:
                self._beat.cancel()
            with suppress(ExportError):
                await asyncio.shield(asyncio.to_thread(self._lease.release))
        if self.problem is not None:
            raise ExportError(self.problem)

    async def _save_all(self) -> None:
        while (snapshot := self._waiting) is not None:
            # A store that does not answer holds nothing else up.
            slow = asyncio.get_running_loop().call_later(
                _SLOW_SECONDS,
                self.notices.say,
                f"{self.target.shown}: no answer; the session is saved when it answers",
            )
            try:
                await asyncio.to_thread(self._write, snapshot)
            except ExportError as error:
                if str(error) != self.problem:
                    self.notices.say(f"{error}; retrying after the next step")
                self.problem = str(error)
                if self._waiting is snapshot:
                    return
            else:
                self.problem = None
                if self._waiting is snapshot:
                    self._waiting = None
            finally:
                slow.cancel()

    def _write(self, snapshot: Document) -> None:
        parts = self._encoder.parts(snapshot)
        target = self.target
        try:
            self._revision = target.store.save(target.name, parts, lease=self._lease, expected=self._revision)
        except SaveConflict as conflict:
            sibling = Target(target.store, target.store.save_beside(target.name, parts))
            self.notices.say(f"{conflict}; this session continues in {sibling.shown}")
            lease = sibling.store.lock(sibling.name)
            self._lease.release()
            self.target, self._lease = sibling, lease
            self._revision = sibling.store.revision(sibling.name)
        self.saves += 1

    async def _renew(self) -> None:
        """Renew a lease before it expires; notify once if another process has taken it."""
        lost: Lease | None = None
        while (lease := self._lease).seconds is not None:
            await asyncio.sleep(lease.seconds / 3)
            with suppress(ExportError):  # unreachable for now: the next save tells
                if not await asyncio.to_thread(lease.renew) and lease is self._lease and lost is not lease:
                    lost = lease
                    self.notices.say(f"{self.target.shown}: its lock expired, and another process has it now")


def _taken(target: Target, resumed: str | None, force: bool, lease: Lease | None = None) -> tuple[Lease, str | None]:
    """The lock of a target that was checked, and its revision."""
    store, name = target.store, target.name
    lease = lease or store.lock(name)
    try:
        revision = store.revision(name)
        if resumed is not None and revision != resumed:
            raise ExportError(f"{target.shown}: changed since it was read: resume it again")
        if resumed is None and revision is not None and not force:
            raise ExportError(f"{target.shown}: already exists: resume it, name another file, or pass --force")
    except ExportError:
        lease.release()
        raise
    return lease, revision


def save_once(target: Target, parts: Sequence[bytes], *, force: bool = False) -> None:
    """One save of a whole document, lock and all. Blocks. Raises ExportError; a conflict writes nothing."""
    lease, revision = _taken(target, None, force)
    try:
        target.store.save(target.name, parts, lease=lease, expected=revision)
    finally:
        lease.release()


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
        notices: Notices,
    ) -> None:
        self._store = FileStore(folder)
        self._seconds = seconds
        self._keep = keep
        self._clock = clock
        self._next = 0.0
        self._work: asyncio.Task[None] | None = None
        self._newest: Document | None = None
        self.notices = notices
        self._encoder = Encoder(mask, notices.say)

    def save(self, snapshot: Document) -> None:
        """Save if it is time and the last save is complete. Never waits."""
        self._newest = snapshot
        busy = self._work is not None and not self._work.done()
        if not busy and self._clock() >= self._next:
            self._next = self._clock() + self._seconds
            self._work = asyncio.create_task(self._save(snapshot))

    async def close(self) -> None:
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
        save_once(Target(self._store, name), self._encoder.parts(snapshot), force=True)
        own = sorted(path.name for path in self._store.folder.glob(f"{session}-*.json"))
        for old in own[: -self._keep]:
            self._store.delete(old)
