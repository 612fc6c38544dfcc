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
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from codelet.errors import ProviderError, UsageError
from codelet.system.text.secret_shapes import without_login

if TYPE_CHECKING:
    import h11

READ_SIZE = 65_536
"""Bytes that are read or copied in one go."""
_STREAM_LIMIT = 65_536
_NAMED = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_HASHED = r"[0-9a-f]{8}\.\d+"

_MANY_READS = 16
_SMALL_READ = 16_384
_QUICK_SECONDS = 0.005
_GATHER_SECONDS = 0.03
"""After `_MANY_READS`, most of them smaller than `_SMALL_READ` bytes and within `_QUICK_SECONDS`, a stream is fast:
then the socket is read once in `_GATHER_SECONDS`. The screen's frames are further apart.
"""


PROXY_LOGIN = "give its user and password in the proxy variable: http://USER:PASSWORD@HOST:PORT"


class ClosedEarly(Exception):
    """The peer closed the connection before its answer: normal for a kept one."""


class Connection:
    """An open connection and its protocol state. `used`: it has carried a request.

    `target_prefix` and `extra_headers` are what a plain HTTP proxy expects in each request; `proxy` is its address
    without a password: it may answer instead of the server.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.used = False
        self._quick_reads = 0
        self.target_prefix = ""
        self.proxy = ""
        self.extra_headers: dict[str, str] = {}
        self._opened = time.monotonic()

    @cached_property
    def state(self) -> h11.Connection:
        """The protocol state. h11 is imported with it, after the first request has left."""
        import h11

        return h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)

    async def read(self) -> bytes:
        """The received bytes, b"" at the end. Between two reads the socket is paused, so that small pieces come
        together.

        An answer in thousands of small pieces costs by their number, so a fast stream is read less often.
        """
        loop = asyncio.get_running_loop()
        if self._quick_reads >= _MANY_READS:
            await asyncio.sleep(_GATHER_SECONDS)
        begun = loop.time()
        self._listen(now=True)
        data = await self.reader.read(_SMALL_READ)
        if data:
            self._listen(now=False)
        quick = len(data) < _SMALL_READ and loop.time() - begun < _QUICK_SECONDS
        self._quick_reads = min(self._quick_reads + 1, 2 * _MANY_READS) if quick else self._quick_reads // 2
        return data

    def rest(self) -> None:
        """Resume reading, so that a peer's close of a kept connection is noticed."""
        self._listen(now=True)

    def _listen(self, *, now: bool) -> None:
        transport = self.writer.transport
        if isinstance(transport, asyncio.Transport):
            transport.resume_reading() if now else transport.pause_reading()

    @staticmethod
    def head(target: str, headers: Mapping[str, str], method: str = "POST") -> bytes:
        """The head of a POST request; `headers` start with the host and include the body's length.

        Written as h11 would, which is imported later; unusual values are left to h11. Raises h11.LocalProtocolError for
        a target or header that cannot be sent.
        """
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if all(line.isascii() and line.isprintable() and line == line.strip() for line in lines) and " " not in target:
            return "\r\n".join([*lines, "", ""]).encode("ascii")
        import h11

        return h11.Connection(h11.CLIENT).send(_request(target, headers, method)) or b""

    def sent(self, target: str, headers: Mapping[str, str], body: bytes, method: str = "POST") -> None:
        """Update the protocol state for a written request."""
        import h11

        self._quick_reads = 0
        self.state.send(_request(target, headers, method))
        self.state.send_with_data_passthrough(h11.Data(data=body))
        self.state.send(h11.EndOfMessage())

    def age(self) -> float:
        """Seconds since it was opened."""
        return time.monotonic() - self._opened

    def close(self) -> None:
        """Close immediately: the server must see a cancel."""
        self.writer.transport.abort()


def _request(target: str, headers: Mapping[str, str], method: str) -> h11.Request:
    import h11

    return h11.Request(method=method, target=target, headers=list(headers.items()))


