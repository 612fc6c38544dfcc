"""A login to a server with OAuth, by the official package `mcp`: discovery, registration, PKCE and refresh are its own.

Tokens are in memory only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit

from codelet.extensions.mcp.json_rpc import HANDSHAKE, McpError
from codelet.extensions.mcp.servers import ServerSettings
from codelet.providers.connection import http_address
from codelet.providers.facts import on_this_machine
from codelet.system.text import one_line

if TYPE_CHECKING:
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

_LOGIN_SECONDS = 300.0
_REQUEST_SECONDS = 15.0
_LONGEST_REQUEST = 16 << 10
_NO_PACKAGE = "a login needs the extra mcp: pip install 'codelet-repl[mcp]'"
_PAGE = "You are logged in, and can close this page."

Open = Callable[[str], Awaitable[bool]]
"""Shows the user the address of a login page; returns False to cancel."""


class Login:
    """The login to one server. Raises McpError where the package is not installed."""

    def __init__(self, settings: ServerSettings) -> None:
        if find_spec("mcp") is None:
            raise McpError(_NO_PACKAGE)
        logging.getLogger("mcp").addHandler(logging.NullHandler())  # its errors are raised as well
        self._settings = settings
        self._provider: Any = None

    async def begin(self, show: Open) -> None:
        """Have the user log in, in a browser. Raises McpError."""
        from mcp.client.auth import OAuthClientProvider
        from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

        async with _LoginPage() as page:
            metadata = OAuthClientMetadata.model_validate(
                {
                    "client_name": "codelet",
                    "redirect_uris": [f"{page.url}/callback"],
                    "token_endpoint_auth_method": "none",
                }
            )

            async def answered() -> AuthorizationCodeResult:
                return AuthorizationCodeResult(**await page.answer(show))

            self._provider = OAuthClientProvider(self._settings.url, metadata, _Memory(), page.lead_to, answered)
            await self._ping()
            context = self._provider.context
            context.redirect_handler = None  # from now on a login that is over is an error
            if context.current_tokens is None:
                raise McpError("it asks for no login")

    async def token(self) -> str:
        """Return the access token, refreshed if it has expired. Raises McpError."""
        context = self._provider.context
        if not context.is_token_valid():
            with suppress(McpError):
                await self._ping()
        if context.current_tokens is None:
            raise McpError(f"the login is over: /mcp login {self._settings.name}")
        token: str = context.current_tokens.access_token
        return token

    async def _ping(self) -> None:
        """Send a request that needs a token; the provider gets one. Raises McpError."""
        import httpx2
        from mcp.client.auth import OAuthFlowError

        headers = {**self._settings.headers, "accept": "application/json, text/event-stream"}
        headers["mcp-protocol-version"] = HANDSHAKE
        ping = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
        try:
            async with (
                httpx2.AsyncClient(auth=self._provider, timeout=_REQUEST_SECONDS) as client,
                client.stream("POST", self._settings.url, headers=headers, json=ping),
            ):
                pass
        except (OAuthFlowError, httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise McpError(f"the login failed: {one_line(str(error) or type(error).__name__, 300)}") from None


class _Memory:
    """The package's store of tokens, in memory."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


class _LoginPage:
    """A short address on this machine that leads to the login page, and takes what comes back from there."""

    url: str

    def __init__(self) -> None:
        self._target = self._state = ""
        self._came: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_LONGEST_REQUEST)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._server.close()

    async def lead_to(self, target: str) -> None:
        """Take the address of the login page. Raises McpError for an unsafe address."""
        address = http_address(target)
        plain = target.isascii() and target.isprintable() and " " not in target
        if address is None or not plain or (address.scheme == "http" and not on_this_machine(target)):
            raise McpError(f"its login page is no https address: {one_line(target, 100)}")
        self._target, self._state = target, parse_qs(address.query).get("state", [""])[0]

    async def answer(self, show: Open) -> dict[str, str]:
        """Return `code`, `state` and perhaps `iss`, once the user has logged in. Raises McpError."""
        shown = asyncio.ensure_future(show(self.url))
        try:
            async with asyncio.timeout(_LOGIN_SECONDS):
                either: set[asyncio.Future[Any]] = {shown, self._came}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if not self._came.done() and not await shown:
                    raise McpError("you did not log in")
                found = await self._came
        except TimeoutError:
            raise McpError(f"no login within {_LOGIN_SECONDS:g} s") from None
        finally:
            shown.cancel()
        if "code" not in found:
            raise McpError(f"the login was refused: {one_line(found.get('error', 'no reason given'), 100)}")
        return {name: found[name] for name in ("code", "state", "iss") if name in found}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            url = urlsplit(head.split(b" ", 2)[1].decode("ascii"))
            given = {name: values[0] for name, values in parse_qs(url.query).items()}
            if url.path == "/callback" and self._state and given.get("state") == self._state:
                status, more = "200 OK", "content-type: text/plain; charset=utf-8\r\n"
                if not self._came.done():
                    self._came.set_result(given)
            elif url.path == "/" and self._target:
                status, more = "302 Found", f"location: {self._target}\r\n"
            else:
                status, more = "404 Not Found", ""
            body = _PAGE if status.startswith("200") and "code" in given else ""
            writer.write(
                f"HTTP/1.1 {status}\r\n{more}content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode()
            )
            await writer.drain()
        writer.close()
