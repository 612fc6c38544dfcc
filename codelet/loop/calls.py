"""The tool calls of one step: judged, run in a safe order, answered in a fixed order.

Each call: guards that change its arguments, the check of these, the verdict, guards that may only tighten it, the
question, the run, guards on the output, masking, and the record of the call.

Consecutive calls that write no file themselves run in parallel, and are asked about in their order: the system prompt
says that the calls of a step are independent. Every other call runs alone. Each call's placeholder result is already in
the list when this begins, and `answer` fills it in: a cancel at any moment leaves a valid list.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import Literal, Protocol

from codelet import events, prompt
from codelet.call_record import CallRecord, CallStatus, CommandEnd, FileFact, PathEffect
from codelet.errors import ToolError
from codelet.extensions.base import GuardedCall
from codelet.loop.toolbox import Toolbox
from codelet.messages import Picture, ToolCall
from codelet.safety.paths import relative_name
from codelet.safety.secrets import without_secrets
from codelet.safety.verdict import SandboxKind, Touch
from codelet.tools.call_forms import arguments_in, instead_of_tool
from codelet.tools.tool import Arguments, Progress, ToolContext, ToolOutput, copied

Status = Literal["done", "failed", "refused"]

_PROGRESS_BACKLOG = 200
_BESIDE = "beside"
"""The id of a call that the user makes: no list holds it."""
_PARTIAL_OUTPUT = 2_000
_MOST_COMMANDS = 8
"""The maximum of parallel commands in one step."""
_LONGEST_ERROR = 2_000
_DECLARED: dict[str, PathEffect] = {"read": "read", "list": "listed", "write": "written"}
"""The effects of successful calls, by declared touch."""
_CHANGED = ("created", "changed", "written", "deleted")


class FillIn(Protocol):
    """Replaces a call's placeholder by its result."""

    def __call__(self, call_id: str, text: str, *, failed: bool, images: Sequence[Picture] = ()) -> object:
        """Fill it in."""


class _Pending:
    """One call in progress; `call` is the guards' view of it. `problem` says why it cannot be run, `refusal` why a
    guard refuses it, whatever its arguments are. `unread` is the text of arguments that are no JSON object. `files` and
    `ended` are what its tool reported, `change` is its change of a file, `confined` is the sandbox of its commands;
    `record` exists once it ended.
    """

    def __init__(self, asked: ToolCall) -> None:
        self.asked = asked
        self.call = GuardedCall(asked["id"], asked["function"]["name"], {})
        self.started: float | None = None
        self.prepared = self.running = self.unusable = self.changes = False
        self.problem = self.refusal = self.recent = ""
        self.unread: str | None = None
        self.confined: SandboxKind | None = None
        self.files: Sequence[FileFact] | None = None
        self.ended: CommandEnd | None = None
        self.change: events.FileChange | None = None
        self.record: CallRecord | None = None
        self.result: events.ToolResult | None = None

    @property
    def id(self) -> str:
        return self.call.id

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def may_run_beside(self) -> bool:
        """Return whether other calls may run at the same time. Its arguments were not checked yet.

        A call that writes a file, or that its tool runs alone, changes what the next call finds.
        """
        touches, tool = self.call.touches, self.call.tool
        if touches is None or tool is None or (tool.alone is not None and tool.alone(copied(self.call.arguments))):
            return False
        return all(touch.kind != "write" for touch in touches)

    @property
    def runs_command(self) -> bool:
        """Return whether it runs a shell command."""
        return any(touch.kind == "run" for touch in self.call.touches or ())

    @property
    def names_git(self) -> bool:
        """Return whether it runs git, whose lock lets one command in."""
        return any(touch.kind == "run" and "git" in touch.what for touch in self.call.touches or ())


