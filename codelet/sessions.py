"""Saved sessions from a program: list, load, save, delete, and search them, in a folder or a Redis database.

A TARGET is a file's path or `redis://HOST/NAME`, a PLACE a folder or `redis://HOST`. What writes holds the session's
lock; all functions raise ExportError in one line.
"""

from __future__ import annotations

import asyncio
import builtins
import os

from codelet.errors import SaveConflict
from codelet.export.document import Document
from codelet.export.live import default_mask, read_export, reserve
from codelet.export.saver import Saver
from codelet.export.search import Passage, SessionSearch
from codelet.export.store_target import open_place, open_target
from codelet.export.stores.store import StoredExport

__all__ = ["Document", "Passage", "StoredExport", "delete", "list", "load", "save", "search"]

Path = str | os.PathLike[str]


async def list(place: Path) -> builtins.list[StoredExport]:
    """Return what is saved at a place, the newest first, each with the process that holds its lock, if one does."""
    return await asyncio.to_thread(lambda: open_place(os.fspath(place)).entries())


async def load(target: Path) -> Document:
    """Return a saved session. Nothing is locked: `open_session(export=…, resume=…)` continues one under its lock."""
    return (await read_export(os.fspath(target))).snapshot


async def save(
    target: Path, document: Document, *, replaces: Document | None = None, force: bool = False, wait: float = 0.0
) -> None:
    """Save a session without its secrets, whole or not at all, after at most `wait` seconds for its lock.

    An existing one stays, unless it is still the document that the new one `replaces`, or with `force`. Raises
    SessionHeld and SaveConflict.
    """
    async with await reserve(os.fspath(target), None, wait=wait) as reserved:
        assert reserved.target is not None
        revision = None
        if replaces is not None:
            there = await read_export(os.fspath(target))
            if there.snapshot != replaces:
                raise SaveConflict(f"{there.target.shown}: another process changed it")
            revision = there.revision
        mask = default_mask(raw=False)
        saver = await Saver.open(reserved.target, mask=mask, resumed=revision, force=force, lease=reserved.lease)
    saver.save(document)
    await saver.close()


async def delete(target: Path, *, force: bool = False) -> None:
    """Delete a saved session; with `force` also a file that is damaged, or is not an export. Raises SessionHeld."""
    opened = open_target(os.fspath(target))
    if not force:
        await load(target)
    await asyncio.to_thread(opened.store.delete, opened.name)


async def search(place: Path, words: str, *, most: int = 50) -> builtins.list[Passage]:
    """Return the passages that have all of the words, and a few that are near them by meaning if that is installed."""
    return await asyncio.to_thread(lambda: SessionSearch(os.fspath(place)).passages(words, most))
