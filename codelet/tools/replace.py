"""Replaces a file as a whole: afterwards it is the old one or the new one, and nothing else is left over."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from pathlib import Path

from codelet.tools.files import Fingerprint, failure, fingerprint, must_be_current

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace(path: Path, data: bytes, name: str, expected: Fingerprint | None) -> Fingerprint:
    """Write `data` to the resolved path; gives the new fingerprint. Raises ToolError.

    `expected` is the fingerprint that the file must still have, None that it must not exist. The bytes go to
    a temporary file beside it, which takes its place once they are on the disk; mode and owner are kept,
    missing folders are made. It never awaits, so that a cancel comes before or after it.
    """
    made: list[Path] = []
    temporary = path.with_name(f".{path.name[:40]}.{os.getpid()}-{time.monotonic_ns()}.tmp")
    try:
        status = must_be_current(path, name, expected)
        if status is not None:
            _must_be_writable(path)
        _make_folder(path.parent, made)
        written = _write(temporary, data, status)
        must_be_current(path, name, expected)
        temporary.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        for folder in reversed(made):
            with contextlib.suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            raise failure(error, name) from error
        raise
    _sync_folder(path.parent)
    return written


def _must_be_writable(path: Path) -> None:
    """Putting another file in its place needs no right to the file itself: a protected one is left alone."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
    except OSError as error:
        if error.errno != errno.ETXTBSY:  # a running program may be replaced, not overwritten
            raise


def _make_folder(folder: Path, made: list[Path]) -> None:
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for part in reversed(missing):
        part.mkdir(exist_ok=True)
        made.append(part)


def _write(temporary: Path, data: bytes, like: os.stat_result | None) -> Fingerprint:
    # A new file gets what the umask leaves; a replaced one is nobody else's until it has its old mode.
    fd = os.open(temporary, _WRITE, 0o666 if like is None else 0o600)
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


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk; where that is not possible the file is whole all the same."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
