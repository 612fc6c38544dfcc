"""Targets: a file's path, or an address of another kind of store, which a table finds by its scheme."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from codelet.errors import ExportError
from codelet.export.stores.file import FileStore
from codelet.export.stores.store import Opener, Store
from codelet.record import Record

STORES = {"redis": "codelet.redis_store.redis:open_redis", "rediss": "codelet.redis_store.redis:open_redis"}
"""The openers of stores, by URL scheme: a module, imported on first use, and its `Opener`."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Target(Record):
    """A store and a name in it, as `--export` and `--resume` give them."""

    store: Store
    name: str

    @property
    def shown(self) -> str:
        return self.store.shown(self.name)


def is_url(target: str) -> bool:
    """Return whether a target is an address rather than a path."""
    scheme, colon, _ = target.partition(":")
    return bool(colon) and scheme.lower() in STORES


def open_target(target: str) -> Target:
    """Return the store and the name that a file's path or an address such as `redis://host/NAME` names.

    Nothing is read or written yet. Raises ExportError.
    """
    if is_url(target):
        store, name = _opened(target)
        if not name:
            raise ExportError(f"{store.shown('')} names no session: add /NAME")
        return Target(store, name)
    path = Path(target)
    if not path.name:
        raise ExportError(f"{target!r} names no file")
    return Target(FileStore(path.parent), path.name)


def open_place(place: str) -> Store:
    """Return the store that a folder's path or an address without a name names. Raises ExportError."""
    if is_url(place):
        store, name = _opened(place)
        if name:
            raise ExportError(f"{store.shown(name)} names one session: leave /{name} out")
        return store
    if not Path(place).is_dir():
        raise ExportError(f"{place}: no such folder")
    return FileStore(Path(place))


def _opened(url: str) -> tuple[Store, str]:
    module, _, name = STORES[url.partition(":")[0].lower()].partition(":")
    opener: Opener = getattr(import_module(module), name)
    return opener(url)


def seconds(text: str) -> float:
    """Return the length of a time such as `90s`, `12h` or `30d`; a bare number counts seconds. Raise ExportError."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)([smhd]?)", text)
    if found is None:
        raise ExportError(f"{text[:32]!r} is not a time: write 90s, 30m, 12h or 30d")
    return float(found[1]) * _UNITS.get(found[2], 1)
