"""The current activity as live rows: waiting, thinking, writing, tools, retries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rich.text import Text

from codelet.events import Retry
from codelet.frontends.terminal.show.call_rows import RunningCall
from codelet.frontends.terminal.show.console import truncate, wrap
from codelet.frontends.terminal.show.event_rows import EventRows
from codelet.frontends.terminal.show.numbers import duration
from codelet.frontends.terminal.show.style import ACCENT, MARGIN, QUIET, WARN, Signs

_PROGRESS_ROWS = 3
_THOUGHT_ROWS = 3
_SHORTEST = 0.95
_STALL_SECONDS = 5.0
"""After this time without data the row says so."""


@dataclass
class Activity:
    """The current activity. `clock` counts seconds; `hint` says how to stop."""

    signs: Signs
    clock: Callable[[], float]
    hint: str = ""
    doing: str = ""
    since: float = 0.0
    thoughts: str = ""
    running: dict[str, RunningCall] = field(default_factory=dict)
    heard_at: float = 0.0
    retry: Retry | None = None
    retry_at: float = 0.0
    stopping: bool = False

    def now(self, doing: str, *, anew: bool = False) -> None:
        """Start an activity. The same one keeps its clock, unless `anew`."""
        self.retry = None
        if anew or doing != self.doing:
            self.doing, self.since, self.thoughts = doing, self.clock(), ""

    def hear(self, doing: str) -> None:
        """Note that data arrived."""
        self.now(doing)
        self.heard_at = self.clock()

    def restart(self) -> None:
        """Restart the clocks of running calls, after a question."""
        for call in self.running.values():
            call.since = self.clock()

    def clear(self) -> None:
        self.doing, self.thoughts, self.retry, self.stopping = "", "", None, False
        self.running.clear()

    def rows(self, width: int) -> list[Text]:
        """Return the rows to draw."""
        if self.stopping:
            return [Text(f"{self.signs.stopped} stopping", WARN)]
        if self.retry is not None:
            return [EventRows(width, self.signs).waiting(self.retry, self.retry_at - self.clock())]
        if self.running:
            return self._running_rows(width)
        if not self.doing:
            return []
        return [self._row(self.doing, self.since, width, self._silence()), *self._thought_rows(width)]

    def _silence(self) -> float:
        """Seconds without data in an answer that has begun; 0 if too short to show."""
        silent = self.clock() - self.heard_at if self.doing in ("writing", "thinking") else 0.0
        return silent if silent >= _STALL_SECONDS else 0.0

    def _thought_rows(self, width: int) -> list[Text]:
        """The end of the streaming reasoning."""
        if not self.thoughts.strip():
            return []
        rows = wrap(Text(self.thoughts.strip(), "dim italic"), width - MARGIN)
        return [Text.assemble(" " * MARGIN, row) for row in rows if row.plain.strip()][-_THOUGHT_ROWS:]

    def _row(self, doing: str, since: float, width: int, silent: float = 0.0) -> Text:
        seconds = self.clock() - since
        frame = self.signs.spinner[int(self.clock() * 10) % len(self.signs.spinner)]
        words = f"no data for {duration(silent)}" if silent else duration(seconds) if seconds >= _SHORTEST else ""
        tail = f" {self.signs.dot} ".join(part for part in (words, self.hint) if part)
        room = max(width - len(tail) - 6, 10)
        row = Text(f"{frame} ", ACCENT)
        row.append_text(truncate(Text(doing), room, self.signs.more))
        row.append(f" {self.signs.dot} {tail}", WARN if silent else QUIET)
        return truncate(row, width, self.signs.more)

    def _running_rows(self, width: int) -> list[Text]:
        calls = list(self.running.values())
        titles = f" {self.signs.dot} ".join(call.title for call in calls)
        rows = [self._row(titles, min(call.since for call in calls), width)]
        output = next((call.output for call in reversed(calls) if call.output.strip()), "")
        lines = [line for line in output.split("\n") if line.strip()][-_PROGRESS_ROWS:]
        return rows + [truncate(Text(" " * MARGIN + line, QUIET), width, self.signs.more) for line in lines]
