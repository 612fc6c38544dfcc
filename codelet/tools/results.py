"""The answers of `grep` and `find`: hits as text, within bounds."""

from __future__ import annotations

from pathlib import Path

from codelet.tools import encoding, files
from codelet.tools.confirm import FoundLine
from codelet.tools.file_search import SearchResult
from codelet.tools.tool import ToolContext

_NO_MATCHES = "no matches"
_NO_FILES = "no files"
_PLAIN_PATTERN = "[the pattern is no valid regular expression; it was searched as plain text]"
_MORE_MATCHES = "[more matches follow; narrow the pattern, the path or the glob]"
_MORE_FILES = "[{count} more files; narrow the pattern or the path]"
_SEARCH_STOPPED = "[the search was stopped because {why}; there may be more {what}]"
_SECRETS_LEFT_OUT = "[not searched: {count} file{s} with the name of a secret]"


_MOST_CHARACTERS = 30_000
_LINE_CHARACTERS = 300
MOST_FILES_SHOWN = 200


def lines_found(context: ToolContext, result: SearchResult, most: int, around: int, why: str = "") -> str:
    """Return at most `most` matching lines as `path:line:text`, lines of context with `-` instead of `:`.

    The path of a file is before its first line only. `why` says why no file was searched.
    """
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
        lines.append(_line(context, hit, named=last is None or hit.path != last.path))
        room += len(lines[-1])
        last = hit
    notes = [f"[{why}]"] if why else []
    if result.literal:
        notes.append(_PLAIN_PATTERN)
    if more:
        notes.append(_MORE_MATCHES)
    elif result.stopped:
        notes.append(_SEARCH_STOPPED.format(why=result.stopped, what="matches"))
    if result.left_out:
        notes.append(_SECRETS_LEFT_OUT.format(count=result.left_out, s="s" * (result.left_out != 1)))
    return "\n".join([*(lines or [_NO_MATCHES]), *notes])


def _line(context: ToolContext, hit: FoundLine, *, named: bool) -> str:
    sign = ":" if hit.match else "-"
    text = encoding.readable(encoding.decode_part(hit.text))
    if len(text) > _LINE_CHARACTERS:
        text = f"{text[:_LINE_CHARACTERS]} […]"
    return f"{files.shown(context, Path(hit.path)) if named else ''}{sign}{hit.line}{sign}{text}"


def files_found(context: ToolContext, result: SearchResult, why: str = "") -> str:
    """Return the paths, one a line, and how many were left out; `why` is the reason for an empty list."""
    lines = [files.shown(context, Path(hit.path)) for hit in result.hits[:MOST_FILES_SHOWN]]
    left = len(result.hits) - len(lines)
    notes = [f"[{why}]"] if why else []
    if left:
        notes.append(_MORE_FILES.format(count=left))
    if result.stopped:
        notes.append(_SEARCH_STOPPED.format(why=result.stopped, what="files"))
    return "\n".join([*(lines or [_NO_FILES]), *notes])
