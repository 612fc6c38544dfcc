"""JSON-RPC for both transports and both revisions of MCP: requests, notifications, responses."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from codelet import __version__
from codelet.system.text import one_line

HANDSHAKE = "2025-11-25"
"""The newest revision with a handshake."""
STATELESS = "2026-07-28"
"""The newest revision; each of its requests carries the contents of a handshake."""
JsonObject = dict[str, object]
_WITH_HANDSHAKE = (HANDSHAKE, "2025-06-18", "2025-03-26", "2024-11-05")
OTHER_REVISION = -32022
NO_METHOD = -32601
_CLIENT: JsonObject = {"name": "codelet", "version": __version__}
_META = "io.modelcontextprotocol/"
_LONGEST_ERROR = 500

Show = Callable[[str], object]
"""Shows a server's progress message."""


class McpError(Exception):
    """A server failed; the text is one line."""


class ServerError(McpError):
    """A server's JSON-RPC error, with its `code`. `names_stateless` says that it lists the stateless revision."""

    def __init__(self, message: str, code: object = 0, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        listed = data.get("supported") if isinstance(data, dict) else None
        self.names_stateless = isinstance(listed, list) and STATELESS in listed


class SessionOver(McpError):
    """The server dropped the session and did not process the request; a new session must begin."""


class ServerLink(ABC):
    """A connection to one server.

    `version` is the negotiated revision, `ended` the reason why the connection ended. `changes` is true if the server
    can change its list of tools, `outdated` once it has announced a change. `junk` is the first line of a program's
    output that is not a message, `errors` its standard error.
    """

    announces = True
    """False if changes are not announced outside of requests."""

    def __init__(self) -> None:
        self.version = self.ended = self.junk = self.errors = ""
        self.changes = self.outdated = False
        self._number = 0
        self._open: dict[object, tuple[asyncio.Future[object], Show | None]] = {}
        self._background: set[asyncio.Task[object]] = set()

    @abstractmethod
    async def connect(self) -> None:
        """Connect and negotiate a revision. Raises McpError."""

    @abstractmethod
    async def _exchange(self, message: JsonObject, answered: asyncio.Future[object]) -> None:
        """Send a request, whose response is set in `answered`. Raises McpError."""

    @abstractmethod
    async def _send(self, message: JsonObject) -> None:
        """Send a message without a response. Raises McpError."""

    @property
    def stateless(self) -> bool:
        return self.version == STATELESS

    async def request(
        self, method: str, params: Mapping[str, object] | None = None, show: Show | None = None
    ) -> JsonObject:
        """Return the result object of a request. A cancel is sent to the server. Raises McpError."""
        self._number += 1
        number = self._number
        meta: JsonObject = {} if show is None else {"progressToken": number}
        if self.stateless:
            meta |= {f"{_META}protocolVersion": STATELESS, f"{_META}clientInfo": _CLIENT}
            meta[f"{_META}clientCapabilities"] = {}
        given = {**(params or {}), **({"_meta": meta} if meta else {})}
        answered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._open[number] = (answered, show)
        try:
            await self._exchange({"jsonrpc": "2.0", "id": number, "method": method, "params": given}, answered)
            answer = await answered
        except asyncio.CancelledError:
            if method != "initialize":
                stopped = {"requestId": number, "reason": "stopped"}
                self._start(self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": stopped}))
            raise
        finally:
            del self._open[number]
            if not answered.cancel() and not answered.cancelled():
                answered.exception()  # no one else looks at it if sending has failed too
        return _result_of(answer)

    async def initialize(self) -> None:
        """Do the handshake of the older revisions. Raises McpError."""
        asked: JsonObject = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": _CLIENT}
        result = await self.request("initialize", asked)
        version = result.get("protocolVersion")
        if version not in _WITH_HANDSHAKE:
            raise McpError(f"it uses the revision {one_line(str(version), 40)}, which codelet does not support")
        self.version = str(version)
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

    def _take_capabilities(self, result: JsonObject) -> None:
        match result:
            case {"capabilities": {"tools": {"listChanged": True}}}:
                self.changes = True

    def _take(self, message: object) -> None:
        """Process a message of the server; ignore anything else."""
        match message:
            case {"method": str(method), "id": int() | str() as number}:
                self._start(self._send(_reply_to(method, number)))
            case {"method": "notifications/tools/list_changed"}:
                self.outdated = True
            case {"method": "notifications/progress", "params": {"progressToken": int(token), **params}}:
                _, show = self._open.get(token, (None, None))
                if show is not None:
                    share = f"{params.get('progress')}" + (f" of {params['total']}" if "total" in params else "")
                    text = f"{params['message']} ({share})" if params.get("message") else share
                    show(one_line(text, 200))
            case {"id": int() | str() as number, **answer} if "method" not in answer and number in self._open:
                answered, _ = self._open[number]
                if not answered.done():
                    answered.set_result(answer)

    def _fail(self, why: str) -> None:
        for answered, _ in self._open.values():
            if not answered.done():
                answered.set_exception(McpError(why))

    def _start(self, work: Awaitable[object]) -> None:
        """Run a task in the background; its failure shows at the next request."""

        async def done() -> None:
            with suppress(McpError):
                await work

        task: asyncio.Task[object] = asyncio.create_task(done())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def close(self) -> None:
        for task in (tasks := tuple(self._background)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _reply_to(method: str, number: object) -> JsonObject:
    """Return the response to a server's request: pings succeed, all others are refused."""
    if method == "ping":
        return {"jsonrpc": "2.0", "id": number, "result": {}}
    error = {"code": NO_METHOD, "message": f"codelet does not answer {one_line(method, 80)}"}
    return {"jsonrpc": "2.0", "id": number, "error": error}


def error_of(answer: object) -> ServerError | None:
    """Return the error in a response, or None."""
    match answer:
        case {"error": dict(error)}:
            text = str(error.get("message") or "an error without a message")
            return ServerError(one_line(text, _LONGEST_ERROR), error.get("code"), error.get("data"))
    return None


def _result_of(answer: object) -> JsonObject:
    """Return the result in a response. Raises McpError."""
    if (error := error_of(answer)) is not None:
        raise error
    match answer:
        case {"result": {"resultType": kind}} if kind != "complete":
            raise McpError("it asks the user for more input, which codelet does not support")
        case {"result": dict(result)}:
            return result
    raise McpError("its answer has no result")
