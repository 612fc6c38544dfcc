"""Searches a tree for `grep` and `find`: with ripgrep if there is one, else with the built-in search.

Both give the same: regular files in the order of their names folder by folder, hidden ones too, without what
.gitignore excludes, without the folders of version control, without following links.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from codelet.errors import ToolError
from codelet.record import Record
from codelet.system.process import StartError, capture, find_program
from codelet.system.text import globs
from codelet.tools import encoding, files
from codelet.tools.confirm import FoundLine, confirmed
from codelet.tools.tool import ToolContext

_MOST_BYTES = 4 << 20
_MOST_NAMES = 64 << 20
_MOST_SKIPPED = 1 << 19
"""Maximum bytes of the names to skip, which are words of a command line."""
_LINE_COLUMNS = 2000
_COMMON = (
    *("--no-config", "--color=never", "--sort=path", "--null", "--hidden", "--no-require-git"),
    *("--no-ignore-dot", "--no-ignore-global", "--no-messages", "--no-follow"),
    *("--glob=!.git", "--glob=!.hg", "--glob=!.jj", "--glob=!.svn"),
)
_LINES = (
    *(
        "--line-number",
        "--byte-offset",
        "--with-filename",
        "--no-heading",
        "--crlf",
        "--engine=auto",
        "--max-columns-preview",
    ),
    f"--max-columns={_LINE_COLUMNS}",
)
_MOST_NAMED = 1000
_IGNORED = (
    "git ignores {more}{count} file{s} that the glob matches, such as {example}: "
    "to search it, give the file or its folder as path"
)
_ELSEWHERE = "a glob is relative to {name}: to search elsewhere, give that folder as path"
_MISSING = "there is no {folder} in {name}"
_NO_NAME = "no file matches the glob"
_NO_REGEX = rb"regex parse error|regex could not be compiled|error compiling pattern"
_HIT = rb"([^\0]+)\0(\d+)([:-])(\d+)[:-](.*)"


class Query(Record):
    """A search: a resolved file or folder, a glob of paths in it, and for lines an expression.

    `pattern` None searches for the files themselves. `most` is how many hits the caller can use, `seconds` how long the
    search can take. A file below the root for whose path `left_out` is true is not searched. `shown` is how many hits
    are shown at most; the rest is for counting only. `skipped` are the files that are not opened, relative to the root.
    `ignored` includes files that git ignores.
    """

    root: Path
    glob: str | None = None
    pattern: str | None = None
    ignore_case: bool = False
    around: int = 0
    literal: bool = False
    most: int = 1000
    shown: int = 1000
    seconds: float = 20.0
    left_out: Callable[[str], object] | None = None
    skipped: tuple[str, ...] = ()
    ignored: bool = False


class SearchResult(Record):
    """The hits in order. `stopped` says why the search ended early, if it did.

    `literal` says that the pattern is no valid expression and was searched verbatim; `left_out` is how many files were
    not searched, whatever the pattern.
    """

    hits: list[FoundLine]
    stopped: str = ""
    literal: bool = False
    left_out: int = 0


def root_of(context: ToolContext, path: str) -> Path:
    """Return the resolved file or folder to search. Raises ToolError if it cannot be read."""
    root = files.resolve(context, path)
    name = files.shown(context, root)
    if not files.is_folder(root, name):
        files.open_regular(root, name).close()
        return root
    try:
        os.scandir(root).close()
    except OSError as error:
        raise files.failure(error, name) from error
    return root


def check_pattern(pattern: str) -> None:
    """Raises ToolError for what no line can match."""
    encoding.must_be_text(pattern, "the pattern")
    if not pattern:
        raise ToolError("the pattern is empty")
    if "\n" in pattern or "\0" in pattern:
        raise ToolError("the pattern contains a line break or NUL: grep matches within one line")


def glob_below(context: ToolContext, path: str, root: Path, glob: str) -> str:
    """Return the glob relative to the root if it is absolute and below it; otherwise unchanged."""
    sign, body = ("!", glob[1:]) if glob[:1] == "!" else ("", glob)
    for base in (str(root), os.path.normpath(context.workspace / path)):
        if body.startswith(f"{base.rstrip('/')}/"):
            return f"{sign}{body[len(base.rstrip('/')) :]}"
    return glob


async def why_no_file(query: Query, workspace: Path, name: str) -> str:
    """Return why no file was searched or found; "" if some were, or if the only known reason is that none matches.

    `name` is that of the root.
    """
    if query.root.is_file():
        return ""
    names = query.replace(pattern=None, left_out=None, most=_MOST_NAMED, seconds=5.0)
    if query.pattern is not None and (not query.glob or (await search_files(names, workspace)).hits):
        return ""
    ignored = await search_files(names.replace(ignored=True), workspace)
    if ignored.hits:
        more = "at least " if ignored.stopped or len(ignored.hits) > _MOST_NAMED else ""
        count = min(len(ignored.hits), _MOST_NAMED)
        example = os.path.relpath(ignored.hits[0].path, query.root)
        return _IGNORED.format(more=more, count=count, s="s" if count > 1 else "", example=files.printable(example))
    if (glob := query.glob or "").startswith("/") and os.path.lexists("/" + glob.split("/")[1]):
        return _ELSEWHERE.format(name=name)
    folders = glob.lstrip("/").split("/")[:-1]
    for count, folder in enumerate(folders, 1):
        if re.search(r"[*?\[{\\!]", folder):
            break
        if not os.path.lexists(query.root / "/".join(folders[:count])):
            return _MISSING.format(folder="/".join(folders[:count]), name=name)
    return _NO_NAME if query.pattern is not None else ""


async def search_files(query: Query, workspace: Path) -> SearchResult:
    """Search with what there is outside the workspace. Raises ToolError."""
    program = find_program("rg", workspace)
    return await (search_with_ripgrep(query, program) if program else search_builtin(query))


async def search_with_ripgrep(query: Query, program: str) -> SearchResult:
    """Search with ripgrep; what is to be shown of its hits is confirmed."""

    def argv_for(asked: Query) -> list[str]:
        return _ripgrep_argv(asked, program)

    query = await _without_secrets(await _settled(query, argv_for), argv_for)
    found = await _matching(query, argv_for)
    return _answer(query, found.replace(hits=list(confirmed(found.hits, query.shown))))


async def search_builtin(query: Query) -> SearchResult:
    """Search with our own program."""
    query = await _without_secrets(await _settled(query, _builtin_argv), _builtin_argv)
    return _answer(query, await _matching(query, _builtin_argv))


def _ripgrep_argv(query: Query, program: str) -> list[str]:
    """The words that run the search."""
    argv = [program, *_COMMON, *(["--no-ignore-vcs", "--no-ignore-exclude"] if query.ignored else [])]
    if query.glob and not query.root.is_file():
        # ripgrep's own --glob brings back what .gitignore excludes; a file type narrows by the name alone.
        argv += [f"--type-add=wanted:{name}" for name in globs.name_globs(query.glob)]
        argv.append("--type=wanted")
    if query.pattern is None:
        argv.append("--files")
    else:
        argv += [*_LINES, f"--context={query.around}", f"--regexp={query.pattern}"]
        argv += ["--ignore-case"] if query.ignore_case else []
        argv += ["--fixed-strings"] if query.literal else []
    argv += [f"--glob=!/{_glob_of(name)}" for name in query.skipped]
    return [*argv, "--", str(query.root)]


def _glob_of(name: str) -> str:
    """The glob that matches this path alone: ripgrep reads UTF-8, and drops spaces at the end."""
    glob = re.sub(r"[*?\[\]{}!\\]", r"\\\g<0>", name)
    return re.sub("[\ud800-\udfff]", "?", re.sub(r"\s", r"[\g<0>]", glob))


def _builtin_argv(query: Query) -> list[str]:
    request = {
        "sys_path": sys.path,
        "root": str(query.root),
        "include": globs.to_regex(query.glob) if query.glob else None,
        "pattern": query.pattern if query.pattern is None or query.literal else globs.with_posix_classes(query.pattern),
        "ignore_case": query.ignore_case,
        "around": query.around,
        "literal": query.literal,
        "most": query.most,
        "ignored": query.ignored,
    }
    return [
        *(sys.executable, "-I", "-S", str(Path(__file__).with_name("file_search_child.py"))),
        json.dumps(request),
        *query.skipped,
    ]


async def _settled(query: Query, argv_for: Callable[[Query], list[str]]) -> Query:
    """The query with its brackets escaped where files or folders below the root have them in their names."""
    if not query.glob or not globs.has_brackets(query.glob) or not query.root.is_dir():
        return query
    began = time.monotonic()
    listed = await _matching(query.replace(pattern=None, glob=None, most=sys.maxsize), argv_for, limit=_MOST_NAMES)
    start = len(str(query.root).rstrip("/")) + 1
    glob = await asyncio.to_thread(
        globs.with_literal_brackets, query.glob, [hit.path[start:] for hit in listed.hits if "[" in hit.path]
    )
    return query.replace(glob=glob, seconds=max(query.seconds - (time.monotonic() - began), 0.1))


async def _without_secrets(query: Query, argv_for: Callable[[Query], list[str]]) -> Query:
    """Return the query for readable files. Others are left out by name, before anything is opened: neither the hits nor
    the notes nor the time depend on their content.
    """
    if query.pattern is None or query.left_out is None or not query.root.is_dir():
        return query
    began = time.monotonic()
    listed = await _matching(query.replace(pattern=None, most=sys.maxsize), argv_for, limit=_MOST_NAMES)
    if listed.stopped:  # nothing was searched: without all names it is not known what may be
        raise ToolError(f"listing the files was stopped because {listed.stopped}; narrow the path or the glob")
    left_out, start = query.left_out, len(str(query.root).rstrip("/")) + 1
    skipped = await asyncio.to_thread(lambda: tuple(hit.path[start:] for hit in listed.hits if left_out(hit.path)))
    if sum(len(os.fsencode(name)) for name in skipped) > _MOST_SKIPPED:
        raise ToolError(f"{len(skipped)} files there have the names of secrets; narrow the path or the glob")
    return query.replace(skipped=skipped, seconds=max(query.seconds - (time.monotonic() - began), 0.1))


def _answer(query: Query, found: SearchResult) -> SearchResult:
    """Return what was found by a query without secrets, and how many of those there are."""
    left_out = query.left_out
    if query.pattern is None or left_out is None or not query.root.is_dir():
        return found
    # A file that came in between was not listed: it was searched, but nothing of it is shown.
    return found.replace(hits=[hit for hit in found.hits if not left_out(hit.path)], left_out=len(query.skipped))


async def _matching(query: Query, argv_for: Callable[[Query], list[str]], *, limit: int = _MOST_BYTES) -> SearchResult:
    try:
        folder = query.root if query.root.is_dir() else query.root.parent
        done = await capture(argv_for(query), cwd=folder, timeout=query.seconds, limit=limit)
    except StartError as error:
        raise ToolError(f"the search could not start: {error}") from error
    if done.exit_code == 2 and re.search(_NO_REGEX, done.stderr) and not query.literal:
        found = await _matching(query.replace(literal=True), argv_for)
        return found.replace(literal=True)
    if done.exit_code > 1 and not done.stdout:
        reason = done.stderr.decode(errors="replace").strip().splitlines()
        if reason:
            raise ToolError(f"the search failed: {reason[0][:300]}")
    stopped = "it found very much" if done.cut else f"it took {query.seconds:.3g} s" if done.timed_out else ""
    return SearchResult(list(_hits(done.stdout, query)), stopped)


def _hits(output: bytes, query: Query) -> Iterator[FoundLine]:
    wanted = re.compile(globs.to_regex(query.glob)) if query.glob and not query.root.is_file() else None
    start = len(str(query.root).rstrip("/")) + 1

    @cache
    def is_wanted(path: str) -> bool:
        return wanted is None or wanted.match(path[start:]) is not None

    if query.pattern is None:
        # What follows the last NUL is a name that was cut off.
        for name in output.split(b"\0")[:-1]:
            if is_wanted(path := os.fsdecode(name)):
                yield FoundLine(path)
        return
    hit = re.compile(_HIT, re.DOTALL)
    for line in output.split(b"\n")[:-1]:
        found = hit.fullmatch(line)
        if found and is_wanted(path := os.fsdecode(found[1])):
            yield FoundLine(path, int(found[2]), found[3] == b":", found[5].removesuffix(b"\r"), int(found[4]))
