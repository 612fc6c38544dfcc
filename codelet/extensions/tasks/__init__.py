"""Background tasks: commands that continue while the model does other things, and end with the session at the latest.

Nothing here is imported before the first task.
"""

from __future__ import annotations

import asyncio
import codecs
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from codelet import prompt
from codelet.context.reminders import Source
from codelet.errors import ToolError, UsageError
from codelet.events import ToolResult
from codelet.extensions.base import Command, ExportPart, Extension
from codelet.extensions.tasks.background import SHOWN, BackgroundTask, KnownTask
from codelet.safety.sandbox import Sandbox
from codelet.system.process import StartError
from codelet.system.process.output import Stream
from codelet.system.process.service import start_service
from codelet.system.text import one_line
from codelet.tools.bash import SUPERVISOR_LOST, exit_line, printed
from codelet.tools.tool import Progress, ToolContext, ToolOutput

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

_TASK_IS_THERE = "[%{id} runs in the background]"
_TASK_USE = (
    "[as a command, `jobs %{id}` shows its output, `wait %{id}` waits for its end, `wait %{id} for PATTERN` for a line "
    "that matches a regex, `kill %{id}` ends it]"
)
_TASK_NOT_YET = "[not within {seconds:g} s; %{id} still runs]"
_TASK_FOUND = "[found: {line}]"
_TASK_EARLIER = "[no new line matches; an earlier line of %{id} does: {line}]"
_TASK_SLOW_PATTERN = "the pattern takes too long to match: wait for a simpler one"
_TASK_NEVER_CAME = "[%{id} ended before that]"
_TASK_ENDED = "[%{id} was ended, with all its processes]"
_NO_TASKS = "no command was started in the background"
_NO_TASK = "there is no task %{id}; {known}"
_TASKS_RUNNING = "Commands in the background (`jobs %N`, `wait %N [for PATTERN]`, `kill %N`):"
_TASKS_OVER = "In the background; said once:"


_LONGEST_LINE = 300
"""Characters of a line that are searched: what a pattern costs grows with a power of them."""
_MOST_SEARCHING = 1.0
"""The limit on the search of one wait, in seconds of processor time: it blocks everything else."""
_LONGEST_COMMAND = 120
_LONGEST_NAME = 40
_LINES_FOR_PEOPLE = 3
_AWAITED = 4_000
"""The longest output of a successful wait, in characters; `recall` reads the rest."""


async def started(task: BackgroundTask) -> ToolOutput:
    """Return a new task's first output and its controls, or its result if it has ended."""
    await task.settle()
    if not task.runs:
        return _result(task)
    lines = task.output().splitlines()[-_LINES_FOR_PEOPLE:]
    shown = "\n".join([*lines, _TASK_IS_THERE.format(id=task.id)])
    notes = [_TASK_IS_THERE.format(id=task.id), _TASK_USE.format(id=task.id), task.sandbox_note]
    return _result(task, "\n".join(filter(None, notes))).replace(display=shown)


async def controlled(known: Sequence[KnownTask], command: str, seconds: float, progress: Progress) -> ToolOutput:
    """Run a control command. Raises ToolError if it names no task."""
    verb, *words = command.split(None, 3)
    if not words:
        return ToolOutput(listed(known))
    task = next((each for each in known if each.id == words[0][1:]), None)
    if task is None:
        ids = ", ".join(f"%{one_line(each.id, _LONGEST_NAME)}" for each in known)
        raise ToolError(_NO_TASK.format(id=words[0][1:], known=f"there are {ids}" if ids else _NO_TASKS))
    if verb == "jobs" or not isinstance(task, BackgroundTask):
        if isinstance(task, BackgroundTask):
            task.news()
        task.is_reported = task.is_reported or not task.runs
        return ToolOutput(about(task), most=SHOWN)
    if verb == "kill":
        if task.runs:
            await task.stop()
        return _result(task, "" if task.status != "Stopped" else _TASK_ENDED.format(id=task.id), failed=False)
    async with _followed(task, progress):
        if len(words) == 1:
            ended = await task.ends_in(seconds)
            return _result(task, "" if ended else _TASK_NOT_YET.format(seconds=seconds, id=task.id))
        return await _wait_for(task, words[2].strip(), seconds)


