"""Sessions with MCP servers: those of `tests/support/mcp_server.py`, as programs or over HTTP."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.extensions.mcp.client import Mcp
from codelet.extensions.mcp.servers import servers_of
from codelet.loop.session import Session
from codelet.tools.tool import Tool
from tests.context.scripted import ScriptedProvider
from tests.extensions.conftest import Open

SERVER = Path(__file__).parents[2] / "support" / "mcp_server.py"


def command(*arguments: str, **more: Any) -> dict[str, Any]:
    """A server of the table `mcp_servers` that is a program."""
    return {"command": sys.executable, "args": [str(SERVER), *arguments], **more}


class Begun:
    """A session with servers. `mcp` is the extension, `log` has what each server received."""

    def __init__(self, session: Session, provider: ScriptedProvider, mcp: Mcp, folder: Path) -> None:
        self.session = session
        self.provider = provider
        self.mcp = mcp
        self._folder = folder

    def received(self, name: str = "test") -> list[dict[str, Any]]:
        with suppress(FileNotFoundError):
            return [json.loads(line) for line in (self._folder / f"{name}.log").read_text().splitlines()]
        return []

    async def ready(self) -> None:
        await self.mcp.prepare(60.0)

    def tool(self, name: str) -> Tool:
        return self.mcp.known_tools()[name]

    async def result(self, name: str, **arguments: Any) -> list[events.Event]:
        """The events of a call of the user's."""
        self.session.toolbox.add(self.tool(name))
        return [event async for event in self.session.run_tool(name, arguments)]

    async def output(self, name: str, **arguments: Any) -> events.ToolResult:
        """The result of a call of the user's."""
        (found,) = [each for each in await self.result(name, **arguments) if isinstance(each, events.ToolResult)]
        return found


Begin = Callable[..., Begun]


@pytest.fixture
def begin(open_session: Open, tmp_path: Path) -> Iterator[Begin]:
    """Opens sessions with servers: by arguments of the test's own one, or by tables."""

    def opened(*arguments: str, tables: dict[str, Any] | None = None, direct: int = 2_000, **options: Any) -> Begun:
        log = tmp_path / "test.log"
        tables = tables or {"test": command("--log", str(log), *arguments)}
        mcp = Mcp(servers_of(tables, (), tmp_path, {}), direct)
        session, provider = open_session(mcp, **options)
        return Begun(session, provider, mcp, tmp_path)

    yield opened
