"""The tools for one file: `read`, with line numbers; `write`, all of it; `edit`, exact text, in several places."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from codelet.safety.verdict import Touch
from codelet.tools.tool import Arguments, Preview, Progress, ToolContext, ToolOutput, tool


class Replacement(TypedDict):
    """One of an edit's replacements.

    old: The exact text to replace, with its indentation, without line numbers. It must occur only once in the file: add
        lines around the change until it does.
    new: The new text; empty deletes the old one.
    all: true replaces every occurrence.
    """

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
    """Read a text file, an image or a Jupyter notebook, or list a folder.

    Each line of a text file comes after its number and a tab, which are not part of the file. If more lines follow,
    the last line gives the next offset. A folder comes as one name per line, with a slash after names of folders.

    path: The file or folder, absolute or relative to the workspace.
    offset: The first line, counted from 1.
    limit: The lines to show, at most and by default 2000.
    """
    from codelet.tools.pages import read_path

    return await read_path(context, path, offset, limit)


def writes(arguments: Arguments) -> tuple[Touch, ...]:
    """The file."""
    return (Touch("write", str(arguments.get("path") or ".")),)


def title(arguments: Arguments) -> str:
    """The path."""
    return str(arguments.get("path") or "")


def write_preview(context: ToolContext, arguments: Arguments) -> Preview:
    """Return what would be written; raises ToolError if it cannot be made."""
    from codelet.tools.planning import plan_write

    return Preview(change=plan_write(context, arguments["path"], arguments["content"]))


async def write(context: ToolContext, progress: Progress, *, path: str, content: str) -> ToolOutput:
    """Create a file, or replace all of an existing file. Missing folders are created.

    To change parts of a file, use edit. An existing file is replaced only if you have seen all its lines and it has not
    changed since. Otherwise the call is refused: read the file, then repeat the call.

    path: The file's path.
    content: The file's whole new text, without line numbers.
    """
    from codelet.tools.planning import known_content, make_change, plan_write

    change = context.change or known_content(plan_write(context, path, content))
    diff = change.diff()
    made = make_change(change, context)
    return ToolOutput(change.summary, display=diff or None, files=(made,))


def edit_preview(context: ToolContext, arguments: Arguments) -> Preview:
    """Return what would be replaced; raises ToolError if it cannot be made."""
    from codelet.tools.planning import plan_edit

    return Preview(change=plan_edit(context, arguments["path"], arguments["edits"]))


async def edit(context: ToolContext, progress: Progress, *, path: str, edits: list[Replacement]) -> ToolOutput:
    """Change parts of a text file by replacing exact text. Make all changes of one file in one call.

    Read the file first; it must not have changed since. The replacements are made in order, each on the result of those
    before. If one fails, the file stays unchanged, and the answer says which one and why: correct `old`, or read the
    file again.

    path: The file's path.
    edits: The replacements. Example: [{"old": "timeout = 5", "new": "timeout = 30"}]
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
