"""The tools for files: `read`, `write` and `edit` for one, `grep` for lines that match, `find` for names."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NotRequired, TypedDict

from codelet.call_record import FileFact
from codelet.safety.verdict import Touch
from codelet.tools.tool import Arguments, Preview, Progress, ToolContext, ToolOutput, tool

_MOST_HITS = 1000
_MOST_AROUND = 20
_MOST_COUNTED = 100_000


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


async def grep(
    context: ToolContext,
    progress: Progress,
    *,
    pattern: str,
    path: str = ".",
    glob: str | None = None,
    ignore_case: bool = False,
    around: int = 0,
    limit: int = 100,
) -> ToolOutput:
    r"""Search in files for a regular expression.

    Each match is a line `path:number:text`; the path is given only at a file's first match. Files that git ignores or
    whose names mean secrets, such as .env, are skipped. To search ignored files, give their folder as path.

    pattern: The regular expression, matched within one line.
    path: The file or folder. Default: the workspace.
    glob: Only files whose name or path below `path` matches. Examples: *.py, src/**/*.{ts,tsx}
    ignore_case: true ignores upper and lower case.
    around: Lines to show before and after each match, at most 20.
    limit: Matches to show, at most 1000. Default: 100.
    """
    from codelet.tools.file_search import Query, check_pattern, glob_below, root_of, search_files, why_no_file
    from codelet.tools.files import shown
    from codelet.tools.results import lines_found

    check_pattern(pattern)
    most, lines = min(max(limit, 1), _MOST_HITS), min(max(around, 0), _MOST_AROUND)
    root = root_of(context, path)
    wanted = glob_below(context, path, root, glob) if glob else None
    query = Query(root, wanted, pattern, ignore_case, lines, most=most, shown=most, left_out=_left_out(root, context))
    began = time.time_ns()
    found = await search_files(query, context.workspace)
    why = "" if found.hits else await why_no_file(query, context.workspace, shown(context, root))
    text = lines_found(context, found, most, lines, why)
    context.outputs.append((began, text))
    return ToolOutput(text, counted="line", files=(FileFact("searched", shown(context, root)),))


def _left_out(root: Path, context: ToolContext) -> Callable[[str], str | None]:
    """Return which files below `root` are not searched: those whose whole path needs a question to read.

    If `root` itself is such a path, the user said yes to it, and its files are judged relative to it.
    """
    from codelet.safety.paths import why_unread, workspace_root

    workspace = workspace_root(context.workspace)
    base = str(root) if why_unread(str(root), workspace) else workspace
    return lambda path: why_unread(path, base)


def lists(arguments: Arguments) -> tuple[Touch, ...]:
    """The folder whose names are listed."""
    return (Touch("list", str(arguments.get("path") or ".")),)


def search_title(arguments: Arguments) -> str:
    """Return the pattern and the path."""
    where = str(arguments.get("path") or "")
    glob = str(arguments.get("glob") or "")
    words = [str(arguments.get("pattern", "")), f"in {where}" if where not in ("", ".") else "", glob]
    return " ".join(word for word in words if word)


def search_preview(context: ToolContext, arguments: Arguments) -> Preview:
    """Return the pattern and the path."""
    return Preview(arguments["pattern"], asks=f"search {arguments.get('path') or '.'} for this")


async def find(context: ToolContext, progress: Progress, *, pattern: str, path: str = ".") -> ToolOutput:
    """Find files by name.

    The answer has at most 200 paths, one per line. To find files that git ignores, give their folder as path.

    pattern: A glob for the file's name in any folder, such as *.sql, or for its path below `path`, such as
        src/**/test_*.py
    path: The folder. Default: the workspace.
    """
    from codelet.tools.file_search import Query, glob_below, root_of, search_files, why_no_file
    from codelet.tools.files import shown
    from codelet.tools.results import MOST_FILES_SHOWN, files_found

    root = root_of(context, path)
    wanted = glob_below(context, path, root, pattern or "*")
    query = Query(root, wanted, most=_MOST_COUNTED, shown=MOST_FILES_SHOWN)
    found = await search_files(query, context.workspace)
    why = "" if found.hits else await why_no_file(query, context.workspace, shown(context, root))
    listed = FileFact("listed", shown(context, root))
    return ToolOutput(files_found(context, found, why), counted="file", files=(listed,))


TOOLS = (
    tool(read, touches=reads, title=read_title),
    tool(write, touches=writes, title=title, preview=write_preview),
    tool(edit, touches=writes, title=title, preview=edit_preview),
)
"""In the order in which the model sees them."""
SEARCH_TOOLS = (
    tool(grep, touches=reads, title=search_title, preview=search_preview),
    tool(find, touches=lists, title=search_title, preview=search_preview),
)
"""In that order too; `bash` comes between the two."""
