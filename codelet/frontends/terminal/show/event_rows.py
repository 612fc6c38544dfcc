"""The rows of events: retries, notes, compactions, interruptions, a turn's end; and of the current activity."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rich.text import Text

from codelet.context.tokens.budget import percent_of
from codelet.events import Compaction, Interrupted, Retry, TurnEnd, UsageReport
from codelet.frontends.terminal.show.call_rows import RunningCall
from codelet.frontends.terminal.show.console import truncate, wrap, wrap_behind_sign, wrap_indented
from codelet.frontends.terminal.show.numbers import duration, next_request, plural, tokens
from codelet.frontends.terminal.show.style import ACCENT, BAD, MARGIN, QUIET, SPINNER, TEXT_COLUMNS, WARN
from codelet.outcome import unread
from codelet.record import Record
from codelet.system.text import clean, one_line

_LONGEST_REASON = 400
_SHORTEST = 0.95
"""The shortest time shown, in seconds."""
_LAST = 5
"""Lines of a stopped call's output that stay visible."""
_LOST_NAMED = 8
_MOST_ROWS = 3
"""Rows of the output or the thoughts of an activity."""
_STALL_SECONDS = 5.0
"""After this time without data the row says so."""
_REASONS = {
    "hard": "the budget is nearly used",
    "cost": "the budget is nearly used (cached tokens count a tenth)",
    "entries": "the history has too many entries",
    "asked": "as you asked",
    "entry": "a text is too large",
    "overflow": "the provider said that the prompt is too long",
}


class EventRows(Record):
    """Makes rows for a screen of `width` columns."""

    width: int

    def note(self, text: str) -> list[Text]:
        """A notice."""
        return wrap_behind_sign(Text(f"· {text}", QUIET), self.width)

    def warning(self, text: str, style: str = WARN) -> list[Text]:
        """A warning or an error."""
        return wrap_behind_sign(Text.assemble(("✗ ", style), text), self.width)

    def _indented(self, text: str, style: str = QUIET) -> list[Text]:
        return wrap_indented(Text(text, style), self.width, " " * MARGIN)

    def _line(self, *parts: str | tuple[str, str]) -> Text:
        return truncate(Text.assemble(*parts), self.width)

    def retry(self, event: Retry, *, again: bool = False) -> list[Text]:
        """A failed request, its reason unless it is the same again, and the time of the retry."""
        reason = "the same again" if again else one_line(event.reason, _LONGEST_REASON)
        row, tail = Text.assemble(("↻ ", WARN), reason), _when(event, event.wait)
        whole = row + Text(f" · {tail}", QUIET)
        return [whole] if whole.cell_len <= self.width else [*wrap_behind_sign(row, self.width), *self._indented(tail)]

    def waiting(self, event: Retry, left: float) -> Text:
        """The retry in one row during the wait; `left` in seconds."""
        tail = f" · {_when(event, left)}"
        reason = one_line(event.reason, max(self.width - len(tail) - 2, 10))
        return self._line(("↻ ", WARN), reason, (tail, QUIET))

    def compaction(self, event: Compaction) -> list[Text]:
        """A compaction's start or receipt."""
        sizes = next_request(event.before, event.after)
        match event.phase:
            case "starting":
                words = f"compacting {tokens(event.before)} tokens: {_REASONS[event.reason]}; esc stops it"
                return [self._line((f"· {words}", QUIET))]
            case "stopped":
                say = self.note if event.reason == "asked" else self.warning
                return say(f"not compacted: {clean(event.note)}")
            case "reduced":
                return self.note(clean(event.note))
            case "undone":
                return self.note(f"undid the {clean(event.note) or 'compaction'}: {sizes}")
        rows = self.note(f"compacted: {sizes} · {_what_stays(event)}")
        if event.lost:
            named = ", ".join(one_line(word, 60) for word in event.lost[:_LOST_NAMED])
            more = len(event.lost) - _LOST_NAMED
            tail = f"{f', and {more} more' if more > 0 else ''}; /compact undo restores them"
            lead = f"{' ' * MARGIN}dropped from context: "
            named = truncate(Text(named), max(self.width - len(lead) - len(tail), 20)).plain
            rows.append(self._line((lead, WARN), (named + tail, QUIET)))
        if event.note:
            rows += self._indented(clean(event.note), WARN)
        return [*rows, *self._indented("/compact undo · /compact why")]

    def interruption(
        self, event: Interrupted, titles: Mapping[str, str], running: Mapping[str, RunningCall], now: float
    ) -> list[Text]:
        """The receipt of a stopped turn: each call's state, the end of its output, how to continue."""
        groups = (
            ("done", event.done),
            ("failed", event.failed),
            ("interrupted", event.half_done),
            ("refused", event.refused),
            ("not started", [each for each in event.not_done if each not in event.refused]),
        )
        rows = [Text("■ stopped", WARN)]
        for word, ids in groups:
            for call_id in ids:
                title = one_line(titles.get(call_id, call_id), self.width)
                rows.append(self._line(" " * MARGIN, (f"{word:<13}", "" if word == "done" else WARN), title))
                call = running.get(call_id)
                if word != "interrupted" or call is None:
                    continue
                deeper = " " * (MARGIN + 2)
                rows += [self._line((deeper + line, QUIET)) for line in call.lines(_LAST)]
                ended = f"stopped after {duration(now - call.since)}"
                if title.startswith("bash "):
                    ended += "; its process was ended, and its changes so far remain"
                rows += wrap_indented(Text(ended, QUIET), self.width, deeper)
        return [*rows, *self._indented('type "continue" to resume, or a new prompt')]

    def end(self, event: TurnEnd, report: UsageReport | None, seconds: float) -> list[Text]:
        """A turn's last row: steps, tokens, context, time; above it an error."""
        rows: list[Text] = []
        if event.error is not None:
            rows += self.warning(clean(event.error), WARN if event.reason == "limit" else BAD)
        if missed := unread(event.cut):
            rows += self.warning(missed)
        parts, usage = [plural(event.steps, "step")], event.usage
        if usage.total:
            cached = f" ({tokens(usage.cache_read)} cached)" if usage.cache_read else ""
            parts += [f"{tokens(usage.total_input)} in{cached}", f"{tokens(usage.output)} out"]
        if report is not None and report.budget:
            parts.append(f"context {percent_of(report.context, report.budget)}% of {tokens(report.budget)}")
        if seconds >= _SHORTEST:
            parts.append(duration(seconds))
        return [*rows, *wrap(Text(" · ".join(parts), QUIET), self.width)]

    def prompt(self, text: str, *, band: bool = False) -> list[Text]:
        """The user's prompt: as a band across the screen, or below a rule."""
        lead = "› "
        lines = [row for line in clean(text).split("\n") for row in wrap(Text(line), self.width - len(lead))]
        rows = [
            Text.assemble(" " * len(lead) if number else (lead, "bold cyan"), row) for number, row in enumerate(lines)
        ]
        for row in rows:
            if band:
                row.append(" " * (self.width - row.cell_len))
            row.stylize_before("look.prompt")
        return rows if band else [Text("─" * min(self.width, TEXT_COLUMNS), QUIET), *rows]


