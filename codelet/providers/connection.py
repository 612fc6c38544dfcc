"""Connections for the native wires: direct, through a proxy, with TLS.

Proxies come from HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY, certificates from SSL_CERT_FILE, SSL_CERT_DIR,
REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from codelet.errors import ProviderError, UsageError
from codelet.system.text.secret_shapes import without_login

_STREAM_LIMIT = 65_536
_NAMED = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_HASHED = r"[0-9a-f]{8}\.\d+"

_MANY_READS = 16
_SMALL_READ = 16_384
_QUICK_SECONDS = 0.005
_GATHER_SECONDS = 0.03
"""After `_MANY_READS`, most of them smaller than `_SMALL_READ` bytes and within `_QUICK_SECONDS`, a stream is fast:
then it is read once in `_GATHER_SECONDS`. The screen's frames are further apart.
"""

PROXY_LOGIN = "give its user and password in the proxy variable: http://USER:PASSWORD@HOST:PORT"


class ClosedEarly(Exception):
    """The peer closed the connection before its answer: normal for a kept one."""


class Connection:
    """An open connection. `used`: it has carried a request.

    `target_prefix` and `extra_headers` are what a plain HTTP proxy expects in each request, `proxy` is its address.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.used = False
        self.opened = time.monotonic()
        self.target_prefix = ""
        self.proxy = ""
        self.outer: asyncio.StreamWriter | None = None
        self.extra_headers: dict[str, str] = {}
        self._quick_reads = 0

    async def read(self) -> bytes:
        """The received bytes, b"" at the end.

        Each small piece has its cost, so a fast stream is read less often: in between the socket is paused.
        """
        transport = self.writer.transport
        if self._quick_reads >= _MANY_READS and isinstance(transport, asyncio.Transport):
            transport.pause_reading()
            try:
                await asyncio.sleep(_GATHER_SECONDS)
            finally:
                transport.resume_reading()
        begun = time.monotonic()
        data = await self.reader.read(_SMALL_READ)
        quick = len(data) < _SMALL_READ and time.monotonic() - begun < _QUICK_SECONDS
        self._quick_reads = min(self._quick_reads + 1, 2 * _MANY_READS) if quick else self._quick_reads // 2
        return data

    def begin(self) -> None:
        """Begin a request, which is written to `writer` next."""
        self.used, self._quick_reads = True, 0

    def close(self) -> None:
        """Close immediately: the server must see a cancel."""
        self.writer.transport.abort()


