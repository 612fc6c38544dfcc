"""The configuration as git itself lists it, and the settings that a repository may not decide.

The files are not read here: git lists them itself, so that its own rules for sections, quotes, includes and links hold.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import NamedTuple

from codelet.record import Record
from codelet.system.git.hardening import Repository, stray
from codelet.system.text.secret_shapes import ADDRESS_PASSWORD, ADDRESS_USER

LISTING = ("--list", "-z", "--show-scope", "--show-origin", "--includes")
"""The arguments of `git config` whose output `parse_listing` reads."""

# git prints lines of these files: as the rule that ignores something, as a name, in the message about a bad line.
_ELSEWHERE = {
    "core.excludesfile": "takes ignore rules from another file",
    "core.attributesfile": "takes attributes from another file",
    "mailmap.file": "takes names from another file",
    "diff.orderfile": "takes an order of files from another file",
    "blame.ignorerevsfile": "takes revisions from another file",
}
_KNOWN_EXTENSIONS = frozenset(
    ("noop", "noop-v1", "objectformat", "compatobjectformat", "partialclone", "preciousobjects", "worktreeconfig",
     "relativeworktrees")
)  # fmt: skip
_PASSWORD = re.compile(rf"{ADDRESS_USER}{ADDRESS_PASSWORD}@|://[^\s/:@]{{20,}}@")
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
    def is_repository(self) -> bool:
        """Whether git takes the folder for a repository; for one without any setting of its own this is unknown."""
        return any(one.scope == "local" for one in self.settings)

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

    def holds_password(self) -> bool:
        """Whether an address in the configuration, the user's included, holds a password or token."""
        return any(_PASSWORD.search(text) for one in self.settings for text in (one.name, one.value))


def parse_listing(listed: bytes, repository: Repository, root: str) -> Configuration:
    """Read what `git config` with LISTING printed in the repository's folder.

    A file inside the workspace counts as the repository's own, also where it stands in for the user's: HOME may be
    a folder there.
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
    """Why git would look at other files than the folder's, in words, or None."""
    worktree = configuration.worktree
    if worktree is not None:
        place = os.path.realpath(os.path.join(repository.git_folder, worktree))
        if place != repository.folder:
            return "the repository's configuration takes its files from elsewhere (core.worktree)"
    return stray(repository, root, worktree)


def doubt(
    configuration: Configuration, repository: Repository, root: str, closed: Callable[[str], object]
) -> str | None:
    """Why the repository's own configuration cannot be made harmless by settings, in words, or None.

    `closed` says of a path in the repository that it is not to be read.
    """
    for one in configuration.own:
        if one.name == "include.path" or one.name.startswith("includeif."):
            return "the repository's configuration includes another file"
        if one.name in _ELSEWHERE and not _may_be_read(one.value, repository, closed):
            return f"the repository's configuration {_ELSEWHERE[one.name]} ({one.name})"
        section, _, key = one.name.partition(".")
        known = key in _KNOWN_EXTENSIONS or (key == "refstorage" and one.value in ("files", "reftable"))
        if section == "extensions" and not known:
            return f"the repository's configuration demands {one.name}, which is not known here"
    if any("=" in name or not _plain(name) for name in configuration.blanks()):
        return "the repository's configuration names a filter in an unusual way"
    return redirected(configuration, repository, root)


def _may_be_read(value: str, repository: Repository, closed: Callable[[str], object]) -> bool:
    place = os.path.realpath(os.path.join(repository.folder, value))
    name = place.removeprefix(repository.folder.rstrip("/") + "/")
    return not value or (not value.startswith(("~", "%")) and name != place and not closed(name) and not closed(value))


def _plain(name: str) -> bool:
    """Whether a name can be written into a command as it is."""
    return name.isprintable() and not any("\ud800" <= letter <= "\udfff" for letter in name)
