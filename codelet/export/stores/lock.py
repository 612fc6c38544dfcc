"""The lock of a session's file: one process writes it at a time, and the others learn which.

The operating system holds the lock and gives it up when its holder dies, so no lock can be left behind: a killed
process leaves a small file next to the export, which names the holder and stops no one.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from contextlib import suppress
from pathlib import Path

from codelet.errors import ExportError, SessionHeld
from codelet.export.stores.store import this_process, write_problem

_MOST = 4096
_TEMPORARY = re.compile(r"[0-9a-f]{12}\.tmp")


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
            lock_path(self.target).unlink(missing_ok=True)
            os.close(descriptor)


def lock_path(target: Path) -> Path:
    """Return the path of an export's lock file, hidden in the same folder."""
    return target.with_name(f".{target.name}.lock")


def lock_file(target: Path) -> FileLease:
    """Return the right to write the file. Raises SessionHeld, and ExportError if nothing can be written there."""
    path = lock_path(target)
    if not target.parent.is_dir():
        raise ExportError(f"{target}: there is no folder {target.parent}")
    try:
        descriptor = _locked(path)
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
            note = json.loads(file.read(_MOST))
        return f"{note['holder']} since {note['since']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"
