"""The places of profiles: the user's own, then codelet's, then a trusted project's.

In this order a project cannot replace a profile whose name the user knows by a wider one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Self

from codelet.errors import UsageError
from codelet.extensions.front_matter import FileFault, read_text_file
from codelet.extensions.manifest import OPTIONAL_TOOLS, SWITCHED_TOOLS
from codelet.extensions.profiles.profile import Profile
from codelet.record import Record
from codelet.system.text import one_line
from codelet.tools import all_tools

if TYPE_CHECKING:
    from codelet.extensions.session_view import ExtensionSettings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ENDINGS = (".yaml", ".yml", ".md")
_LARGEST = 64 * 1024
_SHIPPED = "built in"
_WIDTH = 1_000


class FoundProfile(Record):
    """A listed profile: `profile`, or a one-line `problem` of its file."""

    name: str
    profile: Profile | None = None
    problem: str = ""

    @property
    def line(self) -> str:
        """The profile in a list: its name, description, limits and place."""
        if self.profile is None:
            return f"{self.name:<12} not usable: {one_line(self.problem, _WIDTH)}"
        about = f"{self.profile.description}: " if self.profile.description else ""
        return f"{self.name:<12} {one_line(f'{about}{self.profile.limits} ({self.profile.source})', _WIDTH)}"


class ProfilePlaces(Record, kw_only=True):
    """The places of profiles: the user's `home`, `own_folder` next to the user's settings, and the folder `project` if
    it is `trusted`. A project's profile may not be a link out of the project.
    """

    home: Path | None
    own_folder: Path | None
    project: Path
    trusted: bool

    @classmethod
    def of(cls, settings: ExtensionSettings, workspace: Path) -> Self:
        return cls(home=settings.home, own_folder=settings.own_folder, project=workspace, trusted=settings.trusted)

    @property
    def own(self) -> tuple[Path, ...]:
        """The user's folders: codelet's own, and the agents of another tool."""
        named = (self.own_folder, "profiles"), (self.home, ".claude/agents")
        return tuple(folder / name for folder, name in named if folder is not None)

    @property
    def in_project(self) -> tuple[Path, Path]:
        """The project's, in the same order."""
        return self.project / ".codelet" / "profiles", self.project / ".claude" / "agents"

    def read(self, name: str) -> Profile:
        """Return the profile of this name. Raises UsageError, with file and line for an error in the file."""
        if not _NAME.fullmatch(name):
            raise UsageError(f"a profile's name has letters, digits, - and _ only, not {one_line(name, 60)!r}")
        for place in self._all():
            if found := _files(place, name):
                return self._read(name, found, place)
        here = ", ".join(each.name for each in self.listed())
        ours = not self.trusted and _files(self.in_project[0], name)
        hint = "; this project has one, which --trust reads" if ours else ""
        raise UsageError(f"there is no profile {name!r}; there are {here}{hint}")

    def listed(self) -> list[FoundProfile]:
        """Return all profiles by name, the first of each."""
        found: dict[str, FoundProfile] = {}
        for place in self._all():
            for name in _names(place):
                if name in found:
                    continue
                try:
                    found[name] = FoundProfile(name, self._read(name, _files(place, name), place))
                except UsageError as error:
                    found[name] = FoundProfile(name, problem=str(error))
        return [found[name] for name in sorted(found)]

    def _all(self) -> Iterator[Path | None]:
        """Yield the folders in order; None means codelet's own profiles."""
        yield from self.own
        yield None
        yield from self.in_project if self.trusted else ()

    def _read(self, name: str, found: list[str], place: Path | None) -> Profile:
        """Read one profile. Raises UsageError with the place."""
        from codelet.extensions.profiles.profile_file import profile_from_markdown, profile_from_yaml  # imports yaml

        own = frozenset(tool.name for tool in all_tools()) | OPTIONAL_TOOLS | SWITCHED_TOOLS
        if place is None:
            text = files(__package__).joinpath("shipped", found[0]).read_text(encoding="utf-8")
            return profile_from_yaml(name, text, _SHIPPED, own)
        path = place / found[0]
        if len(found) > 1:
            raise UsageError(f"{path}:1: {found[1]} next to it is the same profile; remove one")
        try:
            text = read_text_file(
                path, _LARGEST, within=self.project if self.trusted and place in self.in_project else None
            )
            reader = profile_from_markdown if path.suffix == ".md" else profile_from_yaml
            return reader(name, text, str(path), own)
        except FileFault as fault:
            raise UsageError(fault.at(path)) from None


def _names(place: Path | None) -> list[str]:
    if place is None:
        names = [entry.name for entry in files(__package__).joinpath("shipped").iterdir()]
    else:
        try:
            names = [entry.name for entry in place.iterdir()]
        except OSError:
            return []
    stems = {name.rpartition(".")[0] for name in names if name.endswith(_ENDINGS)}
    return sorted(name for name in stems if _NAME.fullmatch(name))


def _files(place: Path | None, name: str) -> list[str]:
    """The names of the files that hold this profile there."""
    if place is None:
        return [f"{name}.yaml"] if name in _names(None) else []
    return [f"{name}{ending}" for ending in _ENDINGS if _is_there(place / f"{name}{ending}")]


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True
