"""Background tasks: commands that continue while the model does other things, and end with the session at the latest.

Nothing here is imported before the first task.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from codelet.context.reminders import Source
from codelet.errors import ToolError, UsageError
from codelet.events import ToolResult
from codelet.extensions.base import Command, ExportPart, Extension
from codelet.extensions.tasks.background import BackgroundTask, KnownTask
from codelet.extensions.tasks.control import about, controlled, listed, reminder_of, started
from codelet.safety.sandbox import Sandbox
from codelet.system.process import StartError
from codelet.system.process.service import start_service
from codelet.tools.bash import SUPERVISOR_LOST
from codelet.tools.tool import Progress, ToolContext, ToolOutput

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

_TOP_IS_SETTLED = (
    "[without a repository here, a background command can write files that were in the workspace at its start, and "
    "create files in its folders, but not at its top]"
)
_TASK_LIMIT = "{count} tasks are running: kill one first"


_MOST_AT_ONCE = 8
_MOST_KNOWN = 100


class Tasks(Extension, Source):
    """The session's background tasks, for the tool `bash`, their reminder, command and key of the export.

    `sandbox` confines them, if it is not None.
    """

    name = "tasks"

    def __init__(self, sandbox: Sandbox | None) -> None:
        self.reminders = (self,)
        self.commands = (Command("tasks", "", self.command),)
        self.parts = (ExportPart("active_tasks", self.save, self.restore),)
        self._sandbox = sandbox
        self._known: dict[str, KnownTask] = {}
        self._started: dict[tuple[str, float], BackgroundTask] = {}
        """The tasks of this process; a restored conversation may name them again."""
        self._ended: list[KnownTask] = []
        self._in_order = asyncio.Lock()
        self._carried: tuple[dict[str, Any], ...] = ()

    @classmethod
    def from_session(cls, session: SessionView) -> Self:
        return cls(session.safeguards.sandbox)

    @property
    def known(self) -> Sequence[KnownTask]:
        """All tasks in the order of their start, without those that ended more than a day ago."""
        over = [each for each in self._known.values() if not each.runs]
        yesterday = time.time() - 24 * 3600
        gone = {each.id for each in over if each.status == "Completed" and each.updated <= yesterday}
        gone |= {each.id for each in over[:-_MOST_KNOWN]}
        self._known = {name: each for name, each in self._known.items() if name not in gone}
        return tuple(self._known.values())

    @property
    def running(self) -> Sequence[BackgroundTask]:
        return [each for each in self._known.values() if isinstance(each, BackgroundTask) and each.runs]

    async def start(
        self, command: str, argv: Sequence[str], context: ToolContext, own: Mapping[str, str]
    ) -> ToolOutput:
        """Start a command in the background; return its first output. Raises ToolError."""
        if len(self.running) >= _MOST_AT_ONCE:
            raise ToolError(_TASK_LIMIT.format(count=_MOST_AT_ONCE))
        confining = self._sandbox if context.wrap_command is not None else None
        try:
            service = await start_service(argv, cwd=context.workspace, environment=own, merged=True)
        except StartError as error:
            raise ToolError(str(error)) from error
        settled = _TOP_IS_SETTLED if confining is not None and confining.is_without_repository else ""
        notes = (context.sandbox_note, settled, SUPERVISOR_LOST if service.lost else "")
        task = BackgroundTask(self._free_id(), command, service, confining, "\n".join(filter(None, notes)))
        self._known[task.id] = task
        ended = [key for key, each in self._started.items() if not each.runs]
        for key in ended[:-_MOST_KNOWN]:
            del self._started[key]
        self._started[task.id, task.created] = task
        return await started(task)

    async def control(self, command: str, seconds: float, progress: Progress) -> ToolOutput:
        """Run a control command (see `is_control`): show, await or end tasks. Raises ToolError."""
        async with self._in_order:  # calls of one step that touch nothing run together
            return await controlled(self.known, command, seconds, progress)

    async def text(self) -> str | None:
        self._ended = [each for each in self.known if not each.runs and not each.is_reported]
        return reminder_of(self.running, self._ended)

    def sent(self) -> None:
        for each in self._ended:
            each.is_reported = True

    def status(self) -> str:
        count = len(self.running)
        return f"{count} task{'s' if count > 1 else ''}" if count else ""

    def ending(self) -> Sequence[str]:
        return [f"the background task {each.id} ran and is ended: {each.command}" for each in self.running]

    async def close(self) -> None:
        await asyncio.gather(*(each.stop() for each in self.running))

    def save(self) -> tuple[dict[str, Any], ...]:
        """Return all tasks for the export; the same object while nothing has changed."""
        states = tuple(each.state() for each in self.known)
        if states != self._carried:
            self._carried = states
        return self._carried

    def restore(self, value: Sequence[Any]) -> None:
        """Replace the tasks by those of an export.

        A task of this process is the same task again; any other running task counts as interrupted.
        """
        self._known = {each.id: each for each in self.running}
        for state in value:
            own = self._started.get((state["id"], state["created_at"]))
            if own is not None:
                own.is_reported = own.is_reported and state["status"] != "Running"  # this list lacks its end
                self._known[own.id] = own
                continue
            task = KnownTask(state, self._free_id() if state["id"] in self._known else None)
            self._known[task.id] = task
        self._carried = tuple(value)

    def _free_id(self) -> str:
        return str(max((int(name) for name in self._known if name.isdecimal()), default=0) + 1)

    async def command(self, session: SessionView, argument: str) -> str:
        """Run /tasks; return its text. Raises UsageError."""
        verb, _, name = argument.rpartition(" ")
        if not argument:
            return listed(self.known)
        task = self._known.get(name.removeprefix("%"))
        if task is None or verb not in ("", "stop", "run"):
            usage = "it takes the number of a task, stop N or run N; /tasks lists them"
            raise UsageError(f"/tasks {argument[:60]}: {usage}")
        if verb == "stop":
            if not task.runs:
                raise UsageError(f"the task {task.id} does not run")
            await task.stop()
        elif verb == "run":
            if task.runs or not task.command:
                raise UsageError(f"the task {task.id} {'runs' if task.runs else 'has no command that could run'}")
            again = {"command": task.command, "background": True}
            results = [event async for event in session.run_tool("bash", again) if isinstance(event, ToolResult)]
            return results[-1].text
        return about(task)
