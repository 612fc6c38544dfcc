"""The tools that change a file: `write`, all of it, and `edit`, exact text in it, several places at once."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from codelet.safety.verdict import Touch
from codelet.tools.tool import Arguments, Preview, Progress, ToolContext, ToolOutput, tool


class Replacement(TypedDict):
    """One of an edit's replacements: `old` must occur exactly once unless `all` is set."""

    old: str
    new: str
    all: NotRequired[bool]


def touches(arguments: Arguments) -> tuple[Touch, ...]:
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
    make_change(change, context)
    return ToolOutput(change.summary, display=diff or None)


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
    make_change(change, context)
    return ToolOutput(change.summary, display=diff)


TOOLS = (
    tool(write, touches=touches, title=title, preview=write_preview),
    tool(edit, touches=touches, title=title, preview=edit_preview),
)
"""In the order in which the model sees them."""
