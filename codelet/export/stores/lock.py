"""The lock of a session that stands in a file: one process writes it at a time, and the others learn which.

The operating system holds the lock and gives it up when its holder dies, so no lock can be left behind: what a killed
process leaves is a small file beside the export, which says who held it and stops nobody.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.errors import ExportError, SessionHeld
from codelet.export.stores.store import this_process, write_problem

if TYPE_CHECKING:
    from filelock import BaseFileLock

_MOST = 4096
_PATIENCE = 0.2


class FileLease:
    """The right to write one file, for as long as this process lives."""

    seconds = None

    def __init__(self, lock: BaseFileLock, target: Path) -> None:
        self._lock = lock
        self.target = target

    @property
    def held(self) -> bool:
        """Whether it was not released yet."""
        return self._lock.is_locked

    def renew(self) -> bool:
        """It does not expire."""
        return self.held

    def release(self) -> None:
        """Give it up and remove the lock's file; whoever opened that file meanwhile sees so and opens a new one."""
        if self.held:
            lock_path(self.target).unlink(missing_ok=True)
            self._lock.release(force=True)


def lock_path(target: Path) -> Path:
    """Where the lock of an export stands: hidden, beside it."""
    return target.with_name(f".{target.name}.lock")


def take(target: Path) -> FileLease:
    """The right to write `target`. Raises SessionHeld or ExportError."""
    with _no_temporary_files():
        from filelock import FileLock, Timeout

    path = lock_path(target)
    if not target.parent.is_dir():  # the library would make it
        raise ExportError(f"{target}: there is no folder {target.parent}")
    # Taken in one thread and given up in another. It waits a moment, for someone may only be looking at it.
    lock = FileLock(path, timeout=_PATIENCE, mode=0o600, thread_local=False, poll_interval=0.02)
    try:
        lock.acquire()
    except Timeout:
        raise SessionHeld(str(target), _holder(path)) from None
    except OSError as error:
        raise ExportError(f"{path}: cannot lock: {write_problem(error)}") from None
    with suppress(OSError):  # who it is helps others to understand; the lock itself does not need it
        _write_holder(path)
    return FileLease(lock, target)


@contextmanager
def _no_temporary_files() -> Iterator[None]:
    """Keep the library from trying, when it is imported, whether links work in the temporary folder: nobody named that.

    It takes the failure for a no, which matters to kinds of locks that are not used here.
    """
    before, tempfile.tempdir = tempfile.tempdir, "\0"  # no folder has such a name: it fails before anything is asked
    try:
        yield
    finally:
        tempfile.tempdir = before


def holder(target: Path) -> str | None:
    """Who holds the lock of `target`, or None if nobody does. Looking does not disturb a holder."""
    path = lock_path(target)
    if not path.exists():
        return None
    try:
        lease = take(target)
    except SessionHeld as held:
        return held.holder
    except ExportError:
        return None
    lease.release()
    return None


def _write_holder(path: Path) -> None:
    note = json.dumps({"holder": this_process(), "since": time.strftime("%Y-%m-%d %H:%M:%S")})
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.write(descriptor, note.encode())
    finally:
        os.close(descriptor)


def _holder(path: Path) -> str:
    """Who wrote the lock's file; it may be empty for the moment between locking and writing."""
    try:
        with path.open("rb") as file:
            note = json.loads(file.read(_MOST))
        return f"{note['holder']} since {note['since']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"
