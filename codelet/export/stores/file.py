"""Exports as files in a folder: replaced whole or not at all, readable by their owner only, written by one process.

The operating system holds a file's lock and gives it up when its holder dies, so no lock can be left behind: a killed
process leaves a small file next to the export, which names the holder and stops no one.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from codelet.errors import ExportError, SaveConflict, SessionHeld, StoreUnreachable
from codelet.export.decode import MOST_BYTES
from codelet.export.stores.store import (
    TICKET_SECONDS,
    Lease,
    Stored,
    StoredExport,
    lock_soon,
    this_process,
    write_problem,
)

_LONGEST_NOTE = 4096
_AT_ONCE = 512
"""Parts that one call writes."""
_TEMPORARY = re.compile(r"[0-9a-f]{12}\.tmp")


class FileStore:
    """One folder; a document's name is its file's name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def shown(self, name: str) -> str:
        return str(self.folder / name)

    def load(self, name: str) -> Stored | None:
        path = self._path(name)
        try:
            with open(path, "rb", buffering=0, opener=_opened) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise ExportError(f"{path}: is not a file")
                if status.st_size > MOST_BYTES:
                    raise ExportError(f"{path}: is larger than {MOST_BYTES >> 20} MiB")
                return Stored(file.readall(), _revision(status))
        except FileNotFoundError:
            return None
        except IsADirectoryError:
            raise ExportError(f"{path}: is not a file") from None
        except OSError as error:
            raise ExportError(f"{path}: {error.strerror}") from None

    def revision(self, name: str) -> str | None:
        """The state of the file; a link or anything else that is not a file is refused."""
        path = self._path(name)
        try:
            status = path.lstat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ExportError(f"{path}: {error.strerror}") from None
        if stat.S_ISLNK(status.st_mode):
            raise ExportError(f"{path}: is a link; name the file itself")
        if not stat.S_ISREG(status.st_mode):
            raise ExportError(f"{path}: is not a file")
        return _revision(status)

    def lock(self, name: str, ticket: str = "") -> Lease:
        path = self._path(name)
        return lock_file(path, ticket) if ticket else lock_soon(lambda: lock_file(path, ""))

    def leave(self, name: str, ticket: str) -> None:
        ticket_path(self._path(name), ticket).unlink(missing_ok=True)

    def save(self, name: str, parts: Sequence[bytes], *, lease: Lease, expected: str | None) -> str:
        """Write and sync a temporary file, and rename it to `name`. The folder is synced when the lease is released.

        Until then a machine that loses power may come back with the save before this one, whole.
        """
        path = self._path(name)
        if not isinstance(lease, FileLease) or not lease.held or lease.target != path:
            raise SaveConflict(f"{path}: its lock was given up")
        if self.revision(name) != expected:
            raise SaveConflict(f"{path}: another process changed it")
        return _place(path, parts, is_new=expected is None)

    def save_beside(self, name: str, parts: Sequence[bytes]) -> str:
        """`NAME.conflict-N.json`, with the first N that is free."""
        path = self._path(name)
        stem = name.removesuffix(".json")
        for number in count(1):
            sibling = path.with_name(f"{stem}.conflict-{number}.json")
            with suppress(SaveConflict):
                _place(sibling, parts, is_new=True)
                _sync_folder(self.folder)
                return sibling.name
        raise AssertionError

    def entries(self) -> list[StoredExport]:
        """The `*.json` files of the folder."""
        found: list[tuple[float, StoredExport]] = []
        try:
            with os.scandir(self.folder) as listing:
                for item in listing:
                    if not item.name.endswith(".json") or not item.is_file(follow_symlinks=False):
                        continue
                    status = item.stat(follow_symlinks=False)
                    held = holder(self.folder / item.name)
                    found.append((status.st_mtime, StoredExport(item.name, status.st_size, status.st_mtime, held)))
        except OSError as error:
            raise ExportError(f"{self.folder}: {error.strerror}") from None
        return [entry for _, entry in sorted(found, key=lambda item: (-item[0], item[1].name))]

    def delete(self, name: str) -> None:
        path = self._path(name)
        if self.revision(name) is None:
            raise ExportError(f"{path}: no such file")
        lease = self.lock(name)
        try:
            path.unlink()
            lock_path(path).unlink(missing_ok=True)
        except OSError as error:
            raise ExportError(f"{path}: {error.strerror}") from None
        finally:
            lease.release()

    def _path(self, name: str) -> Path:
        if not name or name in (".", "..") or "/" in name or "\0" in name:
            raise ExportError(f"{name!r} is not a file's name")
        return self.folder / name


def _place(target: Path, parts: Sequence[bytes], *, is_new: bool) -> str:
    """Write and sync a temporary file and give it the target's name; return its revision.

    Raises SaveConflict if the target is to be new and is not, and StoreUnreachable.
    """
    if sum(map(len, parts)) > MOST_BYTES:
        raise StoreUnreachable(f"{target}: not saved: the session is larger than {MOST_BYTES >> 20} MiB")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        try:
            revision = _written(temporary, parts)
            if is_new:
                _link(temporary, target)
            else:
                temporary.rename(target)
        finally:
            temporary.unlink(missing_ok=True)
    except FileExistsError:
        raise SaveConflict(f"{target}: another process created it") from None
    except OSError as error:
        raise StoreUnreachable(f"{target}: not saved: {write_problem(error)}") from None
    return revision