def request_head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """The head of a request. Raises ProviderError for a target or header that cannot be sent."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}".strip() for name, value in headers.items())]
    if " " in target or not all(line.isascii() and line.isprintable() for line in lines):
        raise ProviderError("the address or a header of the request has characters that HTTP does not allow")
    return "\r\n".join([*lines, "", ""]).encode("ascii")


def checked_url(base: str) -> SplitResult:
    """A base address, parsed; raises UsageError if it is not an http or https address in ASCII."""
    url = http_address(base)
    if url is None or not base.isascii() or not base.isprintable() or " " in base:
        raise UsageError(
            "--api-base must be an http or https address, in ASCII and without spaces (percent-encoded, xn--…), "
            f"not {without_login(base)!r}"
        )
    return url


def http_address(address: str) -> SplitResult | None:
    """The parsed address; None if it is not an http or https address."""
    try:
        url = urlsplit(address)
        usable = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:  # an invalid port or bracket
        return None
    return url if usable else None


def _authority(url: SplitResult) -> str:
    host = url.hostname or ""
    return f"[{host}]:{port_of(url)}" if ":" in host else f"{host}:{port_of(url)}"


def port_of(url: SplitResult) -> int:
    """The address's port, or its scheme's."""
    return url.port or (443 if url.scheme == "https" else 80)


async def open_direct(url: SplitResult) -> Connection:
    """A connection to the address itself."""
    if url.scheme == "https" and (quick := context_of_folder()) is not None:
        with suppress(ssl.SSLCertVerificationError):  # the whole store has the last word
            return Connection(*await asyncio.open_connection(url.hostname, port_of(url), ssl=quick))
    context = tls_context() if url.scheme == "https" else None
    return Connection(*await asyncio.open_connection(url.hostname, port_of(url), ssl=context))


def proxy_for(url: SplitResult) -> SplitResult | None:
    """The environment's proxy for this address, or None."""
    names = (f"{url.scheme}_proxy", f"{url.scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    chosen = next((name for name in names if os.environ.get(name) or (name.islower() and name in os.environ)), "")
    if not (address := os.environ.get(chosen, "")):  # an empty name in small letters means no proxy, as for urllib
        return None
    if exceptions := os.environ.get("no_proxy") or os.environ.get("NO_PROXY"):
        from codelet.system.no_proxy import goes_direct

        if goes_direct(url.hostname or "", port_of(url), exceptions):
            return None
    proxy = http_address(address if "//" in address else f"http://{address}")
    if proxy is None or "@" in proxy.path:  # a password with a `/` that is not written %2F
        raise UsageError(
            f"the proxy {without_login(address)!r} is no http or https address; other kinds are not supported"
        )
    return proxy


async def open_through(proxy: SplitResult, url: SplitResult) -> Connection:
    """A connection through a proxy: a tunnel for https, requests with full addresses for http."""
    login = {}
    if proxy.username:
        from base64 import b64encode
        from urllib.parse import unquote

        pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        login = {"Proxy-Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
    target = _authority(url)
    if url.scheme == "http":
        connection = await open_direct(proxy)
        connection.target_prefix = f"http://{target}"
        connection.proxy = f"{proxy.scheme}://{_authority(proxy)}"
        connection.extra_headers = login
        return connection
    context = tls_context()
    proxy_context = tls_context() if proxy.scheme == "https" else None
    answer, writer = await asyncio.open_connection(proxy.hostname, port_of(proxy), ssl=proxy_context)
    try:
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *(f"{name}: {login[name]}" for name in login), "", ""]
        writer.write("\r\n".join(lines).encode("latin-1"))
        try:
            first = (await answer.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0][:200].decode("latin-1")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            first = "no answer"
        if (status := first.split(" ", 2)[1:2]) != ["200"]:
            advice = f"; {PROXY_LOGIN}" if status == ["407"] else ""
            raise ProviderError(f"the proxy {proxy.hostname} refused the connection: {first}{advice}")
        # The tunnel has its own reader: bytes that the proxy sent unencrypted are not the server's.
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(_STREAM_LIMIT)
        protocol = asyncio.StreamReaderProtocol(reader)
        tunnel = await loop.start_tls(writer.transport, protocol, context, server_hostname=url.hostname)
        if tunnel is None:  # the proxy hung up during the handshake
            raise ConnectionResetError
        protocol.connection_made(tunnel)
    except BaseException:
        writer.transport.abort()
        raise
    connection = Connection(reader, asyncio.StreamWriter(tunnel, protocol, reader, loop))
    connection.outer = writer  # which would close the transport if it were dropped
    return connection


def context_of_folder() -> ssl.SSLContext | None:
    """A context that finds certificates in the system's folder by their hash; None if `tls_context` is needed.

    Loading all from a file takes a fifth of the start.
    """
    folder = ssl.get_default_verify_paths().capath
    if folder is None or any(map(os.environ.get, _NAMED)):
        return None
    try:
        hashed = any(map(re.compile(_HASHED).fullmatch, os.listdir(folder)))
    except OSError:
        return None
    return ssl.create_default_context(capath=folder) if hashed else None


def tls_context() -> ssl.SSLContext:
    """A verifying context: the user's file or folder, else the system's store, else certifi's.

    Raises UsageError if the user's file cannot be read or holds no certificates.
    """
    for name in filter(os.environ.get, _NAMED):
        place = Path(os.environ[name])
        try:
            folder = place.is_dir()
            return ssl.create_default_context(capath=place if folder else None, cafile=None if folder else place)
        except ssl.SSLError:
            raise UsageError(f"{name}: {place} holds no certificates in PEM form") from None
        except OSError as error:
            raise UsageError(f"{name}: {place}: {error.strerror}") from None
    paths = ssl.get_default_verify_paths()
    if paths.cafile or (paths.capath and any(Path(paths.capath).iterdir())):
        return ssl.create_default_context()
    import certifi

    return ssl.create_default_context(cafile=certifi.where())
