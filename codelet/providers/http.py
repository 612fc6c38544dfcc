"""HTTP/1.1 for the native wires: h11 over asyncio streams, one connection kept open from step to step.

Redirects are not followed: a key must not travel to a host that the user did not name.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import SplitResult

import h11

from codelet.errors import ProviderError
from codelet.providers.base import Deadlines
from codelet.providers.catalog import on_this_machine
from codelet.providers.connection import Connection, checked_url, open_direct, open_through, port_of, proxy_for
from codelet.providers.failure import stalled, unreachable
from codelet.version import __version__

_READ_SIZE = 65_536
_TURN = 0.005
"""Seconds of reading without a pause after which signals and other tasks have their turn."""
_TRAILER_WAIT = 0.3
_FRESH = 2.0


class Response:
    """A response whose headers have arrived; `body()` yields the rest.

    Its reader calls `heard` for each piece of the answer. Until the first piece the deadline for the first token
    counts, whatever else the server sends: many send their headers at once and only then read a long prompt. After that
    the same deadline counts from piece to piece, besides the shorter one for bytes of any kind: while a model writes a
    long argument, some servers send nothing but keep-alives for minutes.
    """

    def __init__(self, connection: Connection, head: h11.Response, deadlines: Deadlines, first_until: float) -> None:
        self.status = head.status_code
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        self._heard = False
        self._since: float | None = None
        self._connection = connection
        self._deadlines = deadlines
        self._first_until = first_until

    def heard(self) -> None:
        """Note that what was read last was a piece of the answer."""
        self._heard = True

    async def body(self) -> AsyncIterator[bytes]:
        """The body's pieces as they arrive; raises ProviderError when it stalls or is cut."""
        time = asyncio.get_running_loop().time
        turned = time()
        while True:
            event = await self._next_event()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
                if (now := time()) - turned > _TURN:  # however fast the server sends, signals have their turn
                    await asyncio.sleep(0)
                    turned = now
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                raise ProviderError("the connection was closed in the middle of the answer", retryable=True)

    async def text(self, limit: int = 65_536) -> str:
        """The body as text, at most `limit` bytes: for error messages, so a cut one is good enough."""
        data = bytearray()
        with suppress(ProviderError):
            async for piece in self.body():
                data += piece
                if len(data) >= limit:
                    break
        return bytes(data[:limit]).decode("utf-8", "replace")

    async def _next_event(self) -> object:
        now = asyncio.get_running_loop().time()
        if self._heard:
            self._since, self._heard = now, False
        if self._since is None:
            return await _first_event(self._connection, self._first_until, self._deadlines)
        silence = self._deadlines.between_chunks
        most = max(silence, self._deadlines.first_token)
        if now + silence <= self._since + most:
            return await _next_event(self._connection, now + silence, f"no data for {silence:g} seconds")
        late = f"nothing but signs of life for {most:g} seconds"
        return await _next_event(self._connection, self._since + most, late)


