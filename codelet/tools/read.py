"""The tool `read`: a text file with line numbers, or a folder. Short, because `pages` does the work."""

from __future__ import annotations

from codelet.safety.verdict import Touch
from codelet.tools.tool import Arguments, Progress, ToolContext, ToolOutput, tool


def touches(arguments: Arguments) -> tuple[Touch, ...]:
    """The file or folder."""
    return (Touch("read", str(arguments.get("path") or ".")),)


def title(arguments: Arguments) -> str:
    """The path, and the lines where only some are wanted: `src/app.py:1-40`."""
    path = str(arguments.get("path", ""))
    start, end, limit = (arguments.get(key) for key in ("start", "end", "limit"))
    start = start or arguments.get("offset")
    if not isinstance(end, int) and isinstance(limit, int):
        end = (start if isinstance(start, int) else 1) + limit - 1
    if isinstance(start, int) or isinstance(end, int):
        return f"{path}:{start or 1}-{end or ''}"
    return path


async def read(
    context: ToolContext, progress: Progress, *, path: str, offset: int = 1, limit: int = 2000
) -> ToolOutput:
    """Read a text file as numbered lines, `limit` from `offset` on, or list a folder."""
    from codelet.tools.pages import read_path

    return await read_path(context, path, offset, limit)


TOOLS = (tool(read, touches=touches, title=title),)
"""In the order in which the model sees them."""
