"""Replaces a file as a whole: afterwards it is the old one or the new one, and nothing else is left over.

A new file replaces the old one, with its mode, owner, access list, and other extended attributes. A file that has
several names (hard links), or whose owner or attributes a new file cannot get, is overwritten, as editors do: a copy of
its old bytes is next to it during that time, and is restored if the writing fails.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from codelet.errors import ToolError
from codelet.record import Record
from codelet.safety.opener import Made, open_folder
from codelet.tools.files import current_status, failure, fingerprint
from codelet.tools.seen import Fingerprint

_COPY = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 20
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Attributes(Record, kw_only=True):
    """The attributes of a file: mode, user and group, and extended attributes, including an ACL."""

    mode: int
    owner: tuple[int, int]
    extended: Mapping[str, bytes]


StatusCheck = Callable[[], "os.stat_result | None"]
"""The status of what is to be replaced, None if there is nothing. Raises ToolError if it is not as expected."""


def attributes_of(descriptor: int) -> Attributes:
    """The attributes of an open file."""
    status = os.fstat(descriptor)
    owner = (status.st_uid, status.st_gid)
    return Attributes(mode=stat.S_IMODE(status.st_mode), owner=owner, extended=_extended(descriptor))


def replace(path: Path, data: bytes, name: str, expected: Fingerprint | None) -> Fingerprint:
    """Write `data` to the resolved path; returns the new fingerprint. Raises ToolError.

    `expected` is the fingerprint that the file must still have, None that it must not exist. The bytes go to
    a temporary file next to it, which takes its place once they are on the disk; missing folders are made. It never
    awaits, so that a cancel comes before or after it.
    """
    made: Made = []
    try:
        folder, last = open_folder(path, made=made)
        try:
            status = current_status(folder, last, name, expected)
            wanted = None if status is None else _kept(folder, last)
            written = put_file(folder, last, data, wanted, lambda: current_status(folder, last, name, expected))
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


def put_file(folder: int, last: str, data: bytes, wanted: Attributes | None, check: StatusCheck) -> Fingerprint:
    """Write the file `last` of an open folder, with those attributes (None: those of a new file).

    Raises OSError and ToolError; then the old file is unchanged.
    """
    temporary = f".{last[:40]}.{os.getpid()}-{time.monotonic_ns()}.tmp"
    status = check()
    written = None
    if status is None or not stat.S_ISREG(status.st_mode) or status.st_nlink == 1:
        written = _put_new(folder, temporary, last, data, wanted, check)
    if written is None:
        written = _put_in_place(folder, temporary, last, data, wanted, check)
    _sync_folder(folder)
    return written


def _kept(folder: int, last: str) -> Attributes:
    """Return the attributes of the old file. Raises OSError if it is protected.

    Replacing a file needs no right to the file itself, so a protected one is not replaced.
    """
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        os.close(os.open(last, os.O_WRONLY | flags, dir_fd=folder))
    except OSError as error:
        if error.errno != errno.ETXTBSY:  # a running program may be replaced, not overwritten
            raise
    descriptor = os.open(last, os.O_RDONLY | flags, dir_fd=folder)
    try:
        return attributes_of(descriptor)
    finally:
        os.close(descriptor)


def _put_new(
    folder: int, temporary: str, last: str, data: bytes, wanted: Attributes | None, check: StatusCheck
) -> Fingerprint | None:
    """Replace the old file by a new one; return None if that cannot get the old one's owner and attributes."""
    # A new file gets what the umask leaves; a replaced one is no one else's until it has its old mode.
    descriptor = -1
    try:
        descriptor = os.open(temporary, _WRITE, 0o666 if wanted is None else 0o600, dir_fd=folder)
        _fill(descriptor, (data,))
        complete = wanted is None or _dress(descriptor, wanted)
        os.fsync(descriptor)
        written = fingerprint(os.fstat(descriptor))
        status = check()
        if not complete and status is not None and stat.S_ISREG(status.st_mode):
            os.unlink(temporary, dir_fd=folder)
            return None
        os.rename(temporary, last, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return written


def _put_in_place(
    folder: int, temporary: str, last: str, data: bytes, wanted: Attributes | None, check: StatusCheck
) -> Fingerprint:
    """Write the bytes into the old file. Its old ones are on the disk in `temporary` until that is done."""
    descriptor = os.open(last, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    copy, needed = -1, False
    try:
        copy = os.open(temporary, _COPY, 0o600, dir_fd=folder)
        _fill(copy, _pieces(descriptor))
        os.fsync(copy)
        status = check()
        if status is None or not os.path.samestat(status, os.fstat(descriptor)):
            raise OSError(errno.EBUSY, "replaced at this moment")
        try:
            _fill(descriptor, (data,))
            os.fsync(descriptor)
        except BaseException:
            needed = True
            _fill(descriptor, _pieces(copy))
            os.fsync(descriptor)
            needed = False
            raise
        if wanted is not None:
            _dress(descriptor, wanted)
        os.unlink(temporary, dir_fd=folder)
        return fingerprint(os.fstat(descriptor))
    except OSError as error:
        if needed:
            reason = error.strerror or "it failed"
            raise ToolError(f"{last} was written in part ({reason}); its old content is in {temporary}") from error
        raise
    finally:
        if not needed:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
        os.close(descriptor)
        if copy >= 0:
            os.close(copy)


def _pieces(descriptor: int) -> Iterator[bytes]:
    os.lseek(descriptor, 0, os.SEEK_SET)
    while piece := os.read(descriptor, _PIECE):
        yield piece


def _fill(descriptor: int, pieces: Iterable[bytes]) -> None:
    """Make these the bytes of an open file."""
    size = 0
    for piece in pieces:
        view = memoryview(piece)
        while view:
            done = os.pwrite(descriptor, view, size)
            view, size = view[done:], size + done
    os.ftruncate(descriptor, size)


def _dress(descriptor: int, wanted: Attributes) -> bool:
    """Give an open file these attributes; whether it has all of them then."""
    complete, mode = True, wanted.mode
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != wanted.owner:
        try:
            os.fchown(descriptor, *wanted.owner)
        except PermissionError:
            complete, mode = False, mode & ~(stat.S_ISUID | stat.S_ISGID)
    if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
        try:
            os.fchmod(descriptor, mode)
        except PermissionError:
            complete = False
    # After the mode, of which an ACL is a part. A new file may also have got some from its folder.
    present = _extended(descriptor)
    for name in {**present, **wanted.extended}:
        value = wanted.extended.get(name)
        try:
            if value is None:
                os.removexattr(descriptor, name)
            elif present.get(name) != value:
                os.setxattr(descriptor, name, value)
        except OSError:
            complete = complete and value is None and name.startswith("security.")
    return complete


def _extended(descriptor: int) -> dict[str, bytes]:
    """The extended attributes of an open file, as far as they can be read; none where the system has none."""
    found: dict[str, bytes] = {}
    with contextlib.suppress(OSError, AttributeError):  # macOS: Python does not offer them
        for name in os.listxattr(descriptor):
            with contextlib.suppress(OSError):
                found[name] = os.getxattr(descriptor, name)
    return found


def _sync_folder(folder: int) -> None:
    """Write the new name to the disk; if that is not possible, the file is still whole."""
    with contextlib.suppress(OSError):
        fd = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
