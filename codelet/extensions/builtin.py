"""Codelet's own extensions, written out: what every session has, what a setting turns on, and the small ones.

What most sessions never use is `Late` here: its module is imported once something asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from codelet.context import Compactor, Entry
from codelet.extensions.base import ExportPart, Extension, Guard, GuardedCall, Noted
from codelet.extensions.late import Late, LateFileHistory, LatePlans, LateTasks
from codelet.extensions.recall import Offered, Recall
from codelet.safety.sandbox import Sandbox
from codelet.tools.tool import ToolOutput

if TYPE_CHECKING:
    from pathlib import Path

    from codelet.context.window import NarrativeWriter
    from codelet.extensions.file_history.change_log import ChangeLog
    from codelet.extensions.memory.held_values import HeldValues
    from codelet.extensions.memory.remembering import Facts
    from codelet.extensions.memory.session_tool import Find
    from codelet.extensions.narrator import Narrator
    from codelet.extensions.profiles.find import ProfilePlaces
    from codelet.extensions.profiles.profile import Profile
    from codelet.extensions.session_view import SafeguardsView, SessionView
    from codelet.safety.audit.log import AuditLog

_MADE_BY_IT = "it"
_MADE_BY_SOME = "it, or a command in the background,"
_PROTECTED = "[{by} made {names}, which programs outside the sandbox obey: tell the user, or ask with unconfined]"
_MOVED_ASIDE = "{name} (moved aside to {aside})"
_MADE_READ_ONLY = "[{by} made {names}, which commands can read but not write from now on]"


def export_keys() -> dict[str, Mapping[str, Any]]:
    """The keys that these keep in an export beside the document's own, with their schemas, as they are published."""
    from codelet.extensions.memory.remembering import Origins
    from codelet.extensions.statistics import ApprovalHistory, Metrics

    kept: tuple[type[ExportPart], ...] = (Origins, Metrics, ApprovalHistory)
    return {part.key: part.schema for part in kept}


class Builtin:
    """The extensions by where their guards stand: `first` before those that a caller brings, `last` behind the masking.

    Those in `last` see every answer without its secrets, and only leave text out of it.
    """

    def __init__(
        self, safeguards: SafeguardsView, compactor: Compactor, entry: Entry, *, chosen: bool, has_tools: bool
    ) -> None:
        """`chosen` says that the user chose the tools, `has_tools` that the model has any."""
        recall: Offered = "when needed" if chosen else "always"
        plan: Offered = "when needed" if chosen else "always"
        self.tasks = LateTasks(safeguards.sandbox)
        self.first: list[Extension] = [LatePlans(plan if has_tools else "never"), self.tasks]
        self.last: list[Extension] = [Recall(compactor, entry, recall if has_tools else "never"), LateFileHistory()]
        if safeguards.sandbox is not None:
            self.first.append(ProtectedFiles(safeguards.sandbox))
        if safeguards.audit is not None:
            self.last.append(Audit(safeguards.audit))


def turned_on(
    settings: Any, workspace: Path, profile: Profile | None = None, search: Find | None = None
) -> tuple[Extension, ...]:
    """The extensions that settings turn on, whose guards stand before those that a caller brings.

    `settings` is a `codelet.settings.Settings`; that module lies above this one, so it cannot be named in the types.
    `profile` is the one that the session begins with, `search` looks into earlier sessions where the user opened these.
    """
    facts = _facts(settings, search)
    found: list[Extension] = [_profiles(settings, workspace, profile), facts]
    found += [_statistics(), _machine(told=settings.environment == "full")]
    if settings.narrative != "off":
        found.append(NarratorWhenNeeded(facts, always=settings.narrative == "on"))
    return (*found, *(_class_of(each).from_settings(settings, workspace) for each in settings.brought))


def _class_of(brought: str) -> type[Extension]:
    """The extension that a row of the settings names as `MODULE:CLASS`."""
    module, _, name = brought.partition(":")
    found: type[Extension] = getattr(import_module(f"codelet.extensions.{module}"), name)
    return found


def profile_places(settings: Any, workspace: Path) -> ProfilePlaces:
    """Where profiles are looked for, as the settings say."""
    from codelet.extensions.profiles.find import ProfilePlaces

    return ProfilePlaces(
        home=settings.home, own_folder=settings.own_folder, project=workspace, trusted=settings.trusted
    )


def _profiles(settings: Any, workspace: Path, chosen: Profile | None) -> Late:
    def make() -> Extension:
        from codelet.extensions.profiles.extension import Profiles

        return Profiles(profile_places(settings, workspace), chosen, named=settings.profile is not None)

    about = ("show the profiles, or switch to one", "[NAME|none]")
    return Late(make, commands={"profile": about}, keys=("profile",), judges=True, at_once=chosen is not None)


def facts_in(path: Path) -> list[str]:
    """The statements in a file of facts, which stays as it is. Raises CodeletError."""
    from codelet.extensions.memory.fact_file import read_facts

    return [fact.shown for fact in read_facts(path)]


def search_by_meaning(model: Path | None) -> str | None:
    """What finds facts by meaning, the user's `model` or the one installed; None without. Raises CodeletError."""
    from codelet.extensions.memory.meaning import checked

    return checked(model)


