"""An HTTP proxy on loopback: tunnels CONNECT, forwards requests with an absolute address, and may lie on request."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Self
from urllib.parse import urlsplit

from tests.support.server import LoopThread, shut


class Proxy:
    """Records what was asked of it: `targets` as host:port in order, `authorizations` beside them.

    With `password` set it answers 407 to whoever does not send it as Basic credentials (base64 text). `forged` are
    bytes that it sends in clear behind its consent to a tunnel, in the same write or, `apart`, in one of their own;
    then it tunnels as if nothing had been. With `tls` it is reached through TLS itself. With `to` (host:port) it brings
    everything there, whatever was asked: a server on loopback under another name. With `answers` it sends these bytes
    to each request, and asks no one.
    """

    def __init__(
        self,
        *,
        password: str | None = None,
        forged: bytes = b"",
        apart: bool = False,
        consent: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n",
        tls: ssl.SSLContext | None = None,
        to: str | None = None,
        answers: bytes | None = None,
    ) -> None:
        self.targets: list[str] = []
        self.authorizations: list[str | None] = []
        self._password = password
        self._forged = forged
        self._apart = apart
        self._consent = consent
        self._tls = tls
        self._to = to
        self._answers = answers
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def address(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread = LoopThread()
        self._server = self._thread.run(self._listen())
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *exception: object) -> None:
        self._thread.run(self._drop())
        self._thread.stop()

    async def _drop(self) -> None:
        """Listen no more and close every connection, whatever still waits to be sent."""
        await shut(self._server, lambda: [writer.transport for writer in self._writers])
        for writer in self._writers:
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._handle(reader, writer)
        finally:
            writer.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, version = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        address = urlsplit(target)
        where = target if method == "CONNECT" else address.netloc
        self.targets.append(where)
        self.authorizations.append(headers.get("proxy-authorization"))
        if self._password and headers.get("proxy-authorization") != f"Basic {self._password}":
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n")
            writer.write(b"Proxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        if self._answers is not None:
            writer.write(self._answers)
            await writer.drain()
            return
        host, _, port = (self._to or where).rpartition(":")
        up_reader, up_writer = await asyncio.open_connection(host.strip("[]"), int(port))
        self._writers.append(up_writer)
        if method == "CONNECT":
            writer.write(self._consent + (b"" if self._apart else self._forged))
            if self._apart:
                await asyncio.sleep(0.02)  # clock: so that it leaves in a packet of its own
                writer.write(self._forged)
        else:
            path = address.path + (f"?{address.query}" if address.query else "")
            kept = [line for line in lines if not line.lower().startswith("proxy-")]
            up_writer.write("\r\n".join([f"{method} {path} {version}", *kept]).encode("latin-1"))
        try:
            await asyncio.gather(_pump(reader, up_writer), _pump(up_reader, writer))
        finally:
            up_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
