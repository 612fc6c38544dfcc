"""A circuit breaker for one provider: after failures in a row it is not asked for a while, then once, as a probe."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

FAILURES = 3
"""So many failures in a row open the circuit."""

PAUSE = 30.0
"""Seconds for which an open circuit lets nothing through; then one probe."""

CircuitState = Literal["closed", "open", "probing"]


class CircuitBreaker:
    """Counts the failures of one provider. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.failures = 0
        self._clock = clock
        self._opened: float | None = None
        self._probing = False

    @property
    def state(self) -> CircuitState:
        """Closed: it is asked. Open: it is not. Probing: one request is under way that decides."""
        if self._opened is None:
            return "closed"
        return "probing" if self._probing else "open"

    @property
    def wait(self) -> float:
        """Seconds until it may be asked."""
        return 0.0 if self._opened is None else max(0.0, self._opened + PAUSE - self._clock())

    def admits(self) -> bool:
        """Return whether a request may be sent now; where the circuit is open, this one is the probe."""
        if self._opened is None:
            return True
        if self._probing or self.wait > 0:
            return False
        self._probing = True
        return True

    def failed(self, *, for_good: bool = False) -> None:
        """An attempt failed; `for_good`: no other one soon can do better."""
        self.failures += 1
        if self._probing or for_good or self.failures >= FAILURES:
            self._opened, self._probing = self._clock(), False

    def worked(self) -> None:
        """It answered."""
        self.failures, self._opened, self._probing = 0, None, False

    def abandoned(self) -> None:
        """The probe was stopped before it told anything: the next request is one."""
        self._probing = False
