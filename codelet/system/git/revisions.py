"""Names of commits to ids: a commit, its parent, the merge base of two, the base that a branch is compared with.

git resolves the names. A name without a commit is an error, never an empty answer, and so is a name that several
references have: a tag that came along with a fetch must not take the place of a branch.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from codelet.errors import UsageError
from codelet.system.git import GitAnswer, run_git, why_not_read

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The empty tree, for a first commit: git knows it in every repository that counts by SHA-1."""
PATIENCE = 30.0
"""Seconds that git has for one answer."""

_OTHERWISE = "say what to review: --base BRANCH, BASE..HEAD, --uncommitted or --staged"
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SHORT_ID = re.compile(r"[0-9a-f]{4,64}", re.IGNORECASE)
_PSEUDO = re.compile(r"(?:[A-Z]+_)*HEAD")
_SUFFIX = re.compile(r"[~^]|@\{")
_NEVER_IN_NAMES = re.compile(r"[*?\[\\:\s\x00-\x1f\x7f]|\.\.")
_PLACES = ("refs/{}", "refs/tags/{}", "refs/heads/{}", "refs/remotes/{}", "refs/remotes/{}/HEAD")
"""The folders that git searches for a reference's short name (gitrevisions(7))."""
_BRANCH = "refs/heads/"
_REMOTE = "refs/remotes/"


class CommitPair(NamedTuple):
    """Two ids between which a change lies; `base` is the empty tree before a first commit."""

    base: str
    head: str


class AmbiguousName(UsageError):
    """Several references with different commits have the name."""


async def check_repository(folder: Path) -> None:
    """Raise UsageError with the reason if git reads no repository around `folder`."""
    answer = await run_git(folder, "rev-parse", "--git-dir")
    if answer is not None and answer.foreign_owner:
        raise UsageError(answer.foreign_owner)
    if answer is None or answer.exit_code != 0:
        why = await why_not_read(folder)
        reason = f": {why}" if why else "; --diff FILE reviews a diff without one"
        raise UsageError(f"there is no readable git repository here{reason}")


async def pair_of(folder: Path, words: str, patience: float = PATIENCE) -> CommitPair:
    """`BASE..HEAD`, `BASE...HEAD` (from their merge base), or one commit with its first parent. Raises UsageError.

    `BASE` may be the id of the empty tree, for a history from its first commit on. git has `patience` seconds for each
    answer.
    """
    await check_repository(folder)
    if words.startswith(".."):
        # git would take HEAD for it: with a variable that is not set, `$BASE..HEAD` would be an empty change.
        raise UsageError(f"{words!r} has no base: write BASE..HEAD")
    if "..." in words:
        one, _, other = words.partition("...")
        base, head = await _commit(folder, one), await _commit(folder, other or "HEAD")
        return CommitPair(await _merge_base(folder, base, head, one), head)
    if ".." in words:
        one, _, other = words.partition("..")
        if one == EMPTY_TREE:
            return CommitPair(EMPTY_TREE, await _commit(folder, other or "HEAD"))
        return CommitPair(await _commit(folder, one), await _commit(folder, other or "HEAD"))
    head = await _commit(folder, words, patience)
    parent = await _first_parent(folder, head, patience)
    return CommitPair(EMPTY_TREE if parent is None else await _commit(folder, parent), head)


async def since_branch(folder: Path, branch: str | None) -> CommitPair:
    """From the merge base with that branch to HEAD; without a name, with the `default_base`.

    Raises UsageError, also if they have no commit in common.
    """
    await check_repository(folder)
    head = await _commit(folder, "HEAD")
    name = await default_base(folder) if branch is None else branch
    return CommitPair(await _merge_base(folder, await _commit(folder, name), head, short_name(name)), head)


async def is_commit(folder: Path, name: str) -> bool:
    """Return whether a word is a commit or a range of commits; an ambiguous name is."""
    try:
        await pair_of(folder, name)
    except AmbiguousName:
        return True
    except UsageError:
        return False
    return True


def short_name(reference: str) -> str:
    """Return a reference's short name: `origin/main`."""
    return reference.removeprefix(_REMOTE).removeprefix(_BRANCH)


async def default_base(folder: Path) -> str:
    """Return the full name of the reference to compare the current branch with. Raises UsageError without one.

    It is the upstream, unless that is the branch's own copy on the remote, which has everything that was pushed. Then,
    and without an upstream, it is the remote's default branch. The default branch itself is compared with its copy.
    """
    branch = await _line(folder, "symbolic-ref", "--quiet", "HEAD")
    if not branch.startswith(_BRANCH):
        raise UsageError(f"HEAD is on no branch; {_OTHERWISE}")
    fields = "%(refname)%00%(upstream)%00%(upstream:remotename)%00%(upstream:remoteref)"
    listed = await _lines(folder, "for-each-ref", f"--format={fields}", branch)
    own = next((line.split("\0") for line in listed if line.startswith(f"{branch}\0")), [branch, "", "", ""])
    upstream, remote, there = own[1:4]
    default = await _default_branch(folder, remote)
    is_copy = remote not in ("", ".") and there == branch
    if upstream and not is_copy:
        if remote != "." and upstream != default and await _has_nothing_new(folder, upstream):
            raise UsageError(
                f"HEAD has nothing that {short_name(upstream)} lacks, which may be its own copy; {_OTHERWISE}"
            )
        return upstream
    if default is None:
        follows = f"follows {short_name(upstream)}, its own copy" if upstream else "follows no other"
        raise UsageError(
            f"the branch {short_name(branch)} {follows}, and the remote's default branch is not known; {_OTHERWISE}"
        )
    return default