class HttpClient:
    """Posts to one base address and keeps its connection open between requests.

    `check` names what a user should look at when it cannot be reached.
    """

    def __init__(self, base: str, deadlines: Deadlines, check: str = "the network and --api-base") -> None:
        self._check = check
        self._url = checked_url(base)
        self._local = on_this_machine(base)
        self._deadlines = deadlines
        self._idle: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None
        self._requests = 0  # how many are under way

    @property
    def place(self) -> str:
        """Host and port as an error message names them."""
        return f"{self._url.hostname}:{port_of(self._url)}"

    def warm(self) -> None:
        """Start opening the connection ahead of a request; a failure will show at the request.

        While a request is under way its connection is the one that the next will use.
        """
        if self._idle is None and self._opening is None and not self._requests:
            self._opening = asyncio.create_task(self._connect())
            self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())

    @asynccontextmanager
    async def post(self, path: str, headers: dict[str, str], body: bytes) -> AsyncIterator[Response]:
        """Send one request; yields the response once its headers are there.

        The connection is kept if the response was read to its end, and closed otherwise, as on a cancel.
        """
        self._requests += 1
        try:
            connection, head, first_until = await self._exchange(path, headers, body)
            try:
                yield Response(connection, head, self._deadlines, first_until)
                await self._finish(connection)
            finally:
                self._release(connection)
        finally:
            self._requests -= 1

    async def close(self) -> None:
        """Close the kept connection, and the one that is being opened even if this is cancelled meanwhile."""
        if self._idle is not None:
            self._idle.close()
            self._idle = None
        if self._opening is not None:
            opening, self._opening = self._opening, None
            opening.add_done_callback(_close_opened)
            opening.cancel()
            await asyncio.wait([opening])

    async def _exchange(
        self, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[Connection, h11.Response, float]:
        """The connection, the response's head, and the time of the loop at which the first token is due."""
        while True:
            await self._warmed()
            connection = self._idle or await self._connect()
            self._idle = None
            stale = connection.used or connection.age() > _FRESH
            connection.used = True
            try:
                await self._send(connection, path, headers, body)
                first_until = asyncio.get_running_loop().time() + self._deadlines.first_token
                return connection, await self._read_head(connection, first_until), first_until
            except _ClosedEarly:
                connection.close()
                if not stale:
                    message = f"{self.place} closed the connection without an answer"
                    raise unreachable(message, local=self._local) from None
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
        query = f"?{self._url.query}" if self._url.query else ""
        target = connection.target_prefix + self._url.path.rstrip("/") + path + query
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
            raise stalled(f"{self.place} stopped reading the request") from None
        except OSError:
            raise _ClosedEarly from None

    async def _read_head(self, connection: Connection, first_until: float) -> h11.Response:
        while True:
            event = await _first_event(connection, first_until, self._deadlines)
            if isinstance(event, h11.Response):
                return event

    async def _finish(self, connection: Connection) -> None:
        """Read what follows the stream's own end marker, so that the connection can be kept."""
        until = asyncio.get_running_loop().time() + _TRAILER_WAIT
        with suppress(ProviderError, _ClosedEarly):
            while connection.state.their_state is h11.SEND_BODY:
                await _next_event(connection, until, "no end")

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
            late = f"{self._way(proxy)} did not accept a connection in time"
            raise unreachable(late, local=self._local) from None
        except ssl.SSLCertVerificationError as error:
            reason = f"{error.verify_message}; is SSL_CERT_FILE needed?"
            raise ProviderError(f"TLS with {self.place} failed: {reason}") from None
        except ssl.SSLError as error:
            reason = f"{error.reason or error}; does it speak https?"
            broken = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
            raise ProviderError(f"TLS with {self.place} failed: {reason}", retryable=broken) from None
        except OSError as error:
            known = error.errno is not None and error.errno > 0
            reason = os.strerror(error.errno or 0) if known else error.strerror or str(error) or type(error).__name__
            check = "the network and the proxy variables" if proxy else self._check
            message = f"cannot reach {self._way(proxy)}: {reason}; check {check}"
            refused = isinstance(error, ConnectionRefusedError)
            raise unreachable(message, local=self._local, refused=refused) from None
        return connection

    def _way(self, proxy: SplitResult | None) -> str:
        return f"the proxy {proxy.hostname}:{port_of(proxy)} on the way to {self.place}" if proxy else self.place


def _close_opened(opening: asyncio.Task[Connection]) -> None:
    """Close what was opened after all before the cancel came."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


class _ClosedEarly(Exception):
    """The peer closed the connection before it answered: normal for one that was kept."""


async def _first_event(connection: Connection, until: float, deadlines: Deadlines) -> object:
    """The next event of a response in which no token has come yet."""
    return await _next_event(connection, until, f"no token within {deadlines.first_token:g} seconds")


async def _next_event(connection: Connection, until: float, late: str) -> object:
    """The next protocol event; raises ProviderError with `late` if it has not come by the loop's time `until`."""
    state = connection.state
    try:
        async with asyncio.timeout_at(until):
            while (event := state.next_event()) is h11.NEED_DATA:
                data = await connection.reader.read(_READ_SIZE)
                if not data and state.their_state is h11.SEND_RESPONSE:
                    raise _ClosedEarly
                state.receive_data(data)
    except TimeoutError:
        raise stalled(f"{late}: the answer has stalled") from None
    except h11.RemoteProtocolError as error:
        if connection.reader.at_eof():
            raise ProviderError("the connection was cut in the middle of the answer", retryable=True) from None
        raise ProviderError(f"the answer is not valid HTTP: {error}") from None
    except OSError:
        if state.their_state is h11.SEND_RESPONSE:
            raise _ClosedEarly from None
        raise ProviderError("the connection was cut in the middle of the answer", retryable=True) from None
    return event
