"""Reports on background tasks for the model and the user, and the model's waits for their output."""

from __future__ import annotations

import asyncio
import codecs
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress

from codelet import prompt
from codelet.errors import ToolError
from codelet.extensions.tasks.background import SHOWN, BackgroundTask, KnownTask
from codelet.system.process.output import Stream
from codelet.system.text import one_line
from codelet.tools.bash import exit_line, printed
from codelet.tools.tool import Progress, ToolOutput

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
        return _shown(task)
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


def _shown(task: KnownTask) -> ToolOutput:
    """Return the task's state and all of its output."""
    if isinstance(task, BackgroundTask):
        task.news()
    task.is_reported = task.is_reported or not task.runs
    return ToolOutput(about(task), most=SHOWN)


def reminder_of(running: Sequence[BackgroundTask], over: Sequence[KnownTask]) -> str:
    """Return the reminder: running tasks, and those that ended since the last one."""
    lines = [_TASKS_RUNNING, *map(_row, running)] if running else []
    return "\n".join([*lines, _TASKS_OVER, *map(_row, over)] if over else lines)


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
