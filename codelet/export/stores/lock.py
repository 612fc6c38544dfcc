"""The lock of a session that stands in a file: one process writes it at a time, and the others learn which.

The operating system holds the lock and gives it up when its holder dies, so no lock can be left behind: what a killed
process leaves is a small file beside the export, which says who held it and stops nobody.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from pathlib import Path

from codelet.errors import ExportError, SessionHeld
from codelet.export.stores.store import this_process, write_problem

_MOST = 4096
_PATIENCE = 0.2
"""Seconds to wait for a lock: someone may only be looking at it."""


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
    """Where the lock of an export stands: hidden, beside it."""
    return target.with_name(f".{target.name}.lock")


def take(target: Path) -> FileLease:
    """The right to write `target`. Raises SessionHeld or ExportError."""
    path = lock_path(target)
    if not target.parent.is_dir():
        raise ExportError(f"{target}: there is no folder {target.parent}")
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(path, descriptor):
                    with suppress(OSError):  # who it is helps others to understand; the lock itself does not need it
                        os.ftruncate(descriptor, 0)
                        note = {"holder": this_process(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
                        os.write(descriptor, json.dumps(note).encode())
                    return FileLease(descriptor, target)
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # it was removed between opening and locking
        except BlockingIOError:
            if time.monotonic() > until:
                raise SessionHeld(str(target), _holder(path)) from None
            time.sleep(0.02)
        except OSError as error:
            raise ExportError(f"{path}: cannot lock: {write_problem(error)}") from None


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def holder(target: Path) -> str | None:
    """Who holds the lock of `target`, or None if nobody does. Looking does not disturb a holder."""
    if not lock_path(target).exists():
        return None
    try:
        take(target).release()
    except SessionHeld as held:
        return held.holder
    except ExportError:
        pass
    return None


def _holder(path: Path) -> str:
    """Who wrote the lock's file; it may be empty for the moment between locking and writing."""
    try:
        with path.open("rb") as file:
            note = json.loads(file.read(_MOST))
        return f"{note['holder']} since {note['since']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"
