"""The cache watch: what the provider's prompt cache should have given, and why it did not."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from operator import is_

from codelet.context.gauge import CACHE_LIFETIME
from codelet.messages import Message, reminder_type
from codelet.tokens.usage import Usage

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
        """Something changed the prefix, such as a compaction; an empty `why` means that the messages tell what."""
        if why:
            self._why = why

    def switched(self) -> None:
        """Another model reads the list; whether its provider keeps a cache is not known yet."""
        self._switched = True
        self._why = "another model was chosen"

    def observe(self, messages: Sequence[Message], usage: Usage, volatile: int) -> str | None:
        """Take in a request (its stable messages) and its usage; a sentence where the cache gave too little.

        `volatile` is the size in tokens of what stood behind the stable messages. What the next request should find
        in the cache is what this one sent without it.
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
