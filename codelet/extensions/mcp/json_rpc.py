"""What both ways to a server share: requests, notifications and answers of JSON-RPC, in both revisions of MCP."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from codelet import __version__
from codelet.system.text import one_line

HANDSHAKE = "2025-11-25"
"""The newest revision with a handshake."""
STATELESS = "2026-07-28"
"""The newest revision; in it every request says what a handshake would."""
_WITH_HANDSHAKE = (HANDSHAKE, "2025-06-18", "2025-03-26", "2024-11-05")
OTHER_REVISION = -32022
NO_METHOD = -32601
_CLIENT = {"name": "codelet", "version": __version__}
_META = "io.modelcontextprotocol/"
_LONGEST_ERROR = 500

Told = Callable[[str], object]
"""Takes a server's words on how far a call is."""


class McpError(Exception):
    """A server could not do it; the text is one line."""


class ServerError(McpError):
    """The server's own error, with its `code` and its `data`."""

    def __init__(self, message: str, code: int = 0, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    @property
    def names_stateless(self) -> bool:
        """Return whether it says that the server speaks the stateless revision."""
        listed = self.data.get("supported") if isinstance(self.data, dict) else None
        return isinstance(listed, list) and STATELESS in listed


class SessionOver(McpError):
    """The server has forgotten the session: the request was not taken, and a new session has to begin."""


class ServerLink(ABC):
    """A connection to one server. `changed` is called when the list of its tools has become another one.

    `version` is the revision that both speak, `ended` why the connection is no more. `reports_changes`: the server says
    that it reports those of its list. `junk` is the first line of a program's output that is no message, `errors` what
    it printed on its standard error.
    """

    errors = ""

    def __init__(self, changed: Callable[[], object]) -> None:
        self.version = ""
        self.ended = self.junk = ""
        self.reports_changes = False
        self._changed = changed
        self._number = 0
        self._open: dict[object, tuple[asyncio.Future[Mapping[str, Any]], Told | None]] = {}
        self._aside: set[asyncio.Task[object]] = set()

    @abstractmethod
    async def connect(self) -> None:
        """Reach the server and settle on a revision. Raises McpError."""

    @abstractmethod
    async def _exchange(self, message: dict[str, Any], answered: asyncio.Future[Mapping[str, Any]]) -> None:
        """Send a request; return once `answered` is set, or will be. Raises McpError."""

    @abstractmethod
    async def _send(self, message: dict[str, Any]) -> None:
        """Send what has no answer. Raises McpError."""

    @property
    def stateless(self) -> bool:
        """Return whether the stateless revision is spoken."""
        return self.version == STATELESS

    async def request(self, method: str, params: Mapping[str, object] | None = None, told: Told | None = None) -> Any:
        """Return the result of a request, an object. A cancel is sent on to the server. Raises McpError."""
        self._number += 1
        number = self._number
        meta: dict[str, Any] = {} if told is None else {"progressToken": number}
        if self.stateless:
            meta |= {f"{_META}protocolVersion": STATELESS, f"{_META}clientInfo": _CLIENT}
            meta[f"{_META}clientCapabilities"] = {}
        given = {**(params or {}), **({"_meta": meta} if meta else {})}
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": given}
        answered: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[number] = (answered, told)
        try:
            await self._exchange(message, answered)
            answer = await answered
        except asyncio.CancelledError:
            if method != "initialize":
                stopped = {"requestId": number, "reason": "stopped"}
                self._beside(self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": stopped}))
            raise
        finally:
            del self._open[number]
            if not answered.cancel() and not answered.cancelled():
                answered.exception()  # no one else looks at it if sending has failed too
        return _result_of(answer)

    async def initialize(self) -> None:
        """Shake hands, as the revisions before the stateless one do. Raises McpError."""
        asked = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": _CLIENT}
        result = await self.request("initialize", asked)
        version = result.get("protocolVersion")
        if version not in _WITH_HANDSHAKE:
            raise McpError(f"it speaks the revision {one_line(str(version), 40)}, which codelet does not")
        self.version = version
        self._take_capabilities(result)
        await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def discover(self) -> None:
        """Ask what the server can do, as the stateless revision does. Raises McpError."""
        self.version = STATELESS
        try:
            result = await self.request("server/discover")
            versions = result.get("supportedVersions")
            if not isinstance(versions, list) or STATELESS not in versions:
                raise ServerError(f"it does not speak the revision {STATELESS}", NO_METHOD)
        except BaseException:
            self.version = ""
            raise
        self._take_capabilities(result)

    def listen(self) -> None:
        """Have the server of a stateless connection report changes of its list of tools."""
        if self.stateless and self.reports_changes:
            self._beside(self.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))

    def _take_capabilities(self, result: Mapping[str, object]) -> None:
        capabilities = result.get("capabilities")
        tools = capabilities.get("tools") if isinstance(capabilities, dict) else None
        self.reports_changes = isinstance(tools, dict) and tools.get("listChanged") is True

    def _take(self, message: object) -> None:
        """Take in a message of the server's; what is none is passed over."""
        if not isinstance(message, dict):
            return
        method, number = message.get("method"), message.get("id")
        if isinstance(method, str):
            if number is not None:
                self._beside(self._send(_reply_to(method, number)))
            elif method == "notifications/tools/list_changed":
                self._changed()
            elif method == "notifications/progress":
                self._progress(message.get("params"))
        elif isinstance(number, int | str) and number in self._open and not self._open[number][0].done():
            self._open[number][0].set_result(message)

    def _progress(self, params: object) -> None:
        token = params.get("progressToken") if isinstance(params, dict) else None
        told = self._open[token][1] if isinstance(token, int) and token in self._open else None
        if told is not None and isinstance(params, dict):
            total = f" of {params['total']}" if "total" in params else ""
            share = f"{params.get('progress')}{total}"
            told(one_line(f"{params['message']} ({share})" if params.get("message") else share, 200))

    def _fail(self, why: str) -> None:
        """No answer comes any more."""
        for answered, _ in self._open.values():
            if not answered.done():
                answered.set_exception(McpError(why))

    def _beside(self, work: Awaitable[object]) -> None:
        """Do something that no one waits for, and whose failure the next request shows."""

        async def done() -> None:
            with suppress(McpError):
                await work

        task = asyncio.create_task(done())
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    async def close(self) -> None:
        """End the connection, and what was started for it."""
        for task in (tasks := tuple(self._aside)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _reply_to(method: str, number: object) -> dict[str, Any]:
    """Return the answer to a request of a server's: it may know that codelet is there, and no more."""
    if method == "ping":
        return {"jsonrpc": "2.0", "id": number, "result": {}}
    error = {"code": NO_METHOD, "message": f"codelet does not answer {one_line(method, 80)}"}
    return {"jsonrpc": "2.0", "id": number, "error": error}


def _result_of(answer: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the result in an answer. Raises McpError."""
    error, result = answer.get("error"), answer.get("result")
    if isinstance(error, dict):
        code = error.get("code")
        text = one_line(str(error.get("message") or "an error without words"), _LONGEST_ERROR)
        raise ServerError(text, code if isinstance(code, int) else 0, error.get("data"))
    if not isinstance(result, dict):
        raise McpError("its answer has no result")
    if result.get("resultType", "complete") != "complete":
        raise McpError("it wants more input from the user, which codelet does not give")
    return result
