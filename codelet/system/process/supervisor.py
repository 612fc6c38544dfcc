"""The parent of a service or of a command, run as a program of its own: it ends that and all that it started.

It needs nothing but the standard library. Arguments: the number of a socket, then the command's words. The other end
of the socket is held by codelet alone: once it is closed, by whatever ends codelet, nothing below this process goes on.
Over the socket codelet is told in a line how the start went, empty or why there is none, and in another one, LEFT,
if the command left processes behind, which are ended here: no orphan below this process goes to another parent.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36
LEFT = b"left processes\n"
_OWN_END_LOOKS = 20
"""So often is looked whether what a command started ends by itself, 5 ms apart: a shell does not wait for `>(…)`, nor
bubblewrap for its inner process. Looks, not seconds: on a busy machine those would pass before the others came to run.
"""
# Of the kernel's line on a process, behind its name: its flags and the signals that wait for it (man 5 proc_pid_stat).
_FLAGS, _EXITING = 6, 0x4
_PENDING, _KILL_IS_PENDING = 28, 1 << (signal.SIGKILL - 1)
_TERM_SECONDS = 0.15
_KILL_SECONDS = 2.0
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""What a person's terminal or the ending of the tree sends; this process goes last."""


def main(lifeline: int, command: list[str]) -> int:
    """Run the command until it exits or the lifeline is cut; its exit status, negative for a signal."""
    if sys.platform.startswith("linux"):  # whoever leaves the service's session stays below this process
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    service = _started(command, lifeline)
    _leave_pipes()
    watched = [lifeline, woken]
    reaped: dict[int, int] = {}
    while service not in reaped:
        ready, _, _ = select.select(watched, [], [])
        if lifeline in ready:
            _end_below(_TERM_SECONDS, reaped)
            break
        os.read(woken, 4096)
        _reap(reaped)
    if service in reaped and not _end_by_themselves(reaped):
        _tell(lifeline, LEFT)
        _end_below(_TERM_SECONDS, reaped)
    _end_below(0.0, reaped)
    return os.waitstatus_to_exitcode(reaped.get(service, signal.SIGKILL))


def _tell(lifeline: int, line: bytes) -> bool:
    """Send codelet a line; whether there is still one to hear it."""
    try:
        return os.write(lifeline, line) == len(line)
    except OSError:
        return False


def _started(command: list[str], lifeline: int) -> int:
    """The number of the process that became the command; tells codelet how that went."""
    failed, failure = os.pipe()
    service = os.fork()
    if service == 0:
        for number in (*_IGNORED, signal.SIGPIPE, signal.SIGXFSZ):  # the last two Python ignores
            signal.signal(number, signal.SIG_DFL)
        try:
            os.execv(command[0], command)
        except OSError as error:
            os.write(failure, (error.strerror or str(error)).encode())
        os._exit(127)
    os.close(failure)
    _tell(lifeline, os.read(failed, 4096) + b"\n")
    os.close(failed)
    return service


def _leave_pipes() -> None:
    """Give up the service's own pipes, so that each of them ends when the service is done with it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)


def _reap(reaped: dict[int, int]) -> bool:
    """Reap whatever is dead, and note with which status; whether nothing is left below."""
    try:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            reaped[found[0]] = found[1]
    except ChildProcessError:
        return True
    return False


def _end_by_themselves(reaped: dict[int, int]) -> bool:
    """Whether all that is below ends within a moment."""
    for _ in range(_OWN_END_LOOKS):
        if _reap(reaped):
            return True
        time.sleep(0.005)
    return not any(map(_runs_on, _below()))


def _end_below(patience: float, reaped: dict[int, int]) -> None:
    """End every process below this one: SIGTERM, and after `patience` seconds SIGKILL."""
    start = time.monotonic()
    while (running := _below()) and time.monotonic() - start < patience + _KILL_SECONDS:
        number = signal.SIGTERM if time.monotonic() - start < patience else signal.SIGKILL
        for pid in running:
            _send(pid, number)
        time.sleep(0.005)
    _reap(reaped)  # those too that others ended: what is not reaped here is handed to codelet
    if not os.path.isdir("/proc/self") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # nobody lists what is below: the group goes, and this process with it


def _send(pid: int, number: int) -> bool:
    """Send a signal; whether there was a process to take it."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _status(pid: str) -> bytes:
    """The kernel's line on a process; empty where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _runs_on(pid: int) -> bool:
    """Whether a process is neither killed nor ending: to take down a namespace, as of a sandbox, takes a while."""
    line = _status(str(pid))
    fields = line[line.rfind(b")") + 2 :].split()
    return bool(fields) and not (int(fields[_FLAGS]) & _EXITING or int(fields[_PENDING]) & _KILL_IS_PENDING)


def _below() -> list[int]:
    """The processes below this one that are not dead."""
    below: dict[int, list[int]] = {}
    dead = set()
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        line = _status(name) if name.isdigit() else b""
        if line:
            state, parent = line[line.rfind(b")") + 2 :].split()[:2]
            below.setdefault(int(parent), []).append(int(name))
            if state in (b"Z", b"X"):
                dead.add(int(name))
    found, waiting = [], [os.getpid()]
    while waiting:
        children = below.get(waiting.pop(), [])
        found += children
        waiting += children
    return [pid for pid in found if pid not in dead]


if __name__ == "__main__":
    os.set_inheritable(int(sys.argv[1]), False)
    _code = main(int(sys.argv[1]), sys.argv[2:])
    if _code < 0:
        if -_code != signal.SIGKILL:
            signal.signal(-_code, signal.SIG_DFL)
        os.kill(os.getpid(), -_code)
    os._exit(abs(_code))
