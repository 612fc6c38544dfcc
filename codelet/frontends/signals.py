"""A signal that ends codelet cancels a task, or the write that it waits in."""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from codelet.errors import SIGNALS

_LAST_WRITE_SECONDS = 2.0


class Stopper:
    """A signal cancels the task of the `with` block. `stopped` is the newest signal's exit status and word."""

    def __init__(self) -> None:
        self.stopped: tuple[int, str] | None = None
        self._task: asyncio.Task[object] | None = None
        self._writing = False

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        signal.signal(signal.SIGALRM, self._end_write)
        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._stop, number)
            # The loop does not run while a write to a full pipe waits for a reader: that write ends with an error.
            signal.signal(number, self._end_write)
            signal.siginterrupt(number, True)
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

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a signal end a write inside, which raises OSError; after a signal, a slow reader gets a short time."""
        self._writing = True
        if self.stopped is not None:
            signal.setitimer(signal.ITIMER_REAL, _LAST_WRITE_SECONDS)
        try:
            yield
        finally:
            self._writing = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _stop(self, number: signal.Signals) -> None:
        self.stopped = SIGNALS[number]
        if self._task is not None:
            self._task.cancel()

    def _end_write(self, number: int, _: object) -> None:
        self.stopped = SIGNALS.get(signal.Signals(number), self.stopped)
        if self._writing:
            self._writing = False
            raise OSError(errno.ECANCELED, "the reader does not read")  # a write that EINTR ends is begun again
