"""The REPL's export: the live one, and a bounded log of events for a later /export."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from codelet import events

if TYPE_CHECKING:
    from codelet.export.document import Document
    from codelet.frontends.exporting import Exporting

_MOST_MARKS = 5_000
"""The size of an export's timeline."""


class ExportLog:
    """`export` saves live, if set. `carried` is the snapshot that the session continues. `raw` masks nothing."""

    def __init__(self, export: Exporting | None = None, *, raw: bool = False) -> None:
        self.export = export
        self.raw = raw
        self.exported = 0
        """The session's turns at the last /export."""
        self.carried = export.carried if export is not None else None
        self._turn = self._turns_carried()
        self._marks: deque[tuple[float, int, events.Event]] = deque(maxlen=_MOST_MARKS)
        self._results: Counter[tuple[str, events.ResultStatus]] = Counter()

    def see(self, event: events.Event) -> None:
        """Log an event, and save it if there is a live export."""
        if self.export is not None:
            self.export.see(event)
        match event:
            case events.TurnStart():
                self._turn = event.turn
            case events.Steering():
                self._turn += 1
            case events.UsageReport():
                self._marks.append((time.time(), self._turn, event))
            case events.Compaction(phase="done"):
                bare = events.Compaction(phase="done", reason=event.reason, before=event.before, after=event.after)
                self._marks.append((time.time(), self._turn, bare))
            case events.ToolResult():
                self._results[event.name, event.status] += 1

    def logged(self) -> Iterator[tuple[float, events.Event]]:
        """The logged events with their times; tool results are only counted."""
        for (name, status), count in self._results.items():
            for _ in range(count):
                yield 0.0, events.ToolResult(id="", name=name, status=status, text="")
        for moment, turn, event in self._marks:
            yield moment, events.TurnStart(turn, "")
            yield moment, event

    def _turns_carried(self) -> int:
        return 0 if self.carried is None else self.carried.token_usage["turns"]

    def save(self) -> None:
        """Schedule a save."""
        if self.export is not None:
            self.export.save()

    def notices(self) -> list[str]:
        """Remove and return lines for the user."""
        return self.export.notices.take() if self.export is not None else []

    def replaced_by(self, snapshot: Document) -> None:
        """Continue from an imported snapshot."""
        self.carried = snapshot
        self._turn = self._turns_carried()
        self._marks.clear()
        self._results.clear()
        if self.export is not None:
            self.export.carry(snapshot)

    @property
    def welcome(self) -> str:
        """The resumed session, in one line."""
        return self.export.welcome if self.export is not None else ""

    @property
    def unfinished(self) -> bool:
        """Whether `continue` has a resumed turn."""
        return self.export is not None and self.export.unfinished
