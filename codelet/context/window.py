"""The context window: its fill, by reported usage and an estimate."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from codelet.context.tokens import CHARACTERS_PER_TOKEN, estimate_message
from codelet.context.tokens.budget import Budget, effective_tokens
from codelet.messages import ForeignMessage, Message
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.conversation import Parts

CACHE_LIFETIME = 300.0
"""Seconds after which a provider's prompt cache counts as gone."""

_LEAST_DOUBTED = 4_000
"""Tokens below which a report is always believed: such a list fits any window, even if the report is wrong."""
_LEAST_SAMPLE = 200
"""Tokens below which a report says nothing about the tokeniser."""
_LEAST_FACTOR, _LARGEST_FACTOR = 700, 2_000

Measurement = tuple[Budget, Usage | None, float, int, int]
"""A window's knowledge of a list: budget, last report and its time, the number of counted messages, tokens since."""


class ContextWindow:
    """Measures one message list. `fixed` is the plain estimate of system prompt and tools in tokens.

    New messages are estimated, the rest is the provider's report; each report calibrates the estimate. A message is
    counted once, when it is settled, so that a measurement costs no more for a long list. A report under a third of the
    estimate is not believed: some gateways omit the cached part, and the list would never be compacted.
    `at` is the user's threshold for compaction in % of the budget.
    """

    def __init__(self, budget: Budget, fixed: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.budget = budget
        self.at: int | None = None
        self.fixed = fixed
        self._clock = clock
        self.factor = 1_000
        """The provider's count for 1,000 of our estimate; an integer, so that equal histories give equal numbers."""
        self._last: Usage | None = None
        self._reported_at = 0.0
        self._settled = 0
        self._since = 0
        self._whole = 0

    def estimate(self, message: ForeignMessage) -> int:
        """Return the size of a message in tokens, calibrated."""
        return self._scaled(estimate_message(message))

    def characters(self, tokens: int) -> int:
        """Return the approximate characters in `tokens`, calibrated, rounded down."""
        return tokens * CHARACTERS_PER_TOKEN * 1_000 // self.factor

    def _scaled(self, tokens: int) -> int:
        """Calibrate a plain estimate, rounded up."""
        return -(-tokens * self.factor // 1_000)

    def _calibrate(self, estimated: int, reported: int) -> None:
        """Move the factor a quarter of the way to `reported / estimated`, within 0.7 and 2.0."""
        if estimated >= _LEAST_SAMPLE and reported > 0:
            seen = min(_LARGEST_FACTOR, max(_LEAST_FACTOR, 1_000 * reported // estimated))
            self.factor = (3 * self.factor + seen + 2) // 4

    @property
    def fixed_size(self) -> int:
        """System prompt and tools in tokens, calibrated."""
        return self._scaled(self.fixed)

    def beside(self, parts: Parts) -> int:
        """Return the tokens next to the conversation: system prompt, tools and reminders."""
        return self.fixed_size + sum(map(self.estimate, [*parts.head, *parts.tail]))

    def size(self, parts: Parts) -> int:
        """P: real tokens of the next request."""
        new = self._since + _plain(parts.messages[self._settled :])
        # The last tail is part of what was reported.
        beside = 0 if self._last is not None else self.fixed + _plain(parts.tail)
        known = self._last.total if self._last is not None else 0
        return known + self._scaled(beside + new)

    def rewritten(self, parts: Parts) -> int:
        """P of the next request if the list became `parts`: an estimate, as reports are void then."""
        return self._scaled(self.fixed + _plain(parts.messages) + _plain(parts.tail))

    def measurement(self) -> Measurement:
        """Return what is known of the list, for `restore` if the same list returns."""
        return self.budget, self._last, self._reported_at, self._settled, self._since

    def restore(self, known: Measurement) -> None:
        """Restore the measurement of a list that returned; one for another model is void."""
        self.forget()
        if known[0] is self.budget:
            _, self._last, self._reported_at, self._settled, self._since = known

    @property
    def cached(self) -> int:
        """Tokens that the next request can get from the cache; 0 if the list was rewritten, or too much time passed."""
        if self._last is None or self._clock() - self._reported_at > CACHE_LIFETIME:
            return 0
        return self._last.cache_read

    def effective(self, parts: Parts) -> int:
        """E: P with the cached tokens counted at a tenth."""
        return effective_tokens(self.size(parts), self.cached)

    def settle(self, parts: Parts, end: int | None = None) -> None:
        """Count the new messages, up to `end`, for good: none of them changes before the next rewrite."""
        end = len(parts.messages) if end is None else end
        new = _plain(parts.messages[self._settled : end])
        self._since += new
        self._whole += new
        self._settled = end

    def measured(self, usage: Usage, parts: Parts, answered: int) -> str | None:
        """Note a request's usage, which counts the messages up to index `answered`, its answer included.

        Returns a notice if the report is not believed.
        """
        self.settle(parts, answered)
        beside = self.fixed + _plain(parts.tail)
        sent = beside + self._whole - _plain(parts.messages[answered - 1 : answered])
        if usage.total < 1 or (sent >= _LEAST_DOUBTED and 3 * usage.total_input < sent):
            notice = f"the provider counts {usage.total_input:,} tokens, but about {sent:,} were sent"
            return notice if sent >= _LEAST_DOUBTED else None
        known, plain = (self._last.total, self._since) if self._last is not None else (0, self._since + beside)
        self._calibrate(plain, usage.total - known)
        self._last, self._reported_at = usage, self._clock()
        self._since = 0
        return None

    def list_changed(self, why: str, *, body: bool) -> None:
        """Void the measurement, and with it the cache, after the list was rewritten."""
        self.forget()

    def forget(self) -> None:
        self._last, self._settled, self._since, self._whole = None, 0, 0, 0

    def replaced(self, place: int) -> None:
        """Note that the message at `place` was replaced; a measurement that counted it is void."""
        if place < self._settled:
            self.forget()

    def switch(self, budget: Budget) -> None:
        """Switch to another model's budget; its tokeniser differs too."""
        self.budget = budget
        self.factor = 1_000
        self.forget()


def _plain(messages: Sequence[Message]) -> int:
    return sum(map(estimate_message, messages))


class NarrativeWriter(Protocol):
    """A writer of handoffs: `struck` and `accepted` are the lines of the last one, the rejected with the reason."""

    struck: tuple[str, ...]
    accepted: tuple[str, ...]

    @property
    def available(self) -> bool:
        """Return whether it can write one now."""

    def new_turn(self) -> None:
        """Note a new prompt."""

    async def lines(self, messages: Sequence[Message], instruction: str, room: int) -> tuple[str, ...]:
        """Return a handoff of these messages of at most `room` tokens; `instruction` is what the user asked to keep."""
