"""A provider's circuit breaker: after failures in a row it pauses, then lets one request through as a probe."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

FAILURES = 3
"""Failures in a row that open the circuit."""

PAUSE = 30.0
"""Seconds for which an open circuit blocks requests, before one probe."""

CircuitState = Literal["closed", "open", "probing"]


class CircuitBreaker:
    """Counts a provider's failures. `clock` gives seconds.

    Its `state` is closed: requests pass. Open: none does. Probing: one is under way that decides.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.failures = 0
        self.state: CircuitState = "closed"
        self._clock = clock
        self._opened = 0.0

    @property
    def wait(self) -> float:
        """Seconds until the next request may pass."""
        return 0.0 if self.state == "closed" else max(0.0, self._opened + PAUSE - self._clock())

    def admits(self) -> bool:
        """Return whether a request can be sent now; with an open circuit it is the probe."""
        if self.state == "open" and self.wait == 0.0:
            self.state = "probing"
            return True
        return self.state == "closed"

    def failed(self, *, for_good: bool = False) -> None:
        """An attempt failed; `for_good`: retries will not help."""
        self.failures += 1
        if self.state == "probing" or for_good or self.failures >= FAILURES:
            self.state, self._opened = "open", self._clock()

    def worked(self) -> None:
        self.failures, self.state = 0, "closed"

    def abandoned(self) -> None:
        """The probe was stopped without a result: the next request is one."""
        self.state = "open" if self.state == "probing" else self.state
