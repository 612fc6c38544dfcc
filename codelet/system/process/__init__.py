"""The one place that starts child processes: commands for the model, short helpers of our own, and services.

Every child gets stdin from /dev/null, or the bytes that it is to read, a session of its own and an environment
without secrets. Whatever it prints, memory stays bounded; reading stops when it exits, even if something in the
background holds its pipe. When it exits, runs out of time or its caller is cancelled, everything that it started
ends with it.

`service` (a child that is spoken to) and `brief` (one that is waited for outside the event loop) are imported where
they are needed. So is asyncio, where a child is waited for: a helper can be started before that import.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codelet.record import Record
from codelet.system.process.start import (
    ExitWatch,
    StartError,
    child_environment,
    find_program,
    outside_path,
    shell_argv,
    start,
    start_tied,
    without_agents,
)
from codelet.system.process.tree import MARKER, Tree, become_subreaper, hide_memory, new_marker

if TYPE_CHECKING:
    import asyncio

__all__ = [
    "Begun",
    "Captured",
    "Finished",
    "StartError",
    "capture",
    "child_environment",
    "find_program",
    "outside_path",
    "run_child",
    "shell_argv",
    "without_agents",
]

_CHUNK = 1 << 16
_DRAIN_LIMIT = 1 << 20
_POLL = 0.01
_TERM_GRACE = 0.2
_TERM_POLLS = 20
_PAUSES = (0.001, 0.002, 0.004, 0.008, *[0.01] * 9, 0.0)  # so many looks, however long they take on a busy machine

Sink = Callable[[bytes], bool]
"""Takes bytes; True when it has enough."""


class Finished(Record):
    """A command that ended.

    `output` is what it printed on both streams, in order, at most the limit asked for: of more, head and tail
    with a line between them that counts what was left out; `dropped_bytes` is that count. `exit_code` is
    negative for a signal. `background` says that it left processes running, which were ended.
    """

    exit_code: int
    output: str
    dropped_bytes: int
    timed_out: bool
    seconds: float
    background: bool


class Captured(Record):
    """What a helper call gave. `cut` says that it printed more than the limit and was ended for it."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    cut: bool
    timed_out: bool


async def run_child(
    command: str | Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    timeout: float,
    output_limit: int,
    on_output: Callable[[str], None] | None = None,
    keep: Sequence[int] = (),
) -> Finished:
    """Run a command, as text for the shell or as its words, to its end.

    `timeout` is in seconds, `output_limit` in bytes. `on_output` gets the output while it comes, in pieces of
    a few KiB, some left out when there is too much. `environment` is taken as it is; without one the child
    gets `child_environment()`. `keep` are descriptors that it keeps. Raises StartError.
    """
    import asyncio

    from codelet.system.process.output import HeadAndTail, Stream

    become_subreaper()
    hide_memory()
    environment = child_environment() if environment is None else environment
    argv = shell_argv(command, environment, cwd) if isinstance(command, str) else command
    kept = HeadAndTail(output_limit)
    stream = Stream(on_output) if on_output else None

    def take(data: bytes) -> bool:
        if stream:
            stream.feed(data)
        return kept.feed(data)

    started = time.monotonic()
    child = _Child(argv, cwd, environment, [take], timeout, tied=True, keep=keep)
    background = False
    try:
        timed_out = await child.settled == "timeout"
        child.refuse_failed_start()
        background = not timed_out and await child.left_behind()
        if timed_out or background:
            await child.end()
    except asyncio.CancelledError:
        await child.end()
        raise
    finally:
        child.close()
        if stream:
            stream.close()
    text, dropped = kept.text()
    return Finished(child.exit_code, text, dropped, timed_out, time.monotonic() - started, background)


async def capture(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    timeout: float = 10.0,
    limit: int = 1 << 20,
    stdin: bytes = b"",
    begun: Begun | None = None,
) -> Captured:
    """Run a short helper, or the same that was `begun`; both streams apart, each at most `limit` bytes.
    Raises StartError.

    It reads `stdin`, if there is any, and then finds the end of its input; it need not read all of it.

    One that prints more is ended. Meant for programs of our own choice: it does without the search for what a
    command left in the background, which `run_child` makes, unless the helper is ended early.
    """
    import asyncio

    environment = child_environment() if environment is None else environment
    streams = [Head(limit), Head(limit)]
    sinks = [stream.feed for stream in streams]
    child = _Child(argv, cwd, environment, sinks, timeout, stdin=stdin, begun=begun)
    try:
        why = await child.settled
        if why == "exit":
            child.leave()
        else:
            await child.end()
    except asyncio.CancelledError:
        await child.end()
        raise
    finally:
        child.close()
    stdout, stderr = (bytes(stream.kept) for stream in streams)
    cut = any(stream.cut for stream in streams)
    return Captured(child.exit_code, stdout, stderr, cut, why == "timeout")


