"""The only tools of a review: `read` and `grep` in git's files before and after the change.

Nothing of the work tree is opened, no link is followed, nothing is run but hardened git. Files whose names say that
they hold secrets are not shown. `grep` takes the arguments of a session's own and answers in its form.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from codelet.errors import ToolError
from codelet.review import review_prompt
from codelet.review.diff import FileDiff, Hunk, text_of_bytes
from codelet.safety.paths import why_unread
from codelet.safety.verdict import Touch
from codelet.system.git import GitAnswer, run_git
from codelet.system.text.globs import to_regex, with_literal_brackets
from codelet.tools.tool import Arguments, Tool, ToolOutput, tool

LARGEST_FILE = 16 << 20
_MOST_TRIED = 5


class ChangeSide:
    """The files of one side. `commit` holds those that no patch touches.

    `patched` are the files that the change touches, by their name on this side, if the commit holds the other side;
    `is_new` says that this is the new side.
    """

    def __init__(self, folder: Path, commit: str, files: Sequence[FileDiff] = (), *, is_new: bool) -> None:
        self.folder = folder
        self.commit = commit
        self.is_new = is_new
        self.patched: Mapping[str, FileDiff] = {
            (file.path if is_new else file.old_path or file.path): file
            for file in files
            if file.state != ("removed" if is_new else "added")
        }
        self.gone = {file.path if file.state == "removed" else file.old_path or "" for file in files if is_new}
        if not is_new:
            self.gone = {file.path for file in files if file.state in ("added", "renamed", "copied")}
        self.gone -= {*self.patched, ""}
        self._read: dict[str, bytes] = {}

    async def patched_file(self, path: str) -> bytes | None:
        """Return this side of a file that the change touches; None if its hunks do not fit."""
        if path not in self._read:
            file = self.patched[path]
            other = (file.old_path or file.path) if self.is_new else file.path
            before = b""
            if file.state != ("added" if self.is_new else "removed"):
                before = (await git_answer(self.folder, "cat-file", "blob", f"{self.commit}:{other}")).stdout
            data = patched(before, file.hunks, forwards=self.is_new)
            if data is None:
                return None
            self._read[path] = data
        return self._read[path]


def patched(data: bytes, hunks: Sequence[Hunk], *, forwards: bool) -> bytes | None:
    """A file with the hunks applied or reverted; None if they do not fit."""
    rows = data.split(b"\n")
    taken, given = (b" -", b" +") if forwards else (b" +", b" -")
    done: list[bytes] = []
    place = 0
    for hunk in hunks:
        body = [row for row in hunk.body.split(b"\n") if row[:1] != b"\\"] if hunk.body else []
        old = [row[1:] for row in body if row[:1] in taken]
        start = (hunk.old_start if forwards else hunk.new_start) - 1 + (not old)
        if start < place or [row.rstrip(b"\r") for row in rows[start : start + len(old)]] != [
            row.rstrip(b"\r") for row in old
        ]:
            return None
        done += rows[place:start]
        done += [row[1:] for row in body if row[:1] in given]
        place = start + len(old)
    return b"\n".join([*done, *rows[place:]])


async def holds_change(folder: Path, commit: str, files: Sequence[FileDiff]) -> bool | None:
    """Return whether a commit is the new side of a diff (True) or the old one (False); None if it is neither."""
    tried = [file for file in files if file.hunks][:_MOST_TRIED]
    for is_new in (True, False):
        fits = []
        for file in tried:
            name = file.path if is_new else file.old_path or file.path
            answer = await run_git(folder, "cat-file", "blob", f"{commit}:{name}", limit=LARGEST_FILE)
            data = answer.stdout if answer is not None and answer.exit_code == 0 else None
            if file.state == ("removed" if is_new else "added"):
                fits.append(data is None)
            else:
                fits.append(data is not None and patched(data, file.hunks, forwards=not is_new) is not None)
        if fits and all(fits):
            return is_new
    return None


async def git_answer(folder: Path, command: str, *words: str, limit: int = LARGEST_FILE) -> GitAnswer:
    """Return git's answer for a tool. Raises ToolError if the repository cannot be read."""
    answer = await run_git(folder, command, *words, limit=limit)
    if answer is None:
        raise ToolError("git could not search: the repository may not be read")
    if answer.broken_off:
        raise ToolError(f"git could not search: {answer.broken_off}")
    return answer


