"""The supervisor: starts commands and services for codelet, and ends them with all that they started.

It is a program apart and needs only the standard library. Argument: the number of a socket to codelet. Each b"c" on it
comes with descriptors: the end of a second socket (the lifeline), the three streams, and the other descriptors that the
program keeps. For each request a guard is forked, which reads the rest from the lifeline and is the parent of that one
program. A guard is a subreaper: it becomes the parent of every orphan below it, so everything that the program started
is found. The supervisor is a subreaper too: it ends the leftovers of a killed guard.

A guard ends everything below it when the lifeline is closed, however codelet ends, or when it reads an order there. It
reports in lines: `pid N`, then `started N` with the number of the program, or `failed ERRNO TEXT`, then `exit CODE
LEFT`, where LEFT is 1 if processes were left behind. `killed` comes from the supervisor: the guard was killed, and its
leftovers were ended.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import socket
import sys
import termios
import time
from collections.abc import Collection
from contextlib import suppress
from typing import NoReturn

START, RETIRE = b"c", b"q"
TERMINATE, KILL = b"t", b"k"
FIRST_KEPT = 40
"""The number of the first descriptor that a program keeps besides its streams; the others follow."""

_HIGH = 50
_NO_PROGRAM = 1 << 30
"""No process has this number, nor has a group."""
_PR_SET_DUMPABLE, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 4, 15, 36
_MOST_DESCRIPTORS = 8
_LISTS_PROCESSES = os.path.isdir("/proc/self")
_OWN_END_LOOKS = 20
"""The leftovers of a program can end within this many looks, 5 ms apart: a shell does not wait for `>(…)`, nor
bubblewrap for its inner process. Looks, not seconds, because on a busy machine those would pass before the others got
to run.
"""
_LOOK_SECONDS = 0.005
_OWN_END_SECONDS = 2.0
# In the kernel's line on a process, after its name: its flags and its pending signals (man 5 proc_pid_stat).
_FLAGS, _EXITING = 6, 0x4
_PENDING, _KILL_IS_PENDING = 28, 1 << (signal.SIGKILL - 1)
_TERM_SECONDS = 0.15
_KILL_SECONDS = 2.0
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""Sent by a terminal, or to everything below; supervisor and guards go last."""


def main(control: socket.socket) -> None:
    """Fork a guard for each request, until codelet is gone, or retires this process and the last guard has ended."""
    _set(_PR_SET_CHILD_SUBREAPER, 1)
    _set(_PR_SET_DUMPABLE, 0)  # no command can look into it, or take its descriptors
    _set(_PR_SET_NAME, b"codelet-guard")  # as `ps` shows it
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    pipe = _wake_pipe()
    guards: dict[int, int] = {}
    retired = False
    while guards or not retired:
        watched: list[int | socket.socket] = [pipe[0]] if retired else [pipe[0], control]
        ready, _, _ = select.select(watched, [], [])
        if pipe[0] in ready:
            os.read(pipe[0], 4096)
            _settle(guards)
        if control in ready:
            order, descriptors, _, _ = socket.recv_fds(control, 1, _MOST_DESCRIPTORS)
            retired = order == RETIRE
            if order == START:
                _fork_guard(descriptors, guards, (control.fileno(), *pipe))
            elif not order:
                _Below().end(_TERM_SECONDS)
                return


