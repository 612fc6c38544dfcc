"""Session: a conversation with its usage, provider, tools and policy, and everything that may change it.

In memory only: when the last reference goes, the conversation is gone.
"""

from __future__ import annotations

import asyncio
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
from codelet.errors import LimitReached
from codelet.loop.conversation import Conversation, Messages
from codelet.masking import MaskedPieces
from codelet.messages import Message
from codelet.meter import Limits, Meter
from codelet.policy import Policy
from codelet.policy.verdict import Ask
from codelet.providers.base import Provider
from codelet.reminders import zones
from codelet.reminders.sources import Sources
from codelet.tokens.estimate import estimate_text
from codelet.tokens.usage import Usage
from codelet.tokens.windows import ModelFacts, model_facts
from codelet.tools import all_tools
from codelet.tools.tool import Tool, ToolContext
from codelet.turn import run_turn
from codelet.upkeep import Upkeep

if TYPE_CHECKING:
    from codelet.context.narrator import Narrator


class Session:
    """One conversation with its usage, provider, tools and policy.

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
        self.turns = 0
        recall = recall_tool(lambda: self.compactor.archive, lambda: self._entry)
        chosen = (*all_tools(), recall) if tools is None else tools
        context = ToolContext(workspace, dict(environment) if environment is not None else None)
        self.safeguards = safeguards or Safeguards()
        self._toolbox = equip(chosen, context, policy or Policy(workspace), ask, self.safeguards)
        self._sizes = ContextLimits(window, budget)
        facts = _facts_of(provider)
        self.gauge = Gauge(self._sizes.of(facts), 0, clock, model=provider.model)
        self.cache = CacheWatch(clock)
        self.conversation = Conversation(self.gauge, self.cache, self._toolbox.context, placement=placement)
        self.meter = Meter(self.conversation, self.gauge, self.cache, facts, limits or Limits())
        self.compactor = Compactor(self.conversation, self.gauge, compaction or CompactionOptions())
        self._entry = Entry(self.conversation, self.compactor, self.gauge, self._toolbox.masker, recall=bool(chosen))
        self._toolbox.admit = self._entry.result
        self.reminders = ReminderLedger()
        self.touched = self._toolbox.touched
        sources, mask = Sources(workspace, bare=bare), self._toolbox.masker.mask
        renewal = Renewal(self.conversation, self.gauge, sources, self.reminders, self.touched, mask=mask)
        parts = self.conversation, self.gauge, self._toolbox, self.compactor, self._entry, renewal, recall
        self.upkeep = Upkeep(*parts, system=prompt.SYSTEM if system_prompt is None else system_prompt)
        if self.compactor.options.narrative:
            self.compactor.narrator = self._narrator()

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

    @property
    def usage(self) -> Usage:
        """What the session has used, what it had before it was taken up here included."""
        return self.meter.usage

    @property
    def cost(self) -> float | None:
        """The same in dollars; None where a price is not known."""
        return self.meter.cost

    @property
    def interruption(self) -> events.Interrupted | None:
        """What the early end of the last turn left, if it had one."""
        return self.conversation.interruption

    @interruption.setter
    def interruption(self, left: events.Interrupted | None) -> None:
        self.conversation.interruption = left

    @property
    def system_prompt(self) -> str:
        """What the model is told first."""
        return self.upkeep.system

    def add_tool(self, tool: Tool) -> None:
        """Offer one more tool from the next request on: the provider's cache of the whole list is lost by it."""
        self.upkeep.add_tool(tool)

    @property
    def refused(self) -> list[str]:
        """The calls that were refused because of the policy, each in one line."""
        return self.approvals.refused

    @property
    def facts(self) -> ModelFacts:
        """What is known of the model: sizes, and prices unless it answers on this machine."""
        return self.meter.facts

    @property
    def window(self) -> int:
        """The model's window in tokens, or what the user set."""
        return self.gauge.budget.window

    @property
    def window_is_guessed(self) -> bool:
        """Whether neither a list, nor the server, nor the user has named the window."""
        return not self.facts.known and self._sizes.window is None

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

    def send(self, text: str, piped: Piped | None = None) -> AsyncGenerator[events.Event, None]:
        """One turn: takes the prompt in, then steps until the model stops calling tools.

        `piped` goes with the prompt, or is the prompt where `text` is empty.
        Raises CancelledError, ProviderError or LimitReached, always after the turn's last event. Iterate
        inside `contextlib.aclosing`, so that leaving early stops the turn at once.
        """
        return self._turn(lambda: self._take_in(text, piped))

    def resume(self) -> AsyncGenerator[events.Event, None]:
        """Take an interrupted turn up again, without a new user message.

        Text that was cut off is taken out: the model writes it anew. What tools did stands in the list.
        """
        return self._turn(self._go_on)

    def rewind(self) -> str | None:
        """Go back to before the last prompt, which is returned; None if there is none. Files stay as they are."""
        asked = self.conversation.back()
        if asked is not None:
            self.compactor.went_back()
        return asked

    def clear(self) -> None:
        """Forget the conversation; usage and cost go on."""
        self.conversation.clear()
        self._toolbox.context.seen.clear()
        self.touched.clear()
        self.compactor.forget()
        self._entry.forget()

    def adopt(self, messages: Sequence[Message], before: Sequence[Message] | None = None) -> None:
        """Go on with a list from elsewhere; `before` is the list before its last prompt, if known."""
        self.clear()
        self.conversation.adopt(messages, before)
        self._entry.adopt()

    def switch(self, provider: Provider) -> None:
        """Go on with another model and the same list."""
        self.provider, self.meter.facts = provider, _facts_of(provider)
        self.gauge.switch(self._sizes.within(self.facts), provider.model)
        self.cache.switched()

    def context(self) -> list[ContextRow]:
        """What the next request would carry, entry by entry, with estimates."""
        schemas = estimate_text(str(self._toolbox.schemas))
        return context_rows(
            self.conversation.sent(), estimate_text(self.system_prompt), schemas, self.compactor.is_pinned
        )

    def _take_in(self, text: str, piped: Piped | None) -> None:
        message = self._entry.prompt(text, piped)
        self.conversation.checkpoint(text if 0 < len(text) <= LONGEST_KEPT else message["content"] or "")
        self.conversation.append(message)
        self.turns += 1
        self.compactor.new_turn()

    def _go_on(self) -> None:
        if self.interruption is not None:
            self.conversation.drop_partial()

    async def _turn(self, begin: Callable[[], None]) -> AsyncGenerator[events.Event, None]:
        """A turn's events, masked, under the time limit, which ends it as LimitReached instead of an interrupt."""
        begin()
        self.interruption = None
        meter, shown = self.meter, MaskedPieces(self._toolbox.masker)
        meter.timer = None
        turn = run_turn(self.conversation, self.provider, self._toolbox, self.upkeep, meter)
        yield events.TurnStart(self.turns, self.provider.model)
        seconds = meter.limits.timeout
        deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
        try:
            async with aclosing(turn):
                while True:
                    try:
                        if deadline is None:
                            event = await anext(turn)
                        else:
                            async with asyncio.timeout_at(deadline) as meter.timer:
                                event = await anext(turn)
                    except StopAsyncIteration:
                        break
                    except TimeoutError:
                        if not meter.is_out_of_time:
                            raise
                        raise LimitReached(meter.out_of_time) from None
                    if meter.is_out_of_time:  # what the turn says of its own cancellation is said of the limit instead
                        event = await _end_of(turn, meter.out_of_time)
                    for each in shown.take(event):
                        yield each
                    if meter.is_out_of_time:
                        raise LimitReached(meter.out_of_time)
            for each in shown.flush():
                yield each
        finally:
            await self.upkeep.after_turn()

    async def compact(self, instruction: str = "", size: Size | None = None) -> AsyncGenerator[events.Event, None]:
        """Compact now, whether it is due or not; between turns only. `instruction` says what matters.

        `size` is what the next request is to have; without it the newest turns stay and what is older gets smaller.
        """
        async with aclosing(self.compactor.run("asked", instruction, size)) as steps:
            async for event in steps:
                yield event

    def _narrator(self) -> Narrator:
        from codelet.context.narrator import Narrator

        return Narrator(lambda: self.provider, self.upkeep.request, self.meter.count)


def _facts_of(provider: Provider) -> ModelFacts:
    facts = model_facts(provider.model)
    return facts.without_prices() if provider.local else facts


async def _end_of(turn: AsyncGenerator[events.Event, None], reason: str) -> events.TurnEnd:
    """The last event of a turn that the time limit ended."""
    async for event in turn:
        if isinstance(event, events.TurnEnd):
            return event.replace(reason="limit", error=reason)
    raise LimitReached(reason)
