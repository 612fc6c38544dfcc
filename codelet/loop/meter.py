"""The meter: what a session has used and cost, and what it may still use."""

from __future__ import annotations

import asyncio

from codelet import events
from codelet.context import CacheWatch, ContextWindow
from codelet.errors import LimitReached
from codelet.loop.conversation import Conversation
from codelet.providers.facts import ModelFacts, model_facts
from codelet.providers.protocol import Provider
from codelet.record import Record
from codelet.usage import Usage


class Limits(Record):
    """Bounds that the user set: steps of a turn, output tokens, dollars and seconds. None is no bound."""

    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    timeout: float | None = None

    def passed(self, usage: Usage, cost: float | None) -> str | None:
        """The limit on a whole session that its usage or cost has passed, in words, or None."""
        if self.max_tokens is not None and usage.output >= self.max_tokens:
            return f"the limit of {self.max_tokens} output tokens is reached (--max-tokens)"
        if self.max_cost is not None and cost is not None and cost >= self.max_cost:
            return f"the limit of {self.max_cost:g} dollars is reached (--max-cost)"
        return None

    def output_left(self, most: int | None, usage: Usage) -> int | None:
        """What a request may still ask for, of at most `most` tokens, in a session that has used as much."""
        if self.max_tokens is None:
            return most
        left = max(1, self.max_tokens - usage.output)
        return left if most is None else min(left, most)


def facts_of(provider: Provider) -> ModelFacts:
    """What is known of the provider's model before its server is asked; no list price holds on this machine."""
    facts = model_facts(provider.model)
    return facts.without_prices().replace(local=True) if provider.local else facts


class Meter:
    """Counts usage and cost in dollars against `limits`.

    `spent` and `spent_cost` leave out what the session had used before it was taken up here: limits are about these.
    `timer` is the time limit of the turn that runs, if any. `requests` were answered, in `waited` seconds altogether;
    `retries` were sent again.
    """

    def __init__(
        self, conversation: Conversation, window: ContextWindow, cache: CacheWatch, facts: ModelFacts, limits: Limits
    ) -> None:
        self.limits = limits
        self.facts = facts
        self.usage = Usage()
        self.cost: float | None = 0.0
        self.spent = Usage()
        self.spent_cost: float | None = 0.0
        self.timer: asyncio.Timeout | None = None
        self.requests = self.retries = 0
        self.waited = 0.0
        self._conversation = conversation
        self._window = window
        self._cache = cache
        self._doubted = False

    @property
    def out_of_time(self) -> str:
        """What the time limit says once it has passed."""
        return f"the time limit of {self.limits.timeout:g} s is reached (--timeout)" if self.limits.timeout else ""

    @property
    def is_out_of_time(self) -> bool:
        """Whether the time limit has ended the turn."""
        return self.timer is not None and self.timer.expired()

    @property
    def room(self) -> int | None:
        """The output limit for a request, where one must or should be named: the model's, less what is used up.

        A local model always has one: a small one may go on without end, and its server has no limit of its own.
        """
        named = self.facts.known or self.facts.told or self.facts.local
        return self.limits.output_left(self._window.budget.reserve if named else None, self.spent)

    def check(self, steps: int = 0) -> None:
        """Raises LimitReached where a limit of the session is passed, or the turn has made as many steps as it may."""
        if self.limits.max_turns is not None and steps >= self.limits.max_turns:
            raise LimitReached(f"the limit of {self.limits.max_turns} turns is reached (--max-turns)")
        if (passed := self.limits.passed(self.spent, self.spent_cost)) is not None:
            raise LimitReached(passed)

    def spend(self, usage: Usage, answered: int) -> list[events.Event]:
        """Take in a step's usage, and report it; its answer stands right before `answered` in the list.

        The first report that cannot be right is followed by a note that says so.
        """
        self.count(usage)
        doubt = self._window.measured(usage, self._conversation, answered)
        volatile = sum(map(self._window.estimate, self._conversation.tail))
        note = self._cache.observe(self._conversation.messages[: answered - 1], usage, volatile)
        budget, size = self._window.budget, self._window.size(self._conversation)
        report = events.UsageReport(
            usage=usage, context=size, window=budget.window, cache_note=note, budget=budget.limit
        )
        if doubt is None or self._doubted:
            return [report]
        self._doubted = True
        told = f"{doubt}: the size of the list is estimated instead; usage and cost are as reported"
        return [report, events.Note(told)]

    def answered(self, seconds: float) -> None:
        """A request was answered, so many seconds after it was sent."""
        self.requests += 1
        self.waited += seconds

    def count(self, usage: Usage | None) -> None:
        """Add to what the session has used and cost; None is an answer whose usage nobody reported."""
        if usage is not None:
            self.usage += usage
            self.spent += usage
        cost = self.facts.cost(usage) if usage is not None else None
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        self.spent_cost = None if cost is None or self.spent_cost is None else self.spent_cost + cost
