"""The tools that search: `grep`, lines that match a regular expression, and `find`, files by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from codelet.call_record import FileFact
from codelet.safety.verdict import Touch
from codelet.tools.file_tools import reads
from codelet.tools.tool import Arguments, Preview, Progress, ToolContext, ToolOutput, tool

_MOST_HITS = 1000
_MOST_AROUND = 20
_MOST_COUNTED = 100_000


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


def title(arguments: Arguments) -> str:
    """Return the pattern and the path."""
    where = str(arguments.get("path") or "")
    glob = str(arguments.get("glob") or "")
    words = [str(arguments.get("pattern", "")), f"in {where}" if where not in ("", ".") else "", glob]
    return " ".join(word for word in words if word)


def preview(context: ToolContext, arguments: Arguments) -> Preview:
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
    tool(grep, touches=reads, title=title, preview=preview),
    tool(find, touches=lists, title=title, preview=preview),
)
"""In the order in which the model sees them."""
