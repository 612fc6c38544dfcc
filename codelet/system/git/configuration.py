"""The configuration as git itself lists it, and the settings that a repository may not decide.

The files are not read here: git lists them itself, so that its own rules for sections, quotes, includes and links hold.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from codelet.record import Record
from codelet.system.git.hardening import Repository, stray

LISTING = ("--list", "-z", "--show-scope", "--show-origin", "--includes")
"""The arguments of `git config` whose output `parse_listing` reads."""

_FILTER = re.compile(r"filter\.(.+)\.[^.]+", re.DOTALL)
_SIGNER = re.compile(r"gpg\..+\.program", re.DOTALL)


class GitSetting(NamedTuple):
    """One entry: its scope (system, global, local, worktree, command), the file, and name and value.

    The name's section and key are lower case, as git writes them.
    """

    scope: str
    origin: str
    name: str
    value: str


class Configuration(Record):
    """All settings in force in a repository, and those of them that came with it."""

    settings: tuple[GitSetting, ...]
    own: tuple[GitSetting, ...]

    @property
    def worktree(self) -> str | None:
        """The value of core.worktree."""
        return next((one.value for one in reversed(self.own) if one.name == "core.worktree"), None)

    @property
    def drivers(self) -> list[str]:
        """The names of the filters that the repository's own configuration defines."""
        return sorted({found[1] for one in self.own if (found := _FILTER.fullmatch(one.name))})

    def blanks(self) -> dict[str, str]:
        """The settings that take the place of what the repository names itself and no table can know."""
        blank = {f"filter.{name}.{key}": "" for name in self.drivers for key in ("clean", "smudge", "process")}
        blank |= {f"filter.{name}.required": "false" for name in self.drivers}
        return blank | {one.name: "false" for one in self.own if _SIGNER.fullmatch(one.name)}


def parse_listing(listed: bytes, repository: Repository, root: str) -> Configuration:
    """Read the output of `git config` with LISTING in the repository's folder.

    A file inside the workspace counts as the repository's own, even the user's: HOME may be a folder there.
    """
    fields = listed.decode("utf-8", "surrogateescape").split("\0")
    settings = []
    for scope, origin, entry in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        name, _, value = entry.partition("\n")
        settings.append(GitSetting(scope, origin, name, value))
    own = tuple(one for one in settings if _is_own(one, repository, root))
    return Configuration(tuple(settings), own)


def _is_own(setting: GitSetting, repository: Repository, root: str) -> bool:
    if setting.scope in ("local", "worktree") or setting.scope not in ("system", "global", "command"):
        return True
    kind, _, path = setting.origin.partition(":")
    if kind != "file":
        return False
    place = os.path.realpath(os.path.join(repository.folder, path.strip('"')))
    return any(place.startswith(home.rstrip("/") + "/") for home in (repository.folder, root))


def redirected(configuration: Configuration, repository: Repository, root: str) -> str | None:
    """Return the reason why git would read files outside the folder, or None."""
    worktree = configuration.worktree
    if worktree is not None:
        place = os.path.realpath(os.path.join(repository.git_folder, worktree))
        if place != repository.folder:
            return "the repository's configuration takes its files from elsewhere (core.worktree)"
    return stray(repository, root, worktree)
