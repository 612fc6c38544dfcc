"""Which processes belong to a child, and how to end them all.

Killing the process group is not enough: whoever calls setsid, or forks twice and lets the parent die, is out
of the group and out of the tree. Four signs together find them: the session and the group of the child, the
tree of parents, a marker in the environment, and having been handed to us when its parent died (we are the
subreaper). The kernel's table is read from /proc; where there is none, only the group is ended.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

MARKER = "CODELET_CHILD"
"""The environment variable by which a process that changed its session and its parent is still known."""

_PR_SET_CHILD_SUBREAPER, _PR_SET_DUMPABLE = 36, 4
_KILL_LIMIT = 1.0
_numbers = itertools.count()
_trees: dict[int, Tree] = {}


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
    """A child that leads its own session, and everything that it started.

    `supervised` says that the child is a subreaper itself, or leads a name space: while it lives none of its orphans is
    handed to us. Those that outlive it for a moment are known by having been seen below it.
    """

    def __init__(self, leader: subprocess.Popen[bytes], marker: str, *, supervised: bool = False) -> None:
        self.leader = leader
        self.supervised = supervised
        self._marker = marker.encode()
        self._seen: set[tuple[int, int]] = set()
        row = _row(leader.pid)
        start = row.start if row else 0
        epochs: list[int] = [other._epoch for other in _trees.values()]
        self._epoch: int = min([start, *epochs])
        _trees[leader.pid] = self

    def left_behind(self) -> bool:
        """Whether the child, which has exited, left processes that run on. Cheap when it did not."""
        if self.supervised and not self._was_killed():
            return False  # it ends only once nothing is left below it
        adopted = _adopted()
        if adopted is not None and not adopted - _trees.keys():
            return False
        return self.signal(0) > 0

    def _was_killed(self) -> bool:
        """Whether the child, which may not be reaped yet, was ended by a signal that it could not heed."""
        if self.leader.returncode is not None:
            return self.leader.returncode == -signal.SIGKILL
        found = os.waitid(os.P_PID, self.leader.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return found is not None and found.si_code != os.CLD_EXITED and found.si_status == signal.SIGKILL

    def signal(self, number: int) -> int:
        """Send a signal to all of them, reap the dead that are ours, and count those that were alive.

        The leader itself is not reaped before `close`: as long as it is a zombie its number is not given to
        another process, so that no stranger can be hit through the group.
        """
        table = _table()
        if not table:
            self.leader.poll()
        group = self.signal_group(number)
        if not table:
            return int(group)
        alive = 0
        for row in self._members(table):
            if not row.dead:
                alive += 1
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(row.pid, number)
            elif row.pid not in _trees:
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
        """Reap the child, which has exited, and forget it."""
        self.leader.poll()
        _trees.pop(self.leader.pid, None)

    def signal_group(self, number: int) -> bool:
        """Send a signal to the child's group alone; whether there was one to take it."""
        try:
            os.killpg(self.leader.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _members(self, table: dict[int, _Row]) -> list[_Row]:
        pid = self.leader.pid
        below: dict[int, list[_Row]] = {}
        for row in table.values():
            below.setdefault(row.parent, []).append(row)
        found = {row.pid: row for row in table.values() if pid in (row.pid, row.group, row.session)}
        known = {row.pid: row for row in table.values() if row.pid not in found and self._is_ours(row, table)}
        found.update(known)
        found.update((row.pid, row) for row in table.values() if (row.pid, row.start) in self._seen)
        waiting = list(found)
        while waiting:
            for row in below.get(waiting.pop(), ()):
                if row.pid not in found:
                    found[row.pid] = row
                    waiting.append(row.pid)
        found.pop(os.getpid(), None)
        self._seen = {(row.pid, row.start) for row in found.values()}
        return list(found.values())

    def _is_ours(self, row: _Row, table: dict[int, _Row]) -> bool:
        if row.start < self._epoch or row.pid in _trees or row.pid == os.getpid():
            return False
        if not row.dead and self._marker in _environment(row.pid):
            return True
        # Servers overwrite their environment and a zombie has none. An orphan handed to us is ours for sure
        # only when no other child of ours runs; its session tells it from what a library of ours started.
        sources = [tree for tree in _trees.values() if not tree.supervised]
        alone = sources == [self] and become_subreaper.cache_info().currsize > 0
        own = table.get(os.getpid())
        if not alone or own is None or row.parent != own.pid or row.session == own.session:
            return False
        adopted = _adopted(main_only=True)
        return adopted is None or row.pid in adopted


def _table() -> dict[int, _Row]:
    try:
        names = [entry.name for entry in os.scandir("/proc")]
    except OSError:
        return {}
    rows = (_row(int(name)) for name in names if name.isdigit())
    return {row.pid: row for row in rows if row is not None}


def _row(pid: int) -> _Row | None:
    line = _read(f"/proc/{pid}/stat")
    # The name in brackets may hold blanks and brackets itself: what follows the last one is numbers.
    fields = line[line.rfind(b")") + 2 :].split()
    return _Row(pid, fields) if len(fields) >= 20 else None


def _adopted(main_only: bool = False) -> set[int] | None:
    """Our direct children; None where the kernel does not list them.

    Orphans are handed to the main thread, while a library's children hang on the thread that started them.
    """
    own = f"/proc/self/task/{os.getpid()}/children"
    try:
        lists = [Path(own).read_bytes()]
        if not main_only:
            lists += [_read(f"{entry.path}/children") for entry in os.scandir("/proc/self/task")]
    except OSError:
        return None
    return {int(pid) for line in lists for pid in line.split()}


def _environment(pid: int) -> bytes:
    return _read(f"/proc/{pid}/environ")


def _read(path: str) -> bytes:
    """A file of /proc; empty when the process is gone or not ours to read."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
