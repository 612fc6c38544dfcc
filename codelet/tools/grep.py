"""The tool `grep`: lines that match a regular expression."""

from __future__ import annotations

from pathlib import Path

from codelet.errors import ToolError
from codelet.tools import encoding, files
from codelet.tools.search import Hit, Query, Result, root_of, search
from codelet.tools.tool import Progress, ToolContext, ToolOutput

_MOST_HITS = 1000
_MOST_AROUND = 20
_MOST_CHARACTERS = 30_000
_LINE_CHARACTERS = 300


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
    """Search file contents for a regular expression. Skips what .gitignore excludes.

    glob: only such files, e.g. src/**/*.{ts,tsx}
    around: lines of context
    limit: most matches
    """
    root = root_of(context, path)
    _check_pattern(pattern)
    most = min(max(limit, 1), _MOST_HITS)
    query = Query(
        root=root,
        glob=glob or None,
        pattern=pattern,
        ignore_case=ignore_case,
        around=min(max(around, 0), _MOST_AROUND),
        most=most,
    )
    return ToolOutput(_text(context, await search(query), most, query.around))


def _check_pattern(pattern: str) -> None:
    encoding.must_be_text(pattern, "the pattern")
    if not pattern:
        raise ToolError("the pattern is empty")
    if "\n" in pattern or "\0" in pattern:
        raise ToolError("the pattern contains a line break or NUL: grep matches within one line")


def _text(context: ToolContext, result: Result, most: int, around: int) -> str:
    lines: list[str] = []
    matches = room = 0
    last: Hit | None = None
    more = False
    for hit in result.hits:
        matches += hit.match
        if matches > most or room > _MOST_CHARACTERS:
            more = True
            break
        if around and last and (hit.path, hit.line) != (last.path, last.line + 1):
            lines.append("--")
        lines.append(_line(context, hit))
        room += len(lines[-1])
        last = hit
    notes = []
    if result.literal:
        notes.append("[the pattern is no valid regular expression; it was searched as plain text]")
    if more:
        notes.append("[more matches follow; narrow the pattern, the path or the glob]")
    elif result.stopped:
        notes.append(f"[the search was stopped because {result.stopped}; there may be more matches]")
    return "\n".join([*(lines or ["no matches"]), *notes])


def _line(context: ToolContext, hit: Hit) -> str:
    sign = ":" if hit.match else "-"
    text = encoding.readable(encoding.decode_part(hit.text))
    if len(text) > _LINE_CHARACTERS:
        text = f"{text[:_LINE_CHARACTERS]} […]"
    return f"{files.shown(context, Path(hit.path))}{sign}{hit.line}{sign}{text}"
