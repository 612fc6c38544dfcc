"""Codelet's own extensions: one row each. A module is imported at the first use of something that its row names.

Until then an extension costs no module, no token of a request but its tools, and no key of the export.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from codelet import prompt
from codelet.context.reminders import Source
from codelet.extensions.base import (
    UNSAID,
    Command,
    ExportPart,
    Extension,
    ExtensionClass,
    Guard,
    GuardedCall,
    Noted,
    OpenedWith,
)
from codelet.messages import JsonSchema
from codelet.record import Record
from codelet.safety.verdict import Verdict
from codelet.tools.tool import Arguments, Preview, Tool, ToolContext, ToolOutput, described, in_memory

if TYPE_CHECKING:
    from codelet.context.compactor import NarrativeWriter
    from codelet.extensions.session_view import SafeguardsView, SessionView

Place = Literal["first", "last", "settings"]
"""`first` and `last` are in every session, with guards before all others or after the masking. `settings` are in
sessions that are opened with settings, before the caller's extensions.
"""
Waking = Literal["start", "chosen", "call", "near", "export"]
"""A moment at which the extension is created: the session's start, always or if the user chose the tools; the first
call; a compaction that is near; an export.
"""
Offers = Literal["always", "when needed", "never"]
"""When the model gets the tools of a row: from the first request, once the extension offers them, or never."""


class ToolRow(Record, kw_only=True):
    """A tool that works in memory, as a request describes it. `text` has the form of a tool's docstring."""

    name: str
    text: str
    arguments: Mapping[str, str]


class ManifestRow(Record, kw_only=True):
    """One extension: `MODULE:CLASS` in this folder, and the names of its parts.

    `on` decides whether the session has the extension, `starts` whether it is created at the session's start. An
    `is_eager` one is created with the session; its row names no parts.

    `commands` maps names to help and usage, which the extension's own commands leave out. `reminder` is the type of its
    reminder, `keys` are its keys of the export.
    `late` extensions offer tools after their start. `guard` extensions have a guard; `in_subsessions` is as in `Guard`.
    `needs` names the safeguard without which the extension is left out.
    """

    made: str
    place: Place = "settings"
    is_eager: bool = False
    tools: tuple[ToolRow, ...] = ()
    commands: Mapping[str, tuple[str, str]] = {}
    reminder: str = ""
    keys: tuple[str, ...] = ()
    late: bool = False
    guard: bool = False
    in_subsessions: bool = True
    wakes: tuple[Waking, ...] = ()
    needs: Literal["", "sandbox", "audit"] = ""
    on: Callable[[OpenedWith], bool] = lambda given: True
    starts: Callable[[OpenedWith], bool] = lambda given: False


def _has_prompt_files(given: OpenedWith) -> bool:
    reads = given.settings.skills == "on" and not given.settings.bare
    return reads and bool(given.folders("commands") or given.folders("skills"))


ROWS = (
    ManifestRow(
        made="plans:Plans",
        place="first",
        tools=(ToolRow(name="plan", text=prompt.PLAN_TOOL, arguments={"plan": "string"}),),
        commands={"plan": ("the plan, or a change of it: " + prompt.PLAN_CHANGES, "[CHANGE]")},
        reminder="plan",
        keys=("plan",),
        guard=True,
    ),
    ManifestRow(
        made="tasks:Tasks",
        place="first",
        commands={"tasks": ("background tasks: list, show, end, run again", "[N|stop N|run N]")},
        reminder="tasks",
        keys=("active_tasks",),
    ),
    ManifestRow(
        made="protected_files:ProtectedFiles",
        place="first",
        needs="sandbox",
        guard=True,
        in_subsessions=False,
        wakes=("call",),
    ),
    ManifestRow(
        made="recall:Recall",
        place="last",
        tools=(
            ToolRow(
                name="recall",
                text=prompt.RECALL_TOOL,
                arguments=dict.fromkeys(("entry", "lines", "byte_range", "pattern"), "string") | {"turn": "integer"},
            ),
        ),
        guard=True,
        in_subsessions=False,
        wakes=("chosen", "call"),
    ),
    ManifestRow(made="file_history:FileHistory", place="last", guard=True, wakes=("call",)),
    ManifestRow(made="audit_guard:Audit", place="last", needs="audit", guard=True, wakes=("start",)),
    ManifestRow(
        made="profiles.extension:Profiles",
        commands={"profile": ("show the profiles, or switch to one", "[NAME|none]")},
        keys=("profile",),
        guard=True,
        starts=lambda given: given.profile is not None,
    ),
    ManifestRow(
        made="memory.remembering:Facts",
        commands={
            "facts": (
                "facts that are kept, or a change: add TEXT, forget N, promote N, find WORDS",
                "[CHANGE]",
            )
        },
        reminder="facts",
        keys=("facts", "fact_origins"),
        starts=lambda given: (given.settings.facts or given.settings.export or given.search) is not None,
    ),
    ManifestRow(
        made="statistics:Statistics",
        commands={"stats": ("counts, failures and seconds of calls and requests", "")},
        reminder="toolFailures",
        keys=("metrics", "approvals"),
        guard=True,
        in_subsessions=False,
        wakes=("call", "export"),
    ),
    ManifestRow(
        made="machine_status:Machine",
        commands={"env": ("the machine and the workspace", "")},
        reminder="machine",
        starts=lambda given: given.settings.environment == "full",
    ),
    ManifestRow(made="narrator:Narrator", on=lambda given: given.settings.narrative != "off", wakes=("near",)),
    ManifestRow(made="event_log:EventLog", is_eager=True, on=lambda given: given.settings.log is not None),
    ManifestRow(made="prompt_files:PromptFiles", is_eager=True, on=_has_prompt_files),
    ManifestRow(made="hooks:Hooks", is_eager=True, on=lambda given: bool(given.settings.hooks)),
    ManifestRow(made="diagnostics:Diagnostics", is_eager=True, on=lambda given: bool(given.settings.checkers)),
    ManifestRow(
        made="mcp.client:Mcp",
        late=True,
        commands={
            "mcp": ("the MCP servers, or one of them: its tools, a restart, a login", "[NAME|restart NAME|login NAME]")
        },
        guard=True,
        in_subsessions=False,
        starts=lambda given: bool(given.settings.mcp_servers or given.settings.mcp),
    ),
    ManifestRow(
        made="web.fetcher:Fetching",
        is_eager=True,
        on=lambda given: given.settings.web and given.settings.tools is None,
    ),
    ManifestRow(made="plans:PlanFirst", starts=lambda given: given.settings.plan),
)
"""In the order of their guards, tools, reminders and commands."""

