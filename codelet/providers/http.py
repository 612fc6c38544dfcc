"""HTTP/1.1 for the native wires: h11 over asyncio streams, one connection kept open from step to step.

Proxies come from the usual variables (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY), certificates from
SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE. Redirects are not followed: a key must not
travel to a host that the user did not name.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import h11

from codelet import __version__
from codelet.errors import ProviderError, UsageError
from codelet.providers.base import Deadlines

_READ_SIZE = 65_536
_TRAILER_WAIT = 0.3


@dataclass(eq=False, repr=False)
class Connection:
    """An open connection and its protocol state. `used` tells a kept connection from a new one.

    `target_prefix` and `extra_headers` are what a plain HTTP proxy wants in each request.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    state: h11.Connection
    used: bool = False
    target_prefix: str = ""
    extra_headers: dict[str, str] = field(default_factory=dict)

    def close(self) -> None:
        """Close at once, without waiting for the peer: the server must see a cancel immediately."""
        self.writer.transport.abort()


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
        self._url = _checked_url(base)
        self._deadlines = deadlines
        self._idle: Connection | None = None

    @property
    def place(self) -> str:
        """Host and port as an error message names them."""
        return f"{self._url.hostname}:{_port(self._url)}"

    async def warm(self) -> None:
        """Open the connection ahead of the first request; a failure will show at the request."""
        if self._idle is None:
            try:
                self._idle = await self._connect()
            except ProviderError:
                self._idle = None

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
        if self._idle is not None:
            self._idle.close()
            self._idle = None

    async def _exchange(self, path: str, headers: dict[str, str], body: bytes) -> tuple[Connection, h11.Response]:
        while True:
            connection = self._idle or await self._connect()
            self._idle = None
            kept = connection.used
            connection.used = True
            try:
                await self._send(connection, path, headers, body)
                return connection, await self._read_head(connection)
            except _ClosedEarly:
                connection.close()
                if not kept:
                    message = f"{self.place} closed the connection without an answer"
                    raise ProviderError(message, retryable=True) from None
            except BaseException:
                connection.close()
                raise

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
        proxy = _proxy_for(self._url)
        try:
            async with asyncio.timeout(self._deadlines.connect):
                connection = await (_through(proxy, self._url) if proxy else _open(self._url))
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


def _checked_url(base: str) -> SplitResult:
    url = urlsplit(base)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise UsageError(f"--api-base must be an http or https address, not {base!r}")
    return url


def _port(url: SplitResult) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


async def _open(url: SplitResult) -> Connection:
    context = tls_context() if url.scheme == "https" else None
    reader, writer = await asyncio.open_connection(url.hostname, _port(url), ssl=context)
    return Connection(reader, writer, h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20))


def _proxy_for(url: SplitResult) -> SplitResult | None:
    names = (f"{url.scheme}_proxy", f"{url.scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    if not any(os.environ.get(name) for name in names):
        return None
    from urllib.request import getproxies, proxy_bypass  # slow to import

    if proxy_bypass(url.hostname or ""):
        return None
    proxies = getproxies()
    address = proxies.get(url.scheme) or proxies.get("all", "")
    proxy = urlsplit(address if "//" in address else f"http://{address}")
    if proxy.scheme not in ("http", "https") or not proxy.hostname:
        raise UsageError(f"only http and https proxies are supported, not {address!r}")
    return proxy


async def _through(proxy: SplitResult, url: SplitResult) -> Connection:
    """A connection through a proxy: a tunnel for https, requests with whole addresses for http."""
    connection = await _open(proxy)
    login = _proxy_login(proxy)
    target = f"{url.hostname}:{_port(url)}"
    if url.scheme == "http":
        connection.target_prefix = f"http://{target}"
        connection.extra_headers = login
        return connection
    head = {"Host": target, **login}
    lines = [f"CONNECT {target} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
    connection.writer.write("\r\n".join(lines).encode("latin-1"))
    try:
        answer = await connection.reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        answer = b""
    if answer.split(b" ", 2)[1:2] != [b"200"]:
        connection.close()
        line = answer.split(b"\r\n", 1)[0].decode("latin-1") or "no answer"
        raise ProviderError(f"the proxy {proxy.hostname} refused the connection: {line}")
    await connection.writer.start_tls(tls_context(), server_hostname=url.hostname)
    return connection


def _proxy_login(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    from base64 import b64encode
    from urllib.parse import unquote

    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(login.encode()).decode()}"}


def tls_context() -> ssl.SSLContext:
    """A verifying context: the file that the user named, else the system's store, else certifi's."""
    named = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    if named and not os.environ.get("SSL_CERT_FILE"):
        if Path(named).is_dir():
            return ssl.create_default_context(capath=named)
        return ssl.create_default_context(cafile=named)
    paths = ssl.get_default_verify_paths()
    if paths.cafile or (paths.capath and any(Path(paths.capath).iterdir())):
        return ssl.create_default_context()
    import certifi

    return ssl.create_default_context(cafile=certifi.where())
