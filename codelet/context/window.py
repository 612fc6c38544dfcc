"""The context window: how full it is, by reported usage and an estimate; and how much came from the prompt cache."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from operator import is_
from typing import TYPE_CHECKING, Protocol

from codelet.context.tokens import Estimator, estimate_length, estimate_message
from codelet.context.tokens.budget import Budget, effective_tokens
from codelet.messages import AnyMessage, Message, reminder_type
from codelet.record import Record
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.conversation import Parts

CACHE_LIFETIME = 300.0
"""Seconds after which a provider's prompt cache counts as gone."""

_LEAST_DOUBTED = 4_000
"""Tokens below which a report is taken as it is: so short a list fits any window, whoever is right."""


class Measurement(Record):
    """What a window knew of a list: the last usage and when it was reported, and what was counted since."""

    budget: Budget
    last: Usage | None
    reported_at: float
    counted: tuple[int, int]


class ContextWindow:
    """Measures one message list. `fixed` is the plain estimate of system prompt and tools in tokens.

    What is new is estimated, the rest is what the provider reported; each report calibrates the estimate. A message
    is counted once, when it is settled: a measurement costs what the new messages cost, whatever the list's length.
    A report under a third of the estimate is not believed: some gateways leave the cached part out, and a list that
    seems small for ever would never be compacted.
    `at` is the % of the budget at which the user compacts, if that was set.
    """

    def __init__(self, budget: Budget, fixed: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.budget = budget
        self.at: int | None = None
        self.fixed = fixed
        self._clock = clock
        self._estimator = Estimator()
        self._last: Usage | None = None
        self._reported_at = 0.0
        self._settled = 0
        self._since = 0
        self._whole = 0

    @property
    def cold(self) -> bool:
        """Return whether the provider's cache holds nothing of the list: rewritten, another model, or too long ago."""
        return self._last is None or self._clock() - self._reported_at > CACHE_LIFETIME

    def estimate(self, message: AnyMessage) -> int:
        """The size of a message in tokens, calibrated."""
        return self._estimator.message(message)

    def estimate_length(self, length: int) -> int:
        """The size of a message of so many characters in tokens, calibrated."""
        return self._estimator.scaled(estimate_length(length))

    def characters(self, tokens: int) -> int:
        """About how many characters so many tokens have, calibrated."""
        return self._estimator.characters(tokens)

    @property
    def fixed_size(self) -> int:
        """System prompt and tools in tokens, calibrated."""
        return self._estimator.scaled(self.fixed)

    def beside(self, parts: Parts) -> int:
        """Return what stands beside the conversation in tokens: system prompt, tools and reminders."""
        return self.fixed_size + sum(map(self.estimate, [*parts.head, *parts.tail]))

    def size(self, parts: Parts) -> int:
        """P: real tokens of the next request."""
        new = self._since + _plain(parts.messages[self._settled :])
        # The last tail is part of what was reported.
        beside = 0 if self._last is not None else self.fixed + _plain(parts.tail)
        known = self._last.total if self._last is not None else 0
        return known + self._estimator.scaled(beside + new)

    def rewritten(self, parts: Parts) -> int:
        """P of the next request if the list were `parts`: estimated, as no report counts then."""
        return self._estimator.scaled(self.fixed + _plain(parts.messages) + _plain(parts.tail))

    def measurement(self) -> Measurement:
        """Return what is known of the list now, to be put back by `restore` if the very same list stands again."""
        return Measurement(self.budget, self._last, self._reported_at, (self._settled, self._since))

    def restore(self, known: Measurement) -> None:
        """Restore what was known, as that very list stands again; another model's measurement counts for nothing."""
        self.forget()
        if known.budget is self.budget:
            self._last, self._reported_at = known.last, known.reported_at
            self._settled, self._since = known.counted

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

        Returns a sentence if the report is not believed and that matters.
        """
        self._settle(parts.messages, answered)
        beside = self.fixed + _plain(parts.tail)
        sent = beside + self._whole - _plain(parts.messages[answered - 1 : answered])
        if usage.total < 1 or (sent >= _LEAST_DOUBTED and 3 * usage.total_input < sent):
            told = f"the provider counts {usage.total_input:,} tokens where about {sent:,} were sent"
            return told if sent >= _LEAST_DOUBTED else None
        known, plain = (self._last.total, self._since) if self._last is not None else (0, self._since + beside)
        self._estimator.calibrate(plain, usage.total - known)
        self._last, self._reported_at = usage, self._clock()
        self._since = 0
        return None

    def list_changed(self, why: str, *, body: bool) -> None:
        """What was measured of the list is void: only estimates are left, and the cache is cold."""
        self.forget()

    def forget(self) -> None:
        """Void what was measured."""
        self._last, self._settled, self._since, self._whole = None, 0, 0, 0

    def replaced(self, place: int) -> None:
        """Another message stands at `place` now: if the old one was measured, that is void."""
        if place < self._settled:
            self.forget()

    def switch(self, budget: Budget) -> None:
        """Another model reads the list: another budget, and another tokeniser."""
        self.budget = budget
        self._estimator = Estimator()
        self.forget()


def _plain(messages: Sequence[Message]) -> int:
    return sum(map(estimate_message, messages))


_LEAST_PREFIX = 2_000


class CacheWatch:
    """Compares each request with the one before. `hits` and `total` sum up cached and all input tokens."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.hits = 0
        self.total = 0
        self._clock = clock
        self._messages: list[Message] = []
        self._at = 0.0
        self._expected = 0
        self._works = False
        self._switched = False
        self._why: str | None = None

    def list_changed(self, why: str, *, body: bool) -> None:
        """The prefix changed, by a compaction for example; if `why` is empty, the messages tell what changed."""
        if why:
            self._why = why

    def switched(self) -> None:
        """Another model reads the list; whether its provider keeps a cache is not known yet."""
        self._switched = True
        self._why = "another model was chosen"

    def observe(self, messages: Sequence[Message], usage: Usage, volatile: int) -> str | None:
        """Take in a request (its stable messages) and its usage; return a sentence if the cache gave too little.

        `volatile` is the size in tokens of what stood behind the stable messages: the next request should find all
        but that in the cache.
        """
        self.hits += usage.cache_read
        self.total += usage.total_input
        now = self._clock()
        before, expected, worked, waited = self._messages, self._expected, self._works, now - self._at
        why, self._why = self._why, None
        self._messages, self._at = list(messages), now
        self._expected = max(0, usage.total_input - volatile)
        self._works = usage.cache_read > 0 or (worked and not self._switched)
        self._switched = False
        if not worked or expected < _LEAST_PREFIX or 2 * usage.cache_read >= expected:
            return None
        reason = _reason(before, messages, why, waited)
        return f"the cache gave {usage.cache_read:,} of about {expected:,} tokens: {reason}"


def _reason(before: Sequence[Message], now: Sequence[Message], why: str | None, waited: float) -> str:
    same = list(map(is_, before, now))
    place = same.index(False) if False in same else len(same)
    if place < len(before):
        kind = reminder_type(before[place])
        what = f"the reminder {kind}" if kind else f"the {before[place]['role']} message"
        return f"{what} at {place} changed{f', as {why}' if why else ''}"
    if why is not None:
        return why
    if waited > CACHE_LIFETIME:
        return f"it had {waited / 60:.0f} minutes to expire"
    return "the prefix is the same; the provider did not keep it"


# A compaction is near from this share of its trigger on, while usage rises.
_NEAR_PERCENT = 80
_RISES = 3


class Growth:
    """The sizes of the last requests, in tokens: whether a compaction is near."""

    def __init__(self) -> None:
        self._sizes: deque[int] = deque(maxlen=_RISES)

    def nears(self, size: int, trigger: int) -> bool:
        """Count a request of this size: whether it is close to the trigger, and larger than the two before."""
        self._sizes.append(size)
        sizes = list(self._sizes)
        return len(sizes) == _RISES and sizes == sorted(set(sizes)) and 100 * size >= _NEAR_PERCENT * trigger


class NarrativeWriter(Protocol):
    """Who tells what a conversation decided, in lines that were checked, or in none."""

    def new_turn(self) -> None:
        """A user's prompt came in."""

    @property
    def available(self) -> bool:
        """Return whether it may be asked now."""

    @property
    def struck(self) -> tuple[str, ...]:
        """Return what of its last lines was not kept, each with the reason."""

    @property
    def accepted(self) -> tuple[str, ...]:
        """The lines of its last handoff that were kept."""

    def begin(self, messages: Sequence[Message]) -> None:
        """A compaction is near: begin ahead."""

    async def lines(self, messages: Sequence[Message], instruction: str, room: int) -> tuple[str, ...]:
        """Lines on these messages of at most `room` tokens, with what the user wants kept."""
