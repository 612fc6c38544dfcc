"""The rows of events that are neither text nor calls: retries, notes, reminders, compactions, the end of a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from codelet.context.tokens.budget import percent_of
from codelet.events import Compaction, Handoff, Interrupted, Note, Reminder, Retry, TurnEnd, UsageReport
from codelet.frontends.terminal.show.call_rows import RunningCall
from codelet.frontends.terminal.show.console import truncate, wrap, wrap_behind_sign, wrap_indented
from codelet.frontends.terminal.show.numbers import duration, next_request, plural, tokens
from codelet.frontends.terminal.show.style import BAD, MARGIN, QUIET, TEXT_COLUMNS, WARN, Signs
from codelet.outcome import unread
from codelet.system.text import clean, one_line


def retry_rows(event: Retry, width: int, signs: Signs, *, again: bool = False) -> list[Text]:
    """A failed request, why in full unless it failed so the time before, and when it is sent again."""
    tail = _when(event, event.wait)
    reason = "the same again" if again else one_line(event.reason, _LONGEST_REASON)
    row = Text.assemble((f"{signs.retry} ", WARN), reason)
    whole = row + Text(f" {signs.dot} {tail}", QUIET)
    if whole.cell_len <= width:
        return [whole]
    return [*wrap_behind_sign(row, width), *(Text.assemble("  ", each) for each in wrap(Text(tail, QUIET), width - 2))]


def retry_row(event: Retry, left: float, width: int, signs: Signs) -> Text:
    """The same in one row, while it is waited for; `left` is what remains of the wait in seconds."""
    tail = f" {signs.dot} {_when(event, left)}"
    row = Text(f"{signs.retry} ", WARN)
    row.append(one_line(event.reason, max(width - len(tail) - 2, 10)))
    row.append(tail, QUIET)
    return truncate(row, width, signs.more)


def _when(event: Retry, seconds: float) -> str:
    """Which try comes next, of how many, and in how many seconds; the request that failed first was the first try."""
    return f"try {event.attempt} of {event.attempts} in {duration(max(seconds, 0.0))}"


def note_rows(event: Note, width: int, signs: Signs) -> list[Text]:
    """A sentence that the user should know."""
    return wrap_behind_sign(Text(f"{signs.note} {one_line(event.text, 1_000)}", QUIET), width)


def handoff_rows(event: Handoff, signs: Signs) -> list[Text]:
    """That a handoff was asked for, and what it took."""
    what = "handoff prepared" if event.prepared else "handoff failed"
    return [Text(f"{signs.note} {what}{f': {tokens(event.usage.total)} tokens' if event.usage else ''}", QUIET)]


def reminder_rows(events: Sequence[Reminder], width: int, signs: Signs) -> list[Text]:
    """The reminders that changed, in one line for the whole step."""
    told = [f"{_word(event)}{one_line(event.name, 30)} {tokens(event.tokens)}" for event in events]
    if not told:
        return []
    return [
        truncate(
            Text(f"{signs.note} reminders: " + f" {signs.dot} ".join(told) + " tokens", QUIET),
            width,
            signs.more,
        )
    ]


def _word(event: Reminder) -> str:
    return "" if event.change == "added" else f"{event.change} "


_LONGEST_REASON = 400
_SHORTEST = 0.95
"""Seconds of which a time is told."""
_LAST = 5
"""Lines of a stopped call's output that stay on the screen."""
_REASONS = {
    "hard": "the budget is nearly used",
    "cost": "the budget is nearly used (cached tokens count a tenth)",
    "entries": "the history has too many entries",
    "asked": "as you asked",
    "entry": "a text is too large",
    "overflow": "the provider said that the prompt is too long",
}
_LOST_NAMED = 8
_DROPPED = "dropped from context: "


def compaction_rows(event: Compaction, width: int, signs: Signs) -> list[Text]:
    """The warning before a compaction, or its receipt with what was lost from the list."""
    sizes = next_request(event.before, event.after, signs)
    match event.phase:
        case "starting":
            reason = f"{_REASONS[event.reason]}; esc stops it"
            return [truncate(Text(f"{signs.note} compacting {tokens(event.before)} tokens: {reason}", QUIET), width)]
        case "stopped":
            text = f"not compacted: {clean(event.note)}"
            return wrap_behind_sign(Text.assemble((f"{signs.failed} ", WARN), text), width)
        case "reduced":
            return wrap_behind_sign(Text(f"{signs.note} {clean(event.note)}", QUIET), width)
        case "undone":
            return [
                truncate(Text(f"{signs.note} undid the {clean(event.note) or 'compaction'}: {sizes}", QUIET), width)
            ]
    return _receipt(event, sizes, width, signs)


