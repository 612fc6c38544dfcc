"""What a run is doing at a moment, as its server, its children, its files and its own events or rows tell it.

The program stands still while it is looked at (SIGSTOP), so that what is seen is what goes on when it goes on.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from codelet.context.narrative import INSTRUCTION
from tests.support.program import processes_with
from tests.support.server import ModelServer, Recorded
from tests.support.waiting import thread_states, until

REQUEST = "request under way"
STREAM = "mid-stream"
RETRY = "wait to send again"
TOOL = "tool running"
QUESTION = "question open"
COMPACTION = "compaction"
NARRATIVE = "compaction, the model telling"
SAVE = "save"
IDLE = "idle"
START = "before the first request"
END = "after the end"
ELSE = "anything else"


def asks_for_narrative(request: Recorded) -> bool:
    """Whether the model is asked what a conversation decided, for a compaction."""
    return INSTRUCTION.encode() in request.body


class Moments:
    """Looks at one run at a time: its requests since `begin`, children that bear `mark`, saves of `target`."""

    def __init__(self, server: ModelServer, target: Path, mark: str) -> None:
        self.hits: Counter[str] = Counter()
        self.count = 0
        self._server = server
        self._target = target
        self._mark = mark
        self._first = 0

    def begin(self) -> None:
        """A run, or a turn, begins."""
        self._first = len(self._server.requests)

    def under_way(self) -> set[str]:
        """What goes on now, as far as it is seen from outside; often several things at once."""
        if len(self._server.requests) == self._first:
            return {START}
        return {kind for kind in (REQUEST, STREAM, NARRATIVE, TOOL, SAVE) if self.goes_on(kind)}

    def goes_on(self, kind: str) -> bool:
        """Whether one of these goes on."""
        if kind == TOOL:
            return bool(processes_with(self._mark))
        if kind == SAVE:
            return any(self._target.parent.glob(f".{self._target.name}.*.tmp"))
        asked = self._server.requests[self._first :]
        return kind in {_kind(each) for each in asked if not each.done.is_set() and not each.gone.is_set()}

    def aim(self, chance: random.Random, kinds: Sequence[str]) -> str | None:
        """What the next interrupt is to fall into: for every second one nothing, else what was hit the least."""
        if chance.random() < 0.5:
            return None
        least = min(self.hits[kind] for kind in kinds)
        return chance.choice([kind for kind in kinds if self.hits[kind] == least])

    def hit(self, kinds: set[str]) -> None:
        """An interrupt fell into these."""
        self.count += 1
        self.hits.update(kinds or {ELSE})

    def table(self, title: str) -> str:
        """How many interrupts fell into what."""
        rows = [f"  {kind:<30}{number:>4}" for kind, number in self.hits.most_common()]
        return "\n".join([f"{title}: {self.count} interrupts, each in one or more of", *rows])


def _kind(request: Recorded) -> str:
    if asks_for_narrative(request):
        return NARRATIVE
    return STREAM if request.started.is_set() else REQUEST


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    """Hold a process while it is looked at; what it is sent meanwhile it finds when it goes on."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        until(lambda: all(state in "tTZX" for state in thread_states(pid)), f"process {pid} standing still")
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def wait_into(goes_on: Callable[[], bool], wait: Callable[[float], bool], *, most: float, further: float) -> None:
    """Wait until something goes on, at the most so many seconds, then `further` seconds, in which it may end.

    `wait` waits so many seconds and says whether the program still runs.
    """
    for left in slices(most, 0.002):
        if goes_on() or not wait(left):
            break
    for left in slices(further, 0.01):
        if not wait(left):
            break


def slices(seconds: float, longest: float) -> Iterator[float]:
    """What is left to wait, at most `longest` at a time, until the time is over."""
    end = time.monotonic() + seconds  # clock: a moment of the run
    while (left := end - time.monotonic()) > 0:  # clock: a moment of the run
        yield min(left, longest)
