"""What `grep` and `find` answer: hits as text, within bounds."""

from __future__ import annotations

from pathlib import Path

from codelet.tools import encoding, files
from codelet.tools.confirm import FoundLine
from codelet.tools.file_search import Result
from codelet.tools.tool import ToolContext

_MOST_CHARACTERS = 30_000
_LINE_CHARACTERS = 300
MOST_FILES = 200


def lines_found(context: ToolContext, result: Result, most: int, around: int) -> str:
    """At most `most` matching lines as `path:line:text`, lines of context with `-` in place of `:`."""
    lines: list[str] = []
    matches = room = 0
    last: FoundLine | None = None
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
    if result.left_out:
        notes.append(f"[matches in {result.left_out} files with the names of secrets are not shown]")
    return "\n".join([*(lines or ["no matches"]), *notes])


def _line(context: ToolContext, hit: FoundLine) -> str:
    sign = ":" if hit.match else "-"
    text = encoding.readable(encoding.decode_part(hit.text))
    if len(text) > _LINE_CHARACTERS:
        text = f"{text[:_LINE_CHARACTERS]} […]"
    return f"{files.shown(context, Path(hit.path))}{sign}{hit.line}{sign}{text}"


def files_found(context: ToolContext, result: Result) -> str:
    """The paths, one a line, and how many were left out."""
    lines = [files.shown(context, Path(hit.path)) for hit in result.hits[:MOST_FILES]]
    left = len(result.hits) - len(lines)
    notes = []
    if left:
        notes.append(f"[{left} more files; narrow the pattern or the path]")
    if result.stopped:
        notes.append(f"[the search was stopped because {result.stopped}; there may be more files]")
    return "\n".join([*(lines or ["no files"]), *notes])
