"""The one place where the tools reach into the file system: resolving, opening and replacing files.

A policy decides on the resolved path before a tool runs; what happens here is that the path cannot be turned
into another one afterwards (from then on no link is followed) and that nothing but regular
files is opened. Every expected failure is a ToolError that says what to do next.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from codelet.errors import ToolError
from codelet.safety.opener import open_file, status_of
from codelet.tools import encoding
from codelet.tools.seen import Fingerprint
from codelet.tools.tool import ToolContext

LARGEST_EDITED = 10 << 20
"""Bytes; larger files are neither edited nor compared."""

_LONGEST = 4096
_SYSTEM_FOLDERS = ("/proc", "/sys", "/dev")
_REASONS = {
    errno.EACCES: "permission denied: {name}",
    errno.EPERM: "not permitted: {name}",
    errno.ENOSPC: "the disk is full; {name} was not changed",
    errno.EDQUOT: "the disk quota is used up; {name} was not changed",
    errno.EFBIG: "{name} would be larger than the system allows; it was not changed",
    errno.EROFS: "{name} is on a read-only file system",
    errno.ENAMETOOLONG: "the path is too long for the file system: {name}",
    errno.ELOOP: "{name} is a symbolic link that leads in a circle, or changed this moment",
    errno.ENOTDIR: "a part of {name} is a file, not a folder, or became a link just now",
    errno.EISDIR: "{name} is a folder",
    errno.ETXTBSY: "{name} is a program that is running, and has other names: it cannot be written now",
    errno.EBUSY: "{name} is in use and cannot be replaced",
}


def resolve(context: ToolContext, path: str) -> Path:
    """Return the absolute path, links followed, of a path that is relative to the workspace or absolute.

    If the policy has judged the path, it is the place that was judged, even if a link has changed since.
    """
    if not path:
        raise ToolError("the path is empty: give one relative to the workspace")
    if "\0" in path:
        raise ToolError("the path contains a NUL character")
    if path == "~" or path.startswith("~/"):
        raise ToolError(f"{path}: ~ is not expanded; give an absolute path or one relative to the workspace")
    try:
        too_long = len(path.encode()) > _LONGEST
    except UnicodeEncodeError as error:
        raise ToolError("the path contains half of a surrogate pair: no such file can be named") from error
    if too_long:
        raise ToolError(f"the path is too long: more than {_LONGEST} bytes")
    try:
        exists = context.workspace.is_dir()
    except OSError as error:
        raise failure(error, str(context.workspace)) from error
    if not exists:
        raise ToolError(f"the workspace {context.workspace} does not exist any more; tell the user")
    resolved = context.place or Path(os.path.realpath(context.workspace / path))
    inside = resolved.is_relative_to(os.path.realpath(context.workspace))
    if not inside and any(resolved.is_relative_to(folder) for folder in _SYSTEM_FOLDERS):
        raise ToolError(f"{printable(path)}: nothing under {', '.join(_SYSTEM_FOLDERS)} is opened")
    return resolved


def shown(context: ToolContext, path: Path) -> str:
    """The path as messages name it: relative to the workspace where it lies inside."""
    with contextlib.suppress(ValueError):
        return printable(str(path.relative_to(os.path.realpath(context.workspace))))
    return printable(str(path))


def printable(name: str) -> str:
    """A file name without control characters, and with a replacement for bytes that are not UTF-8."""
    clean = encoding.readable(name)
    return clean if clean.isprintable() else "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in clean)


def failure(error: OSError, name: str) -> ToolError:
    """The ToolError that says in one line what went wrong with the file."""
    if error.errno == errno.ENOENT:
        return ToolError(f"{name} does not exist; find looks for files by name")
    reason = _REASONS.get(error.errno or 0)
    return ToolError(reason.format(name=name) if reason else f"{name}: {error.strerror or error}")


def fingerprint(status: os.stat_result) -> Fingerprint:
    """Return what is compared to learn whether a file changed."""
    return status.st_size, status.st_mtime_ns


def is_folder(path: Path, name: str) -> bool:
    """Return whether the resolved path is a folder. Raises ToolError if there is nothing, or nothing to be seen."""
    try:
        return stat.S_ISDIR(status_of(path).st_mode)
    except OSError as error:
        raise failure(error, name) from error


def open_regular(path: Path, name: str) -> BinaryIO:
    """Open a resolved path to read, unbuffered. Raises ToolError for all but regular files; never blocks."""
    try:
        _must_be_regular(status_of(path), name)
        fd = open_file(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise failure(error, name) from error
    try:
        _must_be_regular(os.fstat(fd), name)
    except BaseException:
        os.close(fd)
        raise
    return os.fdopen(fd, "rb", buffering=0)


def _must_be_regular(status: os.stat_result, name: str) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{name} is a folder")
    if stat.S_ISLNK(status.st_mode):
        raise failure(OSError(errno.ELOOP, ""), name)
    kinds = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    raise ToolError(f"{name} is {kinds.get(stat.S_IFMT(status.st_mode), 'a device')}, not a file")


def read_whole(path: Path, name: str, limit: int) -> tuple[bytes, Fingerprint]:
    """The bytes of a file of at most `limit` bytes, and its fingerprint from before they were read."""
    with open_regular(path, name) as file:
        status = os.fstat(file.fileno())
        if status.st_size > limit:
            raise ToolError(f"{name} has {status.st_size} bytes, too many for this tool: use bash")
        try:
            data = file.read(limit + 1)
            while len(data) <= limit and (more := file.read(limit + 1 - len(data))):
                data += more
        except OSError as error:
            raise failure(error, name) from error
    return data, fingerprint(status)


def open_listing(path: Path, name: str) -> int:
    """A descriptor of a resolved folder, to list its entries. Raises ToolError."""
    try:
        return open_file(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise failure(error, name) from error


def must_be_current(path: Path, name: str, expected: Fingerprint | None) -> os.stat_result:
    """The status of the file at the resolved path if it is as expected; raises ToolError if not."""
    try:
        status = status_of(path)
    except OSError as error:
        raise failure(error, name) from error
    return _expected(status, name, expected)


def current_status(folder: int, last: str, name: str, expected: Fingerprint | None) -> os.stat_result | None:
    """Return the status of `last` in an open folder if it is as expected (None: no such file); else raise ToolError."""
    try:
        status = os.stat(last, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError as error:
        if expected is None:
            return None
        raise ToolError(f"{name} was removed since it was read") from error
    return _expected(status, name, expected)


def _expected(status: os.stat_result, name: str, expected: Fingerprint | None) -> os.stat_result:
    _must_be_regular(status, name)
    if expected is None:
        raise ToolError(f"{name} exists and was not read: read it first")
    if fingerprint(status) != expected:
        raise ToolError(f"{name} changed since it was read: read it again, then repeat the call")
    return status
