"""HTTP/1.1 for the native wires: h11 over asyncio streams, one connection kept from step to step.

Redirects are not followed: a key must not reach a host that the user did not name.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import SplitResult

from codelet import __version__
from codelet.errors import ProviderError
from codelet.providers.connection import (
    ClosedEarly,
    Connection,
    checked_url,
    open_direct,
    open_through,
    port_of,
    proxy_for,
    request_head,
)
from codelet.providers.facts import on_this_machine
from codelet.providers.protocol import Deadlines

if TYPE_CHECKING:
    from codelet.providers.answer import Response

_FRESH = 2.0


class HttpClient:
    """Posts to one base address and keeps its connection open between requests.

    `check` is what to check if it cannot be reached, `option` where its address is set. `shows`: print every request.
    `direct`: bypass any proxy.
    """

    def __init__(
        self,
        base: str,
        deadlines: Deadlines,
        check: str = "the network and --api-base",
        *,
        option: str = "--api-base",
        shows: bool = False,
        method: str = "POST",
        direct: bool = False,
    ) -> None:
        self._method = method
        self._direct = direct
        self._check = check
        self._option = option
        self._shows = shows
        self._url = checked_url(base)
        self._local = on_this_machine(base)
        self._deadlines = deadlines
        self._kept: asyncio.Future[Connection] | None = None  # the next request's connection, perhaps being opened
        self._requests = 0  # how many are under way
        self.place = f"{self._url.hostname}:{port_of(self._url)}"

    def warm(self) -> None:
        """Open the connection ahead of a request, which reports a failure; not during another, whose it can use."""
        if self._kept is None and not self._requests:
            self._kept = asyncio.create_task(self._connect())
            self._kept.add_done_callback(lambda task: task.cancelled() or task.exception())

    @asynccontextmanager
    async def post(self, path: str, headers: dict[str, str], body: bytes) -> AsyncIterator[Response]:
        """Send one request, and yield the response once its headers are there.

        The connection is kept if the response was read to its end, and closed otherwise, as after a cancel.
        """
        self._requests += 1
        try:
            response = await self._exchange(path, headers, body)
            can_be_kept = False
            try:
                yield response
                can_be_kept = await response.finish() and self._kept is None  # one is enough
            finally:
                if can_be_kept:
                    self._kept = asyncio.get_running_loop().create_future()
                    self._kept.set_result(response.connection)
                else:
                    response.connection.close()
        finally:
            self._requests -= 1

    async def close(self) -> None:
        """Close the kept connection, and one being opened even if this is cancelled."""
        if (kept := self._kept) is not None:
            self._kept = None
            kept.add_done_callback(_close_opened)
            kept.cancel()
            await asyncio.wait([kept])

    async def _connection(self) -> Connection:
        """The kept connection, or a new one."""
        if (kept := self._kept) is not None:
            await asyncio.wait([kept])
            if self._kept is kept:  # else another request has it
                self._kept = None
                if not kept.cancelled() and kept.exception() is None:
                    return kept.result()
        return await self._connect()

    async def _exchange(self, path: str, headers: dict[str, str], body: bytes) -> Response:
        """The response to a request; another connection is opened if the server has closed the kept one."""
        while True:
            connection = await self._connection()
            stale = connection.used or time.monotonic() - connection.opened > _FRESH
            try:
                await self._send(connection, path, headers, body)
                from codelet.providers.answer import Response

                response = Response(connection, self._deadlines, self._method)
                await response.read_head()
                return response
            except ClosedEarly:
                connection.close()
                if not stale:
                    from codelet.providers.failure import unreachable

                    message = f"{self.place} closed the connection without an answer"
                    if not self._local or self._url.scheme == "https":
                        message += _SILENT[self._url.scheme].format(option=self._option)
                    raise unreachable(message, local=self._local) from None
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
        query = f"?{self._url.query}" if self._url.query else ""
        whole = self._url.path.rstrip("/") + path if path else self._url.path or "/"
        target = connection.target_prefix + whole + query
        head = request_head(self._method, target, every)
        if self._shows:
            show_request(f"{self._method} {target} to {self.place}", every, body)
        try:
            connection.begin()
            connection.writer.write(head + body)
            async with asyncio.timeout(self._deadlines.between_chunks):
                await connection.writer.drain()
        except TimeoutError:
            from codelet.providers.failure import unreachable

            raise unreachable(f"{self.place} stopped reading the request") from None
        except OSError:
            raise ClosedEarly from None

    async def _connect(self) -> Connection:
        proxy = None if self._direct else proxy_for(self._url)
        try:
            async with asyncio.timeout(self._deadlines.connect):
                return await (open_through(proxy, self._url) if proxy else open_direct(self._url))
        except OSError as error:
            raise self._unconnected(error, proxy) from None

    def _unconnected(self, error: OSError, proxy: SplitResult | None) -> ProviderError:
        from codelet.providers.failure import unreachable

        way = f"the proxy {proxy.hostname}:{port_of(proxy)} on the way to {self.place}" if proxy else self.place
        if isinstance(error, TimeoutError):
            return unreachable(f"{way} did not accept a connection in time", local=self._local)
        if isinstance(error, ssl.SSLCertVerificationError):
            check = _CERTIFICATE_CHECKS.get(error.verify_code, "is SSL_CERT_FILE needed?").format(option=self._option)
            return ProviderError(f"TLS with {self.place} failed: {error.verify_message}; {check}")
        if isinstance(error, ssl.SSLError):
            reason = f"{error.reason or error}; does it speak https?"
            broken = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
            return ProviderError(f"TLS with {self.place} failed: {reason}", retryable=broken)
        known = error.errno is not None and error.errno > 0
        reason = os.strerror(error.errno or 0) if known else error.strerror or str(error) or type(error).__name__
        check = "the network and the proxy variables" if proxy else self._check
        refused = isinstance(error, ConnectionRefusedError)
        return unreachable(f"cannot reach {way}: {reason}; check {check}", local=self._local, refused=refused)


_CERTIFICATE_CHECKS = {
    9: "check the clock of this machine",
    10: "its operator has to renew it, unless the clock of this machine is wrong",
    62: "check {option}",
    64: "check {option}",
}
"""Advice about a certificate, by OpenSSL's error number; else a missing authority."""

_SILENT = {
    "http": "; if it speaks https, begin {option} with https://",
    "https": "; a server that wants a client certificate does so, and codelet has none",
}
"""Expectations of a server that closes a new connection, by the scheme of the request."""


def _close_opened(opened: asyncio.Future[Connection]) -> None:
    if not opened.cancelled() and opened.exception() is None:
        opened.result().close()


_KEYS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key", "proxy-authorization", "cookie"})
_HIDDEN = "[masked]"


def show_request(line: str, headers: Mapping[str, str], body: bytes) -> None:
    """Print a request to stderr, without keys. It is lost if stderr is closed or full."""
    from codelet.safety.secrets import mask
    from codelet.system.text import clean

    rows = [line, *(f"{name}: {_HIDDEN if name.lower() in _KEYS else value}" for name, value in headers.items())]
    rows += ["", body.decode("utf-8", "replace")]
    text = "\n".join(f"> {clean(mask(row, patterns=True))}" for row in rows)
    for secret in (value.rpartition(" ")[2] for name, value in headers.items() if name.lower() in _KEYS):
        text = text.replace(secret, _HIDDEN) if len(secret) > 3 else text
    with suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
