"""The only tools of a review: `read` and `grep` in the files of one commit, as git holds them.

Nothing of the work tree is opened, no link is followed, nothing is run but hardened git. Names that say that they hold
secrets are not shown.
"""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

from codelet.errors import ToolError
from codelet.review import review_prompt
from codelet.review.diff import text_of_bytes
from codelet.safety.paths import why_unread
from codelet.safety.verdict import Touch
from codelet.system.git import GitAnswer, run_git
from codelet.system.text.globs import with_literal_brackets
from codelet.tools.tool import Arguments, Tool, ToolOutput, tool

_LARGEST_FILE = 16 << 20
_LARGEST_HITS = 256 << 10
_MOST_LINES = 400
_LONGEST_LINE = 500
_MOST_HITS = 100
_LONGEST_PATTERN = 1_000
_BINARY_IN = 8_000
_MOST_SECRETS = 1 << 19
"""Bytes of the names that git is told to leave out: they are words of a command line."""


def tools_at(folder: Path, commit: str, *, is_head: bool) -> tuple[Tool, Tool]:
    """The two tools for a commit's id. `is_head` says that it holds the change, and not what it is made on."""

    async def read(path: str, offset: int = 1, limit: int = 200) -> ToolOutput:
        name = _checked_name(path)
        kind = await _git(folder, "cat-file", "-t", f"{commit}:{name}")
        if kind.exit_code != 0:
            raise ToolError(review_prompt.NOT_THERE.format(path=path))
        if kind.stdout.strip() == b"tree":
            listed = await _git(folder, "ls-tree", "-z", f"{commit}:{name}")
            return ToolOutput(_numbered(_entries(listed.stdout), offset, limit))
        blob = await _git(folder, "cat-file", "blob", f"{commit}:{name}")
        if b"\0" in blob.stdout[:_BINARY_IN]:
            raise ToolError(review_prompt.NOT_TEXT.format(path=path, size=len(blob.stdout)))
        return ToolOutput(_numbered(text_of_bytes(blob.stdout.removesuffix(b"\n")).split("\n"), offset, limit))

    async def grep(pattern: str, path: str = "", ignore_case: bool = False) -> ToolOutput:
        if not pattern or len(pattern) > _LONGEST_PATTERN:
            raise ToolError(review_prompt.GREP_FAILED.format(why="the pattern is empty or too long"))
        words = ["-n", "-I", "-E", "--full-name", "-z", *(["-i"] if ignore_case else []), "-e", pattern, commit]
        names, left_out = await _names_in(folder, commit)
        within = f":(top,glob){path}" if path.strip("./") else ":(top)"
        if "[" in path and not any(f"{name}/".startswith(f"{path.rstrip('/')}/") for name in names):
            within = f":(top,glob){with_literal_brackets(path, names)}"  # it is not simply a folder or a file
        kept_out = (f":(top,exclude,literal){name}" for name in left_out)
        found = await _git(folder, "grep", *words, "--", within, *kept_out, limit=_LARGEST_HITS)
        if found.exit_code not in (0, 1) and found.complete:
            why = (found.stderr.splitlines() or ["it failed"])[-1]
            raise ToolError(review_prompt.GREP_FAILED.format(why=why))
        note = "\n" + review_prompt.NOT_SEARCHED.format(count=len(left_out)) if left_out else ""
        return ToolOutput((_hits(found, commit) or review_prompt.NO_HIT) + note)

    where = review_prompt.AT_HEAD if is_head else review_prompt.BEFORE
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


async def _git(folder: Path, command: str, *words: str, limit: int = _LARGEST_FILE) -> GitAnswer:
    answer = await run_git(folder, command, *words, limit=limit)
    if answer is None:
        raise ToolError(review_prompt.GREP_FAILED.format(why="the repository may not be read"))
    if answer.broken_off:
        raise ToolError(review_prompt.GREP_FAILED.format(why=answer.broken_off))
    return answer


async def _names_in(folder: Path, commit: str) -> tuple[list[str], tuple[str, ...]]:
    """The files of a commit, and those that no search may open: a pattern could ask for what they hold, bit by bit."""
    listed = await _git(folder, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
    names = os.fsdecode(listed.stdout).split("\0")
    found = tuple(name for name in names if name and why_unread(name))
    if not listed.complete or sum(len(os.fsencode(name)) for name in found) > _MOST_SECRETS:
        raise ToolError(review_prompt.GREP_FAILED.format(why="the commit has too many files"))
    return names, found


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


def _hits(found: GitAnswer, commit: str) -> str:
    """The lines that git found, with file and number, without those of files that hold secrets."""
    rows: list[str] = []
    more = not found.complete
    records = found.stdout.split(b"\n")
    for record in records[: -1 if more else None]:
        name, _, rest = record.partition(b"\0")
        number, _, text = rest.partition(b"\0")
        path = text_of_bytes(name).removeprefix(f"{commit}:")
        if not number or why_unread(path):
            continue
        if len(rows) == _MOST_HITS:
            more = True
            break
        rows.append(f"{path}:{text_of_bytes(number)}: {_short(text_of_bytes(text))}")
    return "\n".join([*rows, *([review_prompt.MORE_HITS] if more else [])])


def _short(line: str) -> str:
    line = line.removesuffix("\r")
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + "…"
