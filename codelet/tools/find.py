"""The tool `find`: files by name. Short: each tool has a file of its own."""

from __future__ import annotations

from codelet.safety.verdict import Touch
from codelet.tools.tool import Arguments, Preview, Progress, ToolContext, ToolOutput

_MOST_COUNTED = 100_000


def touches(arguments: Arguments) -> tuple[Touch, ...]:
    """The folder whose names are listed."""
    return (Touch("list", str(arguments.get("path") or ".")),)


def title(arguments: Arguments) -> str:
    """The pattern, and where it is looked for."""
    where = str(arguments.get("path") or "")
    glob = str(arguments.get("glob") or "")
    words = [str(arguments.get("pattern", "")), f"in {where}" if where not in ("", ".") else "", glob]
    return " ".join(word for word in words if word)


def preview(context: ToolContext, arguments: Arguments) -> Preview:
    """The pattern, and where it is looked for."""
    return Preview(arguments["pattern"], asks=f"search {arguments.get('path') or '.'} for")


async def find(context: ToolContext, progress: Progress, *, pattern: str, path: str = ".") -> ToolOutput:
    """Find files by glob, e.g. src/**/test_*. Skips what git ignores."""
    from codelet.tools.file_search import Query, root_of, search
    from codelet.tools.results import MOST_FILES_SHOWN, files_found

    query = Query(root_of(context, path), pattern or "*", most=_MOST_COUNTED, shown=MOST_FILES_SHOWN)
    return ToolOutput(files_found(context, await search(query, context.workspace)))