_LARGEST_HITS = 256 << 10
_MOST_LINES, _MOST_HITS, _MOST_AROUND = 400, 500, 20
_LONGEST_LINE = 500
_LONGEST_PATTERN = 1_000
_BINARY_IN = 8_000
_MOST_SECRETS = 1 << 19
"""Bytes of the names to exclude: they are arguments of a command."""
_SLOW = re.compile(r"[+*}][^()]*\)[+*{]")
_GLOB = re.compile(r"[*?\[{]")
_Hit = tuple[str, int, str]
"""A matching line: the path of its file, its number and its text."""


def tools_for(after: ChangeSide, before: ChangeSide | None, *, is_sure: bool = True) -> tuple[Tool, Tool]:
    """The two tools. Unless `is_sure`, it is not known whether the files of `after` hold the change already."""

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
            raise _failed("the pattern is empty or too long")
        wanted = side(before)
        names, secrets = await _names_of(wanted)
        chosen, missing = _chosen(path, glob, names)
        note = f"\n{review_prompt.NOT_SEARCHED.format(count=len(secrets))}" if secrets else ""
        if missing:
            return ToolOutput(review_prompt.NO_PATH.format(path=missing) + note)
        hits, more = await _hits_in_commit(wanted, pattern, ignore_case, path, secrets)
        hits = [hit for hit in hits if hit[0] in chosen] + await _hits_in_patched(wanted, pattern, ignore_case, chosen)
        hits.sort(key=lambda hit: (hit[0].split("/"), hit[1]))
        most = min(max(limit, 1), _MOST_HITS)
        rows = await _rows(wanted, hits[:most], min(max(around, 0), _MOST_AROUND))
        if more or len(hits) > most:
            rows.append(review_prompt.MORE_HITS)
        return ToolOutput("\n".join(rows or [review_prompt.NO_HIT]) + note)

    where = review_prompt.AFTER if is_sure else review_prompt.PERHAPS_AFTER
    read.__doc__ = review_prompt.READ.format(where=where)
    grep.__doc__ = review_prompt.GREP.format(where=where)
    return (
        tool(read, title=lambda arguments: _bare(str(arguments.get("path") or "")), touches=_reads),
        tool(grep, title=lambda a: f"{a.get('pattern')} in {_bare(str(a.get('path') or ''))}", touches=_reads),
    )


def _reads(arguments: Arguments) -> tuple[Touch, ...]:
    """Return what a call reads, by the name that a rule has for it: the user's rules hold for a commit's files too."""
    return (Touch("read", _bare(str(arguments.get("path") or ""))),)


def _bare(path: str) -> str:
    return posixpath.normpath(path.strip("/") or ".")


def _failed(why: str) -> ToolError:
    return ToolError(review_prompt.GREP_FAILED.format(why=why))


async def _content(side: ChangeSide, name: str) -> bytes | None:
    if name in side.patched:
        return await side.patched_file(name)
    if name in side.gone:
        return None
    answer = await git_answer(side.folder, "cat-file", "blob", f"{side.commit}:{name}")
    return answer.stdout if answer.exit_code == 0 or not answer.complete else None


async def _read(side: ChangeSide, path: str, offset: int, limit: int) -> str:
    name = _bare(path) if _bare(path) != "." else ""
    if name.startswith("../") or name == ".." or "\0" in name:
        raise ToolError(review_prompt.NOT_THERE.format(path=path))
    if name and why_unread(name):
        raise ToolError(review_prompt.NOT_SHOWN.format(path=path))
    data = await _content(side, name)
    if data is None:
        listed = await git_answer(side.folder, "ls-tree", "-z", f"{side.commit}:{name}")
        if listed.exit_code != 0 or name in side.gone or name in side.patched:
            raise ToolError(review_prompt.NOT_THERE.format(path=path))
        lines = []
        for entry in filter(None, listed.stdout.split(b"\0")):
            facts, _, own = entry.partition(b"\t")
            kind = facts.split(b" ")[0]
            link = f" {review_prompt.LINK}" if kind == b"120000" else ""
            lines.append(text_of_bytes(own) + "/" * (kind == b"040000") + link)
    elif b"\0" in data[:_BINARY_IN]:
        raise ToolError(review_prompt.NOT_TEXT.format(path=path, size=len(data)))
    else:
        lines = text_of_bytes(data.removesuffix(b"\n")).split("\n")
    first = max(offset, 1)
    last = min(len(lines), first - 1 + min(max(limit, 1), _MOST_LINES))
    rows = [f"{number:>5}   {_short(lines[number - 1])}".rstrip(" ") for number in range(first, last + 1)]
    if first > 1 or last < len(lines):
        rows.append(review_prompt.MORE_LINES.format(first=first, last=last, total=len(lines), next=last + 1))
    return "\n".join(rows)


