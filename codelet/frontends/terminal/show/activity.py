"""The current activity as live rows: waiting, thinking, writing, tools, retries."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text

from codelet.events import Retry
from codelet.frontends.terminal.show.call_rows import RunningCall
from codelet.frontends.terminal.show.console import truncate, wrap_indented
from codelet.frontends.terminal.show.event_rows import EventRows
from codelet.frontends.terminal.show.numbers import duration
from codelet.frontends.terminal.show.style import ACCENT, MARGIN, QUIET, WARN, Signs

_MOST_ROWS = 3
"""Rows of output or thoughts."""
_SHORTEST = 0.95
_STALL_SECONDS = 5.0
"""After this time without data the row says so."""


class Activity:
    """The current activity. `clock` counts seconds; `hint` says how to stop."""

    def __init__(self, signs: Signs, clock: Callable[[], float], hint: str) -> None:
        self.thoughts = ""
        self.running: dict[str, RunningCall] = {}
        self.retry: Retry | None = None
        self.retry_at = 0.0
        self.stopping = False
        self._signs = signs
        self._clock = clock
        self._hint = hint
        self._doing = ""
        self._since = self._heard_at = 0.0

    def now(self, doing: str, *, anew: bool = False) -> None:
        """Start an activity. The same one keeps its clock, unless `anew`."""
        self.retry = None
        if anew or doing != self._doing:
            self._doing, self._since, self.thoughts = doing, self._clock(), ""

    def hear(self, doing: str) -> None:
        """Note that data arrived."""
        self.now(doing)
        self._heard_at = self._clock()

    def restart(self) -> None:
        """Restart the clocks of running calls, after a question."""
        for call in self.running.values():
            call.since = self._clock()

    def clear(self) -> None:
        self._doing, self.thoughts, self.retry, self.stopping = "", "", None, False
        self.running.clear()

    def rows(self, width: int) -> list[Text]:
        """Return the rows to draw."""
        signs, margin = self._signs, " " * MARGIN
        if self.stopping:
            return [Text(f"{signs.stopped} stopping", WARN)]
        if self.retry is not None:
            return [EventRows(width, signs).waiting(self.retry, self.retry_at - self._clock())]
        if calls := list(self.running.values()):
            titles = f" {signs.dot} ".join(call.title for call in calls)
            lines = next(filter(None, (call.lines(_MOST_ROWS) for call in reversed(calls))), [])
            output = [truncate(Text(margin + line, QUIET), width, signs.more) for line in lines]
            return [self._row(titles, min(call.since for call in calls), width), *output]
        thoughts = wrap_indented(Text(self.thoughts.strip(), "dim italic"), width, margin)
        newest = [row for row in thoughts if row.plain.strip()][-_MOST_ROWS:]
        return [self._row(self._doing, self._since, width), *newest] if self._doing else []

    def _row(self, doing: str, since: float, width: int) -> Text:
        """The activity with its time, or that no data arrives in an answer that has begun."""
        signs, seconds = self._signs, self._clock() - since
        silent = self._clock() - self._heard_at if doing in ("writing", "thinking") else 0.0
        is_stalled = silent >= _STALL_SECONDS
        time = f"no data for {duration(silent)}" if is_stalled else duration(seconds) if seconds >= _SHORTEST else ""
        tail = f" {signs.dot} ".join(part for part in (time, self._hint) if part)
        frame = signs.spinner[int(self._clock() * 10) % len(signs.spinner)]
        named = truncate(Text(doing), max(width - len(tail) - 6, 10), signs.more)
        return truncate(
            Text.assemble((f"{frame} ", ACCENT), named, (f" {signs.dot} {tail}", WARN if is_stalled else QUIET)),
            width,
            signs.more,
        )
