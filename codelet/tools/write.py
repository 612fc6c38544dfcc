"""The tool `write`: a whole file. Short: each tool has a file of its own."""

from __future__ import annotations

from codelet.safety.verdict import Touch
from codelet.tools.tool import Arguments, Preview, Progress, ToolContext, ToolOutput


def touches(arguments: Arguments) -> tuple[Touch, ...]:
    """The file."""
    return (Touch("write", str(arguments.get("path") or ".")),)


def title(arguments: Arguments) -> str:
    """The path."""
    return str(arguments.get("path") or "")


def preview(context: ToolContext, arguments: Arguments) -> Preview:
    """The change; raises ToolError where it cannot be made."""
    from codelet.tools.planning import plan_write

    return Preview(change=plan_write(context, arguments["path"], arguments["content"]))


async def write(context: ToolContext, progress: Progress, *, path: str, content: str) -> ToolOutput:
    """Create a file, or replace one that you read every line of. Makes missing folders."""
    from codelet.tools.planning import known_content, make_change, plan_write

    change = context.change or known_content(plan_write(context, path, content))
    diff = change.diff()
    make_change(change, context)
    return ToolOutput(change.summary, display=diff or None)
