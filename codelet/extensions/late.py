"""The place of an extension that most sessions never use: it is imported and made once something asks for it.

Three of codelet's own have a place that does more meanwhile: plans, background tasks and the history of files.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from codelet import prompt
from codelet.context.reminders import Source
from codelet.extensions.base import UNSAID, Command, ExportPart, Extension, Guard, GuardedCall, Noted
from codelet.extensions.recall import Offered
from codelet.safety.sandbox import Sandbox
from codelet.safety.verdict import Verdict
from codelet.tools.tool import Arguments, Preview, Progress, Tool, ToolContext, ToolOutput, tool

if TYPE_CHECKING:
    from codelet.extensions.file_history import FileHistory
    from codelet.extensions.plans import Plans
    from codelet.extensions.session_view import SessionView
    from codelet.extensions.tasks import Tasks


class Late(Extension, Guard):
    """The place of an extension that is imported and made once something asks for it: one of its commands, a value of
    an export, `wake`. Until then it costs no module, no token and no key of the export.

    `commands` are those of the extension by name, each with its help and its arguments; `reminder` is its type of
    reminder, which may be `momentary`; `keys` are those that it keeps in the export. With `judges` its guard is asked
    about each call, with `records` the first call that is judged asks for it. With `at_once` the session's beginning
    does, with `saves` the first export.
    """

    def __init__(
        self,
        make: Callable[[], Extension],
        *,
        commands: Mapping[str, tuple[str, str]],
        reminder: str = "",
        momentary: bool = False,
        keys: Sequence[str] = (),
        judges: bool = False,
        records: bool = False,
        at_once: bool = False,
        saves: bool = False,
    ) -> None:
        self._make = make
        self._session: SessionView
        self._awake: Extension | None = None
        self.commands = tuple(
            Command(name, about, partial(self._command, name), arguments)
            for name, (about, arguments) in commands.items()
        )
        self.reminders = (_LateSource(reminder, self, momentary=momentary),) if reminder else ()
        self.guards = (self,) if judges or records else ()
        self.beside = judges  # what is counted is counted of one session
        self._records = records
        self._at_once = at_once
        self.saves = saves
        self._parts = tuple(_LatePart(key, self) for key in keys)

    @property
    def parts(self) -> Sequence[ExportPart]:
        """A place for each of its keys."""
        return self._parts

    @property
    def awake(self) -> Extension | None:
        """The extension, once something has asked for it."""
        return self._awake

    def wake(self) -> Extension:
        """The extension; it is made now if it is not there yet."""
        if self._awake is None:
            self._awake = self._make()
            self._awake.attach(self._session)
        return self._awake

    def attach(self, session: SessionView) -> None:
        """Keep the session for the extension."""
        self._session = session
        if self._at_once:
            self.wake()

    def offered(self) -> Sequence[Tool]:
        """Its tools, once it is there."""
        return () if self._awake is None else self._awake.offered()

    def remarks(self) -> Sequence[str]:
        """Its remarks, once it is there."""
        return () if self._awake is None else self._awake.remarks()

    async def between_turns(self) -> Sequence[str]:
        """What it asks and tells between two turns, once it is there."""
        return () if self._awake is None else await self._awake.between_turns()

    def status(self) -> str:
        """Its words for the row below the prompt, once it is there."""
        return "" if self._awake is None else self._awake.status()

    def ending(self) -> Sequence[str]:
        """What of it ends with the session, once it is there."""
        return () if self._awake is None else self._awake.ending()

    def clear(self) -> None:
        """The conversation is forgotten."""
        if self._awake is not None:
            self._awake.clear()

    async def before(self, call: GuardedCall) -> Verdict | Arguments | None:
        """What its guard says of a call, once it is there; it has at most one."""
        guards = () if self._awake is None else self._awake.guards
        return await guards[0].before(call) if guards else None

    def record(self, kind: Noted, call: GuardedCall, **facts: object) -> None:
        """Have its guard take note, where it wants to."""
        if self._records:
            self.wake().guards[0].record(kind, call, **facts)

    async def close(self) -> None:
        """Close it, if it was ever there."""
        if self._awake is not None:
            await self._awake.close()

    async def _command(self, name: str, session: SessionView, argument: str) -> str:
        command = next(each for each in self.wake().commands if each.name == name)
        return await command.run(session, argument)


class _LateSource(Source):
    """The reminder of an extension that may not be there yet."""

    quiet = True

    def __init__(self, name: str, late: Late, *, momentary: bool) -> None:
        self.name = name
        self.momentary = momentary
        self._late = late

    async def begin(self) -> None:
        if self._late.awake is not None:
            await self._late.awake.reminders[0].begin()

    async def text(self) -> str | None:
        return None if self._late.awake is None else await self._late.awake.reminders[0].text()

    def sent(self) -> None:
        if self._late.awake is not None:
            self._late.awake.reminders[0].sent()


class _LatePart(ExportPart):
    """A key of an extension that may not be there yet: then it has nothing to save."""

    def __init__(self, key: str, late: Late) -> None:
        self.key = key
        self._late = late

    def form(self) -> Mapping[str, Any]:
        return self._kept(self._late.wake()).form()

    def save(self) -> Any:
        if self._late.awake is None and not self._late.saves:
            return UNSAID
        return self._kept(self._late.wake()).save()

    def restore(self, value: Any) -> None:
        if value or self._late.awake is not None:
            self._kept(self._late.wake()).restore(value)

    def _kept(self, extension: Extension) -> ExportPart:
        return next(part for part in extension.parts if part.key == self.key)


class LatePlans(Late):
    """Plans, with their tool, which the model has from the first request on."""

    def __init__(self, offered: Offered) -> None:
        about = "the plan, or a change of it: " + prompt.PLAN_CHANGES
        super().__init__(self._plans, commands={"plan": (about, "[CHANGE]")}, reminder="plan", keys=("plan",))
        self._offered = offered
        self.tools = (tool(self._tool(), title=_plan_title, preview=self._preview),)

    def offered(self) -> Sequence[Tool]:
        """The tool, where the user did not choose the tools, or wants a plan first."""
        planning = self.awake is not None and self.plans.planning
        return self.tools if self._offered == "always" or (self._offered == "when needed" and planning) else ()

    @property
    def plans(self) -> Plans:
        """The extension itself."""
        from codelet.extensions.plans import Plans

        made = self.wake()
        assert isinstance(made, Plans)
        return made

    def _plans(self) -> Plans:
        from codelet.extensions.plans import Plans

        return Plans()

    def _tool(self) -> Callable[..., Awaitable[ToolOutput]]:
        async def plan(*, plan: str = "") -> ToolOutput:
            """Keep a plan: goal, then `[ ]` steps."""
            return self.plans.keep(plan)

        return plan

    def _preview(self, context: ToolContext, arguments: Arguments) -> Preview:
        return self.plans.preview(arguments)


class LateTasks(Late):
    """Background tasks; `sandbox` is what may confine them. To the tool that runs commands it is `BackgroundTasks`."""

    def __init__(self, sandbox: Sandbox | None) -> None:
        about = ("background tasks: list, show, end, run again", "[N|stop N|run N]")
        super().__init__(self._tasks, commands={"tasks": about}, reminder="tasks", keys=("active_tasks",))
        self._sandbox = sandbox

    @property
    def tasks(self) -> Tasks:
        """The extension itself."""
        from codelet.extensions.tasks import Tasks

        made = self.wake()
        assert isinstance(made, Tasks)
        return made

    def _tasks(self) -> Tasks:
        from codelet.extensions.tasks import Tasks

        return Tasks(self._sandbox)

    async def start(
        self, command: str, argv: Sequence[str], context: ToolContext, own: Mapping[str, str]
    ) -> ToolOutput:
        """Start a command in the background: what it has printed after a moment. Raises ToolError."""
        return await self.tasks.start(command, argv, context, own)

    async def control(self, command: str, seconds: float, progress: Progress) -> ToolOutput:
        """Show, wait for or end tasks, as a command says that `is_control` knows. Raises ToolError."""
        return await self.tasks.control(command, seconds, progress)


class LateFileHistory(Late):
    """The old content of files that calls change; made at the first call that may change one."""

    def __init__(self) -> None:
        super().__init__(self._make_history, commands={})
        self.guards = (self,)
        self.beside = False

    @property
    def history(self) -> FileHistory:
        """The extension itself."""
        from codelet.extensions.file_history import FileHistory

        made = self.wake()
        assert isinstance(made, FileHistory)
        return made

    def _make_history(self) -> Extension:
        from codelet.extensions.file_history import FileHistory

        return FileHistory()

    async def starting(self, call: GuardedCall) -> None:
        """Have it look at what the call is about to change."""
        reads = call.verdict is not None and call.verdict.tier == "read"
        if not reads and (call.touches is None or any(touch.kind in ("write", "run") for touch in call.touches)):
            await self.history.starting(call)

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        """Have it look at what the call has changed."""
        return output if self.awake is None else await self.history.after(call, output)


def _plan_title(arguments: Arguments) -> str:
    """How far the plan is: the goal stands below, where the plan is shown. Without a step what the call says."""
    lines = str(arguments.get("plan") or "").strip().splitlines() or [""]
    steps = [line for line in lines if "[" in line[:6]]
    return f"{sum('[x]' in line[:8].lower() for line in steps)} of {len(steps)} done" if steps else lines[0]
