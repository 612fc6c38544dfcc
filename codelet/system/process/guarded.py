"""Programs that run below the supervisor (see `supervisor`): commands of the model, services, background tasks.

One supervisor serves the whole process. It is started before the first command is due, and again if it was killed.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path

from codelet.system.process.start import StartError, child_environment, given, program_path, start_error, start_problem
from codelet.system.process.supervisor import FIRST_KEPT, KILL, RETIRE, START, TERMINATE
from codelet.system.process.tree import MARKER, Tree, become_subreaper, hide_memory, new_marker, reap_guards

_PROGRAM = Path(__file__).with_name("supervisor.py")
_ANSWER_SECONDS = 10.0
_END_SECONDS = 0.4
"""A guard sends SIGTERM, waits 0.15 s and kills; one that needs longer is killed itself."""
_RETIRE_SECONDS = 0.1
_UNANSWERED = "the supervisor of commands was killed or does not answer; the next command gets a new one"
_CHUNK = 1 << 12
_lock = threading.Lock()
_current: list[_Supervisor] = []
"""The one that the next command is sent to, if there is one."""
_retired: list[_Supervisor] = []
"""Those that still had programs when they were to end."""


class _Supervisor:
    """The process that forks a guard for each program."""

    def __init__(self) -> None:
        """Start it, without waiting. Raises StartError."""
        become_subreaper()
        hide_memory()
        self.control, theirs = socket.socketpair()
        self.owner = os.getpid()
        try:
            with theirs:
                self.process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(_PROGRAM), str(theirs.fileno())],
                    cwd="/",
                    env=child_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
        except OSError as error:
            self.control.close()
            raise start_error(sys.executable, error) from error
        self._tree = Tree(self.process.pid, MARKER)  # it is no orphan of a program

    @property
    def runs(self) -> bool:
        """Return whether this process has it, and it has not ended."""
        return self.owner == os.getpid() and self.process.poll() is None

    def has_ended(self) -> bool:
        """Return whether it was killed: what it held is closed a moment before that can be seen."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_RETIRE_SECONDS)
        return not self.runs

    def retire(self) -> None:
        """Let it end once the last program below it has ended; it is waited for a moment."""
        with suppress(OSError):
            self.control.send(RETIRE)
        self.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_RETIRE_SECONDS)

    def close(self) -> None:
        """Give back what is here of it."""
        self.control.close()
        self._tree.close()


def start_supervisor() -> tuple[_Supervisor, bool]:
    """Return a running supervisor, and whether it replaces a killed one. Raises StartError."""
    with _lock:
        before = _current.pop() if _current else None
        if before is not None and before.runs:
            _current.append(before)
            return before, False
        if before is None:
            atexit.register(retire_supervisor)
        else:
            before.close()
            reap_guards()
        _current.append(_Supervisor())
        return _current[0], before is not None and before.owner == os.getpid()


def retire_supervisor() -> None:
    """End the supervisor: now, or once the last program below it has ended. The next command starts another."""
    atexit.unregister(retire_supervisor)
    with _lock:
        before = _current.pop() if _current else None
        if before is not None and before.owner == os.getpid():
            before.retire()
            _retired[:] = [each for each in [*_retired, before] if each.runs]


