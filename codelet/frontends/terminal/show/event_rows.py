"""The rows of events: calls and their results, retries, compactions, interruptions, a turn's end; the activity."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.text import Text

from codelet.context.tokens import percent_of
from codelet.events import Compaction, Interrupted, ResultStatus, Retry, ToolResult, TurnEnd, UsageReport
from codelet.frontends.terminal.show.console import truncate, wrap, wrap_behind_sign, wrap_indented
from codelet.frontends.terminal.show.diff_rows import diff_rows, diff_size, is_diff
from codelet.frontends.terminal.show.numbers import duration, next_request, plural, tokens
from codelet.frontends.terminal.show.style import ACCENT, BAD, GOOD, MARGIN, QUIET, SPINNER, TEXT_COLUMNS, WARN
from codelet.messages import Message
from codelet.outcome import unread
from codelet.record import Record
from codelet.system.text import clean, first_sentence, one_line
from codelet.tools import title_of

_SHORTEST = 0.95
"""The shortest time shown, in seconds."""
_STALL_SECONDS = 5.0
"""After this time without data the row says so."""
_LIVE_LINES, _STOPPED_LINES, _DONE_LINES, _FAILED_LINES, _SHOWN_LINES = 3, 5, 3, 8, 30
"""Lines of output: of a running or a stopped call, of a result, and of one that is made for the screen."""
_LONGEST_LINE = 2_000
_REASONS = {
    "hard": "the budget is nearly used",
    "cost": "the budget is nearly used (cached tokens count a tenth)",
    "entries": "the history has too many entries",
    "asked": "as you asked",
    "entry": "a text is too large",
    "overflow": "the provider said that the prompt is too long",
}
_MARKS: dict[ResultStatus, tuple[str, str]] = {
    "done": ("✓", GOOD),
    "failed": ("✗", BAD),
    "refused": ("⊘", WARN),
    "interrupted": ("■", WARN),
}
_END_LINES = re.compile(r"(?m)^\[(?:exit code \d+|ended by signal \d+|pipeline exit codes: [\d a-z]*)\]$")
"""A command's end, as the model gets it: the row above already shows it."""


class RunningCall:
    """A running call: title, start, and the end of its output."""

    def __init__(self, title: str, since: float) -> None:
        self.title = title
        self.since = since
        self._output = ""

    def add(self, piece: str) -> None:
        """Add output."""
        self._output = (self._output + piece)[-_LONGEST_LINE:]

    def lines(self, most: int) -> list[str]:
        """The last lines of the output. A line that is rewritten, such as a progress bar, has its last state."""
        written = self._output.replace("\r\n", "\n").split("\n")
        lines = [clean(line.rstrip("\r").rpartition("\r")[2]) for line in written]
        return [line for line in lines if line.strip()][-most:]


def call_title(name: str, arguments: dict[str, Any] | str, about: str = "") -> str:
    """The call as a user would write it: `read src/app.py:1-40`; `about` is the tool's own title."""
    words = about or (arguments if isinstance(arguments, str) else title_of(name, arguments))
    return one_line(f"{name} {words}".rstrip(), 400)


def titles_of(messages: Sequence[Message]) -> dict[str, str]:
    """The titles of the calls in the last message with calls, by id."""
    last = next((message for message in reversed(messages) if message.get("tool_calls")), None)
    titles = {}
    for call in last["tool_calls"] if last else ():
        name, written = call["function"]["name"], call["function"]["arguments"]
        try:
            arguments = json.loads(written)
        except (ValueError, RecursionError):
            arguments = None
        titles[call["id"]] = call_title(name, arguments if isinstance(arguments, dict) else written)
    return titles


