"""The files of a commit and of one side of a change, read with hardened git. Nothing of the work tree is opened."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from codelet.errors import ToolError, UsageError
from codelet.review.diff import FileDiff, Hunk
from codelet.system.git import GitAnswer, run_git

_LARGEST_FILE = 16 << 20
_LONGEST_LIST = 64 << 20
_MOST_TRIED = 5


class CommitFiles:
    """The files of a commit. Its methods raise `error` if git does not read the commit."""

    error: type[Exception] = UsageError

    def __init__(self, folder: Path, commit: str) -> None:
        self.folder = folder
        self.commit = commit
        self._names: set[str] | None = None

    async def blob(self, path: str) -> bytes | None:
        """The first 16 MiB of a file; None if the commit has no such file."""
        answer = await self.git("cat-file", "blob", f"{self.commit}:{path}")
        return answer.stdout if answer.exit_code == 0 or not answer.complete else None

    async def names(self) -> set[str]:
        if self._names is None:
            words = ("-r", "-z", "--name-only", "--full-tree", self.commit)
            answer = await self.git("ls-tree", *words, limit=_LONGEST_LIST)
            if answer.exit_code != 0 or not answer.complete:
                raise self.error(f"git did not list the files of commit {self.commit[:12]}")
            self._names = {*filter(None, os.fsdecode(answer.stdout).split("\0"))}
        return self._names

    async def git(self, command: str, *words: str, limit: int = _LARGEST_FILE) -> GitAnswer:
        answer = await run_git(self.folder, command, *words, limit=limit)
        if answer is None or answer.broken_off:
            why = answer.broken_off if answer is not None else "the repository may not be read"
            raise self.error(f"git did not read commit {self.commit[:12]}: {why}")
        return answer


class ChangeSide(CommitFiles):
    """The files of one side: those of `commit`, with the hunks of `files` applied if the commit is the other side."""

    error = ToolError

    def __init__(self, folder: Path, commit: str, files: Sequence[FileDiff] = (), *, is_new: bool = True) -> None:
        super().__init__(folder, commit)
        self._is_new = is_new
        self.changed: dict[str, FileDiff | None] = {}
        """The files that the change touches by their names on this side; None for one that this side lacks."""
        for file in files:
            here, there = _names(file, is_new=is_new)
            if not (is_new and file.state == "copied"):
                self.changed.setdefault(there, None)
            self.changed[here] = None if file.state == ("removed" if is_new else "added") else file
        self._patched: dict[str, bytes | None] = {}

    async def names(self) -> set[str]:
        touched = {path for path, file in self.changed.items() if file is not None}
        return (await super().names() - self.changed.keys()) | touched

    async def content(self, path: str) -> bytes | None:
        """The bytes of a file; None if this side lacks it, and if its hunks do not fit."""
        if path not in self.changed:
            return await self.blob(path)
        file = self.changed[path]
        if file is not None and path not in self._patched:
            other = await self.blob(_names(file, is_new=self._is_new)[1]) or b""
            self._patched[path] = patched(other, file.hunks, forwards=self._is_new)
        return self._patched.get(path)


def _names(file: FileDiff, *, is_new: bool) -> tuple[str, str]:
    """The name of a file on one side, and on the other."""
    new, old = file.path, file.old_path or file.path
    return (new, old) if is_new else (old, new)


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
        there = [row.rstrip(b"\r") for row in rows[start : start + len(old)]]
        if start < place or there != [row.rstrip(b"\r") for row in old]:
            return None
        done += rows[place:start]
        done += [row[1:] for row in body if row[:1] in given]
        place = start + len(old)
    return b"\n".join([*done, *rows[place:]])


async def sides_of_diff(folder: Path, commit: str, files: Sequence[FileDiff]) -> tuple[ChangeSide, ChangeSide | None]:
    """The sides after and before a diff, one of which is a commit; without the second it is not known which."""
    held = ChangeSide(folder, commit)

    async def holds(file: FileDiff, *, is_new: bool) -> bool:
        data = await held.blob(_names(file, is_new=is_new)[0])
        is_gone = file.state == ("removed" if is_new else "added")
        if is_gone or data is None:
            return is_gone and data is None
        return patched(data, file.hunks, forwards=not is_new) is not None

    tried = [file for file in files if file.hunks][:_MOST_TRIED]
    with suppress(ToolError):
        if tried and all([await holds(file, is_new=True) for file in tried]):
            return held, ChangeSide(folder, commit, files, is_new=False)
        if tried and all([await holds(file, is_new=False) for file in tried]):
            return ChangeSide(folder, commit, files), held
    return held, None