def _set(option: int, value: int | bytes) -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _wake_pipe() -> tuple[int, int]:
    """A pipe that can be read once a child has ended."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    return woken, wake


def _settle(guards: dict[int, int]) -> None:
    """Reap ended children; end everything that a killed guard left."""
    below = _Below(spared=guards)
    below.reap()
    while ended := guards.keys() & below.reaped.keys():
        pid = ended.pop()
        lifeline = guards.pop(pid)
        if below.reaped[pid]:
            below.end(0.0)
            _say(lifeline, "killed")
        os.close(lifeline)


def _fork_guard(descriptors: list[int], guards: dict[int, int], own: tuple[int, ...]) -> None:
    lifeline, *streams = descriptors
    try:
        pid = os.fork()
    except OSError as error:
        _say(lifeline, f"failed {error.errno} {error.strerror}")
        streams.append(lifeline)
    else:
        if pid == 0:
            _run_guard(descriptors, (*own, *guards.values()))
        guards[pid] = lifeline
    for each in streams:
        os.close(each)


def _run_guard(descriptors: list[int], others: tuple[int, ...]) -> NoReturn:
    """Be the guard of one program; ends this process, with 0 if nothing is left below it."""
    status = 1
    try:
        os.setsid()
        _set(_PR_SET_CHILD_SUBREAPER, 1)  # a fork does not inherit it
        high = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _HIGH) for each in descriptors]
        for each in (*descriptors, *others):
            os.close(each)
        _guard(high[0], high[1:])
        status = 0
    finally:
        os._exit(status)


def _guard(lifeline: int, streams: list[int]) -> None:
    """Run the requested program until it exits or is to be ended; report how that went."""
    woken, _ = _wake_pipe()
    _say(lifeline, f"pid {os.getpid()}")
    try:
        program = _started(_request(lifeline), streams)
    except OSError as error:
        _say(lifeline, f"failed {error.errno} {error.strerror}")
        return
    _say(lifeline, f"started {program}")
    below = _Below(program, lifeline=lifeline)
    left = False
    while program not in below.reaped:
        ready, _, _ = select.select([lifeline, woken], [], [])
        if lifeline in ready:
            below.end(0.0 if os.read(lifeline, 1) == KILL else _TERM_SECONDS)
            break
        os.read(woken, 4096)
        below.reap()
    else:
        left = not below.ends_by_itself(woken)
        if left:
            below.end(_TERM_SECONDS)
    _say(lifeline, f"exit {os.waitstatus_to_exitcode(below.reaped.get(program, signal.SIGKILL))} {int(left)}")


def _request(lifeline: int) -> list[bytes]:
    """Read the request: the folder, whether the streams are a terminal, the number of words, the words, the variables.

    Ends this process if codelet is gone: then nothing is started.
    """
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4]):
        if not (piece := os.read(lifeline, 1 << 16)):
            os._exit(0)
        data += piece
    if select.select([lifeline], [], [], 0)[0]:
        os._exit(0)
    return data[4:].split(b"\0")


def _started(request: list[bytes], streams: list[int]) -> int:
    """Start the program in a new process group; return its number.

    Only the guard leads the session: the program can neither take a terminal by opening one, nor hit the guard when it
    signals its own group.
    """
    folder, terminal, count, *words = request
    argv, variables = words[: int(count)], words[int(count) :]
    os.chdir(folder)
    targets = [*range(3), *range(FIRST_KEPT, FIRST_KEPT + len(streams) - 3)]
    for source, target in zip(streams, targets, strict=True):
        os.dup2(source, target)
        os.close(source)
    if terminal == b"1":
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    program = os.posix_spawn(
        argv[0],
        argv,
        dict(variable.split(b"=", 1) for variable in variables),
        setpgroup=os.getpgrp() if terminal == b"1" else 0,
        setsigdef=[*_IGNORED, signal.SIGPIPE, signal.SIGXFSZ],  # the last two Python ignores
    )
    nothing = os.open(os.devnull, os.O_RDWR)  # each pipe ends when the program is done with it
    for target in targets[:3]:
        os.dup2(nothing, target)
    for each in (nothing, *targets[3:]):
        os.close(each)
    return program


def _say(lifeline: int, line: str) -> None:
    with suppress(OSError):  # codelet may be gone
        os.write(lifeline, line.encode() + b"\n")


class _Below:
    """The processes below this one, without the `spared` children and the processes below those.

    `program` and its group represent all of them on a system that does not list processes. `reaped` holds the statuses
    of ended children.
    """

    def __init__(self, program: int = _NO_PROGRAM, *, lifeline: int = -1, spared: Collection[int] = ()) -> None:
        self.reaped: dict[int, int] = {}
        self._program = program
        self._lifeline = lifeline
        self._spared = spared

    def reap(self) -> bool:
        """Reap what has ended; return whether nothing is left."""
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                self.reaped[found[0]] = found[1]
        except ChildProcessError:
            return _LISTS_PROCESSES or not self._running()
        return False

    def ends_by_itself(self, woken: int) -> bool:
        """Return whether all of it ends within a moment."""
        looks, deadline = 0, time.monotonic() + _OWN_END_SECONDS
        while looks < _OWN_END_LOOKS and time.monotonic() < deadline:
            if self.reap():
                return True
            if select.select([woken], [], [], _LOOK_SECONDS)[0]:
                os.read(woken, 4096)
            else:
                looks += 1
        return not any(pid < 0 or _runs_on(pid) for pid in self._running())

    def end(self, patience: float) -> None:
        """End all of it: SIGTERM, and after `patience` seconds, or the order to kill, SIGKILL."""
        start = time.monotonic()
        watched = [self._lifeline] if self._lifeline >= 0 else []
        while not self.reap() and (running := self._running()) and time.monotonic() - start < patience + _KILL_SECONDS:
            for pid in running:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGTERM if time.monotonic() - start < patience else signal.SIGKILL)
            if select.select(watched, [], [], _LOOK_SECONDS)[0]:
                if os.read(self._lifeline, 1) == KILL:
                    patience = 0.0
                else:
                    watched = []  # codelet is gone
        self.reap()

    def _running(self) -> list[int]:
        """Return the live processes; a negative number is a group."""
        if not _LISTS_PROCESSES:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(-self._program, 0)
                return [-self._program]
            return []
        children: dict[int, list[int]] = {}
        dead = set()
        for name in filter(str.isdecimal, os.listdir("/proc")):
            if line := _status(name):
                state, parent = line[line.rfind(b")") + 2 :].split()[:2]
                children.setdefault(int(parent), []).append(int(name))
                if state in (b"Z", b"X"):
                    dead.add(int(name))
        found = [pid for pid in children.get(os.getpid(), ()) if pid not in self._spared]
        for pid in found:
            found += children.get(pid, ())
        return [pid for pid in found if pid not in dead]


def _status(pid: str) -> bytes:
    """The kernel's line on a process; empty if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _runs_on(pid: int) -> bool:
    """Return whether a process is neither killed nor ending: it takes a while to take down a sandbox's name spaces."""
    line = _status(str(pid))
    fields = line[line.rfind(b")") + 2 :].split()
    return bool(fields) and not (int(fields[_FLAGS]) & _EXITING or int(fields[_PENDING]) & _KILL_IS_PENDING)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
    os._exit(0)
