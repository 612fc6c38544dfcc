"""What a target names: a file's path or an address of Redis, and the store behind it."""

from __future__ import annotations

from pathlib import Path

from codelet.errors import ExportError
from codelet.export.stores.store import Store
from codelet.record import Record

_SCHEMES = ("redis:", "rediss:")


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
    return target.lower().startswith(_SCHEMES)


def open_target(target: str) -> Target:
    """The store and the name that a file's path or `redis://host[:port][/database]/NAME` names.

    Nothing is read or written yet. Raises ExportError.
    """
    if is_url(target):
        from codelet.export.stores.redis import open_redis

        store, name = open_redis(target)
        if not name:
            raise ExportError(f"{store.shown('')} names no session: add /NAME")
        return Target(store, name)
    from codelet.export.stores.file import FileStore

    path = Path(target)
    if not path.name:
        raise ExportError(f"{target!r} names no file")
    return Target(FileStore(path.parent), path.name)


def open_place(place: str) -> Store:
    """The store that a folder's path or a Redis address names. Raises ExportError."""
    if is_url(place):
        from codelet.export.stores.redis import open_redis

        store, name = open_redis(place)
        if name:
            raise ExportError(f"{store.shown(name)} names one session: leave /{name} out")
        return store
    from codelet.export.stores.file import FileStore

    if not Path(place).is_dir():
        raise ExportError(f"{place}: there is no such folder")
    return FileStore(Path(place))
