"""The words that name what is to be reviewed, on the command line and behind /review, and what is wrong with them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from codelet.errors import UsageError

if TYPE_CHECKING:
    from codelet.review.reviewed_change import Wanted


async def wanted_of(options: argparse.Namespace) -> Wanted:
    """What is to be reviewed. Raises UsageError for words that are neither commits nor paths."""
    from codelet.review.reviewed_change import Wanted
    from codelet.settings import current_folder

    words = list(options.what)
    if options.staged or options.uncommitted:
        _check_paths(words)
        return Wanted(kind="staged" if options.staged else "uncommitted", paths=tuple(words))
    if options.diff is not None:
        if words:
            raise UsageError(f"--diff takes no paths: {words[0]!r}")
        return Wanted(kind="diff", name=options.diff)
    if options.base is not None:
        _check_paths(words)
        return Wanted(kind="branch", name=options.base, paths=tuple(words))
    if words:
        from codelet.system.git.revisions import is_commit

        # A word that is neither is taken for a commit: what says that it is none, says which side is wrong.
        if ".." in words[0] or not _is_path(words[0]) or await is_commit(current_folder(), words[0]):
            _check_paths(words[1:])
            return Wanted(kind="commits", name=words[0], paths=tuple(words[1:]))
    _check_paths(words)
    return Wanted(kind="branch", paths=tuple(words))


def _check_paths(words: list[str]) -> None:
    wrong = next((word for word in words if not _is_path(word)), None)
    if wrong is not None:
        raise UsageError(f"{wrong!r} is neither a file or folder here nor a pattern")


def _is_path(word: str) -> bool:
    import os

    return os.path.lexists(word) or any(sign in word for sign in "*?[") or word.startswith(":")