def _facts(settings: Any, search: Find | None) -> Late:
    def make() -> Extension:
        from codelet.extensions.memory.remembering import Facts
        from codelet.extensions.memory.session_tool import session_tool

        tools = [] if search is None else [session_tool(search)]
        return Facts(settings.file_of("facts"), tools, model=settings.file_of("facts_model"))

    about = ("facts that are kept, or a change: add TEXT, edit N TEXT, forget N, promote N, find WORDS", "[CHANGE]")
    at_once = settings.facts is not None or search is not None
    return Late(make, commands={"facts": about}, reminder="facts", keys=("facts", "fact_origins"), at_once=at_once)


def _statistics() -> Late:
    def make() -> Extension:
        from codelet.extensions.statistics import Statistics

        return Statistics()

    about = ("counts, failures and seconds of calls and requests", "")
    return Late(
        make,
        commands={"stats": about},
        reminder="toolFailures",
        keys=("metrics", "approvals"),
        records=True,
        saves=True,
    )


def _machine(*, told: bool) -> Late:
    def make() -> Extension:
        from codelet.extensions.machine_status import Machine

        return Machine(told=told)

    about = ("the machine and the workspace", "")
    return Late(make, commands={"env": about}, reminder="machine", momentary=True, at_once=told)


def file_history(session: SessionView) -> ChangeLog:
    """What the calls of a session changed."""
    return next(each for each in session.extensions if isinstance(each, LateFileHistory)).history.log


class NarratorWhenNeeded(Extension):
    """Brings the narrator to the compactor; it is imported when a compaction is near.

    The values that hold now, as its narrative has them, are then offered as facts, which `facts` stands for.
    """

    def __init__(self, facts: Late, *, always: bool) -> None:
        self._always = always
        self._facts = facts
        self._brought: Narrator | None = None
        self._held: HeldValues | None = None
        self._session: SessionView
        self._compactions = 0

    def attach(self, session: SessionView) -> None:
        """Tell the compactor who would tell a narrative."""
        self._session = session

        def bring() -> NarrativeWriter:
            from codelet.extensions.narrator import Narrator

            narrator = Narrator(always=self._always)
            narrator.attach(session)
            self._brought = narrator
            return narrator

        session.compactor.bring_narrator = bring

    async def between_turns(self) -> Sequence[str]:
        """Offer what a narrative says that holds now, once the compaction that it was told for is made."""
        narrator, count = self._brought, self._session.compactor.count
        if narrator is None or count == self._compactions:
            return ()
        lines, narrator.told, self._compactions = narrator.told, (), count
        if self._held is None:
            from codelet.extensions.memory.held_values import HeldValues

            self._held = HeldValues(self._session, self._kept)
        return await self._held.offer(lines)

    def _kept(self) -> Facts:
        from codelet.extensions.memory.remembering import Facts

        facts = self._facts.wake()
        assert isinstance(facts, Facts)
        return facts

    async def close(self) -> None:
        """End the narrator, if there is one."""
        if self._brought is not None:
            await self._brought.close()


class SaidOnce(Extension):
    """A sentence that the user is told when the first turn begins."""

    def __init__(self, text: str) -> None:
        self._texts = [text]

    def remarks(self) -> Sequence[str]:
        """The sentence, the first time."""
        texts, self._texts = self._texts, []
        return texts


class ProtectedFiles(Extension, Guard):
    """A word on files that a confined command made and programs outside would obey.

    What is absent cannot be made read-only, so such files are looked for after each confined command, and moved aside.
    """

    beside = False

    def __init__(self, sandbox: Sandbox) -> None:
        self.guards = (self,)
        self._sandbox = sandbox

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        """The output, failed where the command made such files."""
        by = _MADE_BY_SOME if self._sandbox.held else _MADE_BY_IT
        made = self._sandbox.newly_protected() if call.ran else ()
        if not made:
            return output
        obeyed = [
            _MOVED_ASIDE.format(name=one.name, aside=one.aside) if one.aside else one.name
            for one in made
            if not one.stays
        ]
        stays = [one.name for one in made if one.stays]
        told = [_MADE_READ_ONLY.format(by=by, names=", ".join(stays))] if stays else []
        told += [_PROTECTED.format(by=by, names=", ".join(obeyed))] if obeyed else []
        return output.replace(text="\n".join((output.text, *told)), failed=output.failed or bool(obeyed))


class Audit(Extension, Guard):
    """Writes verdicts, answers, changes and ends of calls into a file; `close` ends it: else it counts as cut off."""

    def __init__(self, log: AuditLog) -> None:
        self.guards = (self,)
        self._log = log

    def record(self, kind: Noted, call: GuardedCall, **facts: object) -> None:
        """Append one record. Raises AuditError where it cannot be written: nothing goes on unseen."""
        if kind == "verdict":
            facts = {"title": call.title, "arguments": call.arguments, **facts}
        self._log.record(kind, call=call.id, tool=call.name, **facts)

    async def close(self) -> None:
        """Append the closing record."""
        self._log.close()
