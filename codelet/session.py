"""Session: a conversation with its usage, provider, tools and policy, and everything that may change it.

In memory only: when the last reference goes, the conversation is gone.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from codelet import events, prompt
from codelet.approvals import Approvals
from codelet.calls import Safeguards, equip
from codelet.context import (
    CacheWatch,
    CompactionOptions,
    Compactor,
    ContextRow,
    Entry,
    Gauge,
    Piped,
    ReminderLedger,
    Renewal,
    Size,
    context_rows,
    recall_tool,
)
from codelet.context import Limits as ContextLimits
from codelet.context.entry import LONGEST_KEPT
from codelet.loop.conversation import Conversation, Messages
from codelet.masking import masked
from codelet.messages import Message
from codelet.policy import Policy
from codelet.policy.verdict import Ask
from codelet.providers.base import Provider, Request
from codelet.reminders import zones
from codelet.reminders.sources import Sources
from codelet.tokens.estimate import estimate_text
from codelet.tokens.usage import Usage
from codelet.tokens.windows import ModelFacts, model_facts
from codelet.tools import all_tools
from codelet.tools.tool import Tool, ToolContext
from codelet.turn import Limits, Turn, limited_in_time

if TYPE_CHECKING:
    from codelet.context.narrator import Narrator


class Session:
    """One conversation with its usage, provider, tools and policy.

    `spent` and `spent_cost` leave out what the session had used before it was taken up here: limits are about these.
    `clock` gives seconds, by which a provider's cache gets old.
    """

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
        placement: zones.Placement = "tail",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.provider = provider
        self.workspace = workspace
        self.system_prompt = prompt.SYSTEM if system_prompt is None else system_prompt
        self.limits = limits or Limits()
        self.usage = Usage()
        self.cost: float | None = 0.0
        self.spent = Usage()
        self.spent_cost: float | None = 0.0
        self.turns = 0
        self.interruption: events.Interrupted | None = None
        recall = self._recall = recall_tool(lambda: self.compactor.archive, lambda: self._entry)
        chosen = (*all_tools(), recall) if tools is None else tools
        context = ToolContext(workspace, dict(environment) if environment is not None else None)
        self.safeguards = safeguards or Safeguards()
        self._toolbox = equip(chosen, context, policy or Policy(workspace), ask, self.safeguards)
        self._sizes = ContextLimits(window, budget)
        self.gauge = Gauge(self._sizes.of(self.facts), self._fixed_size(), clock, model=provider.model)
        self.cache = CacheWatch(clock)
        self.conversation = Conversation(self.gauge, self.cache, self._toolbox.context, placement=placement)
        self.compactor = Compactor(self.conversation, self.gauge, compaction or CompactionOptions())
        if self.compactor.options.narrative:
            self.compactor.narrator = self._narrator()
        self._entry = Entry(self.conversation, self.compactor, self.gauge, self._toolbox.masker, recall=bool(chosen))
        self._toolbox.admit = self._entry.result
        self.reminders = ReminderLedger()
        self.touched = self._toolbox.touched
        sources, mask = Sources(workspace, bare=bare), self._toolbox.masker.mask
        self._renewal = Renewal(self.conversation, self.gauge, sources, self.reminders, self.touched, mask=mask)
        self._call_ids: set[str] = set()
        self._doubted = False

    @property
    def messages(self) -> Messages:
        """What was said and done, behind the reminders of the head: live, read-only, the same objects each time.

        The volatile reminders, which go out behind it, are in `conversation.sent()`.
        """
        return self.conversation.messages

    @property
    def policy(self) -> Policy:
        """What judges the model's actions."""
        return self.approvals.policy

    @property
    def approvals(self) -> Approvals:
        """What decides on the model's calls, and its history."""
        return self._toolbox.approvals

    @property
    def ask(self) -> Ask | None:
        """How a person is asked, or None."""
        return self.approvals.ask

    @ask.setter
    def ask(self, ask: Ask | None) -> None:
        self.approvals.ask = ask

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the model has."""
        return tuple(self._toolbox.tools.values())

    def add_tool(self, tool: Tool) -> None:
        """Offer one more tool from the next request on: the provider's cache of the whole list is lost by it."""
        self._toolbox.add(tool)
        self.gauge.fixed = self._fixed_size()

    @property
    def refused(self) -> list[str]:
        """The calls that were refused because of the policy, each in one line."""
        return self.approvals.refused

    @property
    def facts(self) -> ModelFacts:
        """What is known of the model: sizes, and prices unless it answers on this machine."""
        facts = model_facts(self.provider.model)
        return facts.without_prices() if self.provider.local else facts

    @property
    def window(self) -> int:
        """The model's window in tokens, or what the user set."""
        return self.gauge.budget.window

    @property
    def budget(self) -> int:
        """What the list may reach, in tokens: the window less the room for an answer, or less where the user said so.

        How full the context is, is measured against this everywhere: compaction begins a little below it.
        """
        return self.gauge.budget.limit

    @property
    def size(self) -> int:
        """The next request's size in tokens: the last one's, as reported, and an estimate of what came since."""
        return self.gauge.size(self.conversation)

    @property
    def cut(self) -> tuple[events.Cut, ...]:
        """What of the newest prompt, and of what was piped in with it, was not sent whole; how much of it was."""
        return self._entry.cut

    async def send(self, text: str, piped: Piped | None = None) -> AsyncGenerator[events.Event, None]:
        """One turn: takes the prompt in, then steps until the model stops calling tools.

        `piped` goes with the prompt, or is the prompt where `text` is empty.
        Raises CancelledError, ProviderError or LimitReached, always after the turn's last event. Iterate
        inside `contextlib.aclosing`, so that leaving early stops the turn at once.
        """
        message = self._entry.prompt(text, piped)
        self.conversation.checkpoint(text if 0 < len(text) <= LONGEST_KEPT else message["content"] or "")
        self.conversation.append(message)
        self.turns += 1
        self.compactor.new_turn()
        async with aclosing(self._turn()) as turn_events:
            async for event in turn_events:
                yield event

    async def resume(self) -> AsyncGenerator[events.Event, None]:
        """Take an interrupted turn up again, without a new user message.

        Text that was cut off is taken out: the model writes it anew. What tools did stands in the list.
        """
        if self.interruption is not None:
            self.conversation.drop_partial()
        async with aclosing(self._turn()) as turn_events:
            async for event in turn_events:
                yield event

    def rewind(self) -> str | None:
        """Go back to before the last prompt, which is returned; None if there is none. Files stay as they are."""
        asked = self.conversation.back()
        if asked is not None:
            self.interruption = None
            self.compactor.went_back()
        return asked

    def clear(self) -> None:
        """Forget the conversation; usage and cost go on."""
        self.conversation.clear()
        self._toolbox.context.seen.clear()
        self.touched.clear()
        self.interruption = None
        self.compactor.forget()
        self._entry.forget()

    def adopt(self, messages: Sequence[Message], before: Sequence[Message] | None = None) -> None:
        """Go on with a list from elsewhere; `before` is the list before its last prompt, if known."""
        self.clear()
        self.conversation.adopt(messages, before)
        self._call_ids.update(call["id"] for message in messages for call in message.get("tool_calls", ()))
        self._entry.adopt()

    def switch(self, provider: Provider) -> None:
        """Go on with another model and the same list."""
        self.provider = provider
        self.gauge.switch(self._sizes.within(self.facts), provider.model)
        self.cache.switched()

    def context(self) -> list[ContextRow]:
        """What the next request would carry, entry by entry, with estimates."""
        schemas = estimate_text(str(self._toolbox.schemas))
        return context_rows(
            self.conversation.sent(), estimate_text(self.system_prompt), schemas, self.compactor.is_pinned
        )

    async def _turn(self) -> AsyncGenerator[events.Event, None]:
        self.interruption = None
        turn = Turn(
            conversation=self.conversation,
            provider=self.provider,
            system=self.system_prompt,
            toolbox=self._toolbox,
            limits=self.limits,
            prepare=self._renew_for_turn,
            before_step=self._before_step,
            changed=self._renewal.changed,
            spend=self._spend,
            count=self._count,
            exceeded=lambda: self.limits.passed(self.spent, self.spent_cost),
            max_output=self._max_output,
            may_compact=lambda: self.compactor.options.automatic,
            call_ids=self._call_ids,
            sent=self._entry.sent,
            cut=lambda: self._entry.cut,
        )
        try:
            yield events.TurnStart(self.turns, self.provider.model)
            running = limited_in_time(turn, self.limits.timeout)
            async with aclosing(masked(running, self._toolbox.masker)) as turn_events:
                async for event in turn_events:
                    yield event
        finally:
            self.interruption = turn.receipt
            await self._renewal.stop()

    async def compact(self, instruction: str = "", size: Size | None = None) -> AsyncGenerator[events.Event, None]:
        """Compact now, whether it is due or not; between turns only. `instruction` says what matters.

        `size` is what the next request is to have; without it the newest turns stay and what is older gets smaller.
        """
        async with aclosing(self.compactor.run("asked", instruction, size)) as steps:
            async for event in steps:
                yield event

    async def _renew_for_turn(self) -> list[events.Event]:
        await self.provider.warm()
        return await self._renewal.for_turn()

    async def _before_step(self, overflow: bool) -> AsyncGenerator[events.Event, None]:
        self._entry.fit()
        reason = "overflow" if overflow else self.compactor.due()
        if reason in ("overflow", "hard") and self._entry.shrink():
            reason = None
        while self._entry.reduced:
            yield events.Compaction("reduced", "entry", self.size, self.size, note=self._entry.reduced.pop(0))
        self.gauge.settle(self.conversation)
        if reason is not None:
            async with aclosing(self.compactor.run(reason)) as steps:
                async for event in steps:
                    yield event
        if self._toolbox.tools and self.compactor.archived and self._recall.name not in self._toolbox.tools:
            self.add_tool(self._recall)
        for event in await self._renewal.for_step():
            yield event
        self.reminders.count(self.conversation)

    def _spend(self, usage: Usage, answered: int) -> events.UsageReport:
        self._count(usage)
        doubt = self.gauge.measured(usage, self.conversation, answered)
        volatile = sum(map(self.gauge.estimate, self.conversation.tail))
        note = self.cache.observe(self.messages[: answered - 1], usage, volatile)
        return events.UsageReport(usage, self.size, self.window, note, self.budget, self._told_once(doubt))

    def _told_once(self, doubt: str | None) -> str | None:
        """A sentence on a report that cannot be right, the first time: it would be the same at each step."""
        if doubt is None or self._doubted:
            return None
        self._doubted = True
        return f"{doubt}: the size of the list is estimated instead; usage and cost are as reported"

    def _count(self, usage: Usage | None) -> None:
        """Add to what the session has used and cost; None is an answer whose usage nobody reported."""
        if usage is not None:
            self.usage += usage
            self.spent += usage
        cost = self.facts.cost(usage) if usage is not None else None
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        self.spent_cost = None if cost is None or self.spent_cost is None else self.spent_cost + cost

    def _fixed_size(self) -> int:
        return estimate_text(self.system_prompt) + estimate_text(str(self._toolbox.schemas))

    def _narrator(self) -> Narrator:
        from codelet.context.narrator import Narrator

        return Narrator(lambda: self.provider, self._request, self._count)

    def _request(self, messages: list[Message]) -> Request:
        """A request of the session's own, beside the turn."""
        return Request(self.system_prompt, messages, tools=self._toolbox.schemas)

    def _max_output(self) -> int | None:
        """The output limit for a request, where one must or should be named: the model's, less what is used up."""
        return self.limits.output_left(self.gauge.budget.reserve if self.facts.known else None, self.spent)
