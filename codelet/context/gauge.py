"""The gauge: how many tokens the next request has, from the last one's usage and an estimate of what came since."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from codelet.loop.conversation import Parts
from codelet.messages import Message
from codelet.record import Record
from codelet.tokens.budget import Budget, effective_tokens
from codelet.tokens.counter import ExactCounter
from codelet.tokens.estimate import Estimator, estimate_message
from codelet.tokens.usage import Usage

CACHE_LIFETIME = 300.0
"""Seconds after which a provider's prompt cache counts as gone."""

_LEAST_DOUBTED = 4_000
"""Tokens below which a report is taken as it is: so short a list fits any window, whoever is right."""


class Reading(Record):
    """What a gauge knew of a list: the last usage and when it was reported, and what was counted since."""

    budget: Budget
    last: Usage | None
    reported_at: float
    counted: tuple[int, int, int, int]


class Gauge:
    """Measures one message list. `fixed` is the plain estimate of system prompt and tools in tokens.

    What is new is estimated, the rest is what the provider reported; each report calibrates the estimate. A message
    is counted once, when it is settled: a measurement costs what the new messages cost, whatever the list's length.
    A report under a third of the estimate is not believed: some gateways leave the cached part out, and a list that
    seems small for ever would never be compacted.
    Near a limit, where the estimate's error could decide, what is new is counted exactly, if the tokeniser of `model`
    is on this machine and loaded. `at` is the per cent of the budget at which the user compacts, if that was set.
    """

    def __init__(
        self, budget: Budget, fixed: int, clock: Callable[[], float] = time.monotonic, *, model: str = ""
    ) -> None:
        self.budget = budget
        self.at: int | None = None
        self.exact = ExactCounter(model)
        self.fixed = fixed
        self._clock = clock
        self._estimator = Estimator()
        self._last: Usage | None = None
        self._reported_at = 0.0
        self._settled = 0
        self._since = 0
        self._whole = 0
        self._counted_to = 0
        self._counted = 0

    @property
    def cold(self) -> bool:
        """Whether the provider's cache holds nothing of the list: rewritten, another model, or too long ago."""
        return self._last is None or self._clock() - self._reported_at > CACHE_LIFETIME

    def estimate(self, message: Message) -> int:
        """A message's size in tokens, calibrated."""
        return self._estimator.message(message)

    def characters(self, tokens: int) -> int:
        """About how many characters so many tokens have, calibrated."""
        return self._estimator.characters(tokens)

    @property
    def fixed_size(self) -> int:
        """System prompt and tools in tokens, calibrated."""
        return self._estimator.scaled(self.fixed)

    def size(self, parts: Parts) -> int:
        """P: real tokens of the next request."""
        new = self._since + _plain(parts.messages[self._settled :])
        # The last tail is part of what was reported.
        beside = 0 if self._last is not None else self.fixed + _plain(parts.tail)
        known = self._last.total if self._last is not None else 0
        estimated = known + self._estimator.scaled(beside + new)
        if not self.exact.able or not self._near_limit(estimated):
            return estimated
        counted = self._count(parts.messages)
        return estimated if counted is None else known + self._estimator.scaled(beside) + counted

    def rewritten(self, parts: Parts) -> int:
        """P of the next request if these stood in the list's place: estimated, as nothing reported counts."""
        return self._estimator.scaled(self.fixed + _plain(parts.messages) + _plain(parts.tail))

    def reading(self) -> Reading:
        """What is known of the list now, to be put back by `restore` if the very same list stands again."""
        counted = (self._settled, self._since, self._counted_to, self._counted)
        return Reading(self.budget, self._last, self._reported_at, counted)

    def restore(self, reading: Reading) -> None:
        """The list is again the one that was read; of another model's reading nothing counts."""
        self.forget()
        if reading.budget is self.budget:
            self._last, self._reported_at = reading.last, reading.reported_at
            self._settled, self._since, self._counted_to, self._counted = reading.counted

    def _near_limit(self, size: int) -> bool:
        """Whether a size is within a tenth of one at which a compaction is due, or beyond it but not by far."""
        budget = self.budget
        wanted = [budget.hard_trigger, budget.cost_trigger + 9 * self.cached // 10]
        wanted += [self.at * budget.limit // 100] if self.at is not None else []
        return 9 * min(wanted) <= 10 * size <= 12 * budget.hard_trigger

    def _count(self, messages: Sequence[Message]) -> int | None:
        """What came since the last report, counted exactly; None while that is not known."""
        settled = self.exact.total(messages[self._counted_to : self._settled])
        new = self.exact.total(messages[self._settled :])
        if settled is None or new is None:
            return None
        if self._counted_to < self._settled:
            self._counted_to, self._counted = self._settled, self._counted + settled
            self.exact.forget()
        return self._counted + new

    @property
    def cached(self) -> int:
        """Tokens that the next request can hope to have from the cache; a cold one gives none."""
        return 0 if self._last is None or self.cold else self._last.cache_read

    def effective(self, parts: Parts) -> int:
        """E: the same with what the cache gave counted at a tenth; a cold cache gives nothing."""
        return effective_tokens(self.size(parts), self.cached)

    def settle(self, parts: Parts) -> None:
        """Count what came since, for good: none of it will be replaced before the next rewrite."""
        self._settle(parts.messages, len(parts.messages))

    def _settle(self, messages: Sequence[Message], end: int) -> None:
        new = _plain(messages[self._settled : end])
        self._since += new
        self._whole += new
        self._settled = end

    def measured(self, usage: Usage, parts: Parts, answered: int) -> str | None:
        """Take in what a request used: the messages up to index `answered` are counted by it, its answer included.

        Gives in words that the report is not believed, where that matters.
        """
        self._settle(parts.messages, answered)
        beside = self.fixed + _plain(parts.tail)
        sent = beside + self._whole - _plain(parts.messages[max(0, answered - 1) : answered])
        if usage.total < 1 or (sent >= _LEAST_DOUBTED and 3 * usage.total_input < sent):
            told = f"the provider counts {usage.total_input:,} tokens where about {sent:,} were sent"
            return told if sent >= _LEAST_DOUBTED else None
        known, plain = (self._last.total, self._since) if self._last is not None else (0, self._since + beside)
        self._estimator.calibrate(plain, usage.total - known)
        self._last, self._reported_at = usage, self._clock()
        self._since = 0
        self._counted_to, self._counted = answered, 0
        self.exact.forget()
        return None

    def list_changed(self, why: str, *, body: bool) -> None:
        """What was measured of the list is void: only estimates are left, and the cache is cold."""
        self.forget()

    def forget(self) -> None:
        """Void what was measured."""
        self._last, self._settled, self._since, self._whole = None, 0, 0, 0
        self._counted_to, self._counted = 0, 0
        self.exact.forget()

    def replaced(self, place: int) -> None:
        """Another message stands at `place` by now: what was measured is void where it was among that."""
        if place < self._settled:
            self.forget()

    def switch(self, budget: Budget, model: str = "") -> None:
        """Another model reads the list: another budget, and another tokeniser."""
        self.budget = budget
        self.exact = ExactCounter(model)
        self._estimator = Estimator()
        self.forget()


def _plain(messages: Sequence[Message]) -> int:
    return sum(map(estimate_message, messages))
