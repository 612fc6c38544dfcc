"""A child that runs until its owner closes it, such as an MCP server; both talk over pipes.

It has its own session and an environment without secrets. A supervisor is its parent (see `supervisor`): however
codelet ends, the service and everything that it started ends too, even processes that left its session.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from codelet.system.process.guarded import Guarded
from codelet.system.process.output import HeadAndTail
from codelet.system.process.start import child_environment

_CHUNK = 1 << 16
_STOP_SECONDS = 1.0
_END_SECONDS = 3.0


class ServiceError(Exception):
    """A service ended, or what it sent is too long; the text is one line that says which."""


async def start_service(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    limit: int = 1 << 23,
    error_limit: int = 1 << 16,
    merged: bool = False,
) -> Service:
    """Start the program `argv` as a service. Raises StartError.

    `limit` is the most bytes of one line or one read; at most twice as many are buffered, then the service waits.
    `error_limit` is how many bytes of standard error are kept. `environment` is passed unchanged; the default is
    `child_environment()`. A `merged` service has no input, and its standard error goes to its standard output. Close
    the service, or use it in `async with`.
    """
    environment = child_environment() if environment is None else environment
    service = Service(Guarded(argv, cwd, environment, apart=not merged, stdin=not merged), error_limit)
    try:
        await service.open(limit)
    except BaseException:
        await service.close(patience=0.0)
        raise
    return service


class Service:
    """A running service; made by `start_service`. One task reads and one writes at a time."""

    def __init__(self, program: Guarded, error_limit: int) -> None:
        self.name = program.name
        self._program = program
        self._loop = asyncio.get_running_loop()
        self._exited = asyncio.Event()
        program.watch(self._exited.set)
        self._errors = HeadAndTail(error_limit)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._output: asyncio.ReadTransport | None = None
        self._closed = False

    async def open(self, limit: int) -> None:
        """Connect the pipes and wait until the program runs. Raises StartError."""
        assert self._program.stdout is not None
        if self._program.stderr is not None:
            errors = self._program.stderr.fileno()
            os.set_blocking(errors, False)
            self._loop.add_reader(errors, self._read_errors)
        self._reader = asyncio.StreamReader(limit)
        protocol = asyncio.StreamReaderProtocol(self._reader)
        self._output, _ = await self._loop.connect_read_pipe(lambda: protocol, self._program.stdout)
        if self._program.stdin is not None:
            flow = asyncio.StreamReaderProtocol(asyncio.StreamReader())
            transport, _ = await self._loop.connect_write_pipe(lambda: flow, self._program.stdin)
            self._writer = asyncio.StreamWriter(transport, flow, None, self._loop)
        self._limit = limit
        await self._program.starts()

    @property
    def lost(self) -> bool:
        """Return whether its guard, or the supervisor before it, was killed."""
        return self._program.lost

    @property
    def pid(self) -> int | None:
        """The number of its guard, which leads its session."""
        return self._program.pid

    @property
    def errors(self) -> str:
        """Return what it has printed on standard error: head and tail, with a line that counts what is left out
        between.
        """
        return self._errors.text()[0]

    @property
    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._program.returncode

    async def wait(self) -> None:
        """Wait until it has exited or was closed."""
        await self._exited.wait()

    async def write(self, data: bytes) -> None:
        """Send bytes to its standard input; waits while it does not read them. Raises ServiceError."""
        if self._writer is None or self._closed:
            raise self._gone()
        self._writer.write(data)
        try:
            await self._writer.drain()
        except ConnectionError as error:
            raise self._gone() from error

    async def read_line(self) -> bytes | None:
        """Return the next line of its standard output without its end; None after the last.

        Raises ServiceError for a line above the limit; after that nothing more can be read.
        """
        if self._reader is None:
            raise self._gone()
        try:
            line = await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            return error.partial or None
        except asyncio.LimitOverrunError as error:
            raise ServiceError(f"{self.name} sent a line of more than {self._limit} bytes") from error
        return line.removesuffix(b"\n").removesuffix(b"\r")

    async def read_bytes(self, count: int) -> bytes:
        """Exactly `count` bytes of its standard output. Raises ServiceError if they do not come."""
        if self._reader is None:
            raise self._gone()
        if count > self._limit:
            raise ServiceError(f"{self.name} wants to send {count} bytes in one read, at most {self._limit} are taken")
        try:
            return await self._reader.readexactly(count)
        except asyncio.IncompleteReadError as error:
            raise self._gone() from error

    async def read_some(self) -> bytes:
        """Wait for output and return it; empty after the last."""
        return b"" if self._reader is None else await self._reader.read(_CHUNK)

    async def terminate(self) -> None:
        """End all that it started, as `close` does; what it printed can still be read, and it is still to be closed."""
        self._program.terminate()
        await self._exits_in(_END_SECONDS)

    async def close(self, patience: float = _STOP_SECONDS) -> None:
        """End it: close its input, wait `patience` seconds, then end all that it started. Also after a cancel."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._writer is not None:
                self._writer.close()
            if patience:
                await self._exits_in(patience)
            self._program.terminate()
            await self._exits_in(_END_SECONDS)
        finally:
            self._give_back()
        await asyncio.sleep(0)  # the pipes are closed in the next round of the loop

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _exits_in(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._exited.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _give_back(self) -> None:
        """Kill what should still live, and close everything."""
        self._program.close()
        self._exited.set()
        if self._program.stderr is not None:
            self._read_errors()
            self._loop.remove_reader(self._program.stderr.fileno())
            self._program.stderr.close()
        for stream, opened in ((self._program.stdin, self._writer), (self._program.stdout, self._output)):
            if stream is not None and opened is None:  # it was cancelled before it was connected
                stream.close()
        if self._output is not None:
            self._output.close()
        if self._writer is not None and self._program.stdin is not None and not self._program.stdin.closed:
            self._writer.transport.abort()  # what it did not read is dropped

    def _read_errors(self) -> None:
        assert self._program.stderr is not None
        try:
            data = os.read(self._program.stderr.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if data:
            self._errors.feed(data)
        else:
            self._loop.remove_reader(self._program.stderr.fileno())

    def _gone(self) -> ServiceError:
        """An error for its end, with its last line of standard error."""
        line = self.errors.strip().rpartition("\n")[2]
        code = self.exit_code
        how = "was closed" if self._closed else "ended" if code is None else f"ended with exit code {code}"
        return ServiceError(f"{self.name} {how}{f': {line}' if line else ''}")
