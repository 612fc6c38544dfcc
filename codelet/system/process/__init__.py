"""The one place that starts child processes: commands for the model, short helpers of our own, and services.

Every child gets its own session, stdin from /dev/null or the bytes to read, and an environment without secrets. Memory
stays bounded; reading stops when the child exits, even if something in the background holds its pipe. When it exits,
runs out of time or its caller is cancelled, everything that it started ends with it.

`service` (a child to talk to) and `brief` (a child outside the event loop) are imported where they are needed. So is
asyncio: a helper can start before that import.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
)
from codelet.system.process.tree import MARKER, Tree, new_marker

if TYPE_CHECKING:
    import asyncio

    from codelet.system.process.guarded import Guarded

__all__ = [
    "Begun",
    "Captured",
    "Finished",
    "StartError",
    "capture",
    "child_environment",
    "end_supervisor",
    "expect_command",
    "find_program",
    "outside_path",
    "run_child",
    "shell_argv",
]

_CHUNK = 1 << 16
_DRAIN_LIMIT = 1 << 20
_POLL = 0.01
_TERM_GRACE = 0.2
_TERM_POLLS = 20

Sink = Callable[[bytes], bool]
"""Takes bytes; True when it has enough."""


class Finished(Record):
    """A command that ended.

    `output` is what it printed on both streams, in order, at most the limit asked for: of more, head and tail
    with a line between them that counts what was left out; `dropped_bytes` is that count. `exit_code` is
    negative for a signal. `background` says that it left processes running, which were ended. `lost` says that its
    guard (see `supervisor`) was killed, or the supervisor before it; another takes that one's place. `stopped` says
    that it was ended because of what it printed.
    """

    exit_code: int
    output: str
    dropped_bytes: int
    timed_out: bool
    seconds: float
    background: bool
    lost: bool = False
    stopped: bool = False


class Captured(Record):
    """The result of a helper. `cut`: it printed more than the limit and was ended for it."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    cut: bool
    timed_out: bool


def expect_command() -> None:
    """Start the supervisor of commands ahead of the next command."""
    from codelet.system.process.guarded import start_supervisor

    with suppress(StartError):  # the command itself will say so
        start_supervisor()


def end_supervisor() -> None:
    """End the supervisor of commands, if one was started; the next command starts another."""
    if guarded := sys.modules.get(f"{__name__}.guarded"):
        guarded.retire_supervisor()


async def run_child(
    command: str | Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    timeout: float,
    output_limit: int,
    on_output: Callable[[str], None] | None = None,
    stop_when: Callable[[bytes], bool] | None = None,
    keep: Sequence[int] = (),
    terminal: int | None = None,
) -> Finished:
    """Run a command, as text for the shell or as its words, to its end.

    `timeout` is in seconds, `output_limit` in bytes. `on_output` gets the output while it comes, in pieces of a few
    KiB, some left out if there is too much; `stop_when` gets all of it and ends the command by returning true.
    `environment` is `child_environment()` by default. The command has the descriptors `keep` as FIRST_KEPT and so on.
    A `terminal` takes the place of its streams. Raises StartError.
    """
    import asyncio

    from codelet.system.process.guarded import Guarded
    from codelet.system.process.output import HeadAndTail, Stream

    environment = child_environment() if environment is None else environment
    kept, stream = HeadAndTail(output_limit), Stream(on_output) if on_output else None

    def take(data: bytes) -> bool:
        if stream:
            stream.feed(data)
        kept.feed(data)
        return stop_when is not None and stop_when(data)

    argv, started = shell_argv(command, environment, cwd) if isinstance(command, str) else command, time.monotonic()
    program = Guarded(argv, cwd, environment, terminal=terminal, keep=keep)
    child = _Child(program, [take], timeout)
    try:
        if (settled := await child.settled) != "exit":
            await program.end()
        program.refuse_failed_start()
        child.drain()
    except asyncio.CancelledError:
        await program.end()
        raise
    finally:
        child.close()
        if stream:
            stream.close()
    took, late = time.monotonic() - started, settled == "timeout"
    return Finished(child.exit_code, *kept.text(), late, took, program.left, program.lost, settled == "full")


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
    helper = begun or Begun(
        argv, cwd=cwd, environment=environment, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL
    )
    child = _Child(helper, [stream.feed for stream in streams], timeout, stdin)
    try:
        why = await child.settled
        if why == "exit":
            helper.leave()
        else:
            await helper.terminate()
        child.drain()
    except asyncio.CancelledError:
        await helper.terminate()
        raise
    finally:
        child.close()
    stdout, stderr = (bytes(stream.kept) for stream in streams)
    cut = any(stream.cut for stream in streams)
    return Captured(child.exit_code, stdout, stderr, cut, why == "timeout")