OPTIONAL_TOOLS = frozenset(("fetch", "forget", "plan", "recall", "remember", "search_sessions", "skill"))
"""The tools of codelet's own extensions; a session has some of them."""
SWITCHED_TOOLS = frozenset(("ask_user", "task"))
"""Optional tools of extensions that are not in the manifest."""


def every_session(safeguards: SafeguardsView, *, chosen: bool, has_tools: bool) -> tuple[list[Listed], list[Listed]]:
    """Return the extensions of every session: `first` ones and `last` ones.

    `chosen` is true if the user chose the tools, `has_tools` if the model has any.
    """
    offers: Offers = "never" if not has_tools else "when needed" if chosen else "always"
    rows = [row for row in ROWS if not row.needs or getattr(safeguards, row.needs) is not None]
    first, last = ([Listed(row, offers=offers) for row in rows if row.place == place] for place in ("first", "last"))
    return first, last


def turned_on(given: OpenedWith) -> list[Extension]:
    """Return the extensions of a session that is opened with settings."""
    rows = (row for row in ROWS if row.place == "settings" and row.on(given))
    return [_class_of(row)(given) if row.is_eager else Listed(row, given) for row in rows]


class Listed(Extension, Guard, Source):
    """A row's extension in one session: has the row's names, and creates the extension at the first use of one.

    `given` is None for an extension that every session has. `awake` is the extension once it exists. The object is
    also the row's reminder and guard, so an extension in the manifest has at most one of each.
    """

    def __init__(self, row: ManifestRow, given: OpenedWith | None = None, offers: Offers = "always") -> None:
        self._row = row
        self._given = given
        self._offers = offers
        self._session: SessionView
        self.awake: Extension | None = None
        self.tools = tuple(_LateTool(self, each.name).tool() for each in row.tools)
        self.commands = tuple(
            Command(name, about, partial(self._command, name), arguments)
            for name, (about, arguments) in row.commands.items()
        )
        self.name = row.reminder
        self.reminders = (self,) if row.reminder else ()
        self.guards = (self,) if row.guard else ()
        self.in_subsessions = row.in_subsessions
        self.offers_later = row.late and given is not None and row.starts(given)
        self.parts = tuple(_LatePart(self, key, wakes="export" in row.wakes).part() for key in row.keys)

    def wake(self) -> Extension:
        """Return the extension, created if necessary."""
        if self.awake is None:
            kind, session = _class_of(self._row), self._session
            made = kind.from_session(session) if self._given is None else kind.from_settings(self._given, session)
            self.awake = made
            made.attach(session)
        return self.awake

    def attach(self, session: SessionView) -> None:
        self._session = session
        wakes = self._row.wakes

        def narrator() -> NarrativeWriter:
            self.wake()
            assert session.compactor.narrator is not None
            return session.compactor.narrator

        if "near" in wakes:
            session.compactor.bring_narrator = narrator
        chosen = "chosen" in wakes and self._offers == "when needed"
        if "start" in wakes or chosen or (self._given is not None and self._row.starts(self._given)):
            self.wake()

    def as_a(self, kind: type[ExtensionClass]) -> ExtensionClass | None:
        """Return the row's extension if its class is this one."""
        name = f"{kind.__module__}:{kind.__qualname__}".removeprefix(f"{__package__}.")
        return self.wake().as_a(kind) if self._row.made == name else None

    @property
    def label(self) -> str:
        return self._row.made.partition(":")[2]

    @property
    def ends_answers(self) -> bool:
        """Return whether the extension exists and can end answers."""
        return (self.awake or _NONE).ends_answers

    def offered(self) -> Sequence[Tool]:
        if self.tools and self._offers != "when needed":
            return self.tools if self._offers == "always" else ()
        return (self.awake or _NONE).offered()

    @property
    def _guard(self) -> Guard:
        extension = self.wake() if "call" in self._row.wakes else self.awake or _NONE
        return extension.guards[0] if extension.guards else _NO_GUARD

    async def before(self, call: GuardedCall) -> Verdict | Arguments | None:
        return await self._guard.before(call)

    async def starting(self, call: GuardedCall) -> None:
        await self._guard.starting(call)

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        return await self._guard.after(call, output)

    def record(self, kind: Noted, call: GuardedCall, **facts: object) -> None:
        self._guard.record(kind, call, **facts)

    async def begin(self) -> None:
        for each in (self.awake or _NONE).reminders:
            await each.begin()

    async def text(self) -> str | None:
        return None if self.awake is None else await self.awake.reminders[0].text()

    def sent(self) -> None:
        for each in (self.awake or _NONE).reminders:
            each.sent()

    async def _command(self, name: str, session: SessionView, argument: str) -> str:
        return await next(each for each in self.wake().commands if each.name == name).run(session, argument)


