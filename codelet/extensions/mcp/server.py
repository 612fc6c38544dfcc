"""One MCP server of a session: start, list of tools, calls, restart."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codelet.extensions.mcp.json_rpc import (
    JsonObject,
    McpError,
    PipeLink,
    ServerError,
    ServerLink,
    SessionOver,
    Show,
)
from codelet.extensions.mcp.servers import ServerSettings
from codelet.extensions.mcp.tool_list import RemoteTool, UnusableTool, remote_tool
from codelet.system.text import one_line

if TYPE_CHECKING:
    from codelet.extensions.mcp.login import Login, Open

START_SECONDS = 30.0
_LONGEST_CALL = 600.0
_MOST_STARTS, _STARTS_SECONDS = 4, 600.0
"""The limit on starts within a time in seconds: one start and three restarts."""
_MOST_TOOLS = 512
_LIST_SECONDS = 5.0
_UNCERTAIN = "; whether the call had an effect is not known"

State = Literal["starting", "ready", "ended", "failed"]


class Server:
    """One server. `error` is the reason why it could not start, `left_out` maps unusable tools to reasons.

    The server runs in `workspace` unless its settings name a folder.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.name = settings.name
        self.error = ""
        self.tools: dict[str, RemoteTool] = {}
        self.left_out: dict[str, str] = {}
        self.link: ServerLink | None = None
        self.workspace = Path()
        self._login: Login | None = None
        self._starting = asyncio.Lock()
        self._starts: deque[float] = deque(maxlen=_MOST_STARTS)

    @property
    def state(self) -> State:
        """The server's state; an ended server starts again with the next call."""
        if self.link is None or self._starting.locked():
            return "starting"
        return "failed" if self.error else "ended" if self.link.ended else "ready"

    @property
    def problem(self) -> str:
        """The reason why the server is not ready, or ""."""
        return self.error or ("" if self.link is None else self.link.ended)

    @property
    def summary(self) -> str:
        """The server's name, state and error in one line."""
        version = f", MCP {self.link.version}" if self.state == "ready" and self.link is not None else ""
        return f"{self.name}: {self.state}{version}{f': {self.problem}' if self.problem else ''}"

    @property
    def outdated(self) -> bool:
        """Return whether the server may have another list of tools than `tools`."""
        return self.link is not None and self.state == "ready" and self.link.may_have_changed

    async def start(self, *, again: bool = False) -> None:
        """Start the server unless it runs; `again` restarts it and resets the limit on starts. Raises McpError."""
        async with self._starting:
            if again:
                self._starts.clear()
            elif self.link is not None and not self.problem:
                return
            now = asyncio.get_running_loop().time()
            if len(self._starts) == _MOST_STARTS and now - self._starts[0] < _STARTS_SECONDS:
                raise McpError(f"it ended too often: {self.problem}. Start it with /mcp restart {self.name}")
            self._starts.append(now)
            await self.close()
            self.error = ""
            try:
                async with asyncio.timeout(START_SECONDS):
                    if self.settings.url:
                        from codelet.extensions.mcp.over_http import HttpLink  # most servers are programs

                        self.link = HttpLink(self.settings, self._login)
                    else:
                        self.link = PipeLink(self.settings, self.workspace)
                    await self.link.connect()
                    await self.read_tools()
            except (McpError, TimeoutError) as error:
                self.error = str(error) or f"it was not ready within {START_SECONDS:g} s"
                await self.close()
                raise McpError(self.error) from None

    async def log_in(self, show: Open) -> None:
        """Have the user log in, and restart. Raises McpError."""
        if not self.settings.url:
            raise McpError("it is a program; only a server with a url has a login")
        from codelet.extensions.mcp.login import Login

        login = Login(self.settings)
        await login.begin(show)
        self._login = login
        await self.start(again=True)

    async def read_tools(self) -> None:
        """Read the list of tools. Raises McpError."""
        assert self.link is not None
        self.link.outdated = False
        listed: list[object] = []
        cursor, seen = None, set[str]()
        while cursor not in seen and len(listed) < _MOST_TOOLS:
            if cursor is not None:
                seen.add(cursor)
            result = await self.link.request("tools/list", {} if cursor is None else {"cursor": cursor})
            page, following = result.get("tools"), result.get("nextCursor")
            listed += page if isinstance(page, list) else []
            if not isinstance(following, str):
                break
            cursor = following
        self.tools, self.left_out = {}, {}
        for each in listed[:_MOST_TOOLS]:
            name = one_line(str(each.get("name") if isinstance(each, dict) else each), 80)
            try:
                if self.settings.url and self.link.stateless and '"x-mcp-header"' in json.dumps(each):
                    raise UnusableTool("it takes arguments as headers, which codelet does not support")
                tool = remote_tool(self.name, each)
                self.tools[tool.name] = tool
            except UnusableTool as error:
                self.left_out[name] = str(error)
        if len(listed) > _MOST_TOOLS:
            self.left_out["others"] = f"codelet uses at most {_MOST_TOOLS} tools of a server"

    async def read_changes(self) -> None:
        """Read the list of tools again if it may have changed; a failure is tried again the next time."""
        if not self.outdated or self.link is None:
            return
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                await self.read_tools()
        except (McpError, TimeoutError):
            self.link.outdated = True

    async def call(self, tool: RemoteTool, arguments: Mapping[str, object], show: Show) -> JsonObject:
        """Return the result of a call. Raises McpError."""
        await self.start()
        try:
            return await self._call(tool, arguments, show)
        except SessionOver:
            await self.start()
            return await self._call(tool, arguments, show)

    async def _call(self, tool: RemoteTool, arguments: Mapping[str, object], show: Show) -> JsonObject:
        assert self.link is not None
        seconds, loop = self.settings.timeout, asyncio.get_running_loop()
        latest = loop.time() + _LONGEST_CALL
        try:
            async with asyncio.timeout(seconds) as limit:

                def progress(text: str) -> None:
                    if not limit.expired():
                        limit.reschedule(min(loop.time() + seconds, latest))
                    show(f"{text}\n")

                return await self.link.request("tools/call", {"name": tool.remote, "arguments": arguments}, progress)
        except TimeoutError:
            raise McpError(f"there was no answer within {seconds:g} s, so the call was cancelled{_UNCERTAIN}") from None
        except (ServerError, SessionOver):
            raise
        except McpError as error:
            raise McpError(f"{error}{_UNCERTAIN}") from None

    async def close(self) -> None:
        if self.link is not None:
            await self.link.close()
