"""Waits for what happens, and time as another process sees it: nothing here fails because the machine is busy."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

from tests.support.program import processor_seconds

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds after which a wait counts as a hang: many times what anything takes on the busiest machine."""

_QUIET = 4
"""How many looks in a row must find a process waiting until it counts as at rest."""


def until(
    happened: Callable[[], T],
    what: str = "it",
    meanwhile: Callable[[], object] | None = None,
    seen: Callable[[], str] = str,
) -> T:
    """Wait until a condition holds and return its value; `meanwhile` is done between two looks, as reading a screen.

    `seen` tells what there is where it does not happen.
    """
    end = time.monotonic() + PATIENCE
    while not (value := happened()):
        assert time.monotonic() < end, f"{what} did not happen within {PATIENCE:.0f} s{seen()}"
        if meanwhile is None:
            time.sleep(0.01)
        else:
            meanwhile()
    return value


async def happens(happened: Callable[[], T], what: str = "it") -> T:
    """The same for a test that runs in an event loop."""
    end = time.monotonic() + PATIENCE
    while not (value := happened()):
        assert time.monotonic() < end, f"{what} did not happen within {PATIENCE:.0f} s"
        await asyncio.sleep(0.005)
    return value


def at_rest(pid: int) -> None:
    """Wait until a process has taken in all that it was sent, and waits for more.

    All of its threads sleep and it uses no processor time over several looks: one that the machine keeps waiting is not
    asleep but ready to run.
    """
    quiet, used = 0, -1.0

    def resting() -> bool:
        nonlocal quiet, used
        now = processor_seconds(pid)
        still = now == used and all(state == "S" for state in thread_states(pid))
        quiet, used = (quiet + 1 if still else 0), now
        return quiet >= _QUIET

    until(resting, f"the rest of process {pid}", lambda: time.sleep(0.02))


def thread_states(pid: int) -> list[str]:
    """The state letter of each thread of a process."""
    found = []
    for entry in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # a thread may have ended
            found.append((entry / "stat").read_text().rpartition(")")[2].split()[0])
    return found


# Each beat is 7 ms asleep and 3 ms of work: on a busy machine it waits for its turn as what it is compared with does.
_BEATS = """
import select, time
print("ready", flush=True)
beats = 0
while not select.select([0], [], [], 0.007)[0]:
    begun = time.process_time()
    while time.process_time() - begun < 0.003:
        pass
    beats += 1
print(beats)
"""


class Neighbour:
    """Time beside another process, which sleeps and works by turns. A context manager.

    `passed` are the seconds that the neighbour counted meanwhile: on an idle machine those of the clock, on a busy one
    fewer. Bounds from above are put on it. `waited` are those of the clock, for bounds from below.
    """

    passed: float
    waited: float

    def __enter__(self) -> Self:
        words = [sys.executable, "-I", "-S", "-c", _BEATS]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self._begun = time.monotonic()
        return self

    def __exit__(self, *exception: object) -> None:
        self.waited = time.monotonic() - self._begun
        counted, _ = self._process.communicate()
        self.passed = int(counted) / 100


class Work:
    """Processor time, in seconds, of this process and of the children that ended meanwhile. A context manager."""

    seconds: float

    def __enter__(self) -> Self:
        self._begun = sum(os.times()[:4])
        return self

    def __exit__(self, *exception: object) -> None:
        self.seconds = sum(os.times()[:4]) - self._begun
