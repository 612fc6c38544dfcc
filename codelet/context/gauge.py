"""The gauge: how many tokens the next request has, from the last one's usage and an estimate of what came since."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from codelet.messages import Message
from codelet.reminders import zones
from codelet.tokens.budget import Budget, effective_tokens
from codelet.tokens.estimate import Estimator, estimate_message
from codelet.tokens.usage import Usage

CACHE_LIFETIME = 300.0
"""Seconds after which a provider's prompt cache counts as gone."""


class Gauge:
    """Measures one message list. `fixed` is the plain estimate of system prompt and tools in tokens.

    What is new is estimated, the rest is what the provider reported; each report calibrates the estimate. A message
    is counted once, when it is settled: a measurement costs what the new messages cost, whatever the list's length.
    """

    def __init__(self, budget: Budget, fixed: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.budget = budget
        self.fixed = fixed
        self._clock = clock
        self._estimator = Estimator()
        self._last: Usage | None = None
        self._reported_at = 0.0
        self._settled = 0
        self._since = 0

    @property
    def cold(self) -> bool:
        """Whether the provider's cache holds nothing of the list: rewritten, another model, or too long ago."""
        return self._last is None or self._clock() - self._reported_at > CACHE_LIFETIME

    def estimate(self, message: Message) -> int:
        """A message's size in tokens, calibrated."""
        return self._estimator.message(message)

    @property
    def fixed_size(self) -> int:
        """System prompt and tools in tokens, calibrated."""
        return self._estimator.scaled(self.fixed)

    def size(self, messages: Sequence[Message]) -> int:
        """P: real tokens of the next request."""
        end = len(messages) - zones.tail_length(messages)
        new = self._since + _plain(messages, self._settled, end)
        if self._last is not None:  # the last tail is part of what was reported
            return self._last.total + self._estimator.scaled(new)
        return self._estimator.scaled(self.fixed + new + _plain(messages, end, len(messages)))

    @property
    def cached(self) -> int:
        """Tokens that the next request can hope to have from the cache; a cold one gives none."""
        return 0 if self._last is None or self.cold else self._last.cache_read

    def effective(self, messages: Sequence[Message]) -> int:
        """E: the same with what the cache gave counted at a tenth; a cold cache gives nothing."""
        return effective_tokens(self.size(messages), self.cached)

    def settle(self, messages: Sequence[Message]) -> None:
        """Count what came since, for good: none of it will be replaced before the next rewrite."""
        end = len(messages) - zones.tail_length(messages)
        self._since += _plain(messages, self._settled, end)
        self._settled = end

    def measured(self, usage: Usage, messages: Sequence[Message], answered: int) -> None:
        """Take in what a request used: `messages` up to index `answered` are counted by it, its answer included."""
        plain = self._since + _plain(messages, self._settled, answered)
        known = 0
        if self._last is not None:
            known = self._last.total
        else:
            tail = len(messages) - zones.tail_length(messages)
            plain += self.fixed + _plain(messages, tail, len(messages))
        self._estimator.calibrate(plain, usage.total - known)
        self._last, self._reported_at = usage, self._clock()
        self._settled, self._since = answered, 0

    def forget(self) -> None:
        """The list was rewritten: only estimates are left, and the cache is cold."""
        self._last, self._settled, self._since = None, 0, 0

    def switch(self, budget: Budget) -> None:
        """Another model reads the list: another budget, and another tokeniser."""
        self.budget = budget
        self._estimator = Estimator()
        self.forget()


def _plain(messages: Sequence[Message], start: int, stop: int) -> int:
    return sum(map(estimate_message, messages[start:stop]))