async def _default_branch(folder: Path, remote: str) -> str | None:
    """Return the full name of the default branch of a remote, else of `origin` or the only remote, as fetched."""
    remotes = await _lines(folder, "remote")
    only = remotes[:1] if len(remotes) == 1 else []
    for name in dict.fromkeys((remote, "origin", *only)):
        if not name or name not in remotes:
            continue
        head = await _line(folder, "symbolic-ref", "--quiet", f"{_REMOTE}{name}/HEAD")
        for reference in (head, f"{_REMOTE}{name}/main", f"{_REMOTE}{name}/master"):
            if reference.startswith(_REMOTE) and await _named(folder, reference):
                return reference
    return None


async def _has_nothing_new(folder: Path, reference: str) -> bool:
    answer = await run_git(folder, "merge-base", "--is-ancestor", "HEAD", reference, timeout=PATIENCE)
    return answer is not None and answer.exit_code == 0


async def _commit(folder: Path, name: str, patience: float = PATIENCE) -> str:
    """The id of a commit that is there. Raises UsageError for a name without one, and for an ambiguous name."""
    if name and not name.startswith("-") and "\0" not in name:
        await _check_unambiguous(folder, name)
        answer = await run_git(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", timeout=patience)
        found = "" if answer is None or answer.exit_code != 0 else _text(answer).strip()
        if _ID.fullmatch(found):
            return found
        shallow = "; the clone is shallow: fetch more of its history" if await _is_shallow(folder) else ""
        raise UsageError(f"there is no commit {name!r} here{shallow}{_broken_off(answer)}")
    raise UsageError(f"there is no commit {name!r} here")


async def _check_unambiguous(folder: Path, name: str) -> None:
    """Raise AmbiguousName if several references, or a reference and an abbreviated id, have the name."""
    short = _SUFFIX.split(name, maxsplit=1)[0]
    if short in ("", "@") or _PSEUDO.fullmatch(short) or _ID.fullmatch(short) or _NEVER_IN_NAMES.search(short):
        return  # HEAD and its like, a whole id, or no reference: git takes these for what they are
    places = (short,) if short.startswith("refs/") else tuple(place.format(short) for place in _PLACES)
    found = await _named(folder, *places)
    if not found and short.startswith("refs/"):
        raise UsageError(f"there is no commit {name!r} here")
    commits = set(found.values())
    if found and _SHORT_ID.fullmatch(short):
        commits.update(await _lines(folder, "rev-parse", f"--disambiguate={short}"))
    if len(commits) > 1:
        names = ", ".join(found) if len(found) > 1 else f"{next(iter(found))} and an abbreviated id"
        raise AmbiguousName(f"{name!r} is ambiguous ({names}): write the full name or the commit's id")


async def _named(folder: Path, *references: str) -> dict[str, str]:
    """The ids of those of the references (full names) that exist; those of annotated tags are their commits'."""
    fields = "--format=%(refname)%00%(objectname)%00%(*objectname)"
    rows = [line.split("\0") for line in await _lines(folder, "for-each-ref", fields, *references)]
    return {row[0]: row[2] or row[1] for row in rows if len(row) == 3 and row[0] in references}


async def _first_parent(folder: Path, commit: str, patience: float) -> str | None:
    """The id of a commit's first parent as the commit has it: in a shallow clone it may be missing."""
    answer = await run_git(folder, "cat-file", "commit", commit, timeout=patience)
    if answer is None or answer.exit_code != 0 or not answer.complete:
        raise UsageError(f"there is no commit {commit!r} here{_broken_off(answer)}")
    header = _text(answer).partition("\n\n")[0]
    return next((line.removeprefix("parent ") for line in header.split("\n") if line.startswith("parent ")), None)


async def _merge_base(folder: Path, one: str, other: str, name: str) -> str:
    answer = await run_git(folder, "merge-base", one, other, timeout=PATIENCE)
    found = "" if answer is None else _text(answer).partition("\n")[0].strip()
    if _ID.fullmatch(found):
        return found
    if answer is None or answer.exit_code != 1:
        raise UsageError(f"what {name!r} and HEAD have in common cannot be read{_broken_off(answer)}")
    shallow = ": the clone is shallow, fetch more of its history" if await _is_shallow(folder) else ""
    raise UsageError(f"{name!r} and HEAD have no commit in common{shallow}")


async def _is_shallow(folder: Path) -> bool:
    return await _line(folder, "rev-parse", "--is-shallow-repository") == "true"


async def _line(folder: Path, command: str, *words: str) -> str:
    """The first line of git's answer; empty if it failed."""
    return next(iter(await _lines(folder, command, *words)), "")


async def _lines(folder: Path, command: str, *words: str) -> list[str]:
    """The lines of git's answer; none if it failed."""
    answer = await run_git(folder, command, *words, timeout=PATIENCE)
    return list(filter(None, _text(answer).split("\n"))) if answer is not None and answer.exit_code == 0 else []


def _text(answer: GitAnswer) -> str:
    return answer.stdout.decode("utf-8", "surrogateescape")


def _broken_off(answer: GitAnswer | None) -> str:
    return f": {answer.broken_off}" if answer is not None and answer.broken_off else ""