def _written(path: Path, parts: Sequence[bytes]) -> str:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        for start in range(0, len(parts), _AT_ONCE):
            waiting = list(parts[start : start + _AT_ONCE])
            while waiting:  # a write may take only some of them, or a part of one
                written = os.writev(descriptor, waiting)
                while waiting and written >= len(waiting[0]):
                    written -= len(waiting.pop(0))
                if written:
                    waiting[0] = waiting[0][written:]
        os.fsync(descriptor)
        return _revision(os.fstat(descriptor))
    finally:
        os.close(descriptor)  # some file systems report only here that there is no room


def _link(temporary: Path, target: Path) -> None:
    """Take a place that must be free. Raises FileExistsError if it is not."""
    try:
        target.hardlink_to(temporary)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        # A file system without hard links: the lock alone keeps others off.
        if os.path.lexists(target):
            raise FileExistsError from None
        temporary.rename(target)


def _sync_folder(path: Path) -> None:
    """Bring a folder's names to the disk. What they name was synced before; some file systems cannot do this."""
    with suppress(OSError):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe without a writer does not hold it up


def _revision(status: os.stat_result) -> str:
    return f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"


class FileLease:
    """The right to write one file, for as long as this process lives."""

    seconds = None

    def __init__(self, descriptor: int, target: Path) -> None:
        self._descriptor = descriptor
        self.target = target

    @property
    def held(self) -> bool:
        return self._descriptor >= 0

    def renew(self) -> bool:
        return self.held

    def release(self) -> None:
        """Give it up and remove the lock's file; a process that opened that file in the meantime opens a new one."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            _sync_folder(self.target.parent)
            lock_path(self.target).unlink(missing_ok=True)
            os.close(descriptor)


def lock_path(target: Path) -> Path:
    """Return the path of an export's lock file, hidden in the same folder."""
    return target.with_name(f".{target.name}.lock")


def ticket_path(target: Path, ticket: str) -> Path:
    """Return the path of the file that keeps a place in the line for an export."""
    return target.with_name(f"{lock_path(target).name}.{ticket}")


def lock_file(target: Path, ticket: str) -> FileLease:
    """Return the right to write the file. Raises SessionHeld, and ExportError if nothing can be written there."""
    path = lock_path(target)
    if not target.parent.is_dir():
        raise ExportError(f"{target}: there is no folder {target.parent}")
    try:
        descriptor = -1 if _has_line(target, ticket) else _locked(path)
        if descriptor < 0 and ticket:
            ticket_path(target, ticket).touch(0o600)
    except OSError as error:
        raise ExportError(f"{path}: cannot lock: {write_problem(error)}") from None
    if descriptor < 0:
        raise SessionHeld(str(target), _holder(path))
    _remove_temporaries(target)
    with suppress(OSError):  # who it is helps others to understand; the lock itself does not need it
        os.ftruncate(descriptor, 0)
        note = {"holder": this_process(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        os.write(descriptor, json.dumps(note).encode())
    return FileLease(descriptor, target)


def _has_line(target: Path, ticket: str) -> bool:
    """Return whether someone waits with an earlier ticket, or with any if this one is empty; remove those of the dead.

    Where the folder cannot be listed there is no line.
    """
    with suppress(PermissionError):
        prefix = ticket_path(target, "").name
        for name in sorted(each for each in os.listdir(target.parent) if each.startswith(prefix)):
            if ticket and name >= prefix + ticket:
                break
            with suppress(FileNotFoundError):
                if time.time() - target.with_name(name).stat().st_mtime < TICKET_SECONDS:
                    return True
                target.with_name(name).unlink()
    return False


def _remove_temporaries(target: Path) -> None:
    """Remove what a killed process left of its last save."""
    prefix = f".{target.name}."
    with suppress(OSError):
        for name in os.listdir(target.parent):
            if name.startswith(prefix) and _TEMPORARY.fullmatch(name, len(prefix)):
                target.with_name(name).unlink()


def _locked(path: Path, flags: int = os.O_CREAT) -> int:
    """Return the descriptor of a file that is locked now; -1 if another has the lock, or the file is gone."""
    try:
        descriptor = os.open(path, os.O_RDWR | flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return -1
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(path, descriptor):
            return descriptor
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return -1


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def holder(target: Path) -> str | None:
    """Return who holds the lock of `target`, or None if no one does."""
    path = lock_path(target)
    if not path.exists():
        return None
    try:
        descriptor = _locked(path, flags=0)
    except OSError:
        return None
    if descriptor < 0:
        return _holder(path) if path.exists() else None
    path.unlink(missing_ok=True)
    os.close(descriptor)
    return None


def _holder(path: Path) -> str:
    """Return who wrote the lock's file; it may be empty for the moment between locking and writing."""
    try:
        with path.open("rb") as file:
            note = json.loads(file.read(_LONGEST_NOTE))
        return f"{note['holder']} since {note['since']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"
