"""The tools for one file: `read`, with line numbers; `write`, all of it; `edit`, exact text, several places at once."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from codelet.safety.verdict import Touch
from codelet.tools.tool import Arguments, Preview, Progress, ToolContext, ToolOutput, tool


class Replacement(TypedDict):
    """One of an edit's replacements: `old` must occur exactly once unless `all` is set."""

    old: str
    new: str
    all: NotRequired[bool]


def reads(arguments: Arguments) -> tuple[Touch, ...]:
    """The file or folder that is read, or searched."""
    return (Touch("read", str(arguments.get("path") or ".")),)


def read_title(arguments: Arguments) -> str:
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


def writes(arguments: Arguments) -> tuple[Touch, ...]:
    """The file."""
    return (Touch("write", str(arguments.get("path") or ".")),)


def title(arguments: Arguments) -> str:
    """The path."""
    return str(arguments.get("path") or "")


def write_preview(context: ToolContext, arguments: Arguments) -> Preview:
    """What would be written; raises ToolError where it cannot be made."""
    from codelet.tools.planning import plan_write

    return Preview(change=plan_write(context, arguments["path"], arguments["content"]))


async def write(context: ToolContext, progress: Progress, *, path: str, content: str) -> ToolOutput:
    """Create a file, or replace one that you read every line of. Makes missing folders."""
    from codelet.tools.planning import known_content, make_change, plan_write

    change = context.change or known_content(plan_write(context, path, content))
    diff = change.diff()
    made = make_change(change, context)
    return ToolOutput(change.summary, display=diff or None, files=(made,))


def edit_preview(context: ToolContext, arguments: Arguments) -> Preview:
    """What would be replaced; raises ToolError where it cannot be made."""
    from codelet.tools.planning import plan_edit

    return Preview(change=plan_edit(context, arguments["path"], arguments["edits"]))


async def edit(context: ToolContext, progress: Progress, *, path: str, edits: list[Replacement]) -> ToolOutput:
    """Replace exact text in a file unchanged since it was shown.

    Each `old` must occur once, unless `all`. In order, all or none.
    """
    from codelet.tools.planning import make_change, plan_edit

    change = context.change or plan_edit(context, path, edits)
    diff = change.diff()
    made = make_change(change, context)
    return ToolOutput(change.summary, display=diff, files=(made,))


TOOLS = (
    tool(read, touches=reads, title=read_title),
    tool(write, touches=writes, title=title, preview=write_preview),
    tool(edit, touches=writes, title=title, preview=edit_preview),
)
"""In the order in which the model sees them."""
