"""What git says about the repository that a command runs in, asked before the verdict and again before the run.

Asking runs nothing of the repository's: it is the same hardened git. An answer is kept until a file that it came from
has changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from codelet.record import Record
from codelet.safety.paths import contained, why_unread
from codelet.safety.shell.folders import Location
from codelet.safety.shell.program_arguments import RefusedError
from codelet.system.git import hardened_argv, look_environment
from codelet.system.git.configuration import LISTING, Configuration, doubt, parse_listing
from codelet.system.git.hardening import REDIRECTING, Repository, find_repository, unreadable
from codelet.system.process import Captured, StartError
from codelet.system.process.brief import capture_now

_SECONDS = 2.0
_CAP = 1 << 20
_SETTLED = 2.0
_MOST_KEPT = 8

_Facts = tuple[int, ...]
_Signature = tuple[Repository, tuple[tuple[str, str], ...], tuple[_Facts, ...]]
_kept: dict[tuple[str, str], tuple[_Signature, Configuration]] = {}


class RepositoryState(Record):
    """The repository around a folder with its configuration; `reason` says in words why it is to be asked about."""

    repository: Repository | None
    configuration: Configuration
    reason: str | None = None


NO_REPOSITORY = RepositoryState(None, Configuration((), ()))


def repository_state(place: Location) -> RepositoryState:
    """The repository that git finds from where the command runs, and what of it stands in the way of running unasked.

    It blocks for one short git process, 2 seconds at most.
    """
    repository = find_repository(place.cwd)
    variables = _variables(repository, place)
    if repository is None:
        return NO_REPOSITORY.replace(reason=variables)
    if why := unreadable(repository):
        return NO_REPOSITORY.replace(repository=repository, reason=why)
    try:
        configuration = _configuration(repository, place)
    except RefusedError as refused:
        return NO_REPOSITORY.replace(repository=repository, reason=str(refused))
    return RepositoryState(
        repository, configuration, variables or doubt(configuration, repository, place.root, why_unread)
    )


def ask_git(
    folder: str, words: Sequence[str], settings: Mapping[str, str] | None = None, limit: int = _CAP
) -> Captured:
    """What the hardened git, with further `settings`, answers in `folder`, at most `limit` bytes within 2 seconds.

    Raises RefusedError where there is no whole answer.
    """
    where = Path(folder)
    argv = hardened_argv(words[0], words[1:], settings)
    environment = look_environment(where) | {"LC_ALL": "C"}
    try:
        done = capture_now(argv, cwd=where, environment=environment, timeout=_SECONDS, limit=limit)
    except StartError as error:
        raise RefusedError(f"git cannot be asked about the repository: {error}") from error
    if done.timed_out or done.cut:
        raise RefusedError("git took too long to say what the command would read")
    return done


def _configuration(repository: Repository, place: Location) -> Configuration:
    key, signature = (repository.folder, place.root), _signature(repository)
    kept = _kept.get(key)
    if kept is not None and kept[0] == signature:
        return kept[1]
    done = ask_git(repository.folder, ("config", *LISTING))
    if done.exit_code != 0:
        raise RefusedError("git cannot read the repository's configuration")
    configuration = parse_listing(done.stdout, repository, place.root)
    # A file that changed just now could change again without a later time.
    if _settled(signature) and signature == _signature(repository):
        while len(_kept) >= _MOST_KEPT:
            del _kept[next(iter(_kept))]
        _kept[key] = (signature, configuration)
    return configuration


def _variables(repository: Repository | None, place: Location) -> str | None:
    """Why a variable of the user's environment would lead git elsewhere, or None."""
    own = {} if repository is None else {
        "GIT_DIR": repository.git_folder,
        "GIT_COMMON_DIR": repository.common,
        "GIT_WORK_TREE": repository.folder,
    }  # fmt: skip
    for name in sorted(REDIRECTING & os.environ.keys()):
        value = os.path.realpath(os.path.join(place.cwd, os.environ[name]))
        in_index = name == "GIT_INDEX_FILE" and repository is not None and contained(value, repository.git_folder)
        if own.get(name) != value and not in_index:
            return f"the variable {name} may lead git to other files than the repository's"
    return None


def _signature(repository: Repository) -> _Signature:
    """What an answer depends on: the files of the repository and of the user, and the variables that git reads."""
    home = os.environ.get("HOME", "")
    base = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    places = (
        *repository.configurations, f"{repository.folder}/.git", f"{repository.git_folder}/HEAD",
        f"{home}/.gitconfig", f"{base}/git/config", "/etc/gitconfig",
    )  # fmt: skip
    read = ("HOME", "XDG_CONFIG_HOME", "PATH")
    variables = sorted(one for one in os.environ.items() if one[0].startswith("GIT_") or one[0] in read)
    return (repository, tuple(variables), tuple(map(_facts, places)))


def _facts(path: str) -> _Facts:
    """What a file is, itself and behind a link; () where there is none."""
    try:
        facts, target = os.lstat(path), os.stat(path)
    except OSError:
        return ()
    return (facts.st_mode, facts.st_ino, facts.st_ctime_ns, target.st_ino, target.st_size, target.st_ctime_ns)


def _settled(signature: _Signature) -> bool:
    latest = max((max(facts[2], facts[5]) for facts in signature[2] if facts), default=0)
    return time.time_ns() - latest > _SETTLED * 1e9
