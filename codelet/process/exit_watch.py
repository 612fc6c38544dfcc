"""Tells the event loop that a child has exited. Used by `child` and `service`."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable

_POLL = 0.01


class ExitWatch:
    """Calls `exited` once, when the process has exited: through a pidfd, or by asking where there is none.

    The process is not reaped. `close` must be reached on every way out.
    """

    def __init__(self, process: subprocess.Popen[bytes], exited: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._exited = exited
        self._pidfd = -1
        self._timer: asyncio.TimerHandle | None = None
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except (AttributeError, OSError):
            self._ask()
        else:
            self._loop.add_reader(self._pidfd, self._tell)

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
        if self._pidfd >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _tell(self) -> None:
        self._loop.remove_reader(self._pidfd)
        self._exited()

    def _ask(self) -> None:
        if self._process.poll() is not None:
            self._exited()
        else:
            self._timer = self._loop.call_later(_POLL, self._ask)
