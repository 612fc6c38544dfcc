"""Session: owns the one message list, and everything that may change it.

In memory only: when the last reference goes, the conversation is gone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

from codelet import events, prompt
from codelet.approvals import Approvals
from codelet.calls import Safeguards, equip
from codelet.context import (
    CacheWatch,
    Checkpoints,
    CompactionOptions,
    Compactor,
    ContextRow,
    Gauge,
    ReminderLedger,
    context_rows,
    without_partial,
)
from codelet.masking import masked
from codelet.messages import Message, user
from codelet.policy import Policy
from codelet.policy.verdict import Ask
from codelet.providers.base import Provider, Request
from codelet.reminders import zones
from codelet.reminders.sources import Sources
from codelet.text import valid_unicode
from codelet.tokens.budget import Budget
from codelet.tokens.estimate import estimate_text
from codelet.tokens.usage import Usage
from codelet.tokens.windows import ModelFacts, model_facts
from codelet.tools import all_tools
from codelet.tools.tool import Tool, ToolContext
from codelet.turn import Limits, Turn, limited_in_time, run_turn

_MAX_OUTPUT = 32_000


class Session:
    """One message list with its usage, provider, tools and policy."""

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
    ) -> None:
        self.messages: list[Message] = []
        self.provider = provider
        self.workspace = workspace
        self.system_prompt = prompt.SYSTEM if system_prompt is None else system_prompt
        self.limits = limits or Limits()
        self.usage = Usage()
        self.cost: float | None = 0.0
        self.turns = 0
        self.interruption: events.Interrupted | None = None
        chosen = all_tools() if tools is None else tools
        context = ToolContext(workspace, dict(environment) if environment is not None else None)
        self.safeguards = safeguards or Safeguards()
        self._toolbox = equip(chosen, context, policy or Policy(workspace), ask, self.safeguards)
        self._sources = Sources(workspace, bare=bare)
        self._window = window
        self._user_budget = budget
        self.gauge = Gauge(self._budget(), self._fixed_size())
        self.compactor = Compactor(self.messages, self.gauge, compaction or CompactionOptions())
        if self.compactor.options.narrative:
            from codelet.context.narrator import Narrator

            self.compactor.narrator = Narrator(lambda: self.provider, self._request)
        self.cache = CacheWatch()
        self.reminders = ReminderLedger()
        self._call_ids: set[str] = set()
        self.checkpoints = Checkpoints()

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
    def refused(self) -> list[str]:
        """The calls that were refused because of the policy, each in one line."""
        return self.approvals.refused

    @property
    def facts(self) -> ModelFacts:
        """What is known of the model: sizes and prices."""
        return model_facts(self.provider.model)

    @property
    def window(self) -> int:
        """The model's window in tokens, or what the user set."""
        return self._window or self.facts.window

    @property
    def size(self) -> int:
        """The next request's size in tokens: the last one's, as reported, and an estimate of what came since."""
        return self.gauge.size(self.messages)

    async def send(self, text: str) -> AsyncGenerator[events.Event, None]:
        """One turn: takes the prompt in, then steps until the model stops calling tools.

        Raises CancelledError, ProviderError or LimitReached, always after the turn's last event. Iterate
        inside `contextlib.aclosing`, so that leaving early stops the turn at once.
        """
        self.checkpoints.take(self.messages, text)
        zones.insert(self.messages, [user(prompt.escape(valid_unicode(text)))])
        self.turns += 1
        self.compactor.new_turn()
        if self.compactor.narrator is not None:
            self.compactor.narrator.new_turn()
        async with aclosing(self._turn()) as turn_events:
            async for event in turn_events:
                yield event

    async def resume(self) -> AsyncGenerator[events.Event, None]:
        """Take an interrupted turn up again, without a new user message.

        Text that was cut off is taken out: the model writes it anew. What tools did stands in the list.
        """
        if self.interruption is not None and without_partial(self.messages):
            self.gauge.forget()
        async with aclosing(self._turn()) as turn_events:
            async for event in turn_events:
                yield event

    def rewind(self) -> str | None:
        """Go back to before the last prompt, which is returned; None if there is none. Files stay as they are."""
        checkpoint = self.checkpoints.back()
        if checkpoint is None:
            return None
        self.messages[:] = checkpoint.messages
        self.interruption = None
        self._rewritten()
        return checkpoint.prompt

    def clear(self) -> None:
        """Forget the conversation; usage and cost go on."""
        self.messages.clear()
        self.checkpoints.clear()
        self._toolbox.context.seen.clear()
        self.interruption = None
        self._rewritten()

    def adopt(self, messages: Sequence[Message], before: Sequence[Message] | None = None) -> None:
        """Go on with a list from elsewhere; `before` is the list before its last prompt, if known."""
        self.clear()
        self.messages[:] = messages
        self._call_ids.update(call["id"] for message in messages for call in message.get("tool_calls", ()))
        self.checkpoints.rebuild(messages, before)

    def switch(self, provider: Provider) -> None:
        """Go on with another model and the same list."""
        self.provider = provider
        self.gauge.budget = self._budget()
        self.gauge.forget()
        self.cache.explain_next("another model was chosen")

    def context(self) -> list[ContextRow]:
        """What the next request would carry, entry by entry, with estimates."""
        schemas = estimate_text(str(self._toolbox.schemas))
        return context_rows(self.messages, estimate_text(self.system_prompt), schemas, self.compactor.is_pinned)

    async def _turn(self) -> AsyncGenerator[events.Event, None]:
        self.interruption = None
        turn = Turn(
            messages=self.messages,
            provider=self.provider,
            system=self.system_prompt,
            toolbox=self._toolbox,
            limits=self.limits,
            prepare=self._renew_for_turn,
            before_step=self._before_step,
            spend=self._spend,
            exceeded=lambda: self.limits.passed(self.usage, self.cost),
            max_output=self._max_output,
            call_ids=self._call_ids,
        )
        try:
            yield events.TurnStart(self.turns, self.provider.model)
            running = limited_in_time(run_turn(turn), self.limits.timeout)
            async with aclosing(masked(running, self._toolbox.masker)) as turn_events:
                async for event in turn_events:
                    yield event
        finally:
            self.interruption = turn.receipt

    async def compact(self, instruction: str = "") -> AsyncGenerator[events.Event, None]:
        """Compact now, whether it is due or not; between turns only. `instruction` says what matters."""
        async with aclosing(self.compactor.run("asked", self._compacted, instruction)) as steps:
            async for event in steps:
                yield event

    async def _renew_for_turn(self) -> list[events.Event]:
        await self.provider.warm()
        head, tail = await self._sources.gather(self._toolbox.context.seen)
        return self._renew(head, zones.HEAD) + self._renew(tail, zones.TAIL)

    async def _before_step(self, overflow: bool) -> AsyncGenerator[events.Event, None]:
        reason = "overflow" if overflow else self.compactor.due()
        if reason is not None:
            async with aclosing(self.compactor.run(reason, self._compacted)) as steps:
                async for event in steps:
                    yield event
        if not self._sources.bare:
            text = self._sources.token_status(self.size, self.window)
            for event in self._renew({"tokenStatus": text}, zones.TAIL):
                yield event
        self.reminders.count(self.messages)

    def _renew(self, texts: Mapping[str, str | None], zone: tuple[str, ...]) -> list[events.Event]:
        """Bring a zone up to date, without what the user switched off."""
        mask = self._toolbox.masker.mask
        wanted = {kind: mask(text) if text and kind not in self.reminders.off else None for kind, text in texts.items()}
        return zones.renew(self.messages, wanted, zone)

    def _spend(self, usage: Usage, answered: int) -> events.UsageReport:
        self.usage += usage
        cost = self.facts.cost(usage)
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        self.gauge.measured(usage, self.messages, answered)
        sent = self.messages[: answered - 1]
        note = self.cache.observe(sent, usage, self.gauge.estimate)
        return events.UsageReport(usage, self.size, self.window, note)

    def _compacted(self) -> None:
        self.cache.explain_next("the list was compacted")
        self.offer_recall()

    def offer_recall(self) -> None:
        """Give the model the recall tool, once there is something in the archive."""
        if "recall" not in self._toolbox.tools and len(self.compactor.archive):
            from codelet.context.recall import recall_tool

            self._toolbox.add(recall_tool(self.compactor.archive))

    def _rewritten(self) -> None:
        """The conversation went back or away: what was measured and kept of it is void."""
        self.gauge.forget()
        self.compactor.forget()

    def _budget(self) -> Budget:
        facts = self.facts
        window = self._window or facts.window
        user_limit = min(self._user_budget, window) if self._user_budget else None
        return Budget(window, facts.max_output, user_limit)

    def _fixed_size(self) -> int:
        return estimate_text(self.system_prompt) + estimate_text(str(self._toolbox.schemas))

    def _request(self, messages: list[Message]) -> Request:
        """A request of the session's own, beside the turn."""
        return Request(self.system_prompt, messages, tools=self._toolbox.schemas)

    def _max_output(self) -> int | None:
        """The output limit for a request, where one must or should be named: the model's, less what is used up."""
        facts = self.facts
        most = min(facts.max_output or _MAX_OUTPUT, _MAX_OUTPUT, facts.window // 4) if facts.known else None
        return min(filter(None, (most, self.limits.output_left(self.usage))), default=None)