def checked_url(base: str) -> SplitResult:
    """A base address, parsed; raises UsageError if it is not an http or https address."""
    url = http_address(base)
    if url is None:
        raise UsageError(f"--api-base must be an http or https address, not {without_login(base)!r}")
    if not base.isascii() or not base.isprintable() or " " in base:
        raise UsageError(
            f"--api-base must be in ASCII without spaces (percent-encoded, xn--…), not {without_login(base)!r}"
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
        try:
            return Connection(*await asyncio.open_connection(url.hostname, port_of(url), ssl=quick))
        except ssl.SSLCertVerificationError:  # the whole store has the last word
            pass
    context = tls_context() if url.scheme == "https" else None
    return Connection(*await asyncio.open_connection(url.hostname, port_of(url), ssl=context))


def proxy_for(url: SplitResult) -> SplitResult | None:
    """The environment's proxy for this address, or None."""
    names = (f"{url.scheme}_proxy", f"{url.scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    if not any(os.environ.get(name) for name in names):
        return None
    if exceptions := os.environ.get("no_proxy") or os.environ.get("NO_PROXY"):
        from codelet.system.no_proxy import goes_direct

        if goes_direct(url.hostname or "", port_of(url), exceptions):
            return None
    from urllib.request import getproxies  # slow to import

    proxies = getproxies()
    address = proxies.get(url.scheme) or proxies.get("all", "")
    proxy = http_address(address if "//" in address else f"http://{address}")
    if proxy is None or "@" in proxy.path:  # a password with a `/` that is not written %2F
        raise UsageError(
            f"the proxy {without_login(address)!r} is no http or https address; other kinds are not supported"
        )
    return proxy


async def open_through(proxy: SplitResult, url: SplitResult) -> Connection:
    """A connection through a proxy: a tunnel for https, requests with full addresses for http."""
    login = _proxy_login(proxy)
    target = _authority(url)
    if url.scheme == "http":
        connection = await open_direct(proxy)
        connection.target_prefix = f"http://{target}"
        connection.proxy = f"{proxy.scheme}://{_authority(proxy)}"
        connection.extra_headers = login
        return connection
    context = tls_context()
    proxy_context = tls_context() if proxy.scheme == "https" else None
    loop = asyncio.get_running_loop()
    transport, head = await loop.create_connection(_ProxyHead, proxy.hostname or "", port_of(proxy), ssl=proxy_context)
    try:
        fields = {"Host": target, **login}
        lines = [f"CONNECT {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        transport.write("\r\n".join(lines).encode("latin-1"))
        await head.whole
        head.check(proxy.hostname or "")
        # No await since the check: later bytes from the proxy reach TLS, and fail there.
        reader = asyncio.StreamReader(_STREAM_LIMIT, loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        tunnel = await loop.start_tls(transport, protocol, context, server_hostname=url.hostname)
        if tunnel is None:  # the proxy hung up during the handshake
            raise ConnectionResetError
        protocol.connection_made(tunnel)
    except BaseException:
        transport.abort()
        raise
    writer = asyncio.StreamWriter(tunnel, protocol, reader, loop)
    return Connection(reader, writer)


class _ProxyHead(asyncio.Protocol):
    """Collects a proxy's answer to CONNECT, apart from the tunnel's reader.

    Bytes after the head were not encrypted by the server: the tunnel's reader would take them for the server's.
    """

    def __init__(self) -> None:
        self.whole: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._received = bytearray()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if b"\r\n\r\n" in self._received or len(self._received) > _STREAM_LIMIT:
            self._settle()

    def eof_received(self) -> None:
        self._settle()

    def connection_lost(self, error: Exception | None) -> None:
        self._settle()

    def check(self, host: str) -> None:
        """Raise ProviderError unless the answer is a consent and nothing else."""
        answer, blank_line, behind = bytes(self._received).partition(b"\r\n\r\n")
        if not blank_line or answer.split(b" ", 2)[1:2] != [b"200"]:
            line = answer.split(b"\r\n", 1)[0][:200].decode("latin-1") if blank_line else "no answer"
            login = f"; {PROXY_LOGIN}" if answer.split(b" ", 2)[1:2] == [b"407"] else ""
            raise ProviderError(f"the proxy {host} refused the connection: {line}{login}")
        if behind:
            raise ProviderError(
                f"the proxy {host} sent {len(behind)} unencrypted bytes into an encrypted connection; "
                "check the proxy variables"
            )

    def _settle(self) -> None:
        if not self.whole.done():
            self.whole.set_result(None)


def _proxy_login(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    from base64 import b64encode
    from urllib.parse import unquote

    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(login.encode()).decode()}"}


def context_of_folder() -> ssl.SSLContext | None:
    """A context that trusts the system's folder of certificates; None if `tls_context` is needed.

    OpenSSL finds the needed certificate there by its hash. Loading all from a file takes a fifth of the start.
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
    """A verifying context: the user's file, else the system's store, else certifi's.

    Raises UsageError if the user's file cannot be read or holds no certificates.
    """
    for name in _NAMED:
        if named := os.environ.get(name):
            return _context_of(name, named)
    paths = ssl.get_default_verify_paths()
    if paths.cafile or (paths.capath and any(Path(paths.capath).iterdir())):
        return ssl.create_default_context()
    import certifi

    return ssl.create_default_context(cafile=certifi.where())


def _context_of(name: str, path: str) -> ssl.SSLContext:
    """A context that trusts only the file or folder in the variable `name`."""
    try:
        if Path(path).is_dir():
            return ssl.create_default_context(capath=path)
        return ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        raise UsageError(f"{name}: {path} holds no certificates in PEM form") from None
    except OSError as error:
        raise UsageError(f"{name}: {path}: {error.strerror}") from None