class Guarded:
    """A program below its own guard. Every way out must reach `close`.

    `pid` is the number of the guard and of the program's session. `over`: nothing of the program runs any more, or it
    could not start. `left`: the program left processes running, which were ended. `lost`: its guard, or the supervisor
    before it, was killed.
    """

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        *,
        apart: bool = False,
        stdin: bool = False,
        terminal: int | None = None,
        keep: Sequence[int] = (),
    ) -> None:
        """Request the start, without waiting for it. Raises StartError.

        Standard error comes `apart` or merged; without `stdin` there is no input. A `terminal` takes the place of all
        three streams. The program gets the descriptors `keep` with the numbers from FIRST_KEPT on.
        """
        self.name = argv[0]
        self.stdin: FileIO | None = None
        self.stdout: FileIO | None = None
        self.stderr: FileIO | None = None
        self.pid: int | None = None
        self._status = -signal.SIGKILL
        self.started = self.over = self.left = False
        self._problem = ""
        self._said = b""
        self._ordered = False
        self._marker = new_marker(os.environ.get(MARKER, ""))
        self._tree: Tree | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sent = 0
        self._theirs = ExitStack()  # the program's ends, until its guard has them
        program = program_path(argv, cwd, environment)
        with ExitStack() as ours, ExitStack() as theirs:
            try:
                words, data = theirs.enter_context(given([program, *argv[1:]], argv, FIRST_KEPT + len(keep)))
                request = _request(words, cwd, {**environment, MARKER: self._marker}, terminal is not None)
                streams = [terminal] * 3 if terminal is not None else self._pipes(ours, theirs, stdin, apart)
                kept = [os.dup(each) for each in keep]  # the caller may close its own before a second try
                for each in kept:
                    theirs.callback(os.close, each)
                self._request = request, [*streams, *kept, *data]
                self._send()
            except (OSError, ValueError) as error:
                raise start_error(self.name, error) from error
            ours.pop_all()
            self._theirs = theirs.pop_all()

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal; None while anything of it runs."""
        return self._status if self.over else None

    def watch(self, exited: Callable[[], object]) -> None:
        """Call `exited` once it is over."""
        self._loop = asyncio.get_running_loop()
        self._exited = exited
        self._answered, self._ended = self._loop.create_future(), self._loop.create_future()
        self._loop.add_reader(self._lifeline, self._hear)
        self._timer = self._loop.call_later(_ANSWER_SECONDS, self._unanswered)

    async def starts(self) -> None:
        """Wait until it runs. Raises StartError."""
        await self._answered
        self.refuse_failed_start()

    def refuse_failed_start(self) -> None:
        """Raise StartError if the program could not be started."""
        if self._problem:
            raise StartError(f"cannot start {self.name}: {self._problem}")

    def terminate(self) -> None:
        """Have the guard end all of it: SIGTERM, and after 0.15 s SIGKILL."""
        self._order(TERMINATE)

    async def end(self) -> None:
        """End all of it: SIGTERM, and after a moment, or a second cancel, SIGKILL."""
        self.terminate()
        try:
            if not self.over:
                await asyncio.wait([self._ended], timeout=_END_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        """End all of it now; takes milliseconds on most days, and no event loop.

        A guard that does not do it is killed, for then the supervisor does it; without both it is done from here.
        """
        if self.over:
            return
        self._order(KILL)
        self._hear()
        if self.pid is None:  # the guard reads the order before it starts anything
            self.over = True
        for kill in (self._kill_guard, self._supervisor.process.kill, lambda: None):
            end = time.monotonic() + _END_SECONDS
            while not self.over and select.select([self._lifeline], [], [], max(end - time.monotonic(), 0.0))[0]:
                self._hear()
            if self.over:
                break
            kill()

    def close(self) -> None:
        """Give everything back; kills what should still live."""
        self.kill()
        if self._timer is not None:
            self._timer.cancel()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._lifeline)
        self._lifeline.close()
        self._theirs.close()
        if self._tree is not None:
            self._tree.close()
        if self.pid is not None and not self._supervisor.runs:  # the guard came to us, and ends at this moment
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)

    def _pipes(self, ours: ExitStack, theirs: ExitStack, stdin: bool, apart: bool) -> list[int]:
        """Make the pipes; return the ends for the program."""

        def made(mode: str) -> tuple[FileIO, int]:
            reading, writing = os.pipe()
            mine, other = (reading, writing) if mode == "r" else (writing, reading)
            theirs.callback(os.close, other)
            return ours.enter_context(FileIO(mine, mode)), other

        if stdin:
            self.stdin, source = made("w")
        else:
            source = os.open(os.devnull, os.O_RDONLY)
            theirs.callback(os.close, source)
        self.stdout, output = made("r")
        if not apart:
            return [source, output, output]
        self.stderr, errors = made("r")
        return [source, output, errors]

    def _send(self) -> None:
        """Request the start; a supervisor that was killed a moment ago is replaced once."""
        request, descriptors = self._request
        self._sent += 1
        self._lifeline, far = socket.socketpair()
        try:
            with far:
                self._supervisor, self.lost = start_supervisor()
                socket.send_fds(self._supervisor.control, [START], [far.fileno(), *descriptors])
            self._lifeline.settimeout(_ANSWER_SECONDS)
            self._lifeline.sendall(request)
            self._lifeline.setblocking(False)
        except BaseException as error:
            self._lifeline.close()
            if not isinstance(error, ConnectionError) or self._sent > 1:
                raise
            self._supervisor.process.kill()
            self._supervisor.process.wait()
            self._send()

    def _order(self, order: bytes) -> None:
        self._ordered = True
        with suppress(OSError):
            self._lifeline.send(order)

    def _hear(self) -> None:
        """Take in a report of the guard, or of the supervisor for a killed guard."""
        try:
            data = self._lifeline.recv(_CHUNK)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        *lines, self._said = (self._said + data).split(b"\n")
        for line in lines:
            self._told(*line.decode("utf-8", "replace").split(" ", 2))
        if not data and not self.over:
            self._gone()
        if self._loop is None or self._loop.is_closed():
            return
        if (self.started or self.over) and not self._answered.done():
            self._answered.set_result(None)
        if self.over and not self._ended.done():
            self._loop.remove_reader(self._lifeline)
            self._ended.set_result(None)
            self._exited()

    def _told(self, word: str, number: str = "0", rest: str = "") -> None:
        if word == "pid":
            self._theirs.close()
            self.pid = int(number)
            self._tree = Tree(self.pid, self._marker, orphans=True)
        elif word == "started":
            self.started = True
            assert self._tree is not None
            self._tree.group = int(number)
        else:
            self.over = True
        if word == "exit":
            self._status, self.left = int(number), rest == "1"
        elif word == "failed":
            self._problem = start_problem(int(number), rest)
        elif word == "killed":
            self.lost = True

    def _gone(self) -> None:
        """The guard has ended without a report, and so has the supervisor, unless nothing was started."""
        if self._tree is None and self._sent == 1 and not self._ordered and self._supervisor.has_ended():
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._lifeline)
            self._lifeline.close()
            with suppress(OSError, StartError):
                self._send()
                if self._loop is not None and not self._loop.is_closed():
                    self._loop.add_reader(self._lifeline, self._hear)
                return
        self.over = True
        if self._tree is None:
            self._problem = _UNANSWERED
        elif self.started or not self._ordered:
            self.lost = True
            self._tree.kill()

    def _kill_guard(self) -> None:
        assert self.pid is not None
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGKILL)

    def _unanswered(self) -> None:
        if self.pid is None:
            self._supervisor.process.kill()  # which closes the lifeline


def _request(words: Sequence[str], cwd: Path, environment: Mapping[str, str], terminal: bool) -> bytes:
    """Return what a guard reads. Raises ValueError for what no program can be given."""
    variables = [f"{name}={value}" for name, value in environment.items()]
    fields = [str(cwd), str(int(terminal)), str(len(words)), *words, *variables]
    if any("\0" in field for field in fields):
        raise ValueError("a word of its command line, or a variable, holds a NUL character")
    data = b"\0".join(map(os.fsencode, fields))
    return len(data).to_bytes(4) + data
