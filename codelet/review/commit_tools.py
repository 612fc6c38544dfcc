"""The only tools of a review: `read` and `grep` in git's files before and after the change.

Nothing of the work tree is opened, no link is followed, nothing is run but hardened git. Files whose names say that
they hold secrets are not shown. `grep` takes the arguments of a session's own and answers in its form.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path

from codelet.errors import ToolError
from codelet.review.commit_files import ChangeSide
from codelet.review.diff import text_of_bytes
from codelet.safety.paths import why_unread
from codelet.safety.verdict import Touch
from codelet.system.text.globs import to_regex, with_literal_brackets
from codelet.tools.confirm import FoundLine
from codelet.tools.file_search import SearchResult
from codelet.tools.results import lines_found
from codelet.tools.tool import Arguments, Tool, ToolContext, ToolOutput, tool

_LARGEST_HITS = 256 << 10
_MOST_LINES, _MOST_HITS, _MOST_AROUND = 400, 500, 20
_LONGEST_LINE, _LONGEST_PATTERN, _BINARY_IN = 500, 1_000, 8_000
_MOST_SECRETS = 1 << 19  # bytes of the names to exclude: they are arguments of a command
_SLOW = re.compile(r"[+*}][^()]*\)[+*{]")
_TOP = ToolContext(Path("/"))  # paths in the answers of `grep` count from the top of the repository


_Side = Callable[[bool], ChangeSide]
"""The side before the change if true, else that after it. Raises ToolError."""


def tools_for(after: ChangeSide, before: ChangeSide | None) -> tuple[Tool, Tool]:
    """Return `read` and `grep` of the two sides."""

    def side(wants_before: bool) -> ChangeSide:
        if (wanted := before if wants_before else after) is None:
            raise ToolError("the files before the change are not available")
        return wanted

    return _reader(side), _searcher(side)


def _named(arguments: Arguments) -> str:
    return _bare(str(arguments.get("path") or ""))


def _reads(arguments: Arguments) -> tuple[Touch, ...]:
    return (Touch("read", _named(arguments)),)  # the user's rules hold for a commit's files too


def _reader(side: _Side) -> Tool:
    async def read(path: str, offset: int = 1, limit: int = 200, before: bool = False) -> ToolOutput:
        """Read a text file as numbered lines, or list a folder, after the change.

        If there are more lines, the last line gives the offset to continue with.

        path: The file or folder, relative to the top of the repository. Example: src/app.py
        offset: The first line to show, counted from 1.
        limit: The number of lines to show, at most 400. Default: 200.
        before: Set it to true to read the file before the change.
        """
        lines = await _lines(side(before), path)
        first = max(offset, 1)
        last = min(len(lines), first - 1 + min(max(limit, 1), _MOST_LINES))
        rows = [
            f"{number:>5}   {line[:_LONGEST_LINE]}{'…' * (len(line) > _LONGEST_LINE)}".rstrip(" ")
            for number, line in enumerate(lines[first - 1 : last], first)
        ]
        if first > 1 or last < len(lines):
            rows.append(f"[Lines {first} to {last} of {len(lines)}. Continue with offset={last + 1}.]")
        return ToolOutput("\n".join(rows))

    return tool(read, title=_named, touches=_reads)


def _searcher(side: _Side) -> Tool:
    async def grep(
        pattern: str,
        path: str = ".",
        glob: str | None = None,
        ignore_case: bool = False,
        around: int = 0,
        limit: int = 100,
        before: bool = False,
    ) -> ToolOutput:
        """Search the files for a regular expression, after the change.

        Each match is a line `path:number:text`. The path is given once for each file.

        pattern: A regular expression (Perl), matched within one line.
        path: Search only this file or folder. Examples: src, src/app.py. Default: all files.
        glob: Search only files whose path below `path` matches. A glob without a slash matches names at any depth.
            Example: *.{ts,tsx}
        ignore_case: Set it to true to ignore upper and lower case.
        around: The number of lines to show around each match.
        limit: The number of matches to show, at most 500. Default: 100.
        before: Set it to true to search the files before the change.
        """
        if not pattern or len(pattern) > _LONGEST_PATTERN:
            raise _failed("the pattern is empty or too long")
        most, lines = min(max(limit, 1), _MOST_HITS), min(max(around, 0), _MOST_AROUND)
        found, why = await _found(side(before), pattern, path, glob, ignore_case, (most, lines))
        return ToolOutput(lines_found(_TOP, found, most, lines, why))

    return tool(grep, title=lambda arguments: f"{arguments.get('pattern')} in {_named(arguments)}", touches=_reads)


def _bare(path: str) -> str:
    return posixpath.normpath(path.strip("/") or ".")


def _failed(why: str) -> ToolError:
    return ToolError(f"git could not search: {why}")


async def _lines(side: ChangeSide, path: str) -> list[str]:
    """The lines of a file, or the names in a folder. Raises ToolError."""
    name = _bare(path) if _bare(path) != "." else ""
    if name and why_unread(name):
        raise ToolError(f"{path} is not shown: its name says that it holds secrets")
    is_outside = name.startswith("../") or name == ".." or "\0" in name
    data = None if is_outside else await side.content(name)
    if data is not None and b"\0" in data[:_BINARY_IN]:
        raise ToolError(f"{path} is a binary file of {len(data)} bytes; it is not shown as text")
    if data is not None:
        return [line.removesuffix("\r") for line in text_of_bytes(data.removesuffix(b"\n")).split("\n")]
    below = [each[len(name) :].strip("/") for each in await side.names() if not name or each.startswith(f"{name}/")]
    entries = {first + "/" * bool(more) for first, _, more in (each.partition("/") for each in below)}
    if not entries:
        raise ToolError(f"there is no {path} here")
    return sorted(os.fsencode(entry).decode("utf-8", "replace") for entry in entries)


async def _found(
    side: ChangeSide, pattern: str, path: str, glob: str | None, ignore_case: bool, limits: tuple[int, int]
) -> tuple[SearchResult, str]:
    """The matching lines, and why no file was searched. `limits` are those of hits and of lines around each."""
    names = await side.names()
    # No search may open these: a pattern could ask for what they hold, bit by bit.
    secrets = sorted(name for name in names if why_unread(name))
    chosen, missing = _chosen(path, glob, names - {*secrets})
    if missing:
        return SearchResult(
            [], left_out=len(secrets)
        ), f"there is no file {missing} here, so nothing was searched; check path and glob"
    hits, is_cut = await _hits_in_commit(side, pattern, ignore_case, chosen, secrets)
    hits += await _hits_in_changed(side, pattern, ignore_case, chosen)
    hits.sort(key=lambda hit: (hit.path.split("/"), hit.line))
    most, around = limits
    if around:
        hits = await _with_context(side, hits[: most + 1], around)
    return SearchResult(hits, "git found too much" if is_cut else "", left_out=len(secrets)), ""


def _chosen(path: str, glob: str | None, names: set[str]) -> tuple[set[str], str]:
    """The files that a path and a glob below it name, and the path that matches nothing, else ""."""
    bare = _bare(path)
    start = 0 if bare == "." else len(bare) + 1
    found = {name for name in names if bare in (".", name) or name.startswith(f"{bare}/")}
    if not found and re.search(r"[*?\[{]", bare):
        found, start = _matching(bare, names, 0), 0
    if not found or not glob:
        return found, "" if found else path
    found = _matching(glob.removeprefix("./").strip("/"), found, start)
    return found, "" if found else glob


def _matching(glob: str, names: Iterable[str], start: int) -> set[str]:
    """The names that a glob matches, whole or from `start` on. One that ends with `/*` matches everything below."""
    literal = with_literal_brackets(glob, [name[start:] for name in names if "[" in name])
    form = re.compile(to_regex(f"{literal}*" if literal.endswith("/*") else literal))
    return {name for name in names if form.fullmatch(name[start:]) or form.fullmatch(name)}


async def _hits_in_commit(
    side: ChangeSide, pattern: str, ignore_case: bool, chosen: set[str], secrets: Sequence[str]
) -> tuple[list[FoundLine], bool]:
    """Return what git finds in the files that the change does not touch, and whether there is more."""
    within = posixpath.commonpath(chosen)
    places = [f":(top,literal){within}" if within else ":(top)", *(f":(top,exclude,literal){name}" for name in secrets)]
    if sum(map(len, places)) > _MOST_SECRETS:
        raise _failed("the commit has too many files")
    for kind in ("-P", "-E"):
        words = ("-n", "-I", kind, "--full-name", "-z", *(["-i"] if ignore_case else []), "-e", pattern, side.commit)
        found = await side.git("grep", *words, "--", *places, limit=_LARGEST_HITS)
        if found.exit_code in (0, 1) or not found.complete:
            break
    else:
        raise _failed((found.stderr.splitlines() or ["it failed"])[-1])
    hits = []
    for record in found.stdout.split(b"\n")[: None if found.complete else -1]:
        name, _, rest = record.partition(b"\0")
        number, _, text = rest.partition(b"\0")
        own = os.fsdecode(name).removeprefix(f"{side.commit}:")
        if number.isdigit() and own in chosen and own not in side.changed:
            hits.append(FoundLine(f"/{own}", int(number), text=text.rstrip(b"\r")))
    return hits, not found.complete


async def _hits_in_changed(side: ChangeSide, pattern: str, ignore_case: bool, chosen: set[str]) -> list[FoundLine]:
    """The hits in the files that the change touches, if no commit holds them."""
    own = sorted(chosen & side.changed.keys())
    if own and _SLOW.search(pattern):
        raise _failed("a repetition of a repetition is not searched for")
    try:
        form = re.compile(pattern if own else "", re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise _failed(str(error)) from None
    hits: list[FoundLine] = []
    for path in own:
        data = await side.content(path) or b""
        for number, row in enumerate(data.split(b"\n") if b"\0" not in data[:_BINARY_IN] else (), 1):
            if form.search(text_of_bytes(row[: 4 * _LONGEST_LINE])):
                hits.append(FoundLine(f"/{path}", number, text=row.rstrip(b"\r")))
    return hits


async def _with_context(side: ChangeSide, hits: Sequence[FoundLine], around: int) -> list[FoundLine]:
    """The hits and the lines around them, each line once."""
    shown = []
    for path, found in groupby(hits, key=lambda hit: hit.path):
        matching = {hit.line for hit in found}
        rows = (await side.content(path[1:]) or b"").removesuffix(b"\n").split(b"\n")
        near = {line + step for line in matching for step in range(-around, around + 1)} & {*range(1, len(rows) + 1)}
        shown += [FoundLine(path, line, line in matching, rows[line - 1].rstrip(b"\r")) for line in sorted(near)]
    return shown
