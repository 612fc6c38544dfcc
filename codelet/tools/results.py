"""What `grep` and `find` answer: hits as text, within bounds."""

from __future__ import annotations

from pathlib import Path

from codelet import prompt
from codelet.tools import encoding, files
from codelet.tools.confirm import FoundLine
from codelet.tools.file_search import SearchResult
from codelet.tools.tool import ToolContext

_MOST_CHARACTERS = 30_000
_LINE_CHARACTERS = 300
MOST_FILES_SHOWN = 200


def lines_found(context: ToolContext, result: SearchResult, most: int, around: int) -> str:
    """At most `most` matching lines as `path:line:text`, lines of context with `-` in place of `:`.

    The path of a file stands before its first line only.
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
    notes = []
    if result.literal:
        notes.append(prompt.PLAIN_PATTERN)
    if more:
        notes.append(prompt.MORE_MATCHES)
    elif result.stopped:
        notes.append(prompt.SEARCH_STOPPED.format(why=result.stopped, what="matches"))
    if result.left_out:
        notes.append(prompt.SECRETS_LEFT_OUT.format(count=result.left_out))
    return "\n".join([*(lines or [prompt.NO_MATCHES]), *notes])


def _line(context: ToolContext, hit: FoundLine, *, named: bool) -> str:
    sign = ":" if hit.match else "-"
    text = encoding.readable(encoding.decode_part(hit.text))
    if len(text) > _LINE_CHARACTERS:
        text = f"{text[:_LINE_CHARACTERS]} […]"
    return f"{files.shown(context, Path(hit.path)) if named else ''}{sign}{hit.line}{sign}{text}"


def files_found(context: ToolContext, result: SearchResult) -> str:
    """The paths, one a line, and how many were left out."""
    lines = [files.shown(context, Path(hit.path)) for hit in result.hits[:MOST_FILES_SHOWN]]
    left = len(result.hits) - len(lines)
    notes = []
    if left:
        notes.append(prompt.MORE_FILES.format(count=left))
    if result.stopped:
        notes.append(prompt.SEARCH_STOPPED.format(why=result.stopped, what="files"))
    return "\n".join([*(lines or [prompt.NO_FILES]), *notes])
