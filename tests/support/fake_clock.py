"""An event loop whose clock jumps over every wait: what takes minutes is over at once, and its length is known."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class FakeClock(asyncio.SelectorEventLoop):
    """The loop. `time()` is the seconds that would have passed; whatever waits for no time at all is done as ever."""

    def __init__(self) -> None:
        self._passed = 0.0
        selector = _Jumping(self)
        super().__init__(selector)

    def time(self) -> float:
        """The seconds that would have passed."""
        return self._passed

    def jump(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self._passed += seconds


class _Jumping(selectors.SelectSelector):
    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout:
            self._clock.jump(timeout)
        return ready


def timed(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """What the work gives, and how many seconds it would have taken."""
    loop = FakeClock()
    try:
        result = loop.run_until_complete(work)
        return result, loop.time()
    finally:
        loop.close()
