"""The tool `fetch`: a page over https; its address is checked, and that very address is connected to."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from codelet import __version__, prompt
from codelet.errors import ProviderError, ToolError
from codelet.extensions.base import Extension, OpenedWith
from codelet.providers.answer import Response
from codelet.providers.connection import ClosedEarly, Connection, proxy_for, request_head, tls_context
from codelet.providers.protocol import Deadlines
from codelet.safety.verdict import Touch
from codelet.tools.tool import Preview, ToolOutput, tool

_LONGEST_IN_LIST = 20_000
"""Characters of a page that enter the list; `recall` shows the rest."""
_SECONDS = 20.0
_MOST_BYTES = 5_000_000
_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_NEVER = 1e6
_DEADLINES = Deadlines(connect=_NEVER, first_token=_NEVER, between_chunks=_NEVER)
"""`Fetcher` limits the whole time."""
_HTTPS = 443
_IN_V6 = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))
"""Addresses that lead to one of IPv4, which may be private."""
_SAFE = "/?&=#%+:;,@!$'()*~[]"

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


async def addresses_of(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


def is_public(address: str) -> bool:
    """Return whether an address is one of the public internet: not of this machine, a private or a shared network."""
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None
    if mapped or any(found in network for network in _IN_V6):
        return False
    return found.is_global and not found.is_multicast


def host_of(url: SplitResult) -> str:
    """Return the host as rules name it, with its port unless that is 443. Raises ValueError."""
    port = url.port or _HTTPS
    return (url.hostname or "") if port == _HTTPS else f"{url.hostname}:{port}"


class Fetching(Extension):
    """Offers `fetch`."""

    def __init__(self, given: OpenedWith | None = None, fetcher: Fetcher | None = None) -> None:
        pages = fetcher or Fetcher()

        async def fetch(*, url: str) -> ToolOutput:
            return ToolOutput(await pages.text_of(url), most=_LONGEST_IN_LIST)

        fetch.__doc__ = prompt.FETCH_TOOL
        self.tools = (
            tool(
                fetch,
                touches=lambda arguments: (Touch("fetch", host_of(urlsplit(arguments["url"]))),),
                title=lambda arguments: str(arguments["url"]),
                preview=lambda context, arguments: Preview(arguments["url"], asks="fetch this page"),
            ),
        )


class Fetcher:
    """Fetches pages. `resolve` finds the addresses of a host, `permits` says which of them may be connected to."""

    def __init__(
        self,
        resolve: Resolve = addresses_of,
        permits: Callable[[str], bool] = is_public,
        seconds: float = _SECONDS,
    ) -> None:
        self._resolve = resolve
        self._permits = permits
        self._seconds = seconds

    async def text_of(self, address: str) -> str:
        """Return a page as text, below a line that says what it is. Raises ToolError."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._followed(address)
        except TimeoutError:
            raise ToolError(f"fetch: no whole answer within {self._seconds:g} s") from None
        except ClosedEarly:
            raise ToolError(f"fetch: {address} cannot be read: the connection was closed without an answer") from None
        except (OSError, ProviderError) as error:
            reason = getattr(error, "verify_message", None) or getattr(error, "strerror", None) or str(error)
            raise ToolError(f"fetch: {address} cannot be read: {reason or type(error).__name__}") from None

    async def _followed(self, address: str) -> str:
        first = url = _checked(address)
        for _ in range(_MOST_REDIRECTS + 1):
            status, headers, body = await self._get(url)
            if status not in _REDIRECTS or "location" not in headers:
                break
            target = urljoin(url.geturl(), headers["location"])
            url = _checked(target)
            if host_of(url) != host_of(first):
                raise ToolError(
                    f"fetch: {address} redirects to another host: {target}. Fetch that address if you need it"
                )
        else:
            raise ToolError(f"fetch: {address} redirects more than {_MOST_REDIRECTS} times")
        if status != 200:
            raise ToolError(f"fetch: {url.geturl()} answered with status {status}")
        kind, _, more = headers.get("content-type", "text/plain").partition(";")
        text = _decoded(body, kind.strip().lower(), more)
        return f"[{url.geturl()}, {kind.strip()}, {len(text):,} characters]\n{text}"

    async def _get(self, url: SplitResult) -> tuple[int, dict[str, str], bytes]:
        """Send one request; status, headers and body. Raises ToolError, OSError, ClosedEarly, and ProviderError."""
        host, port = url.hostname or "", url.port or _HTTPS
        if proxy_for(url) is not None:
            raise ToolError("fetch: a proxy is set, behind which the address cannot be checked: nothing is fetched")
        addresses = [each for each in await self._resolve(host, port) if self._permits(each)]
        if not addresses:
            raise ToolError(f"fetch: {host} is not on the public internet: only public addresses are fetched")
        connection = await _connected(addresses, port, host)
        try:
            headers = {
                "host": url.netloc,
                "user-agent": f"codelet/{__version__}",
                "accept": "text/html, text/*, application/json, application/xml;q=0.9, */*;q=0.1",
                "accept-encoding": "identity",
                "connection": "close",
            }
            target = (url.path or "/") + (f"?{url.query}" if url.query else "")
            connection.begin()
            connection.writer.write(request_head("GET", target, headers))
            response = Response(connection, _DEADLINES, "GET")
            await response.read_head()
            packed = response.headers.get("content-encoding", "identity")
            if response.status != 200:
                return response.status, response.headers, b""
            if packed != "identity":
                raise ToolError(f"fetch: the answer is packed ({packed}), though not asked for")
            body = bytearray()
            async for piece in response.body():
                body += piece
                if len(body) > _MOST_BYTES:
                    raise ToolError(f"fetch: the page is larger than {_MOST_BYTES:,} bytes")
            return response.status, response.headers, bytes(body)
        finally:
            connection.close()


