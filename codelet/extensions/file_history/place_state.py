"""The state of a place in the file system: read, compared, and restored.

A place is resolved once, when the call that changes it is judged. Afterwards no link on the way to it is followed. A
restore replaces the file in one step, so the place has the old state or the new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from codelet.errors import ToolError
from codelet.record import Record
from codelet.safety.opener import Made, open_file, open_folder
from codelet.tools.files import failure

PlaceKind = Literal["nothing", "file", "other"]

_PIECE = 1 << 20

Stamp = tuple[int, int, int, int]
"""Inode, size, time and mode: they show whether a file has changed since it was read."""


class PlaceState(Record, kw_only=True):
    """The state of a place. `other` is no regular file, or cannot be read.

    `data` are the bytes of a file, None if they were dropped. `owner` is user and group,
    `extended` are the extended attributes of a file with data.
    """

    kind: PlaceKind
    mode: int = 0
    digest: bytes = b""
    data: bytes | None = None
    owner: tuple[int, int] = (-1, -1)
    extended: Mapping[str, bytes] = {}
    stamp: Stamp | None = None

    def same(self, other: PlaceState | None) -> bool:
        """Return whether both states have the same bytes and mode. Two `other` states are never the same."""
        if other is None or "other" in (self.kind, other.kind):
            return False
        return (self.kind, self.mode, self.digest) == (other.kind, other.mode, other.digest)

    def without_data(self) -> PlaceState:
        return self.replace(data=None)


def look(place: Path, largest: int) -> PlaceState:
    """Return the state of a resolved place, with its bytes.

    A file of more than `largest` bytes is not read; it is compared by inode, size and time.
    """
    try:
        folder, last = open_folder(place)
        try:
            status = os.stat(last, dir_fd=folder, follow_symlinks=False)
            stamp = _stamp(status)
            if not stat.S_ISREG(status.st_mode):
                return PlaceState(kind="other", stamp=stamp)
            data, extended = (None, {}) if status.st_size > largest else _content(place, largest)
        finally:
            os.close(folder)
    except FileNotFoundError:
        return PlaceState(kind="nothing")
    except OSError:
        return PlaceState(kind="other")
    return PlaceState(
        kind="file",
        mode=stat.S_IMODE(status.st_mode),
        digest=repr(stamp).encode() if data is None else hashlib.sha256(data).digest(),
        data=data,
        owner=(status.st_uid, status.st_gid),
        extended=extended,
        stamp=stamp,
    )


def bring_back(place: Path, name: str, wanted: PlaceState, now: PlaceState) -> None:
    """Replace the state `now`, which must still be there, by `wanted`. Raises ToolError before any change."""
    try:
        if wanted.kind == "nothing":
            _remove(place, name, now)
        else:
            _replace(place, name, wanted, now)
    except OSError as error:
        raise failure(error, name) from error


def _content(place: Path, largest: int) -> tuple[bytes | None, Mapping[str, bytes]]:
    """The bytes of a regular file, None if it has grown beyond `largest`, and its extended attributes."""
    from codelet.tools.replace import attributes_of

    pieces, size = [], 0
    with os.fdopen(open_file(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), "rb", buffering=0) as file:
        while size <= largest and (piece := file.read(_PIECE)):
            pieces.append(piece)
            size += len(piece)
        extended = attributes_of(file.fileno()).extended
    return b"".join(pieces) if size <= largest else None, extended


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode


def _must_be(folder: int, last: str, name: str, now: PlaceState) -> os.stat_result | None:
    """The status of the place. Raises ToolError unless it is what was looked at."""
    try:
        status = os.stat(last, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        status = None
    if (_stamp(status) if status else None) != now.stamp:
        raise ToolError(f"{name} was just changed by someone else, and stays unchanged")
    return status


def _remove(place: Path, name: str, now: PlaceState) -> None:
    if now.kind == "nothing":
        return
    folder, last = open_folder(place)
    try:
        _must_be(folder, last, name, now)
        os.unlink(last, dir_fd=folder)
    finally:
        os.close(folder)


def _replace(place: Path, name: str, wanted: PlaceState, now: PlaceState) -> None:
    from codelet.tools.replace import Attributes, put_file

    assert wanted.data is not None
    made: Made = []
    try:
        folder, last = open_folder(place, made=made)
        try:
            attributes = Attributes(mode=wanted.mode, owner=wanted.owner, extended=wanted.extended)
            put_file(folder, last, wanted.data, attributes, lambda: _must_be(folder, last, name, now))
        finally:
            os.close(folder)
    except BaseException:
        for parent, new in reversed(made):
            with contextlib.suppress(OSError):
                os.rmdir(new, dir_fd=parent)
        raise
    finally:
        for parent, _ in made:
            os.close(parent)
