"""A server that is reached over HTTP: each message is a POST, and its answer JSON or a stream of events."""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from codelet.errors import ProviderError
from codelet.extensions.mcp.json_rpc import NO_METHOD, McpError, ServerError, ServerLink, SessionOver
from codelet.extensions.mcp.servers import ServerSettings
from codelet.providers.http import HttpClient
from codelet.providers.protocol import Deadlines
from codelet.system.text import one_line

if TYPE_CHECKING:
    from codelet.providers.response import Response

_LONGEST_BODY = 8 << 20
_NEVER = 1e6
_DEADLINES = Deadlines(connect=15.0, first_token=_NEVER, between_chunks=_NEVER)
"""How long an answer may take is up to the caller of a request."""
_AS_IT_IS = re.compile(r"(?!=\?base64\?)[!-~](?:[ -~]*[!-~])?")
_LONGEST_ERROR = 300


class HttpLink(ServerLink):
    """A server at a URL."""

    def __init__(self, settings: ServerSettings, changed: Callable[[], object]) -> None:
        super().__init__(changed)
        self._settings = settings
        self._client = HttpClient(settings.url, _DEADLINES, "the network and its url", option="its url")
        self._session = ""

    async def connect(self) -> None:
        """Speak the stateless revision, or shake hands where the server does not know it."""
        try:
            await self.discover()
        except ServerError:
            await self.initialize()

    async def close(self) -> None:
        await super().close()
        await self._client.close()

    async def _exchange(self, message: dict[str, Any], answered: asyncio.Future[Mapping[str, Any]]) -> None:
        await self._post(message, answered)
        if not answered.done():
            raise McpError("its answer ended without a result")

    async def _send(self, message: dict[str, Any]) -> None:
        if not self.stateless:  # that revision has no notifications to a server: a request ends with its connection
            await self._post(message, None)

    async def _post(self, message: dict[str, Any], answered: asyncio.Future[Mapping[str, Any]] | None) -> None:
        try:
            async with self._client.post("", self._headers(message), json.dumps(message).encode()) as response:
                if answered is not None:
                    await self._read(message, response, answered)
        except ProviderError as error:
            raise McpError(one_line(str(error), _LONGEST_ERROR)) from None

    def _headers(self, message: Mapping[str, Any]) -> dict[str, str]:
        headers = {**self._settings.headers, "accept": "application/json, text/event-stream"}
        if self.version:
            headers["mcp-protocol-version"] = self.version
        if self._session:
            headers["mcp-session-id"] = self._session
        if self.stateless:
            headers["mcp-method"] = message["method"]
            if message["method"] == "tools/call":
                name: str = message["params"]["name"]
                plain = _AS_IT_IS.fullmatch(name)
                headers["mcp-name"] = name if plain else f"=?base64?{b64encode(name.encode()).decode()}?="
        return headers

    async def _read(
        self, message: Mapping[str, object], response: Response, answered: asyncio.Future[Mapping[str, Any]]
    ) -> None:
        """Take in what comes until the answer is there. Raises McpError and ProviderError."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status >= 300:
            raise await self._refusal(response, kind)
        if message["method"] == "initialize":
            session = response.headers.get("mcp-session-id", "")
            self._session = session if _AS_IT_IS.fullmatch(session) else ""
        if kind != "text/event-stream":
            body = bytearray()
            async for piece in response.body():
                body += piece
                if len(body) > _LONGEST_BODY:
                    break
            self._take(_parsed(body))
            return
        from codelet.providers.answer import DataFields, NoEventStream

        fields = DataFields()
        try:
            async for piece in response.body():
                for data in fields.feed(piece):
                    self._take(_parsed(data))
                if answered.done():
                    return
            for data in fields.flush():
                self._take(_parsed(data))
        except NoEventStream:
            raise McpError("its answer is not the stream of events that it claims to be") from None

    async def _refusal(self, response: Response, kind: str) -> McpError:
        """Return what a status that is no success means: an ServerError where another revision may be spoken."""
        status, text = response.status, await response.text()
        if status in (401, 403):
            return McpError(f"it wants other credentials ({status}): set its headers, such as Authorization")
        if status < 400:
            place = one_line(response.headers.get("location", ""), 200)
            return McpError(f"it redirects elsewhere ({status}): {place or 'it does not say where'}")
        if status == 404 and self._session:
            self.ended = "its session is over"
            return SessionOver(self.ended)
        said = _parsed(text.encode()) if kind == "application/json" else None
        error = said.get("error") if isinstance(said, dict) else None
        if isinstance(error, dict):
            code = error.get("code")
            told = one_line(str(error.get("message")), _LONGEST_ERROR)
            return ServerError(told, code if isinstance(code, int) else 0, error.get("data"))
        told = f"it answered with the status {status}: {one_line(text, 100)}"
        return McpError(told) if status >= 500 else ServerError(told, NO_METHOD if status in (404, 405) else 0)


def _parsed(data: bytes | bytearray) -> object:
    """Return the JSON value, None for what is none. Raises McpError if it is too long."""
    if len(data) > _LONGEST_BODY:
        raise McpError(f"it sent a message of more than {_LONGEST_BODY >> 20} MiB")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
