"""The transport of a server that codelet starts: a message per line on its standard input and output."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from codelet.extensions.mcp.json_rpc import NO_METHOD, OTHER_REVISION, JsonObject, McpError, ServerError, ServerLink
from codelet.extensions.mcp.servers import ServerSettings
from codelet.system.process import StartError, child_environment
from codelet.system.process.service import Service, ServiceError, start_service
from codelet.system.text import one_line

_LONGEST_LINE = 8 << 20
_PATIENCE = 0.5
"""The time limit, in seconds, for a server to exit after its input is closed."""


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
        """Start the program; do the handshake, or use the stateless revision if the server requires it."""
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
            if error.code not in (OTHER_REVISION, NO_METHOD) and not error.names_stateless:
                raise
            await self.discover()
            self.announces = False

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
        """Process messages until the program ends."""
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
        self._fail(self.ended)

    async def _exchange(self, message: JsonObject, answered: asyncio.Future[object]) -> None:
        await self._send(message)

    async def _send(self, message: JsonObject) -> None:
        if self.ended or self._service is None:
            raise McpError(self.ended or "it is not running")
        async with self._writing:
            try:
                await self._service.write(json.dumps(message).encode() + b"\n")
            except ServiceError as error:
                raise McpError(one_line(self.ended or str(error), 300)) from None
