"""A server on loopback that says exactly the bytes that a test wants, connection by connection."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from typing import Self

from tests.support.server import LoopThread, shut

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class RawServer:
    """Each connection is given to `handle`; `heads` are the request heads that `head` has read."""

    def __init__(self, handle: Handler, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self._handle = handle
        self._host = host
        self._tls = tls
        self._writers: list[asyncio.StreamWriter] = []
        self._handling: list[asyncio.Task[None]] = []
        self.connections = 0

    @property
    def base(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self._host}:{self.port}"

    def __enter__(self) -> Self:
        self._thread = LoopThread()
        self._server = self._thread.run(self._listen())
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *exception: object) -> None:
        self._thread.run(shut(self._server, lambda: [writer.transport for writer in self._writers]))
        self._thread.stop()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._begin, self._host, 0, ssl=self._tls)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._handling.append(asyncio.ensure_future(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._handle(reader, writer)
        finally:
            writer.close()


async def read_request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """The head and the body of one request."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    size = next((int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")), 0)
    return head, await reader.readexactly(size)


def saying(*pieces: bytes, pause: float = 0.0) -> Handler:
    """A handler that reads one request, says the pieces and closes."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)  # clock: the server's pace

    return handle


def event_stream(body: bytes) -> bytes:
    """A whole answer: an event stream that ends with the connection."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + body
