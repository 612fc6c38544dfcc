"""The words that name the change to review, on the command line and after /review."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from codelet.errors import UsageError

if TYPE_CHECKING:
    from codelet.review.reviewed_change import Wanted


_NAMING = {
    "base": "name a branch or a commit, such as origin/main",
    "diff": "name a file, or - for stdin",
    "rules": "name a file",
    "baseline": "name a file",
    "since": "name a commit",
    "description": "name a file",
}
"""The options that take a name, each with a hint for an empty one."""


async def wanted_of(options: argparse.Namespace) -> Wanted:
    """The change that the options name. Raises UsageError for words that are neither commits nor paths."""
    from codelet.review.reviewed_change import Wanted
    from codelet.settings import current_folder

    words = list(options.what)
    check_not_empty(options)
    if options.base is not None and (options.staged or options.uncommitted):
        raise UsageError("--base goes with commits or with --diff, whose rules it names")
    if options.since is not None and (options.staged or options.uncommitted or options.diff is not None):
        raise UsageError("--since goes with a branch: --base BRANCH --since COMMIT")
    if options.staged or options.uncommitted:
        _check_paths(words)
        return Wanted(kind="staged" if options.staged else "uncommitted", paths=tuple(words))
    if options.diff is not None:
        if words:
            raise UsageError(f"--diff takes no paths: {words[0]!r}")
        return Wanted(kind="diff", name=options.diff, base=options.base)
    if options.base is not None:
        _check_paths(words)
        return Wanted(kind="branch", name=options.base, since=options.since, paths=tuple(words))
    if words:
        from codelet.system.git.revisions import is_commit

        # Other words count as commits: git's error then names the wrong side of a range.
        if ".." in words[0] or not _is_path(words[0]) or await is_commit(current_folder(), words[0]):
            _check_paths(words[1:])
            return Wanted(kind="commits", name=words[0], paths=tuple(words[1:]))
    _check_paths(words)
    return Wanted(kind="branch", since=options.since, paths=tuple(words))


def check_not_empty(options: argparse.Namespace) -> None:
    """Raise UsageError for an empty text where a commit or a file is named: a variable of a script was not set."""
    for name in _NAMING:
        text = getattr(options, name, None)
        if text is not None and not text.strip():
            raise UsageError(f"--{name} is empty: {_NAMING[name]}, or leave the option out")
    if any(not word.strip() for word in options.what):
        raise UsageError("an argument is empty: name commits or paths, or leave it out")


def _check_paths(words: list[str]) -> None:
    wrong = next((word for word in words if not _is_path(word)), None)
    if wrong is not None:
        raise UsageError(f"{wrong!r} is neither a file or folder here nor a pattern")


def _is_path(word: str) -> bool:
    import os

    return os.path.lexists(word) or any(sign in word for sign in "*?[") or word.startswith(":")