async def _connected(addresses: Sequence[str], port: int, host: str) -> Connection:
    """Connect to the first of the addresses that answers; the certificate must be the host's. Raises OSError."""
    context = tls_context()
    for number, address in enumerate(addresses, 1):
        try:
            return Connection(*await asyncio.open_connection(address, port, ssl=context, server_hostname=host))
        except ssl.SSLError:
            raise
        except OSError:
            if number == len(addresses):
                raise
    raise AssertionError("there is an address")


def _checked(address: str) -> SplitResult:
    """The address taken apart. Raises ToolError if it must not be fetched."""
    try:
        url = urlsplit(address.strip())
        usable = bool(url.scheme == "https" and url.hostname and url.port != 0)
    except ValueError:
        usable = False
    if not usable:
        raise ToolError("fetch: url must be an https address, such as https://docs.python.org/3/library/json.html")
    if "@" in url.netloc:
        raise ToolError("fetch: url must have no user name or password")
    if not url.netloc.isascii() or not url.netloc.isprintable() or " " in url.netloc:
        raise ToolError("fetch: the host must be in ASCII (xn--…)")
    return url._replace(path=quote(url.path, _SAFE), query=quote(url.query, _SAFE), fragment="")


def _decoded(body: bytes, kind: str, more: str) -> str:
    """Return a body as text. Raises ToolError for anything else."""
    charset = more.partition("charset=")[2].partition(";")[0].strip(" \"'") or "utf-8"
    is_text = kind.startswith("text/") or kind.endswith(("json", "xml", "javascript", "yaml", "toml"))
    if not is_text or b"\0" in body[:1_000]:
        raise ToolError(f"fetch: the answer is no text but {kind or 'of an unknown kind'}")
    try:
        text = body.decode(charset, "replace")
    except LookupError:
        text = body.decode("utf-8", "replace")
    if kind not in ("text/html", "application/xhtml+xml"):
        return text
    from codelet.extensions.web.html_text import html_text  # brings html.parser

    return html_text(text)
