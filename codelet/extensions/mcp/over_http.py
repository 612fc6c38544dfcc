"""The HTTP transport: each message is a POST, and its response is JSON or a stream of events."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import TYPE_CHECKING

from codelet.errors import ProviderError
from codelet.extensions.mcp.json_rpc import JsonObject, McpError, ServerError, ServerLink, SessionOver, error_in
from codelet.extensions.mcp.servers import ServerSettings
from codelet.providers.http import HttpClient
from codelet.providers.protocol import Deadlines
from codelet.system.text import one_line

if TYPE_CHECKING:
    from codelet.extensions.mcp.login import Login
    from codelet.providers.answer import Response

_LONGEST_BODY = 8 << 20
_NEVER = 1e6
_DEADLINES = Deadlines(connect=15.0, first_token=_NEVER, between_chunks=_NEVER)
"""The caller of a request limits its time."""
_AS_IT_IS = re.compile(r"(?!=\?base64\?)[!-~](?:[ -~]*[!-~])?")
_LONGEST_ERROR = 300


class HttpLink(ServerLink):
    """A server at a URL."""

    announces = False

    def __init__(self, settings: ServerSettings, login: Login | None) -> None:
        super().__init__()
        self._settings = settings
        self._login = login
        self._client = HttpClient(settings.url, _DEADLINES, "the network and its url", option="its url")
        self._session = ""

    async def connect(self) -> None:
        """Try the stateless revision, then the handshake."""
        try:
            await self.discover()
        except ServerError:
            await self.initialize()

    async def close(self) -> None:
        await super().close()
        await self._client.close()

    async def _send(self, message: JsonObject) -> None:
        is_request = "method" in message and "id" in message
        if self.stateless and not is_request:  # there a request ends with its connection, and nothing else is sent
            return
        try:
            headers = await self._headers(message)
            async with self._client.post("", headers, json.dumps(message).encode()) as response:
                if is_request:
                    await self._read(message, response)
        except ProviderError as error:
            raise McpError(one_line(str(error), _LONGEST_ERROR)) from None
        if is_request and self._awaits(message):
            raise McpError("its answer ended without a result")

    async def _headers(self, message: JsonObject) -> dict[str, str]:
        """Return the headers of a request with a message. Raises McpError."""
        headers = {**self._settings.headers, "accept": "application/json, text/event-stream"}
        if self._login is not None:
            headers["authorization"] = f"Bearer {await self._login.token()}"
        if self.version:
            headers["mcp-protocol-version"] = self.version
        if self._session:
            headers["mcp-session-id"] = self._session
        if self.stateless:
            headers["mcp-method"] = str(message["method"])
            match message:
                case {"method": "tools/call", "params": {"name": str(name)}}:
                    plain = _AS_IT_IS.fullmatch(name)
                    headers["mcp-name"] = name if plain else f"=?base64?{b64encode(name.encode()).decode()}?="
        return headers

    async def _read(self, message: JsonObject, response: Response) -> None:
        """Process messages until the response has arrived. Raises McpError and ProviderError."""
        if response.status >= 300:
            raise await self._refusal(response)
        if message["method"] == "initialize":
            session = response.headers.get("mcp-session-id", "")
            self._session = session if _AS_IT_IS.fullmatch(session) else ""
        if _kind_of(response) != "text/event-stream":
            body = bytearray()
            async for piece in response.body():
                body += piece
                if len(body) > _LONGEST_BODY:
                    break
            self._take(_parsed(body))
            return
        from codelet.providers.answer import EventData, NoEventStream

        try:
            async for batch in EventData(response.body()):
                for data in batch:
                    self._take(_parsed(data))
                if not self._awaits(message):
                    return
        except NoEventStream:
            raise McpError("its answer is not the stream of events that it claims to be") from None

    async def _refusal(self, response: Response) -> McpError:
        """Return the error of a status that is no success: a ServerError if the server may speak another revision."""
        status, text = response.status, (await response.read()).decode("utf-8", "replace")
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
        if _kind_of(response) == "application/json" and (error := error_in(_parsed(text.encode()))) is not None:
            return error
        problem = f"it answered with the status {status}: {one_line(text, 100)}"
        return McpError(problem) if status >= 500 else ServerError(problem)


def _kind_of(response: Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def _parsed(data: bytes | bytearray) -> object:
    """Return the JSON value, or None if it is invalid. Raises McpError if it is too long."""
    if len(data) > _LONGEST_BODY:
        raise McpError(f"it sent a message of more than {_LONGEST_BODY >> 20} MiB")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