async def _wait_for(task: BackgroundTask, pattern: str, seconds: float) -> ToolOutput:
    """Wait for a matching line, among those after the last one that was found.

    A test watcher prints the same line at each change, so an old match must not count again. Raises ToolError for a
    slow pattern.
    """
    search, pieces = _LineSearch(pattern), asyncio.Queue[bytes]()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    task.watchers.append(pieces.put_nowait)
    try:
        async with asyncio.timeout(seconds):
            line = search.feed(task.unsought())
            while line is None and task.runs and (data := await pieces.get()):
                line = search.feed(decoder.decode(data))
    except TimeoutError:
        line = None
    finally:
        task.watchers.remove(pieces.put_nowait)
    if line is not None:
        task.sought()
        return _result(task, _TASK_FOUND.format(line=line), failed=False, most=_AWAITED)
    notes = [_TASK_NOT_YET.format(seconds=seconds, id=task.id) if task.runs else _TASK_NEVER_CAME.format(id=task.id)]
    with suppress(ToolError):
        if (line := _LineSearch(pattern).feed(task.output())) is not None:
            notes.append(_TASK_EARLIER.format(id=task.id, line=line))
    notes += [task.sandbox_note] if task.runs and task.sandbox_note else []
    return _result(task, "\n".join(notes), failed=True)


class _LineSearch:
    """Looks for a line that matches, in text as it comes."""

    def __init__(self, pattern: str) -> None:
        """Raises ToolError for a pattern that cannot be read."""
        from codelet.context.archive import line_matcher  # only for a wait that has a pattern

        self._matcher = line_matcher(pattern)
        self._begun = ""
        self._spent = 0.0

    def feed(self, text: str) -> str | None:
        """The last line that matches, on one row. Raises ToolError for a pattern that is slow."""
        *lines, begun = (self._begun + text).split("\n")
        self._begun = begun[-_LONGEST_LINE:]
        came = None
        for line in (*lines, begun):
            before = time.process_time()
            found = self._matcher.search(line[:_LONGEST_LINE])
            self._spent += time.process_time() - before
            if found:
                came = line
            elif self._spent > _MOST_SEARCHING:
                raise ToolError(_TASK_SLOW_PATTERN)
        return None if came is None else one_line(came, _LONGEST_COMMAND)


@asynccontextmanager
async def _followed(task: BackgroundTask, progress: Progress) -> AsyncGenerator[None, None]:
    """Forward the task's output to `progress`."""
    stream = Stream(progress)
    task.watchers.append(stream.feed)
    try:
        yield
    finally:
        task.watchers.remove(stream.feed)
        stream.close()


def _result(task: BackgroundTask, note: str = "", *, failed: bool | None = None, most: int = SHOWN) -> ToolOutput:
    """Return the output that the model has not seen, `note`, and the exit code of an ended task."""
    parts = [printed(task.news()), note]
    if not task.runs:
        task.is_reported = True
        parts.append(exit_line(task.exit_code or 0))
    bad = not task.runs and task.status == "Failed"
    return ToolOutput("\n".join(filter(None, parts)), failed=bad if failed is None else failed, most=most)


def listed(known: Sequence[KnownTask]) -> str:
    """Return a line for each task."""
    return "\n".join(map(_row, known)) or _NO_TASKS


def about(task: KnownTask) -> str:
    """Return a task's line followed by its output."""
    return f"{_row(task)}\n{printed(task.output()) or prompt.NO_OUTPUT}"


def _row(task: KnownTask) -> str:
    """Return a task on one line: number, state, time, lines of output, command.

    The number and the state of a restored task are untrusted text.
    """
    how = one_line(task.status.lower(), _LONGEST_NAME)
    if task.exit_code is not None and task.status in ("Completed", "Failed"):
        how += f", signal {-task.exit_code}" if task.exit_code < 0 else f", exit code {task.exit_code}"
    if task.runs:
        how += f" for {_duration(time.time() - task.created)}"
    elif isinstance(task, BackgroundTask):
        how += f" after {_duration(task.updated - task.created)}"
    if isinstance(task, BackgroundTask):
        how += f", {task.lines} line{'s' if task.lines != 1 else ''}"
    return f"%{one_line(task.id, _LONGEST_NAME)} {how}: {one_line(task.description, _LONGEST_COMMAND)}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


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
        lines = [_TASKS_RUNNING, *map(_row, self.running)] if self.running else []
        return "\n".join([*lines, _TASKS_OVER, *map(_row, self._ended)] if self._ended else lines)

    def sent(self) -> None:
        for each in self._ended:
            each.is_reported = True

    def status(self) -> str:
        count = len(self.running)
        return f"{count} task{'s' if count > 1 else ''}" if count else ""

    def ending(self) -> Sequence[str]:
        return [f"stopped background task {each.id}: {each.command}" for each in self.running]

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