class CallRunner:
    """Runs the calls of one step, whose placeholders `answer` fills in. `cut` says that the model's answer was cut off.

    `known` holds the known contents of files, if they are not those that the model was shown. `log` gets the record of
    each call when it has ended.
    """

    def __init__(
        self,
        calls: Sequence[ToolCall],
        toolbox: Toolbox,
        answer: FillIn,
        *,
        cut: bool,
        known: ToolContext | None = None,
        log: Callable[[CallRecord], object] | None = None,
    ) -> None:
        self._pending = [_Pending(call) for call in calls]
        self._toolbox = toolbox
        self._answer = answer
        self._cut = cut
        self._known = known
        self._log = log
        self._slots = asyncio.Semaphore(_MOST_COMMANDS)

    def __len__(self) -> int:
        return len(self._pending)

    async def run(self) -> AsyncGenerator[events.Event, None]:
        """Run all calls; gives their events. Closing or cancelling it stops what still runs."""
        waiting = self._pending[::-1]
        while waiting:
            batch = await self._next_batch(waiting)
            async with aclosing(self._run_batch(batch)) as batch_events:
                async for event in batch_events:
                    yield event

    @property
    def changed(self) -> bool:
        """Return whether a call ran that is not known to only read."""
        return any(item.record is not None and item.record.changes for item in self._pending)

    @property
    def all_unusable(self) -> bool:
        """Return whether no call could be run: unknown tools, malformed arguments."""
        return all(item.unusable for item in self._pending)

    def settle(self, why: str = prompt.BY_USER) -> events.Interrupted:
        """Answer what an interrupt left unanswered, and say `why` it did; gives the receipt."""
        for item in self._pending:
            if item.record is None and item.running:
                self._end(item, "interrupted")
                recent = self._toolbox.masker.mask(item.recent)
                output = prompt.PARTIAL_OUTPUT.format(output=recent) if recent else ""
                self._answer(item.id, prompt.STOPPED_RUNNING.format(why=why) + output, failed=True)
            elif item.result is None:
                if item.record is None:
                    self._end(item, "not_started")
                self._answer(item.id, prompt.STOPPED_WAITING.format(why=why), failed=True)
        records = [item.record for item in self._pending if item.record is not None]

        def ids(*statuses: CallStatus) -> tuple[str, ...]:
            return tuple(record.id for record in records if record.status in statuses)

        return events.Interrupted(
            done=ids("done"),
            failed=ids("failed"),
            half_done=ids("interrupted"),
            not_done=ids("refused", "not_started"),
            refused=ids("refused"),
        )

    async def _next_batch(self, waiting: list[_Pending]) -> list[_Pending]:
        """Take the next calls from the end of `waiting`: one, or all in a row that may run in parallel."""
        batch: list[_Pending] = []
        while waiting:
            following = waiting[-1]
            await self._prepare(following)
            if batch and (not following.may_run_beside or (following.names_git and any(o.names_git for o in batch))):
                break
            batch.append(waiting.pop())
            if not following.may_run_beside:
                break
        return batch

    async def _prepare(self, item: _Pending) -> None:
        """Find the tool and the guarded arguments; a problem is reported when the call is due."""
        if item.prepared:
            return
        item.prepared = True
        written = item.asked["function"]["arguments"]
        arguments = arguments_in(written)
        tool = self._toolbox.tool_named(item.name, arguments)
        if tool is not None and tool.stands_for is not None and isinstance(arguments, dict):
            try:
                tool, arguments = tool.stands_for(tool.understood(arguments))
            except ToolError as error:
                item.problem, item.unusable = str(error), True
        name = item.name if tool is None else tool.name  # rules and guards know it by this one
        sent = arguments if isinstance(arguments, dict) else {}
        item.unread = None if isinstance(arguments, dict) else written
        item.call = item.call.replace(name=name, tool=tool)
        item.call = item.call.with_arguments(sent if tool is None else tool.understood(sent))
        if item.problem:
            return
        if tool is None:
            instead = prompt.INSTEAD.format(instead=told) if (told := instead_of_tool(item.name)) else ""
            names = ", ".join(self._toolbox.tools)
            item.problem = prompt.UNKNOWN_TOOL.format(name=item.name, names=names) + instead
        elif not isinstance(arguments, dict):
            problem = str(arguments)[:200]
            bad = prompt.BAD_ARGUMENTS.format(name=item.name, problem=problem)
            item.problem = prompt.CUT_ARGUMENTS if self._cut else bad
        else:
            try:
                item.call = await self._toolbox.guards.rewritten(item.call)
                item.call = _settled_on(item.call, tool.understood(item.call.arguments))
            except ToolError as error:
                item.refusal = str(error)
            return
        item.unusable = True

    async def _run_batch(self, batch: list[_Pending]) -> AsyncGenerator[events.Event, None]:
        queue: asyncio.Queue[events.ToolProgress | None] = asyncio.Queue()
        for item in batch:
            arguments = item.call.arguments if item.unread is None else item.unread
            yield events.ToolCallStarted(id=item.id, name=item.name, arguments=arguments, title=item.call.title)
        tasks = [asyncio.create_task(self._execute(item, queue)) for item in batch]
        for task in tasks:
            task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            answered = 0
            while answered < len(tasks):
                event = await queue.get()
                if event is not None:
                    yield event
                while event is None and answered < len(tasks) and tasks[answered].done():
                    yield self._result_of(batch[answered], tasks[answered])
                    answered += 1
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _result_of(self, item: _Pending, task: asyncio.Task[None]) -> events.ToolResult:
        """The call's result. An error that no one expected is ours, but the model may continue."""
        error = asyncio.CancelledError("it cancelled itself") if task.cancelled() else task.exception()
        if error is not None:
            text = prompt.TOOL_BROKE.format(name=item.name, problem=f"{type(error).__name__}: {error}"[:_LONGEST_ERROR])
            self._settled(item, "failed", ToolOutput(self._toolbox.masker.mask(text)))
        assert item.result is not None
        return item.result

    async def _execute(self, item: _Pending, queue: asyncio.Queue[events.ToolProgress | None]) -> None:
        def progress(delta: str) -> None:
            item.recent = (item.recent + delta)[-_PARTIAL_OUTPUT:]
            if queue.qsize() < _PROGRESS_BACKLOG:
                queue.put_nowait(events.ToolProgress(item.id, delta))

        item.started = time.monotonic()
        refusal = None
        try:
            self._check(item)
            context, known = self._toolbox.context, self._known
            if known is not None:
                context = context.replace(seen=known.seen, lines=known.lines, outputs=known.outputs)
            confines = await self._toolbox.confines(item.call.touches or ())
            admission = await self._toolbox.approvals.admit(item.call, context, confines=confines, refusal=item.refusal)
            item.call, refusal = item.call.replace(verdict=admission.verdict), admission.refusal
            if refusal is not None:
                given = ToolOutput(refusal, failed=True)
            else:
                context = self._toolbox.admitted(context, admission.verdict, confines=confines)
                item.confined = self._toolbox.sandbox_kind(admission.verdict, confines=confines)
                async with self._slots if item.runs_command else nullcontext():
                    given = await self._run(item, context.replace(change=admission.change), progress)
                if given.blocked:
                    given = await self._outside(item, given, progress)
        except ToolError as error:
            given = ToolOutput(str(error), failed=True)
        output = await self._toolbox.guards.after(item.call, given)
        done: Status = "failed" if output.failed else "done"
        self._settled(item, done if refusal is None else "refused", output)
        if given.lines is not None and item.result is not None and item.result.text == given.text:
            (self._known or self._toolbox.context).saw(given.lines)  # cut, masked or changed, it does not show them

    def _check(self, item: _Pending) -> None:
        """Check the arguments, which are final from here on. Raises ToolError."""
        if item.problem:
            raise ToolError(item.problem)
        item.unusable = True
        assert item.call.tool is not None
        item.call = _settled_on(item.call, item.call.tool.checked(item.call.arguments))
        item.unusable = False

    async def _run(self, item: _Pending, context: ToolContext, progress: Progress) -> ToolOutput:
        """Run a call that may run. Raises ToolError, also where its tool breaks."""
        tool, verdict, touches = item.call.tool, item.call.verdict, item.call.touches or ()
        assert tool is not None and verdict is not None
        await self._toolbox.guards.starting(item.call)
        item.running, item.started = True, time.monotonic()
        item.call = item.call.replace(ran=True)
        item.changes = verdict.tier != "read"
        self._toolbox.touched.note(touches, verdict.place)
        try:
            arguments = copied(item.call.arguments)
            output: ToolOutput = await tool.run(context.replace(place=verdict.place), progress, **arguments)
        except ToolError:
            raise
        except Exception as error:
            log_failure(f"the tool {tool.name} failed", error, self._toolbox.masker.mask)
            problem = f"{type(error).__name__}: {error}"
            raise ToolError(prompt.TOOL_BROKE.format(name=tool.name, problem=problem)) from error
        item.ended, item.files = output.ended, output.files
        item.changes = item.changes or any(each.effect in _CHANGED for each in output.files or ())
        if context.change is not None and not output.failed:
            item.change = without_secrets(context.change.reported(), self._toolbox.masker)
        if item.files is None and not output.failed:
            item.files = tuple(_declared(touches, verdict.place, context.workspace))
        if any(touch.kind == "write" for touch in touches):
            self._toolbox.guards.record("change", item.call, summary=output.text, diff=output.display)
        return output

    async def _outside(self, item: _Pending, given: ToolOutput, progress: Progress) -> ToolOutput:
        """Repeat a command outside its read-only sandbox, if a rule or the user allows it."""
        toolbox, context = self._toolbox, self._toolbox.context
        call = item.call.with_arguments({**item.call.arguments, "unconfined": True})
        if toolbox.ask is None and toolbox.policy.judge(call.name, call.touches).action != "allow":
            return given
        admission = await toolbox.approvals.admit(call, context)
        if admission.refusal is not None:
            return given.replace(text=f"{given.text}\n{admission.refusal}")
        item.call = call.replace(verdict=admission.verdict)
        item.confined = toolbox.sandbox_kind(admission.verdict, confines=True)
        async with self._slots:
            return await self._run(item, toolbox.admitted(context, admission.verdict, confines=True), progress)

    def _settled(self, item: _Pending, status: Status, output: ToolOutput) -> None:
        """The call has its answer, which everybody may see."""
        text = prompt.escape(output.text)
        seconds = self._end(item, status).seconds
        item.result = events.ToolResult(
            id=item.id,
            name=item.name,
            status=status,
            text=text,
            display=output.display,
            seconds=seconds,
            counted=output.counted,
            caveat=output.caveat,
            ended=item.ended,
            change=item.change,
        )
        self._answer(item.id, text, failed=status != "done", images=output.images)

    def _end(self, item: _Pending, status: CallStatus) -> CallRecord:
        """Record how a call ended and what it did. Raises CodeletError if a guard cannot take note."""
        call, mask = item.call, self._toolbox.masker.mask
        workspace = self._toolbox.context.workspace
        commands = [touch.what for touch in call.touches or () if touch.kind == "run"] if call.ran else []
        item.record = CallRecord(
            id=item.id,
            tool=call.name,
            title=mask(call.title),
            status=status,
            changes=item.changes,
            files=tuple(each.replace(path=mask(_named(each.path, workspace))) for each in item.files or ()),
            commands=tuple(map(mask, commands)),
            confined=item.confined if commands else None,
            ended=item.ended,
            seconds=0.0 if item.started is None else time.monotonic() - item.started,
        )
        if status not in ("refused", "not_started"):
            seconds = round(item.record.seconds, 3)
            self._toolbox.guards.record("execution", call, status=status, seconds=seconds)
        if self._log is not None:
            self._log(item.record)
        return item.record


