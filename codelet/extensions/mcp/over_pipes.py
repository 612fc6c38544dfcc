"""The transport of a server that codelet starts: a message per line on its standard input and output."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from codelet.extensions.mcp.json_rpc import NO_METHOD, OTHER_REVISION, McpError, ServerError, ServerLink
from codelet.extensions.mcp.servers import ServerSettings
from codelet.system.process import StartError, child_environment
from codelet.system.process.service import Service, ServiceError, start_service
from codelet.system.text import one_line

_LONGEST_LINE = 8 << 20
_PATIENCE = 0.5
"""The time limit, in seconds, for a server to exit after its input is closed."""


class PipeLink(ServerLink):
    """A server that is a program."""

    def __init__(self, settings: ServerSettings, workspace: Path, changed: Callable[[], object]) -> None:
        super().__init__(changed)
        self._settings = settings
        self._workspace = workspace
        self._service: Service | None = None
        self._reading: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    async def connect(self) -> None:
        """Start the program; do the handshake, or use the stateless revision if the server requires it."""
        folder = self._workspace / Path(self._settings.folder or ".").expanduser()
        environment = child_environment() | dict(self._settings.environment)
        try:
            self._service = await start_service(
                self._settings.command, cwd=folder, environment=environment, limit=_LONGEST_LINE
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
            why = ""
        except ServiceError as error:
            why = str(error)
        await service.terminate()
        said, code = service.errors.strip().rpartition("\n")[2], service.exit_code
        how = f"it ended{'' if code is None else f' with exit code {code}'}{f': {said}' if said else ''}"
        self.ended, self.errors = one_line(why or how, 300), service.errors
        self._fail(self.ended)

    async def _exchange(self, message: dict[str, Any], answered: asyncio.Future[Mapping[str, Any]]) -> None:
        await self._send(message)

    async def _send(self, message: dict[str, Any]) -> None:
        if self.ended or self._service is None:
            raise McpError(self.ended or "it is not running")
        async with self._writing:
            try:
                await self._service.write(json.dumps(message).encode() + b"\n")
            except ServiceError as error:
                raise McpError(one_line(self.ended or str(error), 300)) from None
