"""The one place that runs git, hardened: in a cloned repository a plain `git status` can run its code.

What a repository's own configuration could start is switched off (fsmonitor, hooks, external diffs, text
conversion, signature programs, filters, submodules, bare repositories hidden in a folder, fetching objects that
are missing); the user's own configuration, such as Git LFS, stays in force.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.process import StartError, capture, child_environment
from codelet.record import Record

if TYPE_CHECKING:
    import git

_OPTIONS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "safe.bareRepository": "explicit",
    "log.showSignature": "false",
    "protocol.ext.allow": "never",
}
_FOR_COMMANDS = {name: _OPTIONS[name] for name in ("core.fsmonitor", "safe.bareRepository", "protocol.ext.allow")}
_BY_VARIABLES = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_CONFIG_COUNT")
# A repository can make git fetch what is missing, and name the program for it: nothing here needs a transport.
_NO_FETCHING = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
_NONE_FOUND = 1
_LIST_FILTERS = ("-z", "--show-scope", "--name-only", "--get-regexp", r"^filter\.")
_COMMAND_OPTIONS = {
    "status": ("--ignore-submodules=all",),
    "diff": ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
    "log": ("--no-ext-diff", "--no-textconv"),
    "show": ("--no-ext-diff", "--no-textconv"),
    "blame": ("--no-textconv",),
}


class GitAnswer(Record):
    """What git said. `stdout` is at most the limit asked for; `complete` tells whether that was all."""

    exit_code: int
    stdout: bytes
    stderr: str
    complete: bool
    timed_out: bool


class _UnsafeError(Exception):
    """The repository's configuration could not be read whole, so it cannot be made harmless."""


async def run_git(
    folder: Path, command: str, *arguments: str, timeout: float = 10.0, limit: int = 1 << 20
) -> GitAnswer | None:
    """Run one hardened git command in `folder`, `timeout` in seconds.

    None where there is no git to run, or where the repository's configuration cannot be made harmless.
    """
    try:
        environment = await _environment(folder)
        argv = hardened_argv(command, arguments)
        done = await capture(argv, cwd=folder, environment=environment, timeout=timeout, limit=limit)
    except (StartError, _UnsafeError):
        return None
    stderr = done.stderr.decode("utf-8", "replace").strip()
    complete = not done.cut and not done.timed_out
    return GitAnswer(done.exit_code, done.stdout, stderr, complete, done.timed_out)


def hardened_argv(command: str, arguments: Sequence[str] = ()) -> list[str]:
    """The words of a hardened git command; filters are switched off by its environment."""
    options = [word for name, value in _OPTIONS.items() for word in ("-c", f"{name}={value}")]
    first = ["git", "--no-optional-locks", "--no-pager", *options, command]
    return [*first, *_COMMAND_OPTIONS.get(command, ()), *arguments]


def open_repository(folder: Path) -> git.Repo:
    """GitPython's view of the repository around `folder`, for what needs more than one command.

    Only `repo.git.<command>` with `hardened_options(command)` is to be used of it: object access keeps
    children alive. Raises git.InvalidGitRepositoryError where there is none. Slow to import.
    """
    import git

    repo = git.Repo(folder, search_parent_directories=True)
    listed = repo.git.config(*_LIST_FILTERS, with_exceptions=False)
    settings = _OPTIONS | _filter_overrides(listed.encode("utf-8", "surrogateescape"))
    repo.git.update_environment(**_settings_environment(settings, os.environ), **_NO_FETCHING, GIT_OPTIONAL_LOCKS="0")
    return repo


def hardened_options(command: str) -> tuple[str, ...]:
    """The options that a git command needs beside the environment of `open_repository`."""
    return _COMMAND_OPTIONS.get(command, ())


def hardened_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a command that may itself run git: the ways in which even a `git status` that nobody
    wrote, in a makefile or a prompt, runs a repository's code are closed. Hooks and filters stay as they are: a
    commit that the user approved runs them.

    Settings that came by variables stay where name and value are both there.
    """
    settings = {}
    for name, key in environment.items():
        number = name.removeprefix("GIT_CONFIG_KEY_")
        if number != name and f"GIT_CONFIG_VALUE_{number}" in environment:
            settings[key] = environment[f"GIT_CONFIG_VALUE_{number}"]
    kept = {name: value for name, value in environment.items() if not name.startswith(_BY_VARIABLES)}
    return kept | _settings_environment(settings | _FOR_COMMANDS, {})


async def _environment(folder: Path) -> dict[str, str]:
    """The child's environment, with the filters of the repository's own configuration blanked."""
    # The user's settings that come by variables look like secrets (GIT_CONFIG_KEY_0), and git itself may have them.
    settings = {name: value for name, value in os.environ.items() if name.startswith("GIT_CONFIG_")}
    environment = child_environment() | settings | _NO_FETCHING
    environment.pop("GIT_EXTERNAL_DIFF", None)
    if _has_plain_configuration(folder):
        return environment
    argv = hardened_argv("config", _LIST_FILTERS)
    listed = await capture(argv, cwd=folder, environment=environment, timeout=10.0)
    if listed.cut or listed.timed_out or listed.exit_code not in (0, _NONE_FOUND):
        raise _UnsafeError
    overrides = _filter_overrides(listed.stdout)
    return environment | _settings_environment(overrides, environment) if overrides else environment


def _has_plain_configuration(folder: Path) -> bool:
    """Whether the repository's configuration cannot hold a filter: saves one git call on nearly every start."""
    for place in (folder, *folder.parents):
        directory = place / ".git"
        if os.path.isdir(directory):
            try:
                text = (directory / "config").read_bytes().lower()
            except OSError:
                return False
            elsewhere = any(os.path.lexists(directory / name) for name in ("config.worktree", "commondir"))
            return not elsewhere and b"filter" not in text and b"include" not in text
        if os.path.lexists(directory):
            return False
    return True


def _filter_overrides(listed: bytes) -> dict[str, str]:
    """Blank values for the filters that `git config -z --show-scope --name-only` lists in repository scope."""
    fields = listed.decode("utf-8", "surrogateescape").split("\0")
    overrides: dict[str, str] = {}
    for scope, name in zip(fields[::2], fields[1::2], strict=False):
        if scope in ("local", "worktree"):
            driver = name.rpartition(".")[0]
            overrides |= {f"{driver}.{part}": "" for part in ("clean", "smudge", "process")}
            overrides[f"{driver}.required"] = "false"
    return overrides


def _settings_environment(settings: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """Settings as git takes them from its environment, after those that are in `base`; names may hold anything."""
    text = base.get("GIT_CONFIG_COUNT", "")
    first = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    environment = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (name, value) in enumerate(settings.items(), first):
        environment[f"GIT_CONFIG_KEY_{number}"] = name
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    return environment