class Begun:
    """A helper that can start before anyone waits for it. Pass it to `capture`, or call `end`."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        """Start it. Raises StartError."""
        marker = new_marker(os.environ.get(MARKER, ""))
        self.since = time.monotonic()
        self.process = start(argv, cwd, {**environment, MARKER: marker}, apart=True, stdin=stdin)
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr
        self._tree = Tree(self.process.pid, marker)
        self._watch: ExitWatch | None = None
        self._clean = False

    @property
    def returncode(self) -> int | None:
        """The exit status once closed; negative for a signal."""
        return self.process.returncode

    def watch(self, exited: Callable[[], None]) -> None:
        """Call `exited` once it has exited."""
        self._watch = ExitWatch(self.process, exited)

    def leave(self) -> None:
        """After the exit: end what stayed in its group, without a search."""
        self._tree.signal_group(signal.SIGKILL)
        self._clean = True

    async def terminate(self) -> None:
        """End it and all that it started: SIGTERM, and after 0.2 s, or a second cancel, SIGKILL."""
        import asyncio

        try:
            self._tree.signal(signal.SIGTERM)
            limit = time.monotonic() + _TERM_GRACE
            for _ in range(_TERM_POLLS):
                if not self._tree.signal(0) or time.monotonic() > limit:
                    break
                await asyncio.sleep(_POLL)
        finally:
            self._tree.kill()
            self._clean = True

    def close(self) -> None:
        """Reap it; kills what should still live."""
        if not self._clean:
            self._tree.kill()
        if self._watch is not None:
            self._watch.close()
        self.process.poll()
        self._tree.close()

    def end(self) -> None:
        """Kill it with its group, without an answer."""
        self.leave()
        self.process.wait()
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        self.close()


class _Child:
    """The pipes of a program that was started. From its creation on, `close` must be reached on every way out."""

    def __init__(self, program: Begun | Guarded, sinks: Sequence[Sink], timeout: float, stdin: bytes = b"") -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        self.settled: asyncio.Future[Literal["exit", "timeout", "full"]] = self._loop.create_future()
        self._sinks: dict[int, Sink] = {}
        self._program = program
        self._timer = self._loop.call_later(timeout, self._settle, "timeout")
        self._unread = memoryview(stdin)
        try:
            if program.stdin is not None:
                os.set_blocking(program.stdin.fileno(), False)
                self._loop.add_writer(program.stdin.fileno(), self._write)
            for pipe, sink in zip((program.stdout, program.stderr), sinks, strict=False):
                if pipe is not None:
                    os.set_blocking(pipe.fileno(), False)
                    self._sinks[pipe.fileno()] = sink
                    self._loop.add_reader(pipe.fileno(), self._read, pipe.fileno())
            program.watch(lambda: self._settle("exit"))
        except BaseException:
            self.close()
            raise

    @property
    def exit_code(self) -> int:
        """The exit status once closed; negative for a signal."""
        code = self._program.returncode
        return -signal.SIGKILL if code is None else code

    def drain(self) -> None:
        """Read a bounded amount from the pipes, without waiting."""
        for pipe in list(self._sinks):
            left = _DRAIN_LIMIT
            while left > 0 and (size := self._read(pipe)):
                left -= size

    def close(self) -> None:
        """Give everything back; kills what should still live."""
        self._timer.cancel()
        self._program.close()
        self._end_input()
        for pipe_number in () if self._loop.is_closed() else self._sinks:
            self._loop.remove_reader(pipe_number)
        for pipe in (self._program.stdout, self._program.stderr):
            if pipe is not None:
                pipe.close()

    def _settle(self, why: Literal["exit", "timeout", "full"]) -> None:
        if not self.settled.done():
            self.settled.set_result(why)

    def _write(self) -> None:
        """Write as much input as the child takes; close the pipe after the last byte, or if the child closed it."""
        assert self._program.stdin is not None
        try:
            self._unread = self._unread[os.write(self._program.stdin.fileno(), self._unread[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # it closed its input
            self._unread = self._unread[:0]
        if not self._unread:
            self._end_input()

    def _end_input(self) -> None:
        if (pipe := self._program.stdin) is not None and not pipe.closed:
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
