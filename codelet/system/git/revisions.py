"""Names of commits to ids: a commit, its parent, the merge base of two, what a branch follows.

GitPython reads them, as in `objects`. A name that stands for no commit is an error, never an empty answer.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from codelet.errors import UsageError
from codelet.system.git.objects import PATIENCE, opened_repository, repository_faults

if TYPE_CHECKING:
    import git

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""What a first commit is compared with: git knows this tree in every repository that counts by SHA-1."""


class CommitPair(NamedTuple):
    """Two ids between which a change lies; `base` is the empty tree before a first commit."""

    base: str
    head: str


async def pair_of(folder: Path, words: str, patience: float = PATIENCE) -> CommitPair:
    """`BASE..HEAD`, `BASE...HEAD` (from their merge base), or one commit with its first parent. Raises UsageError.

    git has `patience` seconds to find them.
    """
    return await asyncio.to_thread(_pair_of, folder, words, patience)


async def since_branch(folder: Path, branch: str | None) -> CommitPair:
    """From the merge base with that branch to HEAD; without a name the branch that HEAD's own one follows.

    Raises UsageError, also where they have no commit in common.
    """
    return await asyncio.to_thread(_since_branch, folder, branch)


async def is_commit(folder: Path, name: str) -> bool:
    """Whether a word names a commit, or a range of them."""
    try:
        await pair_of(folder, name)
    except UsageError:
        return False
    return True


def _pair_of(folder: Path, words: str, patience: float) -> CommitPair:
    with opened_repository(folder, patience) as repository:
        known = _known(repository)
        if "..." in words:
            one, _, other = words.partition("...")
            head = _commit(known, other or "HEAD")
            return CommitPair(_merge_base(known, _commit(known, one or "HEAD"), head, one), head.hexsha)
        if ".." in words:
            one, _, other = words.partition("..")
            return CommitPair(_commit(known, one or "HEAD").hexsha, _commit(known, other or "HEAD").hexsha)
        head = _commit(known, words)
        if not head.parents:
            return CommitPair(EMPTY_TREE, head.hexsha)
        return CommitPair(_commit(known, head.parents[0].hexsha).hexsha, head.hexsha)


def _since_branch(folder: Path, branch: str | None) -> CommitPair:
    with opened_repository(folder) as repository:
        known = _known(repository)
        head = _commit(known, "HEAD")
        name = branch or _followed(known)
        return CommitPair(_merge_base(known, _commit(known, name), head, name), head.hexsha)


def _followed(repository: git.Repo) -> str:
    """The branch that the current one follows."""
    try:
        if repository.head.is_detached:
            raise UsageError(f"HEAD is on no branch; {_OTHERWISE}")
        branch = repository.active_branch
        followed = branch.tracking_branch()
        if followed is None:
            raise UsageError(f"the branch {branch.name} follows no other; {_OTHERWISE}")
        return str(followed.name)
    except repository_faults():
        raise UsageError(f"which branch HEAD follows cannot be read; {_OTHERWISE}") from None


_OTHERWISE = "say what to review: --base BRANCH, BASE..HEAD, --uncommitted or --staged"


def _known(repository: git.Repo | None) -> git.Repo:
    if repository is None:
        raise UsageError("there is no git repository here that may be read; --diff FILE reviews a diff without one")
    return repository


def _commit(repository: git.Repo, name: str) -> git.Commit:
    """A commit that is there, with its parents. Raises UsageError for a name that stands for none."""
    if not name or name.startswith("-"):
        raise UsageError(f"there is no commit {name!r} here")
    try:
        found = repository.commit(name)
        _ = found.parents  # reads it: a shallow clone names commits that are not there
    except repository_faults():
        shallow = "; the clone is shallow: fetch more of its history" if _is_shallow(repository) else ""
        raise UsageError(f"there is no commit {name!r} here{shallow}") from None
    return found


def _is_shallow(repository: git.Repo) -> bool:
    return Path(repository.common_dir, "shallow").exists()


def _merge_base(repository: git.Repo, one: git.Commit, other: git.Commit, name: str) -> str:
    try:
        found = repository.merge_base(one, other, kill_after_timeout=PATIENCE)
    except repository_faults():
        raise UsageError(f"what {name!r} and HEAD have in common cannot be read") from None
    if not found or found[0] is None:
        shallow = ": the clone is shallow, fetch more of its history" if _is_shallow(repository) else ""
        raise UsageError(f"{name!r} and HEAD have no commit in common{shallow}")
    return found[0].hexsha
