"""The MCP servers of a session: their tools for the model, and their state for the user.

If there are many tools, or a server is late, the model gets two tools that find and call those of all servers instead:
these two never change.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from codelet.context.tokens import estimate_text
from codelet.errors import ToolError, UsageError
from codelet.extensions.base import Command, Extension, Guard, GuardedCall, Noted, OpenedWith
from codelet.extensions.mcp.json_rpc import McpError
from codelet.extensions.mcp.server import START_SECONDS, Server
from codelet.extensions.mcp.servers import ServerSettings, servers_of
from codelet.extensions.mcp.tool_list import RemoteTool, output_from
from codelet.safety.verdict import Verdict
from codelet.system.text import first_sentence, one_line
from codelet.system.text.spelling import did_you_mean
from codelet.tools.tool import Arguments, Progress, Tool, ToolContext, ToolOutput, in_memory

if TYPE_CHECKING:
    from codelet.extensions.session_view import ExtensionSettings, SessionView

NONE = "No MCP servers are set up. Name a file with --mcp FILE, or add [mcp_servers.NAME] to your settings file."
CHANGED = "the server has changed this tool's description"
NOT_READY = "the MCP server {name} is not ready yet; its tools can be used once it is"
FAILED = "the MCP server {name} cannot be used: {error}"
FIND = (
    "Find tools of the connected MCP servers ({servers}). Without a query it lists all tools, a line each; with words,"
    " those whose name or description has them; with the name of a tool, its description and the JSON Schema of its"
    " arguments. Look at the schema before you call a tool for the first time."
)
CALL = "Call a tool of an MCP server, by a name that mcp_find has given."
_QUERY = {"type": "string", "description": "A tool's name, or words."}
_NAME = {"type": "string", "description": "The tool's name. Example: mcp__server__tool"}
_ARGUMENTS = {"type": "object", "description": "The tool's arguments, as its schema says."}
_MOST_WHOLE, _MOST_LINES = 3, 200
_UNKNOWN = "Find its name with mcp_find: there is no tool {name!r}{meant}"
_LOGGED_IN = "I have logged in"


class Mcp(Extension, Guard):
    """All servers of a session, started with it. The first request decides whether each tool is declared or the gateway
    is; this stays, because another list would cost the provider's cache.

    `direct` is the limit for declared tools, in tokens of their descriptions.
    """

    in_subsessions = False
    offers_later = True

    def __init__(self, servers: Sequence[ServerSettings], direct: int) -> None:
        self.servers = {each.name: Server(each) for each in servers}
        self.guards = (self,)
        self.commands = (Command("mcp", "", self._command),)
        self._direct = direct
        self._offered: tuple[Tool, ...] | None = None
        self._gateway = self._gateway_tools()
        self._made: dict[str, tuple[RemoteTool, Tool]] = {}
        self._accepted: dict[str, str] = {}
        self._starting: dict[str, asyncio.Task[None]] = {}

    @classmethod
    def from_settings(cls, given: OpenedWith, session: SessionView) -> Self:
        """Create it with the servers of the settings. Raises UsageError."""
        return cls.of(given.settings, session.workspace)

    @classmethod
    def of(cls, settings: ExtensionSettings, workspace: Path) -> Self:
        """Create it with the servers of the settings. Raises UsageError."""
        return cls(servers_of(settings.mcp_servers, settings.mcp, workspace, os.environ), settings.mcp_direct)

    def attach(self, session: SessionView) -> None:
        self.start(session.workspace, lambda name, text: session.notices.say(text, once=f"mcp {name}"))

    def start(self, workspace: Path, report: Callable[[str, str], object]) -> None:
        """Start the servers; `report` gets the name and the error of each that fails."""

        async def start(server: Server) -> None:
            server.workspace = workspace
            try:
                await server.start()
            except McpError as error:
                report(server.name, FAILED.format(name=server.name, error=error))

        self._starting = {name: asyncio.create_task(start(each)) for name, each in self.servers.items()}

    def awaited(self) -> str:
        late = [name for name, task in self._starting.items() if not task.done()]
        return f"the MCP server{'s' if len(late) > 1 else ''} {', '.join(late)}" if late else ""

    async def prepare(self, seconds: float) -> Sequence[str]:
        """Wait for the servers; return a notice for each that is not ready."""
        await asyncio.wait(self._starting.values(), timeout=seconds)
        return [NOT_READY.format(name=name) for name, task in self._starting.items() if not task.done()]

    def offered(self) -> Sequence[Tool]:
        """Return the tools of all servers if all are ready and the tools are few, otherwise the gateway."""
        if not self._starting:
            return ()
        if self._offered is None:
            tools = tuple(self.known_tools().values())
            ready = all(each.state == "ready" for each in self.servers.values())
            few = estimate_text(str([each.schema() for each in tools])) <= self._direct
            self._offered = tools if ready and few else self._gateway
        return self._offered

    def known_tools(self) -> Mapping[str, Tool]:
        """Return the current tools of all servers; an unchanged tool is the same object."""
        found: dict[str, Tool] = {}
        for server in self.servers.values():
            for name, remote in server.tools.items():
                self._accepted.setdefault(name, remote.fingerprint)
                if name not in self._made or self._made[name][0] != remote:
                    self._made[name] = (remote, _tool(server, remote))
                found[name] = self._made[name][1]
        return found

    def _gateway_tools(self) -> tuple[Tool, ...]:
        """Return the two tools that find and call those of all servers."""

        async def find(context: ToolContext, progress: Progress, *, query: str = "") -> ToolOutput:
            found = _found(self.known_tools(), query)
            if query and len(found) <= _MOST_WHOLE:
                schemas = (json.dumps(each.parameters, ensure_ascii=False) for each in found)
                lines = [
                    f"{each.name}: {each.description}\narguments: {schema}"
                    for each, schema in zip(found, schemas, strict=True)
                ]
            else:
                lines = [f"{each.name}: {one_line(first_sentence(each.description), 120)}" for each in found]
            if len(lines) > _MOST_LINES:
                lines[_MOST_LINES:] = [f"({len(lines) - _MOST_LINES} more: search with words)"]
            late = [each for each in self.servers.values() if each.state != "ready"]
            notes = [f"The server {each.name}: {each.problem or 'it is still starting'}." for each in late]
            return ToolOutput("\n".join([*(lines or ["No tool matches."]), *notes]), most=30_000)

        async def call(context: ToolContext, progress: Progress, **arguments: object) -> ToolOutput:
            raise ToolError(CALL)

        def stands_for(arguments: Arguments) -> tuple[Tool, Arguments]:
            name, given, known = arguments.get("name"), arguments.get("arguments", {}), self.known_tools()
            tool = known.get(name) if isinstance(name, str) else None
            if tool is None:
                raise ToolError(_UNKNOWN.format(name=name, meant=did_you_mean(str(name), known)))
            if not isinstance(given, dict):
                raise ToolError("arguments must be a JSON object")
            return tool, given

        about = FIND.format(servers=", ".join(self.servers))
        finds = {"type": "object", "properties": {"query": _QUERY}}
        calls = {"type": "object", "properties": {"name": _NAME, "arguments": _ARGUMENTS}, "required": ["name"]}
        return (
            Tool("mcp_find", about, finds, find, in_memory, title=lambda given: str(given.get("query", ""))),
            Tool("mcp_call", CALL, calls, call, stands_for=stands_for),
        )

    async def before(self, call: GuardedCall) -> Verdict | Arguments | None:
        """Ask about a tool whose description has changed, whatever a rule allows."""
        made = self._made.get(call.name)
        if made is None or call.verdict is None or self._accepted[call.name] == made[0].fingerprint:
            return None
        return Verdict("ask", "execute", CHANGED)

    def record(self, kind: Noted, call: GuardedCall, **facts: object) -> None:
        if kind == "approval" and facts.get("outcome") in ("yes", "always") and call.name in self._made:
            self._accepted[call.name] = self._made[call.name][0].fingerprint

    async def prompted(self, text: str) -> str | None:
        """Read changed lists of tools. Only between two turns, so that sent requests stay a prefix."""
        await asyncio.gather(*(each.read_changes() for each in self.servers.values()))
        if self._offered is not None and self._offered is not self._gateway:
            self._offered = tuple(self.known_tools().values())
        return None

    def reported(self) -> Mapping[str, object]:
        found = [
            {"name": each.name, "state": each.state, "tools": len(each.tools), "error": each.problem or None}
            for each in self.servers.values()
        ]
        return {"mcp": found} if found else {}

    async def _command(self, session: SessionView, argument: str) -> str:
        *action, name = argument.split() or [""]
        if not self.servers or not name:
            return await self.text()
        if name not in self.servers or action not in ([], ["restart"], ["login"]):
            names = ", ".join(self.servers)
            raise UsageError(f"/mcp takes the name of a server ({names}), with restart or login before it")
        if action == ["restart"]:
            with suppress(McpError):  # the text says it
                await self.servers[name].start(again=True)
        elif action:
            await self._log_in(session, self.servers[name])
        return await self.text(name)

    async def _log_in(self, session: SessionView, server: Server) -> None:
        """Have the user log in to a server. Raises UsageError."""
        if session.toolbox.ask is None:
            raise UsageError("a login needs a terminal")

        async def show(address: str) -> bool:
            asks = f"To log in to {server.name}, open {address} in your browser."
            answer = await session.toolbox.approvals.inquire("mcp", asks, (_LOGGED_IN, "Cancel"))
            return answer is not None and answer.reason == _LOGGED_IN

        try:
            await server.log_in(show)
        except McpError as error:
            raise UsageError(FAILED.format(name=server.name, error=error)) from None

    async def text(self, *names: str) -> str:
        """Wait for the servers; return the details of the named ones, or a line for each."""
        if not self.servers:
            return NONE
        await self.prepare(START_SECONDS)
        lines = [line for name in names for line in _whole(self.servers[name])]
        return "\n".join(lines or map(self._row, self.servers.values()))

    def _row(self, server: Server) -> str:
        """Return a line on a server: its state, its tools, and their tokens in each request."""
        direct = self._offered is not None and self._offered is not self._gateway
        sent = sum(
            estimate_text(str(tool.schema())) for name, tool in self.known_tools().items() if name in server.tools
        )
        left = f", {len(server.left_out)} left out" if server.left_out else ""
        tools = f"{len(server.tools)} tool{'' if len(server.tools) == 1 else 's'}"
        return f"{server.summary}, {tools}{left}{f', {sent:,} tokens in each request' if direct else ''}"

    async def close(self) -> None:
        for task in self._starting.values():
            task.cancel()
        await asyncio.gather(*self._starting.values(), return_exceptions=True)
        await asyncio.gather(*(each.close() for each in self.servers.values()), return_exceptions=True)


def _tool(server: Server, remote: RemoteTool) -> Tool:
    async def run(context: ToolContext, progress: Progress, **arguments: object) -> ToolOutput:
        try:
            result = await server.call(remote, arguments, progress)
        except McpError as error:
            raise ToolError(f"the MCP server {server.name}: {error}") from None
        return output_from(result, remote.name, sees=context.sees())

    claim = ", which says that it only reads" if remote.only_reads else ""
    source = f"the MCP server {server.name}{claim}"
    return Tool(remote.name, remote.description, remote.parameters, run, source=source)


def _whole(server: Server) -> list[str]:
    """Return the details of a server, in lines."""
    lines = [server.summary]
    lines += [f"  {each.name}: {one_line(first_sentence(each.description), 80)}" for each in server.tools.values()]
    lines += [f"  left out: {name}: {why}" for name, why in server.left_out.items()]
    if server.link is not None and server.link.junk:
        lines.append(f"  not a message, on standard output: {server.link.junk}")
    if server.link is not None and (errors := server.link.errors.strip()):
        lines += ["  on standard error:", errors[-2_000:]]
    return lines


def _found(tools: Mapping[str, Tool], query: str) -> list[Tool]:
    """Return the tool of this name, or the tools that match words of the query, the best first."""
    named = [tool for name, tool in tools.items() if query in (name, name.split("__", 2)[-1])]
    if named or not query:
        return named or list(tools.values())
    words = query.lower().replace("_", " ").split()

    def score(tool: Tool) -> int:
        name, about = tool.name.lower(), tool.description.lower()
        return sum(2 * (word in name) + (word in about) for word in words)

    return sorted((tool for tool in tools.values() if score(tool)), key=score, reverse=True)
