"""Open files at a place that was judged, so that nothing swapped in after the check can lead elsewhere.

A path is resolved once, when it is judged; from then on every component is opened from its parent's
descriptor without following links. Whoever puts a link in place in between gets an error, never another file.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Made = list[tuple[int, str]]
"""Folders that were created: the descriptor of the folder that each is in, and its name."""


def open_folder(place: Path, *, made: Made | None = None) -> tuple[int, str]:
    """A descriptor of the folder that holds `place`, for `dir_fd`, and the name in it.

    `place` is absolute and resolved. With `made`, missing folders are created and noted in it; its descriptors
    are the caller's to close. Raises OSError, ENOTDIR where a component is a link or no folder.
    """
    *folders, name = place.parts[1:] or (".",)
    descriptor = os.open("/", _FOLDER)
    for folder in folders:
        descriptor = _step(descriptor, folder, made)
    return descriptor, name


def open_file(place: Path, flags: int) -> int:
    """A descriptor of what stands at `place`, which is absolute and resolved. Raises OSError."""
    folder, name = open_folder(place)
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)


def open_named(path: Path | str, flags: int) -> int:
    """A descriptor of the file that an option names; with O_CREAT it is made for the user alone. Raises OSError.

    A link there is not followed: it may come with the repository. A pipe that no one reads is not waited for.
    """
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(error.errno, "it is a link; name the file that it leads to") from None
        raise


def status_of(place: Path) -> os.stat_result:
    """Return what stands at `place`, which is absolute and resolved. Raises OSError."""
    folder, name = open_folder(place)
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    finally:
        os.close(folder)


def _step(parent: int, name: str, made: Made | None) -> int:
    """The folder `name` in `parent`, which is closed or noted in `made`."""
    try:
        try:
            return os.open(name, _FOLDER, dir_fd=parent)
        except FileNotFoundError:
            if made is None:
                raise
        os.mkdir(name, dir_fd=parent)
        made.append((os.dup(parent), name))
        return os.open(name, _FOLDER, dir_fd=parent)
    finally:
        os.close(parent)
