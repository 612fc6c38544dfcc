"""The processes of a child, and how to end them all.

Killing the process group is not enough: a child that calls setsid, or forks twice and lets the parent die, is out of
the group and out of the tree. Four signs together find them: the session and the group of the child, the tree of
parents, a marker in the environment, and adoption by us when its parent died (we are the subreaper). The kernel's table
is read from /proc; without it, only the group is ended.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

MARKER = "CODELET_CHILD"
"""The environment variable that identifies a process after it changed its session and its parent."""

_PR_SET_CHILD_SUBREAPER, _PR_SET_DUMPABLE = 36, 4
_KILL_LIMIT = 1.0
_GUARD_NAME = b"codelet-guard"
"""The name that supervisor.py gives to its processes."""
_numbers = itertools.count()
_leaders: set[int] = set()


@functools.cache
def become_subreaper() -> bool:
    """From now on orphans below us become our children, so that they are found and reaped. Linux only."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


@functools.cache
def hide_memory() -> bool:
    """From now on no process of the same user can look into this one: its memory, its environment. Linux only."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    return bool(ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)


def new_marker(inherited: str) -> str:
    """A value for MARKER that no other child has; it contains the one that we were started with."""
    return f"{inherited}/{os.getpid()}-{time.monotonic_ns()}-{next(_numbers)}/"


class _Row:
    """One process of the kernel's table; `start` counts clock ticks since the system started.

    Made by the hundred in each look at the table. A NamedTuple would cost each start two milliseconds to define.
    """

    __slots__ = ("dead", "group", "parent", "pid", "session", "start")

    def __init__(self, pid: int, fields: Sequence[bytes]) -> None:
        self.pid = pid
        self.dead = fields[0] in (b"Z", b"X")
        self.parent, self.group, self.session = map(int, fields[1:4])
        self.start = int(fields[19])


class Tree:
    """The session that a child leads, and everything that it started. `group` is a second process group of it.

    A child below another parent hands its orphans to us only if that parent was killed too; with `orphans` they count,
    although nothing else identifies them.
    """

    def __init__(self, leader: int, marker: str, *, orphans: bool = False) -> None:
        self.leader = self.group = leader
        self._marker = marker.encode()
        self._orphans = orphans
        self._seen: set[tuple[int, int]] = set()
        row = _row(leader)
        self._start = row.start if row else 0
        _leaders.add(leader)

    def signal(self, number: int) -> int:
        """Send a signal to all of them, reap our dead children, and return how many were alive.

        The leader is not reaped here: while it is a zombie its number is not reused, so the group cannot hit a
        stranger.
        """
        table = _table()
        group = self.signal_group(number)
        if not table:
            return int(group)
        alive = 0
        for row in self._members(table):
            if not row.dead:
                alive += 1
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(row.pid, number)
            elif row.pid not in _leaders:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(row.pid, os.WNOHANG)
        return alive

    def kill(self) -> None:
        """End all of them now, and reap them; takes 1 s at most, and milliseconds on most days, and no event loop."""
        limit = time.monotonic() + _KILL_LIMIT
        while self.signal(signal.SIGKILL) and time.monotonic() < limit:
            time.sleep(0.002)
        self.close()

    def close(self) -> None:
        """Forget it."""
        _leaders.discard(self.leader)

    def signal_group(self, number: int) -> bool:
        """Send a signal to the child's group alone; whether there was one to take it."""
        try:
            os.killpg(self.group, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _members(self, table: dict[int, _Row]) -> list[_Row]:
        below: dict[int, list[_Row]] = {}
        for row in table.values():
            below.setdefault(row.parent, []).append(row)
        found = {row.pid: row for row in table.values() if self._is_ours(row, table)}
        waiting = list(found)
        while waiting:
            for row in below.get(waiting.pop(), ()):
                if row.pid not in found:
                    found[row.pid] = row
                    waiting.append(row.pid)
        self._seen = {(row.pid, row.start) for row in found.values()}
        return list(found.values())

    def _is_ours(self, row: _Row, table: dict[int, _Row]) -> bool:
        if self.leader in (row.pid, row.group, row.session) or (row.pid, row.start) in self._seen:
            return True
        own = table.get(os.getpid())
        if own is None or row.start < self._start or row.pid in _leaders or row.pid == own.pid:
            return False
        if not row.dead and self._marker in _read(f"/proc/{row.pid}/environ"):
            return True
        return self._orphans and row.parent == own.pid and row.session != own.session


def reap_guards() -> None:
    """Reap the guards that a supervisor left us when it was killed, now or when they end, within a second or so."""
    for row in _table().values():
        if row.parent == os.getpid() and _read(f"/proc/{row.pid}/comm").strip() == _GUARD_NAME:
            threading.Thread(target=_reap, args=(row.pid,), daemon=True).start()


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _table() -> dict[int, _Row]:
    try:
        names = [entry.name for entry in os.scandir("/proc")]
    except OSError:
        return {}
    rows = (_row(int(name)) for name in names if name.isdigit())
    return {row.pid: row for row in rows if row is not None}


def _row(pid: int) -> _Row | None:
    line = _read(f"/proc/{pid}/stat")
    # The name in brackets may hold spaces and brackets itself: what follows the last one is numbers.
    fields = line[line.rfind(b")") + 2 :].split()
    return _Row(pid, fields) if len(fields) >= 20 else None


def _read(path: str) -> bytes:
    """A file of /proc; empty when the process is gone or not ours to read."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