def _when(event: Retry, seconds: float) -> str:
    """The next try, of how many, and when."""
    return f"try {event.attempt} of {event.attempts} in {duration(max(seconds, 0.0))}"


def _what_stays(event: Compaction) -> str:
    """What a compaction kept, and what it did with the rest."""
    if event.kept_turns or not event.kept_steps:
        kept = plural(event.kept_turns, "turn") if event.kept_turns else "no turn"
    else:
        kept = plural(event.kept_steps, "step")
    cut = f", cut {plural(event.reduced, 'new message')}" if event.reduced else ""
    return f"kept {kept} verbatim{cut}{', summarized the rest' if event.segments else ''}"


class Activity:
    """The current activity. `clock` counts seconds; `hint` says how to stop."""

    def __init__(self, clock: Callable[[], float], hint: str) -> None:
        self.thoughts = ""
        self.running: dict[str, RunningCall] = {}
        self.retry: Retry | None = None
        self.retry_at = 0.0
        self.stopping = False
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
        margin = " " * MARGIN
        if self.stopping:
            return [Text("■ stopping", WARN)]
        if self.retry is not None:
            return [EventRows(width).waiting(self.retry, self.retry_at - self._clock())]
        if calls := list(self.running.values()):
            titles = " · ".join(call.title for call in calls)
            lines = next(filter(None, (call.lines(_MOST_ROWS) for call in reversed(calls))), [])
            output = [truncate(Text(margin + line, QUIET), width) for line in lines]
            return [self._row(titles, min(call.since for call in calls), width), *output]
        thoughts = wrap_indented(Text(self.thoughts.strip(), "dim italic"), width, margin)
        newest = [row for row in thoughts if row.plain.strip()][-_MOST_ROWS:]
        return [self._row(self._doing, self._since, width), *newest] if self._doing else []

    def _row(self, doing: str, since: float, width: int) -> Text:
        """The activity with its time, or that no data arrives in an answer that has begun."""
        seconds = self._clock() - since
        silent = self._clock() - self._heard_at if doing in ("writing", "thinking") else 0.0
        is_stalled = silent >= _STALL_SECONDS
        time = f"no data for {duration(silent)}" if is_stalled else duration(seconds) if seconds >= _SHORTEST else ""
        tail = " · ".join(part for part in (time, self._hint) if part)
        frame = SPINNER[int(self._clock() * 10) % len(SPINNER)]
        named = truncate(Text(doing), max(width - len(tail) - 6, 10))
        return truncate(
            Text.assemble((f"{frame} ", ACCENT), named, (f" · {tail}", WARN if is_stalled else QUIET)),
            width,
        )
