"""The HTTP transport: each message is a POST, and its response is JSON or a stream of events."""

from __future__ import annotations

import asyncio
import json
import re
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from codelet.errors import ProviderError
from codelet.extensions.mcp.json_rpc import NO_METHOD, McpError, ServerError, ServerLink, SessionOver
from codelet.extensions.mcp.servers import ServerSettings
from codelet.providers.http import HttpClient
from codelet.providers.protocol import Deadlines
from codelet.system.text import one_line

if TYPE_CHECKING:
    from codelet.extensions.mcp.login import Login
    from codelet.providers.response import Response

_LONGEST_BODY = 8 << 20
_NEVER = 1e6
_DEADLINES = Deadlines(connect=15.0, first_token=_NEVER, between_chunks=_NEVER)
"""The caller of a request limits its time."""
_CHECK = "the network and its url"
_EVENTS = "text/event-stream"
_SHORTEST_WAIT, _LONGEST_WAIT = 0.5, 60.0
"""Seconds between a stream's end and the next one."""
_AS_IT_IS = re.compile(r"(?!=\?base64\?)[!-~](?:[ -~]*[!-~])?")
_LONGEST_ERROR = 300


class HttpLink(ServerLink):
    """A server at a URL."""

    def __init__(self, settings: ServerSettings, changed: Callable[[], object], login: Login | None) -> None:
        super().__init__(changed)
        self._settings = settings
        self._login = login
        self._client = HttpClient(settings.url, _DEADLINES, _CHECK, option="its url")
        self._pushes = HttpClient(settings.url, _DEADLINES, _CHECK, option="its url", method="GET")
        self._session = ""

    async def connect(self) -> None:
        """Try the stateless revision, then the handshake."""
        try:
            await self.discover()
        except ServerError:
            await self.initialize()

    def listen(self) -> None:
        """Have changes of the list of tools reported: in the older revision by a stream outside of requests."""
        super().listen()
        if not self.stateless and self.reports_changes:
            self._beside(self._read_pushes())

    async def _read_pushes(self) -> None:
        """Take in what the server sends outside of requests, in one stream after another. Raises McpError."""
        wait = _SHORTEST_WAIT
        while True:
            began = time.monotonic()
            try:
                async with self._pushes.post("", await self._headers(), b"") as response:
                    if response.status != 200 or _kind_of(response) != _EVENTS:
                        return  # it has no such stream
                    async with aclosing(_events_of(response)) as events:
                        async for data in events:
                            self._take(_parsed(data))
            except ProviderError:
                pass
            wait = _SHORTEST_WAIT if time.monotonic() - began > _LONGEST_WAIT else min(2 * wait, _LONGEST_WAIT)
            await asyncio.sleep(wait)
            self._changed()  # what was sent in between is not known

    async def close(self) -> None:
        await super().close()
        await self._client.close()
        await self._pushes.close()

    async def _exchange(self, message: dict[str, Any], answered: asyncio.Future[Mapping[str, Any]]) -> None:
        await self._post(message, answered)
        if not answered.done():
            raise McpError("its answer ended without a result")

    async def _send(self, message: dict[str, Any]) -> None:
        if (
            not self.stateless
        ):  # the stateless revision has no notifications to a server: a request ends with its connection
            await self._post(message, None)

    async def _post(self, message: dict[str, Any], answered: asyncio.Future[Mapping[str, Any]] | None) -> None:
        try:
            headers = await self._headers(message)
            async with self._client.post("", headers, json.dumps(message).encode()) as response:
                if answered is not None:
                    await self._read(message, response, answered)
        except ProviderError as error:
            raise McpError(one_line(str(error), _LONGEST_ERROR)) from None

    async def _headers(self, message: Mapping[str, Any] | None = None) -> dict[str, str]:
        """Return the headers of a request with a message, or of one for the stream of events. Raises McpError."""
        accepts = _EVENTS if message is None else f"application/json, {_EVENTS}"
        headers = {**self._settings.headers, "accept": accepts}
        if self._login is not None:
            headers["authorization"] = f"Bearer {await self._login.token()}"
        if self.version:
            headers["mcp-protocol-version"] = self.version
        if self._session:
            headers["mcp-session-id"] = self._session
        if self.stateless and message is not None:
            headers["mcp-method"] = message["method"]
            if message["method"] == "tools/call":
                name: str = message["params"]["name"]
                plain = _AS_IT_IS.fullmatch(name)
                headers["mcp-name"] = name if plain else f"=?base64?{b64encode(name.encode()).decode()}?="
        return headers

    async def _read(
        self, message: Mapping[str, object], response: Response, answered: asyncio.Future[Mapping[str, Any]]
    ) -> None:
        """Process messages until the response has arrived. Raises McpError and ProviderError."""
        if response.status >= 300:
            raise await self._refusal(response)
        if message["method"] == "initialize":
            session = response.headers.get("mcp-session-id", "")
            self._session = session if _AS_IT_IS.fullmatch(session) else ""
        if _kind_of(response) == _EVENTS:
            async with aclosing(_events_of(response)) as events:
                async for data in events:
                    self._take(_parsed(data))
                    if answered.done():
                        return
            return
        body = bytearray()
        async for piece in response.body():
            body += piece
            if len(body) > _LONGEST_BODY:
                break
        self._take(_parsed(body))

    async def _refusal(self, response: Response) -> McpError:
        """Return the error of a status that is no success: a ServerError if the server may speak another revision."""
        status, text = response.status, await response.text()
        if status == 401 and "www-authenticate" in response.headers and "authorization" not in self._settings.headers:
            return McpError(f"it wants you to log in: /mcp login {self._settings.name}")
        if status in (401, 403):
            return McpError(f"it refuses the credentials ({status}): set its headers, such as Authorization")
        if status < 400:
            place = one_line(response.headers.get("location", ""), 200)
            return McpError(f"it redirects ({status}) to {place or 'an unknown address'}")
        if status == 404 and self._session:
            self.ended = "its session is over"
            return SessionOver(self.ended)
        said = _parsed(text.encode()) if _kind_of(response) == "application/json" else None
        error = said.get("error") if isinstance(said, dict) else None
        if isinstance(error, dict):
            code = error.get("code")
            told = one_line(str(error.get("message")), _LONGEST_ERROR)
            return ServerError(told, code if isinstance(code, int) else 0, error.get("data"))
        told = f"it answered with the status {status}: {one_line(text, 100)}"
        return McpError(told) if status >= 500 else ServerError(told, NO_METHOD if status in (404, 405) else 0)


def _kind_of(response: Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _events_of(response: Response) -> AsyncGenerator[bytes, None]:
    """Yield the data of each event. Raises McpError and ProviderError."""
    from codelet.providers.answer import DataFields, NoEventStream

    fields = DataFields()
    try:
        async for piece in response.body():
            for data in fields.feed(piece):
                yield data
        for data in fields.flush():
            yield data
    except NoEventStream:
        raise McpError("its answer is not the stream of events that it claims to be") from None


def _parsed(data: bytes | bytearray) -> object:
    """Return the JSON value, or None if it is invalid. Raises McpError if it is too long."""
    if len(data) > _LONGEST_BODY:
        raise McpError(f"it sent a message of more than {_LONGEST_BODY >> 20} MiB")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