class Begun:
    """A helper that runs before anybody waits for it. Whoever begins it gives it to `capture`, or ends it."""

    def __init__(self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> None:
        """Start it. Raises StartError."""
        self.marker = new_marker(os.environ.get(MARKER, ""))
        self.since = time.monotonic()
        self.process = start(argv, cwd, {**environment, MARKER: self.marker}, apart=True)

    def end(self) -> None:
        """Kill it with its group: nobody wants its answer."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        self.process.wait()


class _Child:
    """A started child with its pipes. From its creation on, `close` must be reached on every way out."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        sinks: Sequence[Sink],
        timeout: float,
        *,
        tied: bool = False,
        keep: Sequence[int] = (),
        stdin: bytes = b"",
        begun: Begun | None = None,
    ) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        self.settled: asyncio.Future[Literal["exit", "timeout", "full"]] = self._loop.create_future()
        self._sinks: dict[int, Sink] = {}
        self._exit: ExitWatch | None = None
        self._clean = False
        marker = new_marker(os.environ.get(MARKER, "")) if begun is None else begun.marker
        variables = {**environment, MARKER: marker}
        self._name = argv[0]
        self._lifeline: socket.socket | ExitStack = ExitStack()
        if tied:
            self._process, self._lifeline = start_tied(argv, cwd, variables, apart=len(sinks) > 1, keep=keep)
        else:
            source = subprocess.PIPE if stdin else subprocess.DEVNULL
            self._process = begun.process if begun else start(argv, cwd, variables, apart=len(sinks) > 1, stdin=source)
        self._told = b""
        self._tree = Tree(self._process, marker, supervised=tied)
        self._timer = self._loop.call_later(timeout, self._settle, "timeout")
        self._unread = memoryview(stdin)
        try:
            if self._process.stdin is not None:
                os.set_blocking(self._process.stdin.fileno(), False)
                self._loop.add_writer(self._process.stdin.fileno(), self._write)
            for pipe, sink in zip((self._process.stdout, self._process.stderr), sinks, strict=False):
                if pipe is not None:
                    os.set_blocking(pipe.fileno(), False)
                    self._sinks[pipe.fileno()] = sink
                    self._loop.add_reader(pipe.fileno(), self._read, pipe.fileno())
            self._exit = ExitWatch(self._process, lambda: self._settle("exit"))
        except BaseException:
            self.close()
            raise

    @property
    def exit_code(self) -> int:
        """The exit status once closed; negative for a signal."""
        code = self._process.returncode
        return -signal.SIGKILL if code is None else code

    def refuse_failed_start(self) -> None:
        """Raise StartError where the supervisor could not start the program. Also hears what it tells besides."""
        if isinstance(self._lifeline, socket.socket):
            with suppress(OSError):
                self._told = self._lifeline.recv(_CHUNK)
        problem = self._told.partition(b"\n")[0].decode("utf-8", "replace")
        if problem:
            self._clean = True
            raise StartError(f"cannot start {self._name}: {problem}")

    async def left_behind(self) -> bool:
        """After the exit: read what is left, and say whether anything that the child started still ran.

        It gets a moment to end by itself: a shell does not wait for `>(…)`. A supervisor has waited already.
        """
        import asyncio

        from codelet.system.process.supervisor import LEFT  # behind the first command

        self.drain()
        if self._told.endswith(LEFT):
            return True
        for pause in _PAUSES:  # bubblewrap's inner processes are gone a moment after the outer one
            self._clean = not self._sinks and not self._tree.left_behind()
            if self._clean:
                break
            await asyncio.sleep(pause)
        return not self._clean

    def leave(self) -> None:
        """After the exit: read what is left and end what stayed in the group, without a search."""
        self.drain()
        self._tree.signal_group(signal.SIGKILL)
        self._clean = True

    def drain(self) -> None:
        """Read what lies in the pipes, without waiting, a bounded amount."""
        for pipe in list(self._sinks):
            left = _DRAIN_LIMIT
            while left > 0 and (size := self._read(pipe)):
                left -= size

    async def end(self) -> None:
        """End the child and all that it started: SIGTERM, and after 0.2 s, or a second cancel, SIGKILL."""
        import asyncio

        if self._clean:
            return
        self._lifeline.close()  # a supervisor ends what it finds below it
        try:
            self._tree.signal(signal.SIGTERM)
            limit = self._loop.time() + _TERM_GRACE
            for _ in range(_TERM_POLLS):
                if not self._tree.signal(0) or self._loop.time() > limit:
                    break
                await asyncio.sleep(_POLL)
        finally:
            self._tree.kill()
            self._clean = True
            self.drain()

    def close(self) -> None:
        """Give everything back; kills what should still live."""
        self._timer.cancel()
        self._lifeline.close()
        if self._clean:
            self._tree.close()
        else:
            self._tree.kill()
        if self._exit is not None:
            self._exit.close()
        self._end_input()
        for pipe_number in () if self._loop.is_closed() else self._sinks:
            self._loop.remove_reader(pipe_number)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _settle(self, why: Literal["exit", "timeout", "full"]) -> None:
        if not self.settled.done():
            self.settled.set_result(why)

    def _write(self) -> None:
        """Give the child what it takes of its input; its end where that was all, or it reads no more."""
        assert self._process.stdin is not None
        try:
            self._unread = self._unread[os.write(self._process.stdin.fileno(), self._unread[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # it closed its input
            self._unread = self._unread[:0]
        if not self._unread:
            self._end_input()

    def _end_input(self) -> None:
        if (pipe := self._process.stdin) is not None and not pipe.closed:
            if not self._loop.is_closed():
                self._loop.remove_writer(pipe.fileno())
            pipe.close()

    def _read(self, pipe: int) -> int:
        """Pass one chunk on; how many bytes it had."""
        try:
            data = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return 0
        if data:
            if self._sinks[pipe](data):
                self._settle("full")
            return len(data)
        self._loop.remove_reader(pipe)
        del self._sinks[pipe]
        return 0


class Head:
    """The first `limit` bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self.kept = bytearray()
        self.cut = False
        self._limit = limit

    def feed(self, data: bytes) -> bool:
        """Take the next bytes; True when there were more than the limit."""
        room = self._limit - len(self.kept)
        self.kept += data[:room]
        self.cut = self.cut or len(data) > room
        return self.cut
