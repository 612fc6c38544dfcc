"""The tool `grep`: lines that match a regular expression."""

from __future__ import annotations

import time

from codelet.tools.tool import Progress, ToolContext, ToolOutput

_MOST_HITS = 1000
_MOST_AROUND = 20


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
    """Search files, or those like `glob` src/**/*.{ts,tsx}, for a regex, with `around` lines of context.

    Skips what git ignores, and files with secrets.
    """
    from codelet.safety.sensitive_names import secret
    from codelet.tools.file_search import Query, check_pattern, root_of, search
    from codelet.tools.results import lines_found

    check_pattern(pattern)
    most, lines = min(max(limit, 1), _MOST_HITS), min(max(around, 0), _MOST_AROUND)
    query = Query(
        root_of(context, path), glob or None, pattern, ignore_case, lines, most=most, shown=most, left_out=secret
    )
    began = time.time_ns()
    text = lines_found(context, await search(query, context.workspace), most, lines)
    context.outputs.append((began, text))
    return ToolOutput(text)
