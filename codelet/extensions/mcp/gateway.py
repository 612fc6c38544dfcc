"""Two tools that find and call the tools of all servers. A late server changes neither."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from codelet.errors import ToolError
from codelet.system.text import first_sentence, one_line
from codelet.system.text.spelling import did_you_mean
from codelet.tools.tool import Arguments, Progress, Tool, ToolContext, ToolOutput, in_memory

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


def gateway_tools(
    servers: Iterable[str], tools: Callable[[], Mapping[str, Tool]], notes: Callable[[], Sequence[str]]
) -> tuple[Tool, Tool]:
    """Return the two tools. `tools` maps names to tools, `notes` lists the servers that are not ready."""

    async def find(context: ToolContext, progress: Progress, *, query: str = "") -> ToolOutput:
        found = _found(tools(), query)
        whole = len(found) <= _MOST_WHOLE and query
        lines = [_described(each) if whole else _line(each) for each in found[:_MOST_LINES]]
        if len(found) > _MOST_LINES:
            lines.append(f"({len(found) - _MOST_LINES} more: search with words)")
        return ToolOutput("\n".join([*(lines or ["No tool matches."]), *notes()]), most=30_000)

    async def call(context: ToolContext, progress: Progress, **arguments: object) -> ToolOutput:
        raise ToolError(CALL)

    def stands_for(arguments: Arguments) -> tuple[Tool, Arguments]:
        name, given = arguments.get("name"), arguments.get("arguments", {})
        tool = tools().get(name) if isinstance(name, str) else None
        if tool is None:
            raise ToolError(_UNKNOWN.format(name=name, meant=did_you_mean(str(name), tools())))
        if not isinstance(given, dict):
            raise ToolError("arguments must be a JSON object")
        return tool, given

    about = FIND.format(servers=", ".join(servers))
    finds = {"type": "object", "properties": {"query": _QUERY}}
    calls = {"type": "object", "properties": {"name": _NAME, "arguments": _ARGUMENTS}, "required": ["name"]}
    return (
        Tool("mcp_find", about, finds, find, in_memory, title=lambda given: str(given.get("query", ""))),
        Tool("mcp_call", CALL, calls, call, stands_for=stands_for),
    )


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


def _line(tool: Tool) -> str:
    return f"{tool.name}: {one_line(first_sentence(tool.description), 120)}"


def _described(tool: Tool) -> str:
    return f"{tool.name}: {tool.description}\narguments: {json.dumps(tool.parameters, ensure_ascii=False)}"
