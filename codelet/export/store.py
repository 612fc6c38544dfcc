"""What a store of exports can do, and which one a target names. All calls block: use them in a thread."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from codelet.export.errors import ExportError
from codelet.record import Record

SCHEMES = ("redis://", "rediss://")


class Stored(Record):
    """A document as it stands in a store; `revision` tells it from every other state under that name."""

    data: bytes
    revision: str


class Entry(Record):
    """One export in a store: its size in bytes, when it was saved last, and who holds it, if anybody does."""

    name: str
    size: int
    saved: float
    holder: str | None


class Lease(Protocol):
    """The right to write one name, held until it is released, or until it expires where `seconds` is set."""

    @property
    def seconds(self) -> float | None:
        """After how long without `renew` or a save the right expires; None for never."""

    def renew(self) -> bool:
        """Hold it for another while; False if somebody else has it by now."""

    def release(self) -> None:
        """Give it up. Calling it twice does no harm."""


class Store(Protocol):
    """A place that keeps documents under names: a folder, or a Redis database."""

    def shown(self, name: str) -> str:
        """The name as a person knows it, without passwords."""

    def load(self, name: str) -> Stored | None:
        """The document, or None where there is none. Raises ExportError."""

    def revision(self, name: str) -> str | None:
        """The revision in force, or None where there is no document."""

    def lock(self, name: str) -> Lease:
        """The right to write `name`. Raises SessionHeld if somebody else has it."""

    def save(self, name: str, parts: Sequence[bytes], *, lease: Lease, expected: str | None) -> str:
        """Replace the document of revision `expected` (None: there must be none); gives the new revision.

        Whole or not at all. Raises SaveConflict if another revision is in force or the lease was lost, and
        StoreUnreachable if it could not be written; a lost answer may hide that it was.
        """

    def save_beside(self, name: str, parts: Sequence[bytes]) -> str:
        """Keep a document under a new name that tells where it belongs, which is returned."""

    def entries(self) -> list[Entry]:
        """Every export, the one saved last first."""

    def delete(self, name: str) -> None:
        """Remove one export. Raises SessionHeld if it is in use."""


class Target(Record):
    """A store and a name in it, as `--export` and `--resume` give them."""

    store: Store
    name: str

    @property
    def shown(self) -> str:
        """The target as a person knows it."""
        return self.store.shown(self.name)


def is_url(target: str) -> bool:
    """Whether a target is an address rather than a path."""
    return target.startswith(SCHEMES)


def open_target(target: str) -> Target:
    """The store and the name that a file's path or `redis://host[:port][/database]/NAME` names.

    Nothing is read or written yet. Raises ExportError.
    """
    if is_url(target):
        from codelet.export.redis_store import open_redis

        store, name = open_redis(target)
        if not name:
            raise ExportError(f"{store.shown('')} names no session: add /NAME")
        return Target(store, name)
    from codelet.export.file_store import FileStore

    path = Path(target)
    if not path.name:
        raise ExportError(f"{target!r} names no file")
    return Target(FileStore(path.parent), path.name)


def open_place(place: str) -> Store:
    """The store that a folder's path or a Redis address names. Raises ExportError."""
    if is_url(place):
        from codelet.export.redis_store import open_redis

        store, name = open_redis(place)
        if name:
            raise ExportError(f"{store.shown(name)} names one session: leave /{name} out")
        return store
    from codelet.export.file_store import FileStore

    if not Path(place).is_dir():
        raise ExportError(f"{place}: there is no such folder")
    return FileStore(Path(place))


def this_process() -> str:
    """Who we are, for the one who finds a name locked."""
    return f"process {os.getpid()} on {socket.gethostname()}"