def how_it_ended(code: int) -> str:
    """An exit code as text: `exit 2`, `ended by SIGINT`."""
    if code >= 0:
        return f"exit {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:  # one of the real-time signals, which have no names
        return f"ended by signal {-code}"


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

    def _line(self, *parts: str | Text | tuple[str, str]) -> Text:
        return truncate(Text.assemble(*parts), self.width)

    def retry(self, event: Retry) -> list[Text]:
        """A failed request, its reason, and the time of the retry."""
        reason, tail = one_line(event.reason, 400), f" · {_when(event, event.wait)}"
        return wrap_behind_sign(Text.assemble(("↻ ", WARN), reason, (tail, QUIET)), self.width)

    def result(self, title: str, result: ToolResult, hint: str, *, approved: bool = False) -> list[Text]:
        """The call's row with its outcome, and the part of the result worth seeing; `hint` says how to see the rest."""
        sign, style = ("!", WARN) if result.caveat and result.status == "done" else _MARKS[result.status]
        facts = [*_facts(result), *(["approved"] if approved else [])]
        tail = "".join(f" · {fact}" for fact in facts)
        name, space, words = title.partition(" ")
        line = truncate(Text.assemble((name, "bold"), space, words), max(self.width - 2 - len(tail), 20))
        return [self._line((f"{sign} ", style), line, (tail, QUIET)), *self._details(result, hint)]

    def _details(self, result: ToolResult, hint: str) -> list[Text]:
        """The part of a result below its row."""
        shown, is_done = result.text if result.display is None else result.display, result.status == "done"
        if is_done and is_diff(shown):
            return diff_rows(shown, self.width, hint=hint)
        if result.status == "refused":
            return self._indented(one_line(first_sentence(shown), _LONGEST_LINE))
        if result.status == "interrupted" or (is_done and result.counted):
            return []
        if is_done and result.display is not None:
            lines = [line for line in clean(shown).split("\n") if line.strip()]
            rows = [row for line in lines[:_SHOWN_LINES] for row in self._indented(line, "")]
            hidden = len(lines) - _SHOWN_LINES
            return rows + (self._indented(f"… {plural(hidden, 'more line')}{hint}") if hidden > 0 else [])
        if result.name == "bash":
            shown = shown[:-300] + _END_LINES.sub("", shown[-300:])
        return self._last_lines(shown, _DONE_LINES if is_done else _FAILED_LINES, hint)

    def _last_lines(self, text: str, limit: int, hint: str) -> list[Text]:
        """The last `limit` lines of an output that are not empty, and how many are above."""
        lines = clean(text).rstrip().split("\n")
        places = [place for place, line in enumerate(lines) if line.strip()]
        first = places[-limit] if len(places) > limit else 0
        shown = [f"… {plural(first, 'line')} above{hint}"] if first else []
        shown += [line[:_LONGEST_LINE] for line in lines[first:] if line.strip()]
        return [self._line((" " * MARGIN + line, QUIET)) for line in shown]

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
        is_turns = event.kept_turns or not event.kept_steps
        kept = plural(event.kept_turns, "turn") if is_turns else plural(event.kept_steps, "step")
        cut = f", cut {plural(event.reduced, 'new message')}" if event.reduced else ""
        rest = ", summarized the rest" if event.segments else ""
        rows = self.note(f"compacted: {sizes} · kept {kept} verbatim{cut}{rest}")
        if event.lost:
            lead = f"{' ' * MARGIN}{plural(len(event.lost), 'detail')} dropped from context: "
            rows.append(self._line((lead, WARN), (", ".join(one_line(word, 60) for word in event.lost), QUIET)))
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
                rows += [self._line((deeper + line, QUIET)) for line in call.lines(_STOPPED_LINES)]
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


def _facts(result: ToolResult) -> list[str]:
    """The facts in a result's row, after its sign and title."""
    if result.status in ("interrupted", "refused"):
        return ["stopped"] if result.status == "interrupted" else []
    facts: list[str] = []
    if result.ended is not None and result.ended.code:
        facts.append(how_it_ended(result.ended.code))
    elif result.status == "failed":
        facts += ["failed"] if result.name != "bash" else []
    elif result.display is not None and is_diff(result.display):
        facts.append(diff_size(result.display))
    elif result.counted:
        # Remarks are in brackets; "no …" means none.
        lines = [line for line in result.text.rstrip("\n").split("\n") if line and line[:1] != "["]
        is_none = len(lines) == 1 and lines[0].startswith("no ")
        facts.append(one_line(lines[0], 40) if is_none else plural(len(lines), one_line(result.counted, 20)))
    if result.caveat and result.status == "done":
        facts.append(one_line(result.caveat, 40))
    if result.seconds >= _SHORTEST or (result.name == "bash" and result.seconds >= 0.05):
        facts.append(duration(result.seconds))
    return facts


def _when(event: Retry, seconds: float) -> str:
    """The next try, of how many, and when."""
    return f"try {event.attempt} of {event.attempts} in {duration(max(seconds, 0.0))}"


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

    def now(self, doing: str, *, again: bool = False) -> None:
        """Start an activity. The same one keeps its clock, unless `again`."""
        self.retry = None
        if again or doing != self._doing:
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
            return [self._row(f"retrying: {_when(self.retry, self.retry_at - self._clock())}", self._clock(), width)]
        if calls := list(self.running.values()):
            titles = " · ".join(call.title for call in calls)
            lines = next(filter(None, (call.lines(_LIVE_LINES) for call in reversed(calls))), [])
            output = [truncate(Text(margin + line, QUIET), width) for line in lines]
            return [self._row(titles, min(call.since for call in calls), width), *output]
        thoughts = wrap_indented(Text(self.thoughts.strip(), "dim italic"), width, margin)
        newest = [row for row in thoughts if row.plain.strip()][-_LIVE_LINES:]
        return [self._row(self._doing, self._since, width), *newest] if self._doing else []

    def _row(self, doing: str, since: float, width: int) -> Text:
        """The activity with its time, or that no data arrives in an answer that has begun."""
        seconds = self._clock() - since
        silent = self._clock() - self._heard_at if doing in ("writing", "thinking") else 0.0
        is_stalled = silent >= _STALL_SECONDS
        time = f"no data for {duration(silent)}" if is_stalled else duration(seconds) if seconds >= _SHORTEST else ""
        tail = "".join(f" · {part}" for part in (time, self._hint) if part)
        frame = SPINNER[int(self._clock() * 10) % len(SPINNER)]
        named = truncate(Text(doing), max(width - len(tail) - 3, 10))
        return truncate(Text.assemble((f"{frame} ", ACCENT), named, (tail, WARN if is_stalled else QUIET)), width)