def _receipt(event: Compaction, sizes: str, width: int, signs: Signs) -> list[Text]:
    """What became smaller, what is gone, how to go on."""
    rows = wrap_behind_sign(Text(f"{signs.note} compacted: {sizes} {signs.dot} {_what_stays(event)}", QUIET), width)
    indent = " " * MARGIN
    if event.lost:
        more = len(event.lost) - _LOST_NAMED
        named = ", ".join(one_line(word, 60) for word in event.lost[:_LOST_NAMED])
        tail = f"{f', and {more} more' if more > 0 else ''}; /compact undo restores them"
        named = truncate(Text(named), max(width - MARGIN - len(_DROPPED) - len(tail), 20), signs.more).plain
        rows.append(truncate(Text.assemble(indent, (_DROPPED, WARN), (named + tail, QUIET)), width, signs.more))
    if event.note:
        rows += wrap_indented(Text(clean(event.note), WARN), width, indent)
    return [*rows, *wrap_indented(Text(f"/compact undo {signs.dot} /compact why", QUIET), width, indent)]


def _what_stays(event: Compaction) -> str:
    """What a compaction left as it was, and what became of the rest."""
    if event.kept_turns or not event.kept_steps:
        kept = plural(event.kept_turns, "turn") if event.kept_turns else "no turn"
    else:
        kept = plural(event.kept_steps, "step")
    cut = f", cut {plural(event.reduced, 'new message')}" if event.reduced else ""
    return f"kept {kept} verbatim{cut}{', summarized the rest' if event.segments else ''}"


def interruption_rows(
    event: Interrupted,
    titles: Mapping[str, str],
    running: Mapping[str, RunningCall],
    now: float,
    width: int,
    signs: Signs,
) -> list[Text]:
    """What became of each call when the user stopped the turn, the end of what it wrote, and how to go on. `running`
    are the calls that were at work, `now` is the time by their clock.
    """
    groups = (
        ("done", event.done, ""),
        ("failed", event.failed, ""),
        ("interrupted", event.half_done, "partial effects remain"),
        ("refused", event.refused, ""),
        ("not started", [each for each in event.not_done if each not in event.refused], ""),
    )
    rows = [Text(f"{signs.stopped} stopped", WARN)]
    for word, ids, remark in groups:
        for call_id in ids:
            call = running.get(call_id)
            after = f"ended after {duration(now - call.since)}; " if call is not None and remark else ""
            tail = f" {signs.dot} {after}{remark}" if remark else ""
            room = max(width - MARGIN - 13 - len(tail), 20)
            row = Text(" " * MARGIN)
            row.append(f"{word:<13}", "" if word == "done" else WARN)
            row.append(one_line(titles.get(call_id, call_id), room))
            row.append(tail, QUIET)
            rows.append(truncate(row, width, signs.more))
            lines = [] if call is None else [line for line in call.output.split("\n") if line.strip()]
            rows += [truncate(Text(" " * (MARGIN + 2) + line, QUIET), width, signs.more) for line in lines[-_LAST:]]
    return [*rows, *wrap_indented(Text('type "continue" to resume, or a new prompt', QUIET), width, " " * MARGIN)]


def end_rows(event: TurnEnd, report: UsageReport | None, seconds: float, width: int, signs: Signs) -> list[Text]:
    """The last line of a turn: steps, tokens, context, time; above it the error, if there was one."""
    rows: list[Text] = []
    if event.error is not None:
        style = WARN if event.reason == "limit" else BAD
        message = Text.assemble((f"{signs.failed} ", style), clean(event.error))
        rows.extend(wrap_behind_sign(message, width))
    if missed := unread(event.cut):
        rows.extend(wrap_behind_sign(Text(f"{signs.failed} {missed}", WARN), width))
    parts = [plural(event.steps, "step")]
    usage = event.usage
    if usage.total:
        cached = f" ({tokens(usage.cache_read)} cached)" if usage.cache_read else ""
        parts += [f"{tokens(usage.total_input)} in{cached}", f"{tokens(usage.output)} out"]
    if report is not None and report.budget:
        parts.append(f"context {percent_of(report.context, report.budget)}% of {tokens(report.budget)}")
    if seconds >= _SHORTEST:
        parts.append(duration(seconds))
    rows.extend(wrap(Text(f" {signs.dot} ".join(parts), QUIET), width))
    return rows


def prompt_rows(text: str, width: int, signs: Signs, *, band: bool = False) -> list[Text]:
    """What the user said, behind the prompt's sign: as a band across the screen, or below a rule."""
    lead = f"{signs.prompt} "
    lines = [row for line in clean(text).split("\n") for row in wrap(Text(line), width - len(lead))]
    rows = [
        Text.assemble((lead, "bold cyan") if number == 0 else " " * len(lead), row) for number, row in enumerate(lines)
    ]
    for row in rows:
        if band:
            row.append(" " * (width - row.cell_len))
        row.stylize_before("look.prompt")
    return rows if band else [Text(signs.rule * min(width, TEXT_COLUMNS), QUIET), *rows]