def _chosen(path: str, glob: str | None, names: set[str]) -> tuple[set[str], str]:
    """The files that a path and a glob below it name, and the path that matches nothing, else "".

    A glob without a slash matches at any depth, and one that ends with `/*` everything below.
    """
    bare = _bare(path)
    found = names if bare == "." else {name for name in names if name == bare or name.startswith(f"{bare}/")}
    is_glob = _GLOB.search(bare) is not None
    if not found and is_glob:
        matches = _matcher(with_literal_brackets(bare, [name for name in names if "[" in name]))
        found = {name for name in names if matches(name)}
    if not found and bare not in names:
        return set(), path
    if glob:
        start = len(bare) + 1 if bare != "." and bare not in names and not is_glob else 0
        below = [name[start:] for name in found if "[" in name]
        matches = _matcher(with_literal_brackets(glob.removeprefix("./").strip("/"), below))
        found = {name for name in found if matches(name[start:]) or matches(name)}
    return found, "" if found else glob or path


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
        raise _failed("the commit has too many files")
    return names - {*secrets}, secrets


async def _hits_in_commit(
    side: ChangeSide, pattern: str, ignore_case: bool, path: str, secrets: tuple[str, ...]
) -> tuple[list[_Hit], bool]:
    """Return what git finds, and whether there is more: with Perl's expressions, else with POSIX's."""
    parts = _bare(path).split("/")
    whole = next((number for number, part in enumerate(parts) if _GLOB.search(part)), None)
    within = "/".join(parts[:whole])
    places = [f":(top,literal){within}" if within not in ("", ".") else ":(top)"]
    places += [f":(top,exclude,literal){name}" for name in (*secrets, *side.patched, *side.gone)]
    for kind in ("-P", "-E"):
        words = ("-n", "-I", kind, "--full-name", "-z", *(["-i"] if ignore_case else []), "-e", pattern, side.commit)
        found = await git_answer(side.folder, "grep", *words, "--", *places, limit=_LARGEST_HITS)
        if found.exit_code in (0, 1) or not found.complete:
            break
    else:
        raise _failed((found.stderr.splitlines() or ["it failed"])[-1])
    hits = []
    records = found.stdout.split(b"\n")
    for record in records if found.complete else records[:-1]:
        name, _, rest = record.partition(b"\0")
        number, _, text = rest.partition(b"\0")
        own = os.fsdecode(name).removeprefix(f"{side.commit}:")
        if number.isdigit() and not why_unread(own):
            hits.append((own, int(number), text_of_bytes(text)))
    return hits, not found.complete


async def _hits_in_patched(side: ChangeSide, pattern: str, ignore_case: bool, chosen: set[str]) -> list[_Hit]:
    """The hits in the files that the change touches, if no commit holds them."""
    own = sorted(chosen & {*side.patched})
    if own and _SLOW.search(pattern):
        raise _failed("a repetition of a repetition is not searched for")
    try:
        form = re.compile(pattern if own else "", re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise _failed(str(error)) from None
    hits: list[_Hit] = []
    for path in own:
        data = await side.patched_file(path)
        if data is not None and b"\0" not in data[:_BINARY_IN]:
            rows = enumerate(text_of_bytes(data).split("\n"), 1)
            hits += [(path, number, row) for number, row in rows if form.search(row[: 4 * _LONGEST_LINE])]
    return hits


async def _rows(side: ChangeSide, hits: list[_Hit], around: int) -> list[str]:
    """The hits as `path:line:text`, the path of a file before its first line only; lines around them with `-`."""
    rows: list[str] = []
    matching = {hit[:2] for hit in hits}
    last: tuple[str, int] = "", 0
    for path, line, found in hits:
        lines = [(line, found)]
        if around:
            texts = text_of_bytes((await _content(side, path) or b"")[:LARGEST_FILE].removesuffix(b"\n")).split("\n")
            first = max(line - around, 1)
            lines = list(enumerate(texts[first - 1 : line + around], first))
        for number, text in lines:
            if last[0] == path and number <= last[1]:
                continue
            if around and last[0] and last != (path, number - 1):
                rows.append("--")
            sign = ":" if (path, number) in matching else "-"
            named = "" if last[0] == path else os.fsencode(path).decode("utf-8", "replace")
            rows.append(f"{named}{sign}{number}{sign}{_short(text)}")
            last = path, number
    return rows


def _short(line: str) -> str:
    line = line.removesuffix("\r")
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + "…"
