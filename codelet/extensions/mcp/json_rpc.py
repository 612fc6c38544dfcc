"""JSON-RPC for both transports and both revisions of MCP: requests, notifications, responses."""

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
"""The newest revision; each of its requests carries the contents of a handshake."""
_WITH_HANDSHAKE = (HANDSHAKE, "2025-06-18", "2025-03-26", "2024-11-05")
OTHER_REVISION = -32022
NO_METHOD = -32601
_CLIENT = {"name": "codelet", "version": __version__}
_META = "io.modelcontextprotocol/"
_LONGEST_ERROR = 500

Told = Callable[[str], object]
"""Takes a server's progress message."""


class McpError(Exception):
    """A server failed; the text is one line."""


class ServerError(McpError):
    """A server's JSON-RPC error, with its `code` and `data`."""

    def __init__(self, message: str, code: int = 0, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    @property
    def names_stateless(self) -> bool:
        """Return whether the error lists the stateless revision as supported."""
        listed = self.data.get("supported") if isinstance(self.data, dict) else None
        return isinstance(listed, list) and STATELESS in listed


class SessionOver(McpError):
    """The server dropped the session and did not process the request; a new session must begin."""


class ServerLink(ABC):
    """A connection to one server. `changed` is called when the server's list of tools changes.

    `version` is the negotiated revision, `ended` the reason why the connection ended. `reports_changes` is true if the
    server announces changes of its list. `junk` is the first line of a program's output that is not a message, `errors`
    its standard error.
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
        """Connect and negotiate a revision. Raises McpError."""

    @abstractmethod
    async def _exchange(self, message: dict[str, Any], answered: asyncio.Future[Mapping[str, Any]]) -> None:
        """Send a request, whose response is set in `answered`. Raises McpError."""

    @abstractmethod
    async def _send(self, message: dict[str, Any]) -> None:
        """Send a message without a response. Raises McpError."""

    @property
    def stateless(self) -> bool:
        return self.version == STATELESS

    async def request(self, method: str, params: Mapping[str, object] | None = None, told: Told | None = None) -> Any:
        """Return the result object of a request. A cancel is sent to the server. Raises McpError."""
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
        """Do the handshake of the older revisions. Raises McpError."""
        asked = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": _CLIENT}
        result = await self.request("initialize", asked)
        version = result.get("protocolVersion")
        if version not in _WITH_HANDSHAKE:
            raise McpError(f"it uses the revision {one_line(str(version), 40)}, which codelet does not support")
        self.version = version
        self._take_capabilities(result)
        await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def discover(self) -> None:
        """Read the server's capabilities, in the stateless revision. Raises McpError."""
        self.version = STATELESS
        try:
            result = await self.request("server/discover")
            versions = result.get("supportedVersions")
            if not isinstance(versions, list) or STATELESS not in versions:
                raise ServerError(f"it does not support the revision {STATELESS}", NO_METHOD)
        except BaseException:
            self.version = ""
            raise
        self._take_capabilities(result)

    def listen(self) -> None:
        """Subscribe to changes of the list of tools, in the stateless revision."""
        if self.stateless and self.reports_changes:
            self._beside(self.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))

    def _take_capabilities(self, result: Mapping[str, object]) -> None:
        capabilities = result.get("capabilities")
        tools = capabilities.get("tools") if isinstance(capabilities, dict) else None
        self.reports_changes = isinstance(tools, dict) and tools.get("listChanged") is True

    def _take(self, message: object) -> None:
        """Process a message of the server; ignore anything else."""
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
        for answered, _ in self._open.values():
            if not answered.done():
                answered.set_exception(McpError(why))

    def _beside(self, work: Awaitable[object]) -> None:
        """Run a task in the background; its failure shows at the next request."""

        async def done() -> None:
            with suppress(McpError):
                await work

        task = asyncio.create_task(done())
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    async def close(self) -> None:
        for task in (tasks := tuple(self._aside)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _reply_to(method: str, number: object) -> dict[str, Any]:
    """Return the response to a server's request: pings succeed, all others are refused."""
    if method == "ping":
        return {"jsonrpc": "2.0", "id": number, "result": {}}
    error = {"code": NO_METHOD, "message": f"codelet does not answer {one_line(method, 80)}"}
    return {"jsonrpc": "2.0", "id": number, "error": error}


def _result_of(answer: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the result in a response. Raises McpError."""
    error, result = answer.get("error"), answer.get("result")
    if isinstance(error, dict):
        code = error.get("code")
        text = one_line(str(error.get("message") or "an error without a message"), _LONGEST_ERROR)
        raise ServerError(text, code if isinstance(code, int) else 0, error.get("data"))
    if not isinstance(result, dict):
        raise McpError("its answer has no result")
    if result.get("resultType", "complete") != "complete":
        raise McpError("it asks the user for more input, which codelet does not support")
    return result
