"""The only tools of a review: `read` and `grep` in the files before and after the change, as git holds them.

Nothing of the work tree is opened, no link is followed, nothing is run but hardened git. Names that say that they hold
secrets are not shown. `grep` takes the arguments of a session's own and answers in its form.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable
from typing import NamedTuple

from codelet.errors import ToolError
from codelet.review import review_prompt
from codelet.review.change_sides import LARGEST_FILE, ChangeSide, git_answer
from codelet.review.diff import text_of_bytes
from codelet.safety.paths import why_unread
from codelet.safety.verdict import Touch
from codelet.system.git import GitAnswer
from codelet.system.text.globs import to_regex, with_literal_brackets
from codelet.tools.tool import Arguments, Tool, ToolOutput, tool

_LARGEST_HITS = 256 << 10
_MOST_LINES, _MOST_HITS, _MOST_AROUND = 400, 500, 20
_LONGEST_LINE = 500
_LONGEST_PATTERN = 1_000
_BINARY_IN = 8_000
_MOST_SECRETS = 1 << 19
"""Bytes of the names that git is told to leave out: they are words of a command line."""
_SLOW = re.compile(r"[+*}][^()]*\)[+*{]")
_GLOB = re.compile(r"[*?\[{]")


class _Hit(NamedTuple):
    """A matching line: the path of its file, its number and its text."""

    path: str
    line: int
    text: str


def tools_for(after: ChangeSide, before: ChangeSide | None, *, is_sure: bool = True) -> tuple[Tool, Tool]:
    """The two tools. Unless `is_sure`, nobody knows whether the files of `after` hold the change already."""

    def side(wants_before: bool) -> ChangeSide:
        if wants_before and before is None:
            raise ToolError(review_prompt.NO_BEFORE)
        return before if wants_before and before is not None else after

    async def read(path: str, offset: int = 1, limit: int = 200, before: bool = False) -> ToolOutput:
        return ToolOutput(await _read(side(before), path, offset, limit))

    async def grep(
        pattern: str,
        path: str = ".",
        glob: str | None = None,
        ignore_case: bool = False,
        around: int = 0,
        limit: int = 100,
        before: bool = False,
    ) -> ToolOutput:
        if not pattern or len(pattern) > _LONGEST_PATTERN:
            raise ToolError(review_prompt.GREP_FAILED.format(why="the pattern is empty or too long"))
        most, rows = min(max(limit, 1), _MOST_HITS), min(max(around, 0), _MOST_AROUND)
        return ToolOutput(await _grep(side(before), pattern, path, glob, ignore_case, rows, most))

    where = review_prompt.AFTER if is_sure else review_prompt.PERHAPS_AFTER
    read.__doc__ = review_prompt.READ.format(where=where)
    grep.__doc__ = review_prompt.GREP.format(where=where)
    return tool(read, title=_place_of, touches=_reads), tool(grep, title=_search_of, touches=_reads)


def _place_of(arguments: Arguments) -> str:
    """The file or folder of a call."""
    return posixpath.normpath(str(arguments.get("path") or "").strip("/") or ".")


def _search_of(arguments: Arguments) -> str:
    """What is searched for, and where."""
    return f"{arguments.get('pattern')} in {_place_of(arguments)}"


def _reads(arguments: Arguments) -> tuple[Touch, ...]:
    """What a call reads, by the name that a rule has for it: the user's rules hold for a commit's files too."""
    return (Touch("read", _place_of(arguments)),)


def _checked_name(path: str) -> str:
    """A path as git names it in a commit. Raises ToolError for one that is not shown."""
    name = posixpath.normpath(path.strip("/") or ".")
    if name == ".":
        return ""
    if name.startswith("../") or name == ".." or "\0" in name:
        raise ToolError(review_prompt.NOT_THERE.format(path=path))
    if why_unread(name):
        raise ToolError(review_prompt.NOT_SHOWN.format(path=path))
    return name


async def _read(side: ChangeSide, path: str, offset: int, limit: int) -> str:
    name = _checked_name(path)
    data = await side.patched_file(name) if name in side.patched else None
    if data is None:
        kind = await git_answer(side.folder, "cat-file", "-t", f"{side.commit}:{name}")
        if kind.exit_code != 0 or name in side.gone or name in side.patched:
            raise ToolError(review_prompt.NOT_THERE.format(path=path))
        if kind.stdout.strip() == b"tree":
            listed = await git_answer(side.folder, "ls-tree", "-z", f"{side.commit}:{name}")
            return _numbered(_entries(listed.stdout), offset, limit)
        data = (await git_answer(side.folder, "cat-file", "blob", f"{side.commit}:{name}")).stdout
    if b"\0" in data[:_BINARY_IN]:
        raise ToolError(review_prompt.NOT_TEXT.format(path=path, size=len(data)))
    return _numbered(text_of_bytes(data.removesuffix(b"\n")).split("\n"), offset, limit)


async def _grep(
    side: ChangeSide, pattern: str, path: str, glob: str | None, ignore_case: bool, around: int, most: int
) -> str:
    names, secrets = await _names_of(side)
    chosen, missing = _chosen(path, glob, names)
    note = f"\n{review_prompt.NOT_SEARCHED.format(count=len(secrets))}" if secrets else ""
    if missing:
        return review_prompt.NO_PATH.format(path=missing) + note
    kept_out = [f":(top,exclude,literal){name}" for name in (*secrets, *side.patched, *side.gone)]
    hits, more = await _hits_in_commit(side, pattern, ignore_case, _literal_folder(path), kept_out)
    hits = [hit for hit in hits if hit.path in chosen]
    hits += await _hits_in_patched(side, pattern, ignore_case, chosen)
    hits.sort(key=lambda hit: (hit.path.split("/"), hit.line))
    rows = await _rows(side, hits[:most], around)
    if more or len(hits) > most:
        rows.append(review_prompt.MORE_HITS)
    return "\n".join(rows or [review_prompt.NO_HIT]) + note


def _literal_folder(path: str) -> str:
    """The part of a path before its first sign of a glob, as git's pathspec for all below it."""
    bare = posixpath.normpath(path.strip("/") or ".")
    parts = bare.split("/")
    whole = next((number for number, part in enumerate(parts) if _GLOB.search(part)), None)
    folder = "/".join(parts[:whole]) if whole is not None else bare
    return f":(top,literal){folder}" if folder not in ("", ".") else ":(top)"


