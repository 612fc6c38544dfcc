"""What stands in a repository's objects: where HEAD points, and for `revisions` the repository itself.

GitPython reads the objects, through git processes with the hardened environment; they end before a function here
returns. Not on the way to the first request: the import takes a fifth of a second.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.system.git import look_environment, settings_environment
from codelet.system.git.configuration import LISTING, parse_listing, redirected
from codelet.system.git.hardening import ENVIRONMENT, REDIRECTING, SETTINGS, find_repository, overrides_of
from codelet.system.process import find_program

if TYPE_CHECKING:
    import git


def head_of(folder: Path) -> str | None:
    """Where HEAD points, in words: `branch main`, `detached at 1a2b3c4d5`. Blocks.

    None where there is no git, or no repository that it may look at.
    """
    with opened_repository(folder) as repository:
        if repository is None:
            return None
        if repository.head.is_detached:
            return f"detached at {repository.head.object.hexsha[:9]}"
        unborn = "" if repository.head.is_valid() else " (no commit yet)"
        return f"branch {repository.active_branch.name}{unborn}"


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
