"""The tool calls of one step: judged, run, answered, in an order that is safe and a result order that is fixed.

Consecutive reading calls run at once, every other one alone. Each call's placeholder result already stands
in the list when this begins; `answer` fills it in. So a cancel at any moment leaves a valid list.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from codelet import events, prompt
from codelet.approvals import Approvals
from codelet.errors import ToolError
from codelet.loop.conversation import Conversation
from codelet.messages import ToolCall
from codelet.policy import Policy
from codelet.policy.secrets import Masker, own_masker
from codelet.policy.verdict import Ask, Touch
from codelet.record import Record
from codelet.reply import parsed_arguments
from codelet.sandbox import Sandbox
from codelet.tools.tool import Tool, ToolContext, ToolOutput
from codelet.tools.touched import Touched

if TYPE_CHECKING:
    from codelet.policy.audit import AuditLog

State = Literal["waiting", "running", "done", "failed", "refused"]

_PROGRESS_BACKLOG = 200
_PARTIAL_OUTPUT = 2_000


class Safeguards(Record):
    """What guards a session beside its policy.

    `masker` keeps secrets out of what leaves the session; None is the one for this process's environment.
    `ask_timeout` is in seconds. `audit` and `sandbox` are None where there is none.
    """

    masker: Masker | None = None
    ask_timeout: float | None = None
    audit: AuditLog | None = None
    sandbox: Sandbox | None = None

    def close(self) -> None:
        """End the audit: without its closing record the file counts as cut off."""
        if self.audit is not None:
            self.audit.close()


@dataclass(eq=False, repr=False)
class Toolbox:
    """What calls are run with. `approvals` decides on each; `masker` keeps secrets out of what they answer;
    `touched` are the folders that they worked in.

    `admit` gives a result's text as it may enter the list, which one of any size may not, or of more characters than
    its tool wants.
    """

    tools: Mapping[str, Tool]
    context: ToolContext
    approvals: Approvals
    masker: Masker
    touched: Touched
    sandbox: Sandbox | None = None
    admit: Callable[[str, int | None], str] = lambda text, _: text

    async def ready(self, touches: Sequence[Touch]) -> ToolContext:
        """What a call that touches these is to run with. Raises ToolError where a sandbox is due and none works."""
        policy = self.approvals.policy
        if self.sandbox is None or all(touch.kind != "run" for touch in touches):
            return self.context
        policy.sandboxed = self.sandbox.demanded(policy.mode) and await self.sandbox.works()
        return replace(self.context, wrap_command=self.sandbox.wrap if policy.sandboxed else None)

    def add(self, tool: Tool) -> None:
        """Offer one more tool from the next request on."""
        self.tools = {**self.tools, tool.name: tool}
        self.__dict__.pop("schemas", None)

    @cached_property
    def schemas(self) -> list[dict[str, Any]]:
        """The tools as a request carries them."""
        return [tool.schema() for tool in self.tools.values()]


def equip(
    tools: Sequence[Tool], context: ToolContext, policy: Policy, ask: Ask | None, safeguards: Safeguards
) -> Toolbox:
    """The toolbox of a session."""
    masker = safeguards.masker or own_masker()
    approvals = Approvals(policy, masker, ask, safeguards.ask_timeout, safeguards.audit)
    guarded = replace(context, prepare_command=policy.prepare)
    touched = Touched(context.workspace)
    return Toolbox({tool.name: tool for tool in tools}, guarded, approvals, masker, touched, safeguards.sandbox)


@dataclass(eq=False, repr=False)
class _Pending:
    call: ToolCall
    state: State = "waiting"
    started: float = 0.0
    unusable: bool = False
    changes: bool = False
    recent: str = ""
    result: events.ToolResult | None = None

    @property
    def id(self) -> str:
        return self.call["id"]

    @property
    def name(self) -> str:
        return self.call["function"]["name"]


class CallRunner:
    """Runs the calls of one step, whose placeholders stand in the conversation. `cut` says that the answer was."""

    def __init__(self, calls: Sequence[ToolCall], toolbox: Toolbox, conversation: Conversation, *, cut: bool) -> None:
        self._pending = [_Pending(call) for call in calls]
        self._toolbox = toolbox
        self._answer = conversation.answer
        self._cut = cut

    def __len__(self) -> int:
        return len(self._pending)

    async def run(self) -> AsyncGenerator[events.Event, None]:
        """Run all calls; gives their events. Closing or cancelling it stops what still runs."""
        for batch in self._batches():
            async with aclosing(self._run_batch(batch)) as batch_events:
                async for event in batch_events:
                    yield event

    @property
    def changed(self) -> bool:
        """Whether a call ran that is not known to only read."""
        return any(item.changes for item in self._pending)

    @property
    def all_unusable(self) -> bool:
        """Whether no call could be run: unknown tools, malformed arguments."""
        return bool(self._pending) and all(item.unusable for item in self._pending)

    def settle(self, why: str = prompt.BY_USER) -> events.Interrupted:
        """Answer what an interrupt left unanswered, and say `why` it did; gives the receipt."""
        done, half, waiting = [], [], []
        for item in self._pending:
            if item.result is not None:
                done.append(item.id)
            elif item.state == "running":
                half.append(item.id)
                self._record_end(item, "interrupted")
                recent = self._toolbox.masker.mask(item.recent)
                output = prompt.PARTIAL_OUTPUT.format(output=recent) if recent else ""
                self._answer(item.id, prompt.STOPPED_RUNNING.format(why=why) + output, failed=True)
            else:
                waiting.append(item.id)
                self._answer(item.id, prompt.STOPPED_WAITING.format(why=why), failed=True)
        return events.Interrupted(done=tuple(done), half_done=tuple(half), not_done=tuple(waiting))

    def _batches(self) -> list[list[_Pending]]:
        batches: list[list[_Pending]] = []
        reading = False
        for item in self._pending:
            reads = self._reads(item)
            if reads and reading:
                batches[-1].append(item)
            else:
                batches.append([item])
            reading = reads
        return batches

    def _reads(self, item: _Pending) -> bool:
        """Whether the call only reads: such calls may run at once. Its arguments were not checked yet."""
        tool = self._toolbox.tools.get(item.name)
        arguments = parsed_arguments(item.call)
        touches = tool.touched(arguments if isinstance(arguments, dict) else {}) if tool is not None else None
        return touches is not None and all(touch.kind in ("read", "list") for touch in touches)

    async def _run_batch(self, batch: list[_Pending]) -> AsyncGenerator[events.Event, None]:
        queue: asyncio.Queue[events.ToolProgress | None] = asyncio.Queue()
        for item in batch:
            arguments = parsed_arguments(item.call)
            tool = self._toolbox.tools.get(item.name)
            if tool is not None and tool.check is not None and isinstance(arguments, dict):
                from codelet.tools.call_arguments import with_known_names

                arguments = with_known_names(arguments, tool.parameters.get("properties", ()))
            shown = arguments if isinstance(arguments, dict) else item.call["function"]["arguments"]
            about = tool.about(shown) if tool is not None and isinstance(shown, dict) else ""
            yield events.ToolCallStarted(id=item.id, name=item.name, arguments=shown, title=about)
        tasks = [asyncio.create_task(self._execute(item, queue)) for item in batch]
        for task in tasks:
            task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            running = len(tasks)
            while running:
                event = await queue.get()
                if event is None:
                    running -= 1
                else:
                    yield event
            for item, task in zip(batch, tasks, strict=True):
                yield self._result_of(item, task)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _result_of(self, item: _Pending, task: asyncio.Task[None]) -> events.ToolResult:
        """The call's result. An error that the tool did not expect is ours, but the model may go on."""
        error = asyncio.CancelledError("it cancelled itself") if task.cancelled() else task.exception()
        if error is not None:
            problem = f"{type(error).__name__}: {error}"
            self._finish(item, "failed", prompt.TOOL_BROKE.format(name=item.name, problem=problem))
        assert item.result is not None
        return item.result

    async def _execute(self, item: _Pending, queue: asyncio.Queue[events.ToolProgress | None]) -> None:
        def progress(delta: str) -> None:
            item.recent = (item.recent + delta)[-_PARTIAL_OUTPUT:]
            if queue.qsize() < _PROGRESS_BACKLOG:
                queue.put_nowait(events.ToolProgress(item.id, delta))

        item.started = time.monotonic()
        try:
            tool, arguments = self._checked(item)
            touches = tool.touched(arguments) or ()
            context = await self._toolbox.ready(touches)
            admission = await self._toolbox.approvals.admit(item.id, tool, arguments, context)
            if admission.refusal is not None:
                self._finish(item, "refused", admission.refusal)
                return
            item.state, item.started = "running", time.monotonic()
            item.changes = admission.verdict.tier != "read"
            self._toolbox.touched.note(touches, admission.verdict.place)
            context = replace(context, place=admission.verdict.place, change=admission.change)
            output: ToolOutput = await tool.run(context, progress, **arguments)
            if context.wrap_command is not None:
                output = self._with_warning(output)
        except ToolError as error:
            self._finish(item, "failed", str(error))
        else:
            if any(touch.kind == "write" for touch in touches):
                self._record_change(item, output)
            self._finish(item, "failed" if output.failed else "done", output.text, output.display, output.most)
            if output.lines is not None and item.result is not None and item.result.text == output.text:
                self._toolbox.context.saw(output.lines)  # cut or masked, it does not show them

    def _checked(self, item: _Pending) -> tuple[Tool, dict[str, Any]]:
        item.unusable = True
        tool = self._toolbox.tools.get(item.name)
        if tool is None:
            names = ", ".join(self._toolbox.tools)
            raise ToolError(prompt.UNKNOWN_TOOL.format(name=item.name, names=names))
        arguments = parsed_arguments(item.call)
        if not isinstance(arguments, dict):
            if self._cut:
                raise ToolError(prompt.CUT_ARGUMENTS)
            problem = str(arguments)[:200]
            raise ToolError(prompt.BAD_ARGUMENTS.format(name=item.name, problem=problem))
        checked = tool.checked(arguments)
        item.unusable = False
        return tool, checked

    def _finish(
        self,
        item: _Pending,
        status: Literal["done", "failed", "refused"],
        text: str,
        display: str | None = None,
        most: int | None = None,
    ) -> None:
        item.state = status
        mask = self._toolbox.masker.mask
        text = prompt.escape(self._toolbox.admit(mask(text), most))
        display = None if display is None else mask(display)
        seconds = self._record_end(item, status)
        item.result = events.ToolResult(
            id=item.id, name=item.name, status=status, text=text, display=display, seconds=seconds
        )
        self._answer(item.id, text, failed=status != "done")

    def _with_warning(self, output: ToolOutput) -> ToolOutput:
        """The output of a confined command, failed where it made what programs outside would obey."""
        sandbox = self._toolbox.sandbox
        made = sandbox.newly_protected() if sandbox is not None else []
        if not made:
            return output
        return output.replace(text=f"{output.text}\n{prompt.PROTECTED.format(names=', '.join(made))}", failed=True)

    def _record_end(self, item: _Pending, status: str) -> float:
        """Note in the audit how a call ended; gives the seconds that it took."""
        seconds = time.monotonic() - item.started
        audit = self._toolbox.approvals.audit
        if audit is not None and status != "refused":
            audit.record("execution", call=item.id, tool=item.name, status=status, seconds=round(seconds, 3))
        return seconds

    def _record_change(self, item: _Pending, output: ToolOutput) -> None:
        audit = self._toolbox.approvals.audit
        if audit is not None:
            audit.record("change", call=item.id, tool=item.name, summary=output.text, diff=output.display)
