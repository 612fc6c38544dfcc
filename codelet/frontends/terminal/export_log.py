"""The export of a REPL: the one that is saved along, and what is logged of events for one that is asked for later."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from codelet import events
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.export.document import Document
    from codelet.frontends.exporting import Exporting

_MOST_MARKS = 5_000
"""As many as the timeline of an export holds."""


class _Step(NamedTuple):
    """What an export tells of a request. Numbers alone: an event takes five times the memory."""

    moment: float
    turn: int
    total_input: int
    cache_read: int
    cache_write: int
    output: int
    context: int
    window: int
    budget: int

    def event(self) -> events.Event:
        usage = Usage(
            total_input=self.total_input,
            cache_read=self.cache_read,
            cache_write=self.cache_write,
            output=self.output,
        )
        return events.UsageReport(usage=usage, context=self.context, window=self.window, budget=self.budget)


class _Compaction(NamedTuple):
    """A compaction that was done, and the turn that it was done in."""

    moment: float
    turn: int
    done: events.Compaction

    def event(self) -> events.Event:
        return self.done


class ExportLog:
    """`export` saves along, if there is one; what leaves no trace in the list is logged, within a bound.

    `carried` is the snapshot that it follows upon. `raw` masks nothing in what is saved.
    """

    def __init__(self, export: Exporting | None = None, *, raw: bool = False) -> None:
        self.export = export
        self.raw = raw
        self.carried = export.carried if export is not None else None
        self._turn = self._turns_carried()
        self._marks: deque[_Step | _Compaction] = deque(maxlen=_MOST_MARKS)
        self._results: Counter[tuple[str, events.ResultStatus]] = Counter()

    def see(self, event: events.Event) -> None:
        """Take in an event of a turn: save on the way, and log what leaves no trace in the list."""
        if self.export is not None:
            self.export.see(event)
        match event:
            case events.TurnStart():
                self._turn = event.turn
            case events.Steering():
                self._turn += 1
            case events.UsageReport(usage=usage):
                self._marks.append(
                    _Step(
                        time.time(), self._turn, usage.total_input, usage.cache_read, usage.cache_write, usage.output,
                        event.context, event.window, event.budget,
                    )
                )  # fmt: skip
            case events.Compaction(phase="done"):
                bare = events.Compaction(phase="done", reason=event.reason, before=event.before, after=event.after)
                self._marks.append(_Compaction(time.time(), self._turn, bare))
            case events.ToolResult():
                self._results[event.name, event.status] += 1

    def logged(self) -> Iterator[tuple[float, events.Event]]:
        """The events as far as an export tells of them, with their times; of tool results it tells the number alone."""
        for (name, status), count in self._results.items():
            for _ in range(count):
                yield 0.0, events.ToolResult(id="", name=name, status=status, text="")
        for mark in self._marks:
            yield mark.moment, events.TurnStart(mark.turn, "")
            yield mark.moment, mark.event()

    def _turns_carried(self) -> int:
        return 0 if self.carried is None else self.carried.token_usage["turns"]

    def save(self) -> None:
        """Save soon: a turn or a command may have changed the session."""
        if self.export is not None:
            self.export.save()

    def notices(self) -> list[str]:
        """Lines for the user, each given once."""
        return self.export.notices.take() if self.export is not None else []

    def replaced_by(self, snapshot: Document) -> None:
        """The session goes on from an imported snapshot."""
        self.carried = snapshot
        self._turn = self._turns_carried()
        self._marks.clear()
        self._results.clear()
        if self.export is not None:
            self.export.carry(snapshot)

    @property
    def welcome(self) -> str:
        """What was resumed, in one line, or nothing."""
        return self.export.welcome if self.export is not None else ""

    @property
    def unfinished(self) -> bool:
        """Whether a resumed turn is there for `continue`."""
        return self.export is not None and self.export.unfinished
