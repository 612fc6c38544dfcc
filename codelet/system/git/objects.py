"""What stands in a repository's objects: where HEAD points, and which files differ between two commits.

GitPython reads the objects, through git processes with the hardened environment; they end before a function here
returns. Only for what is off the way to the first request: the import takes a fifth of a second.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codelet.errors import UsageError
from codelet.record import Record
from codelet.system.git import look_environment, settings_environment
from codelet.system.git.configuration import LISTING, parse_listing, redirected
from codelet.system.git.hardening import ENVIRONMENT, REDIRECTING, SETTINGS, find_repository, overrides_of
from codelet.system.process import find_program

if TYPE_CHECKING:
    import git

MOST_FILES = 1_000
LARGEST_FILE = 1 << 20


class FileChange(Record, kw_only=True):
    """A file that differs between two commits. A side is None where the file was not there, or is over a mebibyte."""

    path: str
    change: Literal["added", "removed", "changed"]
    before: bytes | None
    after: bytes | None


class FileChanges(Record):
    """The files in the order of their paths; `complete` is False where there are more than 1,000."""

    files: tuple[FileChange, ...]
    complete: bool


async def changed_files(folder: Path, old: str, new: str = "HEAD") -> FileChanges | None:
    """What differs between two commits, each named as git names them (`main`, `HEAD~3`, an id).

    None where there is no git, or no repository that it may look at. Raises UsageError for what is no commit.
    """
    return await asyncio.to_thread(_changed_files, folder, old, new)


def head_of(folder: Path) -> str | None:
    """Where HEAD points, in words: `branch main`, `detached at 1a2b3c4d5`; None as for `changed_files`. Blocks."""
    with opened_repository(folder) as repository:
        if repository is None:
            return None
        if repository.head.is_detached:
            return f"detached at {repository.head.object.hexsha[:9]}"
        unborn = "" if repository.head.is_valid() else " (no commit yet)"
        return f"branch {repository.active_branch.name}{unborn}"


def _changed_files(folder: Path, old: str, new: str) -> FileChanges | None:
    with opened_repository(folder) as repository:
        if repository is None:
            return None
        found: list[FileChange] = []
        for change in _differences(_tree_of(repository, old), _tree_of(repository, new)):
            if len(found) == MOST_FILES:
                return FileChanges(tuple(found), complete=False)
            found.append(change)
        return FileChanges(tuple(found), complete=True)


def _tree_of(repository: git.Repo, revision: str) -> git.Tree:
    from git.exc import ODBError

    try:
        return repository.commit(revision).tree
    except (ODBError, ValueError, IndexError, OSError):
        raise UsageError(f"there is no commit {revision!r} here") from None


def _differences(old: git.Tree, new: git.Tree) -> Iterator[FileChange]:
    """A walk over both trees at once; folders that are the same are not entered, submodules are left out."""
    waiting: list[tuple[git.Tree | None, git.Tree | None]] = [(old, new)]
    while waiting:
        before, after = waiting.pop()
        sides = [{item.name: item for item in tree} if tree is not None else {} for tree in (before, after)]
        folders: list[tuple[git.Tree | None, git.Tree | None]] = []
        for name in sorted(sides[0].keys() | sides[1].keys()):
            one, other = sides[0].get(name), sides[1].get(name)
            if one is not None and other is not None and (one.binsha, one.mode) == (other.binsha, other.mode):
                continue
            trees = [item if item is not None and item.type == "tree" else None for item in (one, other)]
            if any(tree is not None for tree in trees):
                folders.append((trees[0], trees[1]))
            blobs = [item if item is not None and item.type == "blob" else None for item in (one, other)]
            if (blob := blobs[1] or blobs[0]) is not None:
                yield FileChange(
                    path=str(blob.path),
                    change="added" if blobs[0] is None else "removed" if blobs[1] is None else "changed",
                    before=_content(blobs[0]),
                    after=_content(blobs[1]),
                )
        waiting += reversed(folders)


def _content(blob: git.Blob | None) -> bytes | None:
    return None if blob is None or blob.size > LARGEST_FILE else blob.data_stream.read()


@contextmanager
def opened_repository(folder: Path) -> Iterator[git.Repo | None]:
    """GitPython's view of the repository around the folder, its processes hardened; None where it is not asked."""
    root = os.path.realpath(folder)
    place, program = find_repository(root), find_program("git", folder)
    # GitPython starts git with all variables of this process: in a hook they would lead it elsewhere.
    if place is None or program is None or not REDIRECTING.isdisjoint(os.environ):
        yield None
        return
    os.environ["GIT_PYTHON_GIT_EXECUTABLE"] = program  # it runs git when it is imported
    try:
        import git
    finally:
        del os.environ["GIT_PYTHON_GIT_EXECUTABLE"]
    git.Git.GIT_PYTHON_GIT_EXECUTABLE = program
    try:
        repository = git.Repo(place.folder)
    except (git.InvalidGitRepositoryError, git.NoSuchPathError):
        yield None
        return
    with repository:
        own = overrides_of(os.environ) | ENVIRONMENT | {"PATH": look_environment(folder)["PATH"]}
        repository.git.update_environment(**own)
        listed = repository.git.config(*LISTING, with_exceptions=False, strip_newline_in_stdout=False)
        configuration = parse_listing(listed.encode("utf-8", "surrogateescape"), place, root)
        if os.path.realpath(repository.git_dir) != place.git_folder or redirected(configuration, place, root):
            yield None
            return
        settings = SETTINGS | configuration.blanks()
        repository.git.update_environment(**settings_environment(settings, os.environ))
        yield repository
