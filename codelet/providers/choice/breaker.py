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
    """Counts a provider's failures. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.failures = 0
        self._clock = clock
        self._opened: float | None = None
        self._probing = False

    @property
    def state(self) -> CircuitState:
        """Closed: requests pass. Open: none does. Probing: one is under way that decides."""
        if self._opened is None:
            return "closed"
        return "probing" if self._probing else "open"

    @property
    def wait(self) -> float:
        """Seconds until the next request may pass."""
        return 0.0 if self._opened is None else max(0.0, self._opened + PAUSE - self._clock())

    def admits(self) -> bool:
        """Return whether a request may be sent now; with an open circuit it is the probe."""
        if self._opened is None:
            return True
        if self._probing or self.wait > 0:
            return False
        self._probing = True
        return True

    def failed(self, *, for_good: bool = False) -> None:
        """An attempt failed; `for_good`: retries will not help."""
        self.failures += 1
        if self._probing or for_good or self.failures >= FAILURES:
            self._opened, self._probing = self._clock(), False

    def worked(self) -> None:
        """It answered."""
        self.failures, self._opened, self._probing = 0, None, False

    def abandoned(self) -> None:
        """The probe was stopped without a result: the next request is one."""
        self._probing = False
