"""Replaces a file as a whole: afterwards it is the old one or the new one, and nothing else is left over."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from pathlib import Path

from codelet.safety.opener import Made, open_folder
from codelet.tools.files import current_status, failure, fingerprint
from codelet.tools.seen import Fingerprint

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace(path: Path, data: bytes, name: str, expected: Fingerprint | None) -> Fingerprint:
    """Write `data` to the resolved path; returns the new fingerprint. Raises ToolError.

    `expected` is the fingerprint that the file must still have, None that it must not exist. The bytes go to
    a temporary file beside it, which takes its place once they are on the disk; mode and owner are kept,
    missing folders are made. It never awaits, so that a cancel comes before or after it.
    """
    made: Made = []
    try:
        folder, last = open_folder(path, made=made)
        try:
            written = _replace_in(folder, last, data, name, expected)
        finally:
            os.close(folder)
    except BaseException as error:
        for parent, new in reversed(made):
            with contextlib.suppress(OSError):
                os.rmdir(new, dir_fd=parent)
        if isinstance(error, OSError):
            raise failure(error, name) from error
        raise
    finally:
        for parent, _ in made:
            os.close(parent)
    return written


def _replace_in(folder: int, last: str, data: bytes, name: str, expected: Fingerprint | None) -> Fingerprint:
    """The same for the file `last` in an open folder."""
    temporary = f".{last[:40]}.{os.getpid()}-{time.monotonic_ns()}.tmp"
    status = current_status(folder, last, name, expected)
    if status is not None:
        _must_be_writable(folder, last)
    try:
        written = _write(folder, temporary, data, status)
        current_status(folder, last, name, expected)
        os.rename(temporary, last, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    _sync_folder(folder)
    return written


def _must_be_writable(folder: int, last: str) -> None:
    """Putting another file in its place needs no right to the file itself: a protected one is left alone."""
    try:
        os.close(os.open(last, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder))
    except OSError as error:
        if error.errno != errno.ETXTBSY:  # a running program may be replaced, not overwritten
            raise


def _write(folder: int, temporary: str, data: bytes, like: os.stat_result | None) -> Fingerprint:
    # A new file gets what the umask leaves; a replaced one is nobody else's until it has its old mode.
    fd = os.open(temporary, _WRITE, 0o666 if like is None else 0o600, dir_fd=folder)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if like is not None:
            own = os.fstat(fd)
            if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid):
                with contextlib.suppress(PermissionError):
                    os.fchown(fd, like.st_uid, like.st_gid)
            os.fchmod(fd, stat.S_IMODE(like.st_mode))
        os.fsync(fd)
        return fingerprint(os.fstat(fd))
    finally:
        os.close(fd)


def _sync_folder(folder: int) -> None:
    """Bring the new name to the disk; where that is not possible the file is whole all the same."""
    with contextlib.suppress(OSError):
        fd = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
