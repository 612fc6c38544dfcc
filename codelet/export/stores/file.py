"""Exports as files in a folder: replaced whole or not at all, readable by their owner only."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from codelet.errors import ExportError, SaveConflict, StoreUnreachable
from codelet.export.decode import MOST_BYTES
from codelet.export.stores import lock
from codelet.export.stores.store import Lease, Stored, StoredExport, lock_soon, write_problem


class FileStore:
    """One folder; a document's name is its file's name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._placed: dict[str, str] = {}

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

    def lock(self, name: str) -> Lease:
        path = self._path(name)
        return lock_soon(lambda: lock.lock_file(path))

    def save(self, name: str, parts: Sequence[bytes], *, lease: Lease, expected: str | None) -> str:
        """Write and sync a temporary file, and rename it to `name`."""
        path = self._path(name)
        if not isinstance(lease, lock.FileLease) or not lease.held or lease.target != path:
            raise SaveConflict(f"{path}: its lock was given up")
        # Our own last save counts too: it may have been in place already when it was reported as failed.
        if self.revision(name) not in (expected, self._placed.get(name, expected)):
            raise SaveConflict(f"{path}: another process changed it")
        is_new = expected is None and name not in self._placed
        return _place(path, parts, is_new=is_new, placed=lambda revision: self._placed.update({name: revision}))

    def save_beside(self, name: str, parts: Sequence[bytes]) -> str:
        """`NAME.conflict-N.json`, with the first N that is free."""
        path = self._path(name)
        stem = name.removesuffix(".json")
        for number in count(1):
            sibling = path.with_name(f"{stem}.conflict-{number}.json")
            with suppress(SaveConflict):
                _place(sibling, parts, is_new=True)
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
                    holder = lock.holder(self.folder / item.name)
                    found.append((status.st_mtime, StoredExport(item.name, status.st_size, status.st_mtime, holder)))
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
            lock.lock_path(path).unlink(missing_ok=True)
        except OSError as error:
            raise ExportError(f"{path}: {error.strerror}") from None
        finally:
            lease.release()

    def _path(self, name: str) -> Path:
        if not name or name in (".", "..") or "/" in name or "\0" in name:
            raise ExportError(f"{name!r} is not a file's name")
        return self.folder / name


def _place(
    target: Path, parts: Sequence[bytes], *, is_new: bool, placed: Callable[[str], object] = lambda revision: None
) -> str:
    """Write and sync a temporary file and give it the target's name; return its revision, which `placed` gets first.

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
            placed(revision)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(target.parent)
    except FileExistsError:
        raise SaveConflict(f"{target}: another process created it") from None
    except OSError as error:
        raise StoreUnreachable(f"{target}: not saved: {write_problem(error)}") from None
    return revision


def _written(path: Path, parts: Sequence[bytes]) -> str:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())
        return _revision(os.fstat(file.fileno()))


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
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems cannot, and need not
            raise
    finally:
        os.close(folder)


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe without a writer does not hold it up


def _revision(status: os.stat_result) -> str:
    return f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"
