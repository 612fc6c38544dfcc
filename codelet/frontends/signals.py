"""A signal that ends codelet cancels a task."""

from __future__ import annotations

import asyncio
import signal
from typing import Self

from codelet.errors import SIGNALS


class Stopper:
    """A signal cancels the task of the `with` block. `stopped` is the newest signal's exit status and word."""

    def __init__(self) -> None:
        self.stopped: tuple[int, str] | None = None
        self._task: asyncio.Task[object] | None = None

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._stop, number)
        return self

    def __exit__(self, *_: object) -> None:
        for number in SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    def take_back(self) -> tuple[int, str]:
        """Return `stopped` and undo the cancel. Without a signal it raises CancelledError again."""
        if self.stopped is None or self._task is None:
            raise asyncio.CancelledError
        while self._task.uncancel():
            pass
        return self.stopped

    def _stop(self, number: signal.Signals) -> None:
        self.stopped = SIGNALS[number]
        if self._task is not None:
            self._task.cancel()
