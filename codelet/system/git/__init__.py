"""The one place that runs git, hardened: in a cloned repository a plain `git status` can run its code.

Off are the programs that a repository's own configuration could start (fsmonitor, hooks, external diffs, text
conversion, signature programs, filters), submodules, bare repositories hidden in a folder, and the fetching of missing
objects. The user's own configuration, such as Git LFS, stays in force.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.record import Record
from codelet.system.git.hardening import (
    COMMAND_OPTIONS,
    ENVIRONMENT,
    OPTIONS,
    SETTINGS,
    SETTINGS_FOR_COMMANDS,
    Repository,
    find_repository,
    stray,
    unreadable,
    without_variables,
)
from codelet.system.process import Begun, StartError, capture, child_environment, outside_path

if TYPE_CHECKING:
    from codelet.system.git.configuration import Configuration

_BY_VARIABLES = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_CONFIG_COUNT")
_MARKS = (b"filter", b"include", b"worktree", b"gpg")
"""A configuration without these words has no setting that the table lacks."""
_LISTING_CAP = 1 << 20

_TRUST = "git config --global --add safe.directory"

STATUS = ("--porcelain=v2", "--branch", "-z", "--untracked-files=normal")
"""The arguments of `git status`."""
_FRESH = 1.0
"""Seconds for which an early answer of git counts as current."""
_ahead: dict[tuple[Path, tuple[str, ...]], Begun] = {}


class GitAnswer(Record):
    """git's answer. `stdout` has at most the limit's bytes; `complete` if that was all."""

    exit_code: int
    stdout: bytes
    stderr: str
    complete: bool
    timed_out: bool

    @property
    def broken_off(self) -> str:
        """Return why git was stopped, in a few words; empty if its exit code is its answer."""
        if self.timed_out:
            return "git took too long"
        return f"git was ended by signal {-self.exit_code}" if self.exit_code < 0 and self.complete else ""

    @property
    def foreign_owner(self) -> str | None:
        """Return what to do if git refused a repository that belongs to another user (git's "dubious ownership"), or
        None.
        """
        # git translates its message, but not the command that it proposes.
        command = next((line for line in self.stderr.splitlines() if _TRUST in line), None)
        if command is None:
            return None
        return (
            f"git does not read a repository of another owner (dubious ownership). If you trust it: {command.strip()}"
        )


class GitVariables(Record, kw_only=True):
    """Variables for git with absolute paths, and the repository that they name if it is not the one of the folder."""

    repository: Repository | None
    values: Mapping[str, str]


_variables: ContextVar[GitVariables | None] = ContextVar("git_variables", default=None)


def use_variables(variables: GitVariables | None) -> None:
    """Run git with these variables, which are checked, in this task and in those that it starts."""
    _variables.set(variables)


class _UnsafeError(Exception):
    """The repository's configuration cannot be made harmless, or it leads to another repository: the reason."""


async def run_git(
    folder: Path, command: str, *arguments: str, timeout: float = 10.0, limit: int = 1 << 20
) -> GitAnswer | None:
    """Run one hardened git command in `folder`, `timeout` in seconds.

    None if there is no git outside the workspace to run, where the repository's configuration cannot be made
    harmless, and where it leads to another repository or work tree.
    """
    try:
        argv = hardened_argv(command, arguments)
        begun = _begun(folder, argv)
        environment = await _environment(folder) if begun is None else {}
        done = await capture(argv, cwd=folder, environment=environment, timeout=timeout, limit=limit, begun=begun)
    except (StartError, _UnsafeError):
        return None
    stderr = done.stderr.decode("utf-8", "replace").strip()
    complete = not done.cut and not done.timed_out
    return GitAnswer(done.exit_code, done.stdout, stderr, complete, done.timed_out)


async def why_not_read(folder: Path) -> str | None:
    """Return why git does not read the repository around `folder`, in one line that may say what to do.

    None if git reads it, and if there is no repository.
    """
    variables = _variables.get()
    if find_repository(os.path.realpath(folder)) is None and (variables is None or variables.repository is None):
        return None
    try:
        await _environment(folder)
    except StartError as error:
        return str(error)
    except _UnsafeError as unsafe:
        return str(unsafe)
    answer = await run_git(folder, "rev-parse", "--git-dir")
    if answer is None:
        return "there is no git outside the workspace to run"
    return answer.broken_off or (answer.foreign_owner if answer.exit_code else None)


def begin_status(folder: Path) -> None:
    """Start the `git status` that `run_git` will be asked for: it runs while the rest of codelet is imported.

    Only where the repository's configuration is seen to be harmless without asking git for it. What no one has asked
    for in the end, `end_ahead` ends.
    """
    root = os.path.realpath(folder)
    repository = find_repository(root)
    if repository is None or not _has_plain_configuration(repository, root):
        return
    argv = hardened_argv("status", STATUS)
    try:
        _ahead[folder, tuple(argv)] = Begun(argv, cwd=folder, environment=look_environment(folder))
    except StartError:  # it is said where git is asked
        return


def end_ahead() -> None:
    """End what was begun ahead and not asked for."""
    while _ahead:
        _ahead.popitem()[1].end()


def _begun(folder: Path, argv: Sequence[str]) -> Begun | None:
    begun = _ahead.pop((folder, tuple(argv)), None)
    if begun is not None and time.monotonic() - begun.since > _FRESH:
        begun.end()
        return None
    return begun


def hardened_argv(command: str, arguments: Sequence[str] = (), settings: Mapping[str, str] | None = None) -> list[str]:
    """The words of a hardened git command; filters are switched off by `settings`, or by its environment."""
    table = SETTINGS | dict(settings or {})
    given = [word for name, value in table.items() for word in ("-c", f"{name}={value}")]
    return ["git", *OPTIONS, *given, command, *COMMAND_OPTIONS.get(command, ()), *arguments]


def hardened_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a command that may run git.

    A makefile or a prompt can run `git status`, and git would run a repository's code: those ways are closed. Hooks and
    filters stay, because a commit that the user approved runs them. Settings that came by variables stay if name and
    value are known.
    """
    settings = {}
    for name, key in environment.items():
        number = name.removeprefix("GIT_CONFIG_KEY_")
        if number != name and f"GIT_CONFIG_VALUE_{number}" in environment:
            settings[key] = environment[f"GIT_CONFIG_VALUE_{number}"]
    kept = {name: value for name, value in environment.items() if not name.startswith(_BY_VARIABLES)}
    return kept | settings_environment(settings | {name: SETTINGS[name] for name in SETTINGS_FOR_COMMANDS}, {})


def look_environment(folder: Path) -> dict[str, str]:
    """The environment for asking git about a folder: the user's, without keys and without programs of the workspace."""
    # The user's settings that come by variables look like secrets (GIT_CONFIG_KEY_0), and git itself may have them.
    settings = {name: value for name, value in os.environ.items() if name.startswith("GIT_CONFIG_")}
    environment = without_variables(child_environment() | settings) | ENVIRONMENT
    return environment | {"PATH": outside_path(folder, environment)}


async def _environment(folder: Path) -> dict[str, str]:
    """The child's environment, with the filters of the repository's own configuration blanked."""
    root = os.path.realpath(folder)
    environment, repository = look_environment(folder), find_repository(root)
    if (variables := _variables.get()) is not None:
        environment |= variables.values
        repository = variables.repository or repository
    if repository is None or _has_plain_configuration(repository, root):
        return environment
    if why := unreadable(repository):
        raise _UnsafeError(why)
    from codelet.system.git.configuration import redirected

    configuration = await _listed(repository, root, environment)
    if why := redirected(configuration, repository, root):
        raise _UnsafeError(why)
    blanks = configuration.blanks()
    return environment | settings_environment(blanks, environment) if blanks else environment


async def _listed(repository: Repository, root: str, environment: Mapping[str, str]) -> Configuration:
    from codelet.system.git.configuration import LISTING, parse_listing

    argv = hardened_argv("config", LISTING)
    folder = Path(repository.folder)
    listed = await capture(argv, cwd=folder, environment=environment, timeout=10.0, limit=_LISTING_CAP)
    if listed.cut or listed.timed_out or listed.exit_code != 0:
        raise _UnsafeError("git cannot read the repository's configuration")
    return parse_listing(listed.stdout, repository, root)


def _has_plain_configuration(repository: Repository, root: str) -> bool:
    """Return whether the repository cannot have named anything that the table lacks: saves one git call on nearly every
    start.

    The words are searched as bytes: git has one spelling for the names of settings.
    """
    directory = f"{repository.folder}/.git"
    if repository.named:
        return False
    if os.path.islink(directory) or repository.git_folder != directory or repository.common != directory:
        return False
    if os.path.lexists(f"{directory}/config.worktree") or stray(repository, root) is not None:
        return False
    places = [os.path.realpath(place) for place in _user_configurations()]
    if any(place.startswith((f"{root.rstrip('/')}/", f"{repository.folder.rstrip('/')}/")) for place in places):
        return False
    config = Path(directory, "config")
    try:
        text = config.read_bytes().lower() if config.is_file() else b""
    except OSError:
        return False
    return not any(mark in text for mark in _MARKS)


def _user_configurations() -> list[str]:
    """Return where git looks for the user's own configuration."""
    home = os.environ.get("HOME", "")
    base = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    named = [os.environ[name] for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM") if os.environ.get(name)]
    return [*named, f"{home}/.gitconfig", f"{base}/git/config"]


def settings_environment(settings: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """Return settings as variables of git's, numbered after those in `base`. Names can hold any character."""
    text = base.get("GIT_CONFIG_COUNT", "")
    first = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    environment = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (name, value) in enumerate(settings.items(), first):
        environment[f"GIT_CONFIG_KEY_{number}"] = name
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    return environment