class _LateTool:
    """A row's tool: its description is the row's, its functions are those of the extension's tool."""

    __slots__ = ("_listed", "_name")

    def __init__(self, listed: Listed, name: str) -> None:
        self._listed, self._name = listed, name

    def tool(self) -> Tool:
        return Tool(
            self._name, *_request_form(self._name), self._run, in_memory, self._about, self._preview, self._check
        )

    def _own(self) -> Tool:
        return next(each for each in self._listed.wake().tools if each.name == self._name)

    async def _run(self, context: ToolContext, progress: Callable[[str], None], **arguments: Any) -> ToolOutput:
        return await self._own().run(context, progress, **arguments)

    def _about(self, arguments: Arguments) -> str:
        return self._own().about(arguments)

    def _preview(self, context: ToolContext, arguments: Arguments) -> Preview:
        return self._own().previewed(context, arguments)

    def _check(self, arguments: Arguments) -> Arguments:
        checked = self._own().check
        return arguments if checked is None else checked(arguments)


class _LatePart:
    """A row's key of the export. It saves nothing before the extension exists, unless an export creates it."""

    __slots__ = ("_key", "_listed", "_wakes")

    def __init__(self, listed: Listed, key: str, *, wakes: bool) -> None:
        self._listed, self._key, self._wakes = listed, key, wakes

    def part(self) -> ExportPart:
        return ExportPart(self._key, self._save, self._restore, self._schema)

    def _own(self) -> ExportPart:
        return next(part for part in self._listed.wake().parts if part.key == self._key)

    def _save(self) -> Any:
        return UNSAID if self._listed.awake is None and not self._wakes else self._own().save()

    def _restore(self, value: object) -> None:
        if value or self._listed.awake is not None:
            self._own().restore(value)

    def _schema(self) -> Mapping[str, object]:
        return self._own().schema()


def _class_of(row: ManifestRow) -> Any:
    module, _, name = row.made.partition(":")
    return getattr(import_module(f"{__package__}.{module}"), name)


_NONE = Extension()
_FORWARDED = (
    "awaited prepare reported status answer ending prompted stopping compacting between_turns clear close".split()
)


def _forward(name: str) -> Callable[..., Any]:
    """Return a method that calls the method `name` of a row's extension, or of an empty one if it does not exist."""

    def method(self: Listed, *arguments: Any) -> Any:
        return getattr(self.awake or _NONE, name)(*arguments)

    return method


for _name in _FORWARDED:
    setattr(Listed, _name, _forward(_name))

_NO_GUARD = Guard()


@cache
def _request_form(name: str) -> tuple[str, JsonSchema]:
    """Return the description and the parameters of a tool, shared by all sessions."""
    tool = next(each for row in ROWS for each in row.tools if each.name == name)
    description, meanings = described(tool.text, tuple(tool.arguments))
    properties = {argument: {"type": kind} | meanings[argument] for argument, kind in tool.arguments.items()}
    return description, {"type": "object", "properties": properties}
