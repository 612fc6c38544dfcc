"""Where profiles are: the user's own, then those that codelet ships, then those of a trusted project.

In this order a project cannot put a wider profile in the place of one whose name the user knows.
"""

from __future__ import annotations

import os
import re
import stat
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Self

from codelet.errors import UsageError
from codelet.extensions.profiles.profile import Profile, ProfileFault
from codelet.record import Record
from codelet.system.text import one_line
from codelet.tools import all_tools

if TYPE_CHECKING:
    from codelet.extensions.session_view import ExtensionSettings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ENDINGS = (".yaml", ".yml")
_LARGEST = 64 * 1024
_WIDTH = 1_000


class FoundProfile(Record):
    """A profile that there is: `profile`, or else `problem` says in a line what is wrong with its file."""

    name: str
    profile: Profile | None = None
    problem: str = ""

    @property
    def line(self) -> str:
        """The profile as a list shows it: its name, what it is, what it takes away, where it stands."""
        if self.profile is None:
            return f"{self.name:<12} not usable: {one_line(self.problem, _WIDTH)}"
        about = f"{self.profile.description}: " if self.profile.description else ""
        return f"{self.name:<12} {one_line(f'{about}{self.profile.told} ({self.profile.source})', _WIDTH)}"


class ProfilePlaces(Record, kw_only=True):
    """Where to look: in `own`, the user's folder, and in the folder `in_project` if the project is `trusted`.

    A profile of the project's may not be a link that leads out of it.
    """

    own: Path | None
    project: Path
    trusted: bool

    @classmethod
    def of(cls, settings: ExtensionSettings, workspace: Path) -> Self:
        """Return the places that the settings name."""
        own = None if settings.own_folder is None else settings.own_folder / "profiles"
        return cls(own=own, project=workspace, trusted=settings.trusted)

    @property
    def in_project(self) -> Path:
        """The project's folder of profiles."""
        return self.project / ".codelet" / "profiles"

    def read(self, name: str) -> Profile:
        """The profile of that name. Raises UsageError, with file and line where it is the file that is wrong."""
        if not _NAME.fullmatch(name):
            raise UsageError(f"a profile's name has letters, digits, - and _ only: {one_line(name, 60)!r} is none")
        for place in self._all():
            if found := _files(place, name):
                return self._read(name, found, place)
        here = ", ".join(each.name for each in self.listed())
        untrusted = not self.trusted and _files(self.in_project, name)
        hint = "; this project has one, which --trust reads" if untrusted else ""
        raise UsageError(f"there is no profile {name!r}; there are {here}{hint}")

    def listed(self) -> list[FoundProfile]:
        """All profiles by name; of two with one name the one that counts."""
        found: dict[str, FoundProfile] = {}
        for place in self._all():
            for name in _names(place) - found.keys():
                try:
                    found[name] = FoundProfile(name, self._read(name, _files(place, name), place))
                except UsageError as error:
                    found[name] = FoundProfile(name, problem=str(error))
        return [found[name] for name in sorted(found)]

    def _all(self) -> list[Path | None]:
        """The folders in their order; None stands for the shipped ones."""
        return [*([self.own] if self.own else []), None, *([self.in_project] if self.trusted else [])]

    def _read(self, name: str, found: list[str], place: Path | None) -> Profile:
        """Read one profile. Raises UsageError with the place."""
        from codelet.extensions.profiles.profile_file import read_yaml  # imports yaml

        own = frozenset(tool.name for tool in all_tools())
        if place is None:
            text = files(__package__).joinpath("shipped", found[0]).read_text(encoding="utf-8")
            return read_yaml(name, text, "built in", own)
        path = place / found[0]
        if len(found) > 1:
            raise UsageError(f"{path}:1: {found[1]} beside it is the same profile; remove one")
        try:
            text = _text_of(path, within=self.project if place == self.in_project else None)
            return read_yaml(name, text, str(path), own)
        except ProfileFault as fault:
            raise UsageError(f"{path}:{fault.line}: {fault}") from None


def _names(place: Path | None) -> set[str]:
    try:
        folder = files(__package__).joinpath("shipped") if place is None else place
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return set()
    stems = (name.rpartition(".")[0] for name in names if name.endswith(_ENDINGS))
    return {stem for stem in stems if _NAME.fullmatch(stem)}


def _files(place: Path | None, name: str) -> list[str]:
    """The names of the files that hold this profile there."""
    if place is None:
        return [f"{name}.yaml"] if name in _names(None) else []
    return [f"{name}{ending}" for ending in _ENDINGS if os.path.lexists(place / f"{name}{ending}")]


def _text_of(path: Path, *, within: Path | None) -> str:
    """A file's text; it may not be a link that leads out of the folder `within`. Raises ProfileFault."""
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):
            raise ProfileFault(1, "is no regular file")
        if state.st_size > _LARGEST:
            raise ProfileFault(1, f"is larger than {_LARGEST >> 10} KiB")
        if within is not None and not path.resolve().is_relative_to(within.resolve()):
            raise ProfileFault(1, "leads out of the project")
        raw = path.read_bytes()[: _LARGEST + 1]
    except OSError as error:
        raise ProfileFault(1, f"cannot be read: {error.strerror or error}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProfileFault(raw.count(b"\n", 0, error.start) + 1, "is not UTF-8") from None