def _chosen(path: str, glob: str | None, names: set[str]) -> tuple[set[str], str]:
    """The files that a path and a glob below it name, and the path if there is no such one.

    A glob without a slash matches at any depth, and one that ends with `/*` everything below.
    """
    bare = posixpath.normpath(path.strip("/") or ".")
    found = names if bare == "." else {name for name in names if name == bare or name.startswith(f"{bare}/")}
    if not found and _GLOB.search(bare):
        matches = _matcher(with_literal_brackets(bare, [name for name in names if "[" in name]))
        found = {name for name in names if matches(name)}
    if not found and bare not in names:
        return set(), path
    if glob:
        start = len(bare) + 1 if bare != "." and bare not in names and not _GLOB.search(bare) else 0
        below = [name[start:] for name in found if "[" in name]
        matches = _matcher(with_literal_brackets(glob.removeprefix("./").strip("/"), below))
        found = {name for name in found if matches(name[start:]) or matches(name)}
        if not found:
            return set(), glob
    return found, ""


def _matcher(glob: str) -> Callable[[str], bool]:
    wanted = [glob if "/" in glob else f"**/{glob}", *([f"{glob}*"] if glob.endswith("/*") else [])]
    forms = [re.compile(to_regex(form)) for form in wanted]
    return lambda name: any(form.fullmatch(name) for form in forms)


async def _names_of(side: ChangeSide) -> tuple[set[str], tuple[str, ...]]:
    """The files of a side, and those that no search may open: a pattern could ask for what they hold, bit by bit."""
    listed = await git_answer(side.folder, "ls-tree", "-r", "-z", "--name-only", "--full-tree", side.commit)
    names = {*filter(None, os.fsdecode(listed.stdout).split("\0")), *side.patched} - side.gone
    secrets = tuple(sorted(name for name in names if why_unread(name)))
    if not listed.complete or sum(len(os.fsencode(name)) for name in secrets) > _MOST_SECRETS:
        raise ToolError(review_prompt.GREP_FAILED.format(why="the commit has too many files"))
    return names - {*secrets}, secrets


