"""Open files at a judged place, so that a link swapped in after the verdict cannot lead elsewhere.

A path is resolved once, when it is judged; then every component is opened from its parent's descriptor without
following links. A new link on the way is an error.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Made = list[tuple[int, str]]
"""Folders that were created: the descriptor of the folder that each is in, and its name."""


def open_folder(place: Path, *, made: Made | None = None) -> tuple[int, str]:
    """Open the folder of `place`, which is absolute and resolved. Returns its descriptor, for `dir_fd`, and the name.

    With `made`, missing folders are created and added to it; the caller closes its descriptors. Raises OSError,
    ENOTDIR if a component is a link or no folder.
    """
    *folders, name = place.parts[1:] or (".",)
    descriptor = os.open("/", _FOLDER)
    for folder in folders:
        parent = descriptor
        try:
            descriptor = os.open(folder, _FOLDER, dir_fd=parent)
        except FileNotFoundError:
            if made is None:
                raise
            os.mkdir(folder, dir_fd=parent)
            made.append((os.dup(parent), folder))
            descriptor = os.open(folder, _FOLDER, dir_fd=parent)
        finally:
            os.close(parent)
    return descriptor, name


def open_file(place: Path, flags: int) -> int:
    """Open `place`, which is absolute and resolved. Returns the descriptor. Raises OSError."""
    folder, name = open_folder(place)
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)


def open_named(path: Path | str, flags: int) -> int:
    """Open the file that an option names; O_CREAT makes it readable to the user alone. Raises OSError.

    It follows no link, which may come with the repository, and waits for no reader of a pipe.
    """
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(error.errno, "it is a link; name the file that it leads to") from None
        raise


def status_of(place: Path) -> os.stat_result:
    """The status of `place`, which is absolute and resolved. Raises OSError."""
    folder, name = open_folder(place)
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    finally:
        os.close(folder)
