"""The gauge: how many tokens the next request has, from the last one's usage and an estimate of what came since."""

from __future__ import annotations

from collections.abc import Sequence

from codelet.messages import Message
from codelet.reminders import zones
from codelet.tokens.budget import Budget, effective_tokens
from codelet.tokens.estimate import Estimator, estimate_message
from codelet.tokens.usage import Usage


class Gauge:
    """Measures one message list. `fixed` is the plain estimate of system prompt and tools in tokens.

    What is new is estimated, the rest is what the provider reported; each report calibrates the estimate.
    """

    def __init__(self, budget: Budget, fixed: int) -> None:
        self.budget = budget
        self.fixed = fixed
        self.cold = True
        self._estimator = Estimator()
        self._last: Usage | None = None
        self._counted = 0
        self._summed = (0, 0)

    def estimate(self, message: Message) -> int:
        """A message's size in tokens, calibrated."""
        return self._estimator.message(message)

    def size(self, messages: Sequence[Message]) -> int:
        """P: real tokens of the next request."""
        end = len(messages) - zones.tail_length(messages)
        if self._last is not None and self._counted <= end:  # the last tail is part of what was reported
            return self._last.total + sum(map(self.estimate, messages[self._counted : end]))
        return self._estimator.scaled(self.fixed + self._plain(messages, end))

    def effective(self, messages: Sequence[Message]) -> int:
        """E: the same with what the cache gave counted at a tenth; a cold cache gives nothing."""
        read = self._last.cache_read if self._last is not None and not self.cold else 0
        return effective_tokens(self.size(messages), read)

    def measured(self, usage: Usage, messages: Sequence[Message], answered: int) -> None:
        """Take in what a request used: `messages` up to index `answered` are counted by it, its answer included."""
        known = self._last.total if self._last is not None else 0
        start = self._counted if self._last is not None else 0
        plain = sum(map(estimate_message, messages[start:answered])) + (0 if known else self.fixed)
        self._estimator.calibrate(plain, usage.total - known)
        self._last, self._counted, self.cold = usage, answered, False

    def forget(self) -> None:
        """The list was rewritten, or another model reads it: only estimates are left, and the cache is cold."""
        self._last, self._counted, self.cold = None, 0, True
        self._summed = (0, 0)

    def _plain(self, messages: Sequence[Message], end: int) -> int:
        """The plain estimate of the whole list: what was summed up before is not looked at again."""
        count, plain = self._summed
        if count > end:
            count, plain = 0, 0
        settled = end
        while settled > count and messages[settled - 1]["role"] == "tool":  # a placeholder may stand there yet
            settled -= 1
        plain += sum(map(estimate_message, messages[count:settled]))
        self._summed = (settled, plain)
        return plain + sum(map(estimate_message, messages[settled:]))
