"""HTTP/1.1 for the native wires: h11 over asyncio streams, one connection kept open from step to step.

Redirects are not followed: a key must not travel to a host that the user did not name.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import h11

from codelet import __version__
from codelet.errors import ProviderError
from codelet.providers.base import Deadlines
from codelet.providers.connection import Connection, checked_url, open_direct, open_through, port_of, proxy_for

_READ_SIZE = 65_536
_TRAILER_WAIT = 0.3
_FRESH = 2.0


class Response:
    """A response whose headers have arrived; `body()` gives the rest."""

    def __init__(self, connection: Connection, head: h11.Response, deadlines: Deadlines) -> None:
        self.status = head.status_code
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        self._connection = connection
        self._deadlines = deadlines

    async def body(self) -> AsyncIterator[bytes]:
        """The body's pieces as they arrive; raises ProviderError when it stalls or is cut."""
        while True:
            event = await _next_event(self._connection, self._deadlines.between_chunks)
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                raise ProviderError("the connection was closed in the middle of the answer")

    async def text(self, limit: int = 65_536) -> str:
        """The body as text, at most `limit` bytes: for error messages, so a cut one is good enough."""
        data = bytearray()
        with suppress(ProviderError):
            async for piece in self.body():
                data += piece
                if len(data) >= limit:
                    break
        return bytes(data[:limit]).decode("utf-8", "replace")


class HttpClient:
    """Posts to one base address and keeps its connection open between requests."""

    def __init__(self, base: str, deadlines: Deadlines) -> None:
        self._url = checked_url(base)
        self._deadlines = deadlines
        self._idle: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None

    @property
    def place(self) -> str:
        """Host and port as an error message names them."""
        return f"{self._url.hostname}:{port_of(self._url)}"

    def warm(self) -> None:
        """Start opening the connection ahead of the first request; a failure will show at the request."""
        if self._idle is None and self._opening is None:
            self._opening = asyncio.create_task(self._connect())
            self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())

    @asynccontextmanager
    async def post(self, path: str, headers: dict[str, str], body: bytes) -> AsyncIterator[Response]:
        """Send one request; gives the response once its headers are there.

        The connection is kept if the response was read to its end, and closed otherwise, as on a cancel.
        """
        connection, head = await self._exchange(path, headers, body)
        try:
            yield Response(connection, head, self._deadlines)
            await self._finish(connection)
        finally:
            self._release(connection)

    async def close(self) -> None:
        """Close the kept connection."""
        if self._opening is not None:
            self._opening.cancel()
            await self._warmed()
        if self._idle is not None:
            self._idle.close()
            self._idle = None

    async def _exchange(self, path: str, headers: dict[str, str], body: bytes) -> tuple[Connection, h11.Response]:
        while True:
            await self._warmed()
            connection = self._idle or await self._connect()
            self._idle = None
            stale = connection.used or connection.age() > _FRESH
            connection.used = True
            try:
                await self._send(connection, path, headers, body)
                return connection, await self._read_head(connection)
            except _ClosedEarly:
                connection.close()
                if not stale:
                    message = f"{self.place} closed the connection without an answer"
                    raise ProviderError(message, retryable=True) from None
            except BaseException:
                connection.close()
                raise

    async def _warmed(self) -> None:
        """Take over the connection that `warm` opens, if it did."""
        if self._opening is None:
            return
        opening = self._opening
        await asyncio.wait([opening])
        self._opening = None
        if not opening.cancelled() and opening.exception() is None:
            self._idle = opening.result()

    async def _send(self, connection: Connection, path: str, headers: dict[str, str], body: bytes) -> None:
        every = {
            "host": self._url.netloc.rpartition("@")[2],
            "user-agent": f"codelet/{__version__}",
            "accept": "text/event-stream",
            "content-type": "application/json",
            "content-length": str(len(body)),
            **connection.extra_headers,
            **headers,
        }
        target = connection.target_prefix + self._url.path.rstrip("/") + path
        state = connection.state
        head = state.send(h11.Request(method="POST", target=target, headers=list(every.items()))) or b""
        data = state.send(h11.Data(data=body)) or b""
        state.send(h11.EndOfMessage())
        try:
            if len(data) <= _READ_SIZE:
                connection.writer.write(head + data)
            else:  # a long list is not copied once more
                connection.writer.write(head)
                connection.writer.write(data)
            async with asyncio.timeout(self._deadlines.between_chunks):
                await connection.writer.drain()
        except TimeoutError:
            raise ProviderError(f"{self.place} stopped reading the request", retryable=True) from None
        except OSError:
            raise _ClosedEarly from None

    async def _read_head(self, connection: Connection) -> h11.Response:
        while True:
            event = await _next_event(connection, self._deadlines.first_token)
            if isinstance(event, h11.Response):
                return event

    async def _finish(self, connection: Connection) -> None:
        """Read what follows the stream's own end marker, so that the connection can be kept."""
        with suppress(ProviderError, _ClosedEarly):
            while connection.state.their_state is h11.SEND_BODY:
                await _next_event(connection, _TRAILER_WAIT)

    def _release(self, connection: Connection) -> None:
        state = connection.state
        if state.our_state is h11.DONE and state.their_state is h11.DONE:
            state.start_next_cycle()
            self._idle = connection
        else:
            connection.close()

    async def _connect(self) -> Connection:
        proxy = proxy_for(self._url)
        try:
            async with asyncio.timeout(self._deadlines.connect):
                connection = await (open_through(proxy, self._url) if proxy else open_direct(self._url))
        except TimeoutError:
            raise ProviderError(f"{self.place} did not accept a connection in time", retryable=True) from None
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", "") or error.reason or str(error)
            raise ProviderError(f"TLS with {self.place} failed: {reason}; is SSL_CERT_FILE needed?") from None
        except OSError as error:
            known = error.errno is not None and error.errno > 0
            reason = os.strerror(error.errno or 0) if known else str(error) or type(error).__name__
            message = f"cannot reach {self.place}: {reason}; check the network and --api-base"
            raise ProviderError(message, retryable=True) from None
        return connection


class _ClosedEarly(Exception):
    """The peer closed the connection before it answered: normal for one that was kept."""


async def _next_event(connection: Connection, limit: float) -> object:
    state = connection.state
    try:
        async with asyncio.timeout(limit):
            while (event := state.next_event()) is h11.NEED_DATA:
                data = await connection.reader.read(_READ_SIZE)
                if not data and state.their_state is h11.SEND_RESPONSE:
                    raise _ClosedEarly
                state.receive_data(data)
    except TimeoutError:
        raise ProviderError(f"no data for {limit:g} seconds: the answer has stalled") from None
    except h11.RemoteProtocolError as error:
        if connection.reader.at_eof():
            raise ProviderError("the connection was cut in the middle of the answer") from None
        raise ProviderError(f"the answer is not valid HTTP: {error}") from None
    except OSError:
        if state.their_state is h11.SEND_RESPONSE:
            raise _ClosedEarly from None
        raise ProviderError("the connection was cut in the middle of the answer") from None
    return event
