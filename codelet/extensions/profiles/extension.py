"""The active profile narrows a session's rights; `/profile` shows and switches it; the export keeps its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from codelet.errors import UsageError
from codelet.extensions.base import Command, ExportPart, Extension, Guard, GuardedCall, OpenedWith
from codelet.extensions.profiles.find import ProfilePlaces
from codelet.extensions.profiles.profile import Profile
from codelet.safety.verdict import Verdict
from codelet.system.text import one_line

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

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
