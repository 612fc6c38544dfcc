"""HEAD's target, read with GitPython.

GitPython reads the objects through git processes with the hardened environment; they end before a function here
returns. It opens references and the configuration itself and waits for git without end: so incomplete repositories are
refused first, and git has a time limit.

Only `codelet doctor` uses it: its import takes 0.2 s and 11 MB, and a git process answers in 2 to 10 ms. Its own reader
of objects, without git, is deprecated and fails on partial clones. It does not read SHA-256 repositories.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.system.git import hardened_argv, look_environment, settings_environment
from codelet.system.git.configuration import LISTING, Configuration, parse_listing, redirected
from codelet.system.git.hardening import (
    ENVIRONMENT,
    REDIRECTING,
    SETTINGS,
    Repository,
    find_repository,
    overrides_of,
    unreadable,
)
from codelet.system.process import StartError, find_program
from codelet.system.process.brief import capture_now

if TYPE_CHECKING:
    import git

PATIENCE = 30.0
"""Seconds for git to find an object."""

_LISTING_CAP = 1 << 20
_LISTING_SECONDS = 10.0


def head_of(folder: Path, patience: float = PATIENCE) -> str | None:
    """Return HEAD's target: `branch main`, `detached at 1a2b3c4d5`.

    Blocks for at most `patience` seconds: then git is ended and there is no answer. None without git, or without a
    repository that it may read.
    """
    repository = _opened(folder)
    if repository is None:
        return None
    watch = threading.Timer(patience, _end_git, (repository,))
    watch.daemon = True
    with repository, suppress(*_faults()):
        watch.start()
        try:
            if repository.head.is_detached:
                return f"detached at {repository.head.object.hexsha[:9]}"
            unborn = "" if repository.head.is_valid() else " (no commit yet)"
            return f"branch {repository.active_branch.name}{unborn}"
        finally:
            watch.cancel()
    return None


def _faults() -> tuple[type[Exception], ...]:
    """Return what GitPython raises of a repository that is not whole: each part of it its own, and Python's."""
    from configparser import Error

    from git.exc import GitError, ODBError

    return (GitError, ODBError, Error, OSError, ValueError, LookupError, TypeError, AttributeError, AssertionError)


def _opened(folder: Path) -> git.Repo | None:
    """GitPython's view of the repository around the folder, its processes hardened; None if it is not asked."""
    root = os.path.realpath(folder)
    place, program = find_repository(root), find_program("git", folder)
    # GitPython starts git with all variables of this process: in a hook they would lead it elsewhere.
    if place is None or program is None or not REDIRECTING.isdisjoint(os.environ):
        return None
    configuration = _configuration(place, root)
    if configuration is None:
        return None
    os.environ["GIT_PYTHON_GIT_EXECUTABLE"] = program  # it runs git when it is imported
    try:
        import git
    finally:
        del os.environ["GIT_PYTHON_GIT_EXECUTABLE"]
    git.Git.GIT_PYTHON_GIT_EXECUTABLE = program
    try:
        repository = git.Repo(place.folder)
    except _faults():
        return None
    if os.path.realpath(repository.git_dir) != place.git_folder:
        repository.close()
        return None
    own = overrides_of(os.environ) | ENVIRONMENT | {"PATH": look_environment(folder)["PATH"]}
    settings = SETTINGS | configuration.blanks()
    repository.git.update_environment(**own, **settings_environment(settings, os.environ))
    return repository


def _configuration(place: Repository, root: str) -> Configuration | None:
    """The repository's configuration; None where GitPython is not to look at the repository."""
    if unreadable(place) is not None:
        return None
    environment = look_environment(Path(place.folder))
    argv = hardened_argv("config", LISTING)
    try:
        listed = capture_now(
            argv, cwd=Path(place.folder), environment=environment, timeout=_LISTING_SECONDS, limit=_LISTING_CAP
        )
    except StartError:
        return None
    if listed.cut or listed.timed_out or listed.exit_code != 0:
        return None
    configuration = parse_listing(listed.stdout, place, root)
    odd = redirected(configuration, place, root) or any(map(os.path.lexists, _odd_includes(configuration, place)))
    return None if odd else configuration


def _odd_includes(configuration: Configuration, place: Repository) -> list[str]:
    """The files that GitPython may include, whatever conditions git sets, and that are no regular ones."""
    named = [one for one in configuration.own if one.name == "include.path" or one.name.startswith("includeif.")]
    paths = []
    for one in named:
        origin = os.path.join(place.folder, one.origin.partition(":")[2].strip('"'))
        paths.append(os.path.join(os.path.dirname(origin), os.path.expanduser(one.value)))
    return [path for path in paths if not os.path.isfile(path)]


def _end_git(repository: git.Repo) -> None:
    """End the processes of GitPython that serve objects. Callers that wait for them get no answer."""
    for kept in (repository.git.cat_file_all, repository.git.cat_file_header):
        process = None if kept is None else kept.proc
        if process is not None:
            process.kill()