def log_failure(what: str, error: Exception, mask: Callable[[str], str]) -> None:
    """Give an unexpected error to the program's logging, as `codelet`, with its traceback, masked."""
    import logging
    import traceback

    logger = logging.getLogger("codelet")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # nothing is printed unless the program asks for it
    logger.error("%s\n%s", what, mask("".join(traceback.format_exception(error))))


def _settled_on(call: GuardedCall, arguments: Arguments) -> GuardedCall:
    """Return the call with these arguments; its tool is queried again only if they are other ones."""
    same = arguments == call.arguments
    return call.replace(arguments=arguments) if same else call.with_arguments(arguments)


def _declared(touches: Sequence[Touch], place: Path | None, workspace: Path) -> Iterator[FileFact]:
    """Yield what a call has done that declared these touches; `place` is where its path leads, if it has only one."""
    paths = [touch for touch in touches if touch.kind in _DECLARED]
    for touch in paths:
        path = str(place) if place is not None and len(paths) == 1 else os.path.join(workspace, touch.what or ".")
        yield FileFact(_DECLARED[touch.kind], os.path.realpath(path))


def _named(path: str, workspace: Path) -> str:
    """Return a path as records have it: relative to the workspace if it lies inside."""
    return relative_name(path, workspace) if os.path.isabs(path) else path


async def run_beside(
    name: str, arguments: Arguments, toolbox: Toolbox, known: ToolContext | None = None
) -> AsyncGenerator[events.Event, None]:
    """Yield the events of a call that the user makes instead of the model: judged, asked about, guarded and masked.

    It enters no list. `known` holds the known contents of files. What the model was shown does not change, so the model
    has to read a file again that was changed this way.
    """

    def nowhere(call_id: str, text: str, *, failed: bool, images: Sequence[Picture] = ()) -> None:
        return

    asked: ToolCall = {
        "id": _BESIDE,
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }
    async with aclosing(CallRunner([asked], toolbox, nowhere, cut=False, known=known).run()) as seen:
        async for event in seen:
            yield event
