"""The cache watch: what the provider's prompt cache should have given, and why it did not."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from operator import is_

from codelet.messages import Message
from codelet.reminders import zones
from codelet.tokens.usage import Usage

_LEAST_PREFIX = 2_000
_LIFETIME = 300.0


class CacheWatch:
    """Compares each request with the one before. `hits` and `total` sum up cached and all input tokens."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.hits = 0
        self.total = 0
        self._clock = clock
        self._messages: list[Message] = []
        self._expected = 0
        self._at = 0.0
        self._works = False
        self._why: str | None = None

    def explain_next(self, why: str) -> None:
        """Name what is about to change the prefix: a compaction, another model."""
        self._why = why

    def observe(self, messages: Sequence[Message], usage: Usage, estimate: Callable[[Message], int]) -> str | None:
        """Take in a request (its stable messages) and its usage; a sentence where the cache gave too little."""
        self.hits += usage.cache_read
        self.total += usage.total_input
        same = list(map(is_, self._messages, messages))
        common = same.index(False) if False in same else len(same)
        before, now = self._messages, self._clock()
        waited, self._at = now - self._at, now
        self._messages = list(messages)
        why, self._why = self._why, None
        worked, self._works = self._works, self._works or usage.cache_read > 0
        expected, known = self._expected, common if common == len(before) else 0
        self._expected = (expected if known else 0) + sum(map(estimate, messages[known:]))
        if not worked or expected < _LEAST_PREFIX or 2 * usage.cache_read >= expected:
            return None
        reason = why or _reason(before, common, waited)
        return f"the cache gave {usage.cache_read:,} of about {expected:,} tokens: {reason}"


def _reason(before: Sequence[Message], common: int, waited: float) -> str:
    if common < len(before):
        kind = zones.kind_of(before[common])
        what = f"the reminder {kind}" if kind else f"the {before[common]['role']} message"
        return f"{what} at {common} changed"
    if waited > _LIFETIME:
        return f"it had {waited / 60:.0f} minutes to expire"
    return "the prefix is the same; the provider did not keep it"
