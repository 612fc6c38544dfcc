"""The tool `find`: files by name."""

from __future__ import annotations

from pathlib import Path

from codelet.tools import encoding, files
from codelet.tools.search import Query, Result, root_of, search
from codelet.tools.tool import Progress, ToolContext, ToolOutput

_MOST_SHOWN = 200
_MOST_COUNTED = 100_000


async def find(context: ToolContext, progress: Progress, *, pattern: str, path: str = ".") -> ToolOutput:
    """Find files by glob, e.g. *.py or src/**/test_*. Skips what .gitignore excludes."""
    encoding.must_be_text(pattern, "the pattern")
    root = root_of(context, path)
    found = await search(Query(root=root, glob=pattern or "*", most=_MOST_COUNTED))
    return ToolOutput(_text(context, found))


def _text(context: ToolContext, result: Result) -> str:
    lines = [files.shown(context, Path(hit.path)) for hit in result.hits[:_MOST_SHOWN]]
    left = len(result.hits) - len(lines)
    notes = []
    if left:
        notes.append(f"[{left} more files; narrow the pattern or the path]")
    if result.stopped:
        notes.append(f"[the search was stopped because {result.stopped}; there may be more files]")
    return "\n".join([*(lines or ["no files"]), *notes])
