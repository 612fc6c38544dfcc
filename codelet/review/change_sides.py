"""The two sides of a change as files: those of a commit, and the other side by its hunks where no commit holds it.

What is staged or not committed is in no commit. Nothing is written to the repository for it: the files of the commit
are read, and the hunks are applied to them in memory, forwards or backwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from codelet.errors import ToolError
from codelet.review.diff import FileDiff, Hunk
from codelet.system.git import GitAnswer, run_git

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
        """A file that the change touches, as it is on this side; None if its hunks do not fit."""
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
    """A file with the hunks applied, or taken back; None if they do not fit."""
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
