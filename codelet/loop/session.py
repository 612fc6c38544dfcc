"""Session: a conversation with its usage, provider, tools and policy, and everything that may change it.

In memory only: when the last reference goes, the conversation is gone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from codelet import events, prompt
from codelet.call_record import CallRecord
from codelet.context import (
    Attached,
    CompactionOptions,
    Compactor,
    ContextLimits,
    ContextWindow,
    Entry,
    Piped,
    Reminders,
)
from codelet.context.entry import LONGEST_KEPT
from codelet.context.reminders import own_sources
from codelet.context.tokens import estimate_text
from codelet.conversation import Conversation, Messages, PlacementChoice
from codelet.errors import CodeletError, LimitReached, UsageError
from codelet.extensions.base import Command, Extension, end_extension, named, offered_by
from codelet.extensions.manifest import every_session
from codelet.loop.meter import Limits, Meter
from codelet.loop.models import Models
from codelet.loop.toolbox import Safeguards, Toolbox
from codelet.loop.turn import BegunTurn, OpenTurn, TurnState, run_steps
from codelet.loop.upkeep import Upkeep
from codelet.messages import Arguments, Message
from codelet.providers.facts import facts_of
from codelet.providers.protocol import Provider
from codelet.safety import Policy
from codelet.safety.secrets import MaskedPieces
from codelet.safety.verdict import Ask
from codelet.tools import all_tools
from codelet.tools.tool import BackgroundTasks, Tool, ToolContext
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.context.allotment import ContextRow, Size

_Events = AsyncGenerator[events.Event, None]


class Session:
    """One conversation with its usage, provider, tools and policy. Close it with `close`, which also closes its
    providers.

    `clock` gives seconds, for the age of a provider's cache. `fallbacks` replace `provider` when it fails. `attached`
    collects each extension that was attached, so that a caller can close these if another one fails. `is_beside` says
    that another session's commands run on when it ends. Its providers are closed if it `owns_provider`.
    """

    _closed = False
    is_beside = False
    owns_provider = True
    watch: Callable[[events.Event], object] = staticmethod(lambda event: None)

    def __init__(
        self,
        provider: Provider,
        *,
        workspace: Path,
        tools: Sequence[Tool] | None = None,
        policy: Policy | None = None,
        ask: Ask | None = None,
        system_prompt: str | None = None,
        limits: Limits | None = None,
        bare: bool = False,
        window: int | None = None,
        budget: int | None = None,
        compaction: CompactionOptions | None = None,
        environment: Mapping[str, str] | None = None,
        safeguards: Safeguards | None = None,
        placement: PlacementChoice = "auto",
        clock: Callable[[], float] = time.monotonic,
        extensions: Sequence[Extension] = (),
        fallbacks: Sequence[Provider] = (),
        attached: list[Extension] | None = None,
    ) -> None:
        self.workspace, self.turns, self.notices = workspace, 0, events.Notices(self.mask)
        self.safeguards = safeguards or Safeguards()
        self._reported: list[events.Event] = []
        context = ToolContext(workspace, None if environment is None else dict(environment))
        facts, sizes = facts_of(provider.model, local=provider.local), ContextLimits(window, budget)
        self.window = ContextWindow(sizes.of(facts), 0, clock)
        self.conversation = Conversation(self.window, context)
        self.meter = Meter(self.conversation, self.window, facts, limits or Limits())
        self.models = Models(provider, fallbacks, sizes, self.meter, self.window, clock, self.notices)
        self.compactor = Compactor(self.conversation, self.window, compaction or CompactionOptions())
        later = any(each.offers_later for each in extensions)
        has_tools = tools is None or len(tools) > 0 or later or bool(offered_by(extensions))
        self.entry = Entry(self.conversation, self.compactor, self.window, self.safeguards.hides, recall=has_tools)
        first, last = every_session(self.safeguards, chosen=tools is not None, has_tools=has_tools)
        self.extensions = (*first, *last, *extensions)
        self.toolbox = Toolbox(
            [*(all_tools() if tools is None else tools), *offered_by(self.extensions)],
            context.replace(tasks=self._tasks, sees=lambda: self.models.facts.images is not False),
            policy or Policy(workspace),
            ask,
            self.safeguards,
            guards=[guard for each in (*first, *extensions) for guard in each.guards],
            closing=[guard for each in last for guard in each.guards],
            notices=self.notices,
        )
        self._turn_in_hand, self._known_mode = OpenTurn(), self.policy.mode
        self.upkeep = self._upkeep(prompt.SYSTEM if system_prompt is None else system_prompt, placement, bare=bare)
        self._attach([] if attached is None else attached)

    def _tasks(self) -> BackgroundTasks:
        from codelet.extensions.services import background_tasks

        return background_tasks(self)

    def _attach(self, attached: list[Extension]) -> None:
        named("command", [command for each in self.extensions for command in each.commands])
        self.compactor.announce = self._compacting
        for each in self.extensions:
            attached.append(each)  # one whose `attach` raises is closed too
            each.attach(self)

    def _upkeep(self, system: str, placement: PlacementChoice, *, bare: bool) -> Upkeep:
        """Return what keeps the list up, with the reminders of codelet, unless it is `bare`, and of the extensions."""
        used, budget = (lambda: self.size), (lambda: self.window.budget.limit)
        parts = (
            self.workspace,
            self.toolbox.touched,
            used,
            budget,
            lambda: self.provider.model,
            self.toolbox.permissions,
        )
        own = [] if bare else own_sources(*parts, self.notices)
        sources = [*own, *(source for each in self.extensions for source in each.reminders)]
        named("reminder", sources)
        self.reminders = Reminders(self.conversation, sources, self.notices, self.mask)
        return Upkeep(
            self.conversation,
            self.window,
            self.toolbox,
            self.compactor,
            self.entry,
            self.reminders,
            self.extensions,
            system=system,
            models=self.models,
            placement=placement,
            begin_turn=self._begin_turn,
        )

    @property
    def provider(self) -> Provider:
        """Return what answers now; `models` has the others."""
        return self.models.current

    @property
    def messages(self) -> Messages:
        """Return the messages after the head reminders: live, read-only, the same objects each time.

        The volatile reminders, which are sent after it, are in `conversation.sent()`.
        """
        return self.conversation.messages

    @property
    def policy(self) -> Policy:
        """Return what judges the model's actions: the toolbox's."""
        return self.toolbox.policy

    @property
    def commands(self) -> dict[str, Command]:
        """Return the current commands of the extensions."""
        found: dict[str, Command] = {}
        for command in (command for each in self.extensions for command in each.commands_now()):
            found.setdefault(command.name, command)
        return found

    @property
    def usage(self) -> Usage:
        """Return the session's usage, including that before a resume."""
        return self.meter.usage

    @property
    def size(self) -> int:
        """The next request's size in tokens: the last one's, as reported, and an estimate of what came since."""
        return self.window.size(self.conversation)

    def send(self, text: str, piped: Piped | None = None, attached: Attached | None = None) -> _Events:
        """Run one turn: add the prompt, then take steps until the model stops calling tools.

        `piped` and `attached` go with the prompt; `piped` is the prompt if `text` is empty. Raises CancelledError,
        ProviderError or LimitReached, always after the turn's last event, and UsageError if another turn of the session
        is running, which continues. Iterate inside `contextlib.aclosing`, so that leaving early stops the turn
        immediately.
        """
        return self._turn_in_hand.begin(lambda begun: self._turn(begun, lambda: self._take_in(text, piped, attached)))

    def resume(self) -> AsyncGenerator[events.Event, None]:
        """Take an interrupted turn up again, without a new user message.

        Partial text is removed, and the model writes it again. Tool results stay.
        """
        return self._turn_in_hand.begin(lambda begun: self._turn(begun, self._go_on))

    def rewind(self, prompts: int = 1, *, unpin: bool = False) -> str | None:
        """Go back to before the last `prompts` prompts; return the first, None if there are fewer. Files stay.

        Raises UsageError while a turn runs, and if a pinned message would go, unless `unpin` allows it.
        """
        self._turn_in_hand.check_idle()
        points = self.conversation.checkpoints
        pinned = (
            self.compactor.pinned_outside(points[-prompts].parts.body)
            if 0 < prompts <= len(points) and not unpin
            else []
        )
        if pinned:
            raise UsageError(f"message {pinned[0]} is pinned and would go: unpin it, or pass unpin=True")
        asked = self.conversation.back(prompts)
        if asked is not None:
            self.compactor.went_back()
        return asked

    def clear(self) -> None:
        """Forget the conversation; usage and cost continue. Raises UsageError while a turn runs."""
        self._turn_in_hand.check_idle()
        self.conversation.clear()
        self.toolbox.context.seen.clear()
        self.toolbox.touched.clear()
        self.compactor.forget()
        self.entry.forget()
        for each in self.extensions:
            each.clear()

    def adopt(
        self,
        messages: Sequence[Message],
        before: Sequence[Message] | None = None,
        calls: Sequence[CallRecord] = (),
    ) -> None:
        """Continue with a list from elsewhere, and the records of its `calls`.

        `before` is the list before its last prompt, if known.
        """
        self.clear()
        self.conversation.adopt(messages, before, calls)
        self.entry.adopt()

    def context(self) -> list[ContextRow]:
        """Return what the next request would carry, entry by entry, with estimates."""
        from codelet.context.allotment import context_rows

        system, schemas = estimate_text(self.upkeep.system), estimate_text(str(self.toolbox.schemas))
        pinned = self.compactor.is_pinned
        return context_rows(self.conversation.sent(), system, schemas, pinned, self.conversation.calls)

    async def _take_in(self, text: str, piped: Piped | None, attached: Attached | None) -> None:
        if more := await self.upkeep.context_for(text or (piped.text if piped is not None else "")):
            attached = Attached(more) if attached is None else attached.replace(text=f"{attached.text}{more}")
        message = self.entry.prompt(text, piped, attached)
        self._begin_turn(text if 0 < len(text) <= LONGEST_KEPT else message["content"] or "")
        self.conversation.append(message)

    def _begin_turn(self, asked: str) -> None:
        """Begin a turn with a checkpoint before its prompt."""
        self.turns += 1
        self.conversation.checkpoint(asked, self.turns)
        self.compactor.new_turn()

    async def _compacting(self, reason: str) -> None:
        for each in self.extensions:
            await each.compacting(reason)

    async def _go_on(self) -> None:
        self.conversation.turn = self.turns
        if self.conversation.interruption is not None:
            self.conversation.drop_partial()

    async def _turn(self, begun: BegunTurn, begin: Callable[[], Awaitable[None]]) -> _Events:
        """Yield a turn's events, masked, under the time limit, which ends it as LimitReached instead of an interrupt.

        The state after an early end is in `conversation.interruption`; its error is raised after the last event.
        """
        if self._closed:
            raise UsageError("the session is closed")
        await self._turn_in_hand.runs(begun)
        try:
            await begin()
            self.conversation.interruption = None
            self.models.begin_turn()
            turn = TurnState(self.conversation, self.models, self.toolbox, self.upkeep, self.meter)
            shown = MaskedPieces(self.toolbox.masker)
            started = events.TurnStart(self.turns, self.provider.model)
            self.watch(started)
            yield started
            seconds = self.meter.time_left
            deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
            try:
                async with aclosing(run_steps(turn)) as steps:
                    while True:
                        try:
                            async with asyncio.timeout_at(deadline) as timer:
                                event = await anext(steps, None)
                        except TimeoutError:
                            if timer.expired():
                                raise LimitReached(self.meter.out_of_time) from None
                            raise
                        if event is None:
                            break
                        for each in self._seen(event, shown):
                            yield each
            except BaseException as error:
                for event in turn.end_early(error):
                    for each in self._seen(event, shown):
                        yield each
                raise
            for each in shown.flush():
                yield each
        finally:
            try:
                await self.reminders.stop()
            finally:
                self.models.end_turn()
                self._turn_in_hand.is_over()

    def _seen(self, event: events.Event, shown: MaskedPieces) -> Iterator[events.Event]:
        """Yield pending notices and the event, masked."""
        for each in (*map(events.Note, self.notices.take()), *self.take_reported(), event):
            self.watch(each)
            yield from shown.take(each)

    def report(self, event: events.Event) -> None:
        """Have the turn yield this event before its next one."""
        self._reported.append(event)

    def take_reported(self) -> list[events.Event]:
        """Return the events that a turn has not yielded yet, one for a changed mode among them."""
        if self.policy.mode != self._known_mode:
            self._known_mode = self.policy.mode
            self._reported.append(events.ModeChanged(self.policy.mode))
        reported, self._reported = self._reported, []
        return reported

    def mask(self, text: str) -> str:
        """The text without secrets."""
        return self.toolbox.masker.mask(text)

    def run_tool(
        self, name: str, arguments: Arguments, known: ToolContext | None = None
    ) -> AsyncGenerator[events.Event, None]:
        """A call of the user's, between turns: see `run_beside`."""
        from codelet.loop.calls import run_beside

        return run_beside(name, arguments, self.toolbox, known)

    async def run_command(self, name: str, argument: str = "") -> str:
        """Run an extension's command and return its text without secrets. Raises CodeletError and KeyError."""
        command = self.commands[name]
        try:
            return self.mask(await command.run(self, argument.strip()))
        except CodeletError:
            raise
        except Exception as error:
            raise CodeletError(self.mask(f"/{name} failed: {type(error).__name__}: {error}")) from error

    async def close(self) -> None:
        """End what the session opened: a turn left in the middle, extensions, audit, provider. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        await self._turn_in_hand.end()
        from codelet.system.process import end_supervisor

        async with AsyncExitStack() as ending:  # each is ended, whatever happens to the others
            if not self.is_beside:
                ending.callback(end_supervisor)
            ending.callback(self.meter.leave_shared)
            if self.owns_provider:
                ending.push_async_callback(self.models.close)
            ending.push_async_callback(self.upkeep.server.close)
            for each in self.extensions:
                ending.push_async_callback(end_extension, each)

    async def compact(self, instruction: str = "", size: Size | None = None) -> _Events:
        """Compact now, whether it is due or not; `instruction` says what matters. Raises UsageError while a turn runs.

        `size` is what the next request is to have; without it the newest turns stay and what is older gets smaller.
        """
        await self._turn_in_hand.idle()
        async with aclosing(self.compactor.run("asked", instruction, size)) as steps:
            async for event in steps:
                self.watch(event)
                yield event
        await self.upkeep.between_turns()
        for event in [*self.meter.handoffs(), *map(events.Note, self.notices.take())]:
            yield event
