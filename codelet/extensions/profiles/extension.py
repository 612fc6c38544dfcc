"""The active profile narrows a session's rights; `/profile` shows and switches it; the export keeps its name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Self

from codelet.errors import UsageError
from codelet.extensions.base import Command, ExportPart, Extension, Guard, GuardedCall, OpenedWith
from codelet.extensions.front_matter import FileFault, read_text_file
from codelet.extensions.manifest import OPTIONAL_TOOLS, SWITCHED_TOOLS
from codelet.extensions.profiles.profile import Profile, profile_from_markdown, profile_from_yaml
from codelet.record import Record
from codelet.safety.verdict import Verdict
from codelet.system.text import one_line
from codelet.tools import all_tools

if TYPE_CHECKING:
    from codelet.extensions.session_view import ExtensionSettings, SessionView

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
    return [f"{name}{ending}" for ending in _ENDINGS if os.path.lexists(place / f"{name}{ending}")]


_NONE = "none"


class Profiles(Extension, Guard):
    """The profile of one session; `chosen` is the first one, `named` is true if the user named it.

    Each profile narrows the rights with which the session was opened, not those of the previous profile.
    """

    def __init__(self, places: ProfilePlaces, chosen: Profile | None, *, named: bool) -> None:
        self.guards = (self,)
        self.parts = (ExportPart("profile", self.save, self.restore),)
        self.commands = (Command("profile", "", self._shown),)
        self._places = places
        self._named = named
        self._profile = chosen
        self._session: SessionView
        self._system = ""
        self._most: int | None = None
        self._yes = False

    @classmethod
    def from_settings(cls, given: OpenedWith, session: SessionView) -> Self:
        chosen = given.profile if isinstance(given.profile, Profile) else None
        named = given.settings.profile is not None
        return cls(ProfilePlaces.of(given.settings, session.workspace), chosen, named=named)

    def attach(self, session: SessionView) -> None:
        self._session = session
        self._system, self._yes = session.upkeep.system, session.policy.yes
        self._most = session.meter.limits.max_turns
        if self._profile is not None:
            self._use(self._profile)

    async def before(self, call: GuardedCall) -> Verdict | None:
        """Return a verdict if the profile is stricter than the policy."""
        profile, verdict = self._profile, call.verdict
        if profile is None or verdict is None or verdict.tier == "read":
            return None
        if not profile.permits(verdict.tier):
            return Verdict("deny", verdict.tier, f"the profile {profile.name} runs nothing of the tier {verdict.tier}")
        if profile.autonomy_mode == "confirm":
            return Verdict("ask", verdict.tier, f"the profile {profile.name} asks before each change")
        return None

    def save(self) -> str | None:
        return None if self._profile is None else self._profile.name

    def restore(self, value: str | None) -> None:
        """Restore the profile of an export, unless the user named one. If it is missing, the user gets a notice."""
        if value is None or self._named or value == self.save():
            return
        try:
            self._use(self._places.read(value))
        except UsageError as error:
            named = one_line(value, 60)
            self._session.notices.say(
                f"the session was saved with the profile {named!r} and continues without it: {error}"
            )

    def _use(self, profile: Profile | None) -> None:
        session, self._profile = self._session, profile
        system = self._system if profile is None else profile.instructed(self._system)
        session.upkeep.instruct(system)
        session.upkeep.offer_only(None if profile is None else profile.permitted_tools)
        session.meter.limit_turns(self._most if profile is None else profile.steps(self._most))
        confirms = profile is not None and profile.autonomy_mode == "confirm"
        session.policy.yes = self._yes and not confirms
        if profile is not None:
            for note in profile.notes:
                session.notices.say(f"profile {profile.name}: {note}")
            if self._yes and confirms:
                session.notices.say(f"profile {profile.name}: it asks before each change, so --yes answers nothing")

    async def _shown(self, session: SessionView, argument: str) -> str:
        if argument == _NONE:
            self._named = True
            self._use(None)
            return "no profile is active"
        if argument:
            if len(argument.split()) > 1:
                raise UsageError("/profile takes one name")
            profile = self._places.read(argument)
            self._named = True  # an export that is imported later does not lift it
            self._use(profile)
            more = [f"its model is {profile.model}: /model {profile.model} switches to it"] if profile.model else []
            if profile.effort is not None:
                more.append(f"its effort is {profile.effort}: /model effort {profile.effort} asks for it")
            return "\n".join([f"the profile is now {profile.name}: {profile.limits}", *session.notices.take(), *more])
        current = "none" if self._profile is None else f"{self._profile.name}: {self._profile.limits}"
        listed = [found.line for found in self._places.listed()]
        return "\n".join([f"profile {current}", "", *listed, "", "/profile NAME switches, /profile none drops it"])
