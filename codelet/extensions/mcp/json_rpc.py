"""JSON-RPC with an MCP server in both revisions, and the pipes to one that codelet starts: a message per line."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from codelet import __version__
from codelet.extensions.mcp.servers import ServerSettings
from codelet.system.process import StartError, child_environment
from codelet.system.process.service import Service, ServiceError, start_service
from codelet.system.text import one_line

HANDSHAKE = "2025-11-25"
"""The newest revision with a handshake."""
STATELESS = "2026-07-28"
"""The newest revision; each of its requests carries the contents of a handshake."""
JsonObject = dict[str, object]
_WITH_HANDSHAKE = (HANDSHAKE, "2025-06-18", "2025-03-26", "2024-11-05")
_NO_METHOD = -32601
_CLIENT: JsonObject = {"name": "codelet", "version": __version__}
_META = "io.modelcontextprotocol/"
_LONGEST_ERROR = 500
_LONGEST_LINE = 8 << 20
_PATIENCE = 0.5
"""The time limit, in seconds, for a server to exit after its input is closed."""

Show = Callable[[str], object]
"""Shows a server's progress message."""


class McpError(Exception):
    """A server failed; the text is one line."""


class ServerError(McpError):
    """The server refused a request; it may support another revision."""


class SessionOver(McpError):
    """The server dropped the session and did not process the request; a new session must begin."""


class ServerLink(ABC):
    """A connection to one server.

    `version` is the negotiated revision, `ended` the reason why the connection ended. `outdated` is true once the
    server has announced another list of tools. `junk` is the first line of a program's output that is not a message,
    `errors` its standard error.
    """

    announces = True
    """False if the server can announce nothing outside of requests."""

    def __init__(self) -> None:
        self.version = self.ended = self.junk = self.errors = ""
        self.outdated = self._changes = False
        self._number = 0
        self._open: dict[object, tuple[asyncio.Future[object], Show | None]] = {}
        self._background: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def connect(self) -> None:
        """Connect and negotiate a revision. Raises McpError."""

    @abstractmethod
    async def _send(self, message: JsonObject) -> None:
        """Send a message. Raises McpError."""

    @property
    def stateless(self) -> bool:
        return self.version == STATELESS

    @property
    def may_have_changed(self) -> bool:
        """Return whether the list of tools may have changed since it was read."""
        return self.outdated or (self._changes and (self.stateless or not self.announces))

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
            await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": given})
            answer = await answered
        except asyncio.CancelledError:
            if method != "initialize":
                stopped = {"requestId": number, "reason": "stopped"}
                self._send_later({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": stopped})
            raise
        finally:
            del self._open[number]
        match answer:
            case McpError():
                raise answer
            case {"result": {"resultType": kind}} if kind != "complete":
                raise McpError("it asks the user for more input, which codelet does not support")
            case {"result": dict(result)}:
                return result
        raise error_in(answer) or McpError("its answer has no result")

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
                raise ServerError(f"it does not support the revision {STATELESS}")
        except BaseException:
            self.version = ""
            raise
        self._take_capabilities(result)

    def _take_capabilities(self, result: JsonObject) -> None:
        match result:
            case {"capabilities": {"tools": {"listChanged": True}}}:
                self._changes = True

    def _awaits(self, message: JsonObject) -> bool:
        """Return whether this message is a request whose response has not arrived."""
        answered, _ = self._open.get(message.get("id"), (None, None))
        return answered is not None and not answered.done()

    def _take(self, message: object) -> None:
        """Process a message of the server; ignore anything else."""
        match message:
            case {"method": "ping", "id": int() | str() as number}:
                self._send_later({"jsonrpc": "2.0", "id": number, "result": {}})
            case {"method": str(method), "id": int() | str() as number}:
                error = {"code": _NO_METHOD, "message": f"codelet does not answer {one_line(method, 80)}"}
                self._send_later({"jsonrpc": "2.0", "id": number, "error": error})
            case {"method": "notifications/tools/list_changed"}:
                self.outdated = True
            case {"method": "notifications/progress", "params": {"progressToken": int(token), **params}}:
                _, show = self._open.get(token, (None, None))
                if show is not None:
                    share = f"{params.get('progress')}" + (f" of {params['total']}" if "total" in params else "")
                    text = f"{params['message']} ({share})" if params.get("message") else share
                    show(one_line(text, 200))
            case {"id": int() | str() as number, **answer} if "method" not in answer and self._awaits({"id": number}):
                self._open[number][0].set_result(answer)

    def _send_later(self, message: JsonObject) -> None:
        """Send a message in the background; a failure shows at the next request."""

        async def send() -> None:
            with suppress(McpError):
                await self._send(message)

        task = asyncio.create_task(send())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def close(self) -> None:
        for task in (tasks := tuple(self._background)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def error_in(answer: object) -> ServerError | None:
    """Return the error in a response, or None."""
    match answer:
        case {"error": dict(error)}:
            return ServerError(one_line(str(error.get("message") or "an error without a message"), _LONGEST_ERROR))
    return None


class PipeLink(ServerLink):
    """A server that is a program."""

    def __init__(self, settings: ServerSettings, workspace: Path) -> None:
        super().__init__()
        self._settings = settings
        self._workspace = workspace
        self._service: Service | None = None
        self._reading: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    async def connect(self) -> None:
        """Start the program; do the handshake, or use the stateless revision if the server refuses it."""
        settings = self._settings
        try:
            self._service = await start_service(
                [settings.command, *settings.args],
                cwd=self._workspace / Path(settings.cwd).expanduser(),
                environment=child_environment() | settings.env,
                limit=_LONGEST_LINE,
            )
        except StartError as error:
            raise McpError(str(error)) from None
        self._reading = asyncio.create_task(self._read(self._service))
        try:
            await self.initialize()
        except ServerError as error:
            try:
                await self.discover()
            except ServerError:
                raise error from None

    async def close(self) -> None:
        """End the program; without a grace period if it was never ready."""
        await super().close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        if self._service is not None:
            await self._service.close(_PATIENCE if self.version else 0.0)
            self.errors = self._service.errors

    async def _read(self, service: Service) -> None:
        """Process messages until the program ends; then all open requests fail."""
        why = ""
        try:
            while (line := await service.read_line()) is not None:
                try:
                    message = json.loads(line)
                except (ValueError, RecursionError):
                    message = None
                if isinstance(message, dict):
                    self._take(message)
                elif line.strip():
                    self.junk = self.junk or one_line(line[:400].decode("utf-8", "replace"), 100)
        except ServiceError as error:
            why = str(error)
        await service.terminate()
        last, code = service.errors.strip().rpartition("\n")[2], service.exit_code
        how = f"it ended{'' if code is None else f' with exit code {code}'}{f': {last}' if last else ''}"
        self.ended, self.errors = one_line(why or how, 300), service.errors
        for answered, _ in self._open.values():
            if not answered.done():
                answered.set_result(McpError(self.ended))

    async def _send(self, message: JsonObject) -> None:
        if self.ended or self._service is None:
            raise McpError(self.ended or "it is not running")
        async with self._writing:
            try:
                await self._service.write(json.dumps(message).encode() + b"\n")
            except ServiceError as error:
                raise McpError(one_line(self.ended or str(error), 300)) from None
