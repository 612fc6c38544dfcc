"""The protocol of a store of exports, and what its stores share. All calls block: use them in a thread."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from codelet.errors import ExportError, SessionHeld
from codelet.record import Record

_REMEDIES = {
    errno.ENOSPC: "make room there, or save to another disk",
    errno.EDQUOT: "make room within your quota, or save to another disk",
    errno.EFBIG: "raise the limit on a file's size (ulimit -f), or save to another disk",
    errno.EROFS: "save to another disk",
}

TICKET_SECONDS = 5.0
"""How long a place in the line outlasts the last try of the one who waits there."""
_MOMENT, _POLL, _SLOWEST_POLL = 0.2, 0.02, 0.25
"""Seconds for which a lock is tried in any case, and between two tries: more the longer it takes."""


class Stored(Record):
    """A stored document; `revision` distinguishes it from every other state under that name."""

    data: bytes
    revision: str


class StoredExport(Record):
    """One export in a store: its size in bytes, when it was saved last, and who holds it, if anyone does.

    `problem` says why the store's own notes on it cannot be read; then size and time are 0.
    """

    name: str
    size: int
    saved: float
    holder: str | None
    problem: str = ""


class Lease(Protocol):
    """The right to write one name, held until it is released, or until it expires where `seconds` is set."""

    @property
    def seconds(self) -> float | None:
        """After how long without `renew` or a save the right expires; None for never."""

    def renew(self) -> bool:
        """Hold it for another while; False if someone else has it by now."""

    def release(self) -> None:
        """Give it up. Calling it twice does no harm."""


class Store(Protocol):
    """A place that keeps documents under names: a folder, or a Redis database."""

    def shown(self, name: str) -> str:
        """The name for users, without passwords."""

    def load(self, name: str) -> Stored | None:
        """The document, or None if it does not exist. Raises ExportError."""

    def revision(self, name: str) -> str | None:
        """The revision in force, or None if there is no document."""

    def lock(self, name: str, ticket: str = "") -> Lease:
        """The right to write `name`. Raises SessionHeld if someone else has it, and does not only look at it.

        With a ticket the caller then waits in line, for the seconds of TICKET_SECONDS until its next try; it gets the
        lock when no one waits whose ticket came earlier. Without a ticket it gets the lock when no one waits.
        """

    def leave(self, name: str, ticket: str) -> None:
        """Take a ticket out of the line."""

    def save(self, name: str, parts: Sequence[bytes], *, lease: Lease, expected: str | None) -> str:
        """Replace the document of revision `expected` (None: there must be none); returns the new revision.

        Whole or not at all. Raises SaveConflict if another revision is in force or the lease was lost, and
        StoreUnreachable if it could not be written; a lost answer may hide that it was.
        """

    def save_beside(self, name: str, parts: Sequence[bytes]) -> str:
        """Keep a document under a new name that shows where it belongs; returns that name."""

    def entries(self) -> list[StoredExport]:
        """Every export, the one saved last first."""

    def delete(self, name: str) -> None:
        """Remove one export. Raises SessionHeld if it is in use."""


Opener = Callable[[str], tuple[Store, str]]
"""Returns the store at an address and the name in it, or "". Raises ExportError. Connects to nothing yet."""


def lock_soon(lock: Callable[[], Lease]) -> Lease:
    """Return what `lock` gives, trying for a moment: someone may only be looking at it. Raises SessionHeld."""
    until = time.monotonic() + _MOMENT
    while True:
        try:
            return lock()
        except SessionHeld:
            if time.monotonic() > until:
                raise
            time.sleep(_POLL)


async def lock_within(
    store: Store, name: str, seconds: float, waiting: Callable[[SessionHeld], object] = lambda held: None
) -> Lease:
    """Return the lease of `name`, waiting in line for at most `seconds`; `waiting` is called when a wait begins.

    Raises SessionHeld.
    """
    begun, is_waiting = time.monotonic(), False
    ticket = f"{time.time_ns():020}-{os.getpid()}-{secrets.token_hex(4)}" if seconds else ""
    try:
        while True:
            trying = asyncio.ensure_future(asyncio.to_thread(store.lock, name, ticket))
            try:
                return await asyncio.shield(trying)
            except asyncio.CancelledError:
                with suppress(ExportError):
                    (await trying).release()
                raise
            except SessionHeld as held:
                if (waited := time.monotonic() - begun) > seconds:
                    raise
                if not is_waiting and waited > _MOMENT:
                    is_waiting = True
                    waiting(held)
            await asyncio.sleep(min(_SLOWEST_POLL, _POLL + waited / 10))
    finally:
        if ticket:
            await asyncio.shield(asyncio.to_thread(store.leave, name, ticket))


def this_process() -> str:
    """Return who we are, for the one who finds a name locked."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def write_problem(error: OSError) -> str:
    """Return why a write failed, and what to do about it if known."""
    reason, remedy = error.strerror or str(error), _REMEDIES.get(error.errno or 0)
    return f"{reason}: {remedy}" if remedy else reason