async def _hits_in_commit(
    side: ChangeSide, pattern: str, ignore_case: bool, within: str, kept_out: list[str]
) -> tuple[list[_Hit], bool]:
    """What git finds, and whether there is more: with Perl's expressions, else with POSIX's."""
    found: GitAnswer | None = None
    for kind in ("-P", "-E"):
        words = ("-n", "-I", kind, "--full-name", "-z", *(["-i"] if ignore_case else []), "-e", pattern, side.commit)
        found = await git_answer(side.folder, "grep", *words, "--", within, *kept_out, limit=_LARGEST_HITS)
        if found.exit_code in (0, 1) or not found.complete:
            break
    assert found is not None
    if found.exit_code not in (0, 1) and found.complete:
        why = (found.stderr.splitlines() or ["it failed"])[-1]
        raise ToolError(review_prompt.GREP_FAILED.format(why=why))
    hits = []
    records = found.stdout.split(b"\n")
    for record in records if found.complete else records[:-1]:
        name, _, rest = record.partition(b"\0")
        number, _, text = rest.partition(b"\0")
        path = os.fsdecode(name).removeprefix(f"{side.commit}:")
        if number.isdigit() and not why_unread(path):
            hits.append(_Hit(path, int(number), text_of_bytes(text)))
    return hits, not found.complete


async def _hits_in_patched(side: ChangeSide, pattern: str, ignore_case: bool, chosen: set[str]) -> list[_Hit]:
    """What stands in the files that the change touches, if no commit holds them."""
    own = sorted(chosen & {*side.patched})
    if not own:
        return []
    if _SLOW.search(pattern):
        raise ToolError(review_prompt.GREP_FAILED.format(why="a repetition of a repetition is not searched for"))
    try:
        form = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise ToolError(review_prompt.GREP_FAILED.format(why=str(error))) from None
    hits = []
    for path in own:
        data = await side.patched_file(path)
        if data is None or b"\0" in data[:_BINARY_IN]:
            continue
        rows = text_of_bytes(data).split("\n")
        hits += [_Hit(path, number, row) for number, row in enumerate(rows, 1) if form.search(row[: 4 * _LONGEST_LINE])]
    return hits


async def _rows(side: ChangeSide, hits: list[_Hit], around: int) -> list[str]:
    """The hits as `path:line:text`, the path of a file before its first line only; lines around them with `-`."""
    rows: list[str] = []
    matching = {(hit.path, hit.line) for hit in hits}
    last: tuple[str, int] | None = None
    for hit in hits:
        lines = [(hit.line, hit.text)]
        if around:
            data = await side.patched_file(hit.path) if hit.path in side.patched else None
            if data is None:
                data = (await git_answer(side.folder, "cat-file", "blob", f"{side.commit}:{hit.path}")).stdout
            texts = text_of_bytes(data[:LARGEST_FILE].removesuffix(b"\n")).split("\n")
            first = max(hit.line - around, 1)
            lines = list(enumerate(texts[first - 1 : hit.line + around], first))
        for number, text in lines:
            if last is not None and last[0] == hit.path and number <= last[1]:
                continue
            if around and last is not None and last != (hit.path, number - 1):
                rows.append("--")
            sign = ":" if (hit.path, number) in matching else "-"
            named = "" if last is not None and last[0] == hit.path else os.fsencode(hit.path).decode("utf-8", "replace")
            rows.append(f"{named}{sign}{number}{sign}{_short(text)}")
            last = hit.path, number
    return rows


def _entries(listed: bytes) -> list[str]:
    """The names in a folder, those of folders with a slash."""
    names = []
    for entry in filter(None, listed.split(b"\0")):
        facts, _, name = entry.partition(b"\t")
        kind = facts.split(b" ")[0]
        link = f" {review_prompt.LINK}" if kind == b"120000" else ""
        names.append(text_of_bytes(name) + "/" * (kind == b"040000") + link)
    return names


def _numbered(lines: list[str], offset: int, limit: int) -> str:
    first = max(offset, 1)
    last = min(len(lines), first - 1 + min(max(limit, 1), _MOST_LINES))
    rows = [f"{number:>5}   {_short(lines[number - 1])}".rstrip(" ") for number in range(first, last + 1)]
    if first > 1 or last < len(lines):
        rows.append(review_prompt.MORE_LINES.format(first=first, last=last, total=len(lines), next=last + 1))
    return "\n".join(rows)


def _short(line: str) -> str:
    line = line.removesuffix("\r")
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + "…"
