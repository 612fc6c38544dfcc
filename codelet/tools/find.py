"""The tool `find`: files by name."""

from __future__ import annotations

from codelet.tools.tool import Progress, ToolContext, ToolOutput

_MOST_COUNTED = 100_000


async def find(context: ToolContext, progress: Progress, *, pattern: str, path: str = ".") -> ToolOutput:
    """Find files by glob, e.g. src/**/test_*. Skips what git ignores."""
    from codelet.tools.results import MOST_FILES, files_found
    from codelet.tools.search import Query, root_of, search

    query = Query(root_of(context, path), pattern or "*", most=_MOST_COUNTED, shown=MOST_FILES)
    return ToolOutput(files_found(context, await search(query, context.workspace)))
