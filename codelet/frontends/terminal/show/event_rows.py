"""The rows of events that are neither text nor calls: retries, notes, reminders, compactions, the end of a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from codelet.context.tokens.budget import percent_of
from codelet.events import Compaction, Handoff, Interrupted, Note, Reminder, Retry, TurnEnd, UsageReport
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
_REASONS = {
    "hard": "the budget is nearly used",
    "cost": "the budget is nearly used, what is cached counted at a tenth",
    "entries": "the history has too many entries",
    "asked": "as you asked",
    "entry": "a text is too large",
    "overflow": "the provider said that the prompt is too long",
}
_LOST_NAMED = 8
_ANCHORS_NAMED = 3


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
                truncate(Text(f"{signs.note} {clean(event.note) or 'compaction'} taken back: {sizes}", QUIET), width)
            ]
    return _receipt(event, sizes, width, signs)


def _receipt(event: Compaction, sizes: str, width: int, signs: Signs) -> list[Text]:
    head = wrap_behind_sign(Text(f"{signs.note} compacted: {sizes}", QUIET), width)
    details = [Text(_what_stays(event), QUIET)]
    if event.pays_after:
        requests = plural(event.pays_after, "request")
        details.append(Text(f"the cache is written anew: after {requests} that has paid for itself", QUIET))
    anchors = () if event.reduced else event.anchors  # a reduction takes none of them away
    details += [Text(f"kept: {one_line(anchor, width - 10)}", QUIET) for anchor in anchors[-_ANCHORS_NAMED:]]
    if (more := len(anchors) - _ANCHORS_NAMED) > 0:
        details.append(
            Text(f"kept: {plural(more, 'earlier result or decision', 'earlier results and decisions')}", QUIET)
        )
    if event.lost:
        more = len(event.lost) - _LOST_NAMED
        named = ", ".join(one_line(word, 60) for word in event.lost[:_LOST_NAMED])
        told = f"{named}, and {more} more" if more > 0 else named
        told += (
            f" ({plural(event.decisions, 'cause or decision', 'causes or decisions')} in all)"
            if event.decisions
            else ""
        )
        details.append(
            Text.assemble(("the model is no longer told: ", WARN), (f"{told}; /pin lost puts them back", QUIET))
        )
    if event.note:
        details.append(Text(clean(event.note), WARN))
    details.append(Text("/uncompact takes it back, /why says what became of each turn", QUIET))
    indent = " " * MARGIN
    return [*head, *(Text.assemble(indent, row) for text in details for row in wrap(text, width - MARGIN))]


def _what_stays(event: Compaction) -> str:
    """What a compaction left as it was, and what became of the rest."""
    if event.reduced:
        return f"{plural(event.reduced, 'old message is', 'old messages are')} shortened, no turn is summarised"
    if event.kept_turns or not event.kept_steps:
        stays = plural(event.kept_turns, "turn stays", "turns stay") if event.kept_turns else "no turn stays"
    else:
        stays = plural(event.kept_steps, "step stays", "steps stay")
    summaries = f"; the rest is now {plural(event.segments, 'summary', 'summaries')}" if event.segments else ""
    return f"{stays} word for word{summaries}"


def interruption_rows(event: Interrupted, titles: Mapping[str, str], width: int, signs: Signs) -> list[Text]:
    """What became of each call when the user stopped the turn, and what `continue` would do."""
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
            tail = f" {signs.dot} {remark}" if remark else ""
            room = max(width - MARGIN - 13 - len(tail), 20)
            row = Text(" " * MARGIN)
            row.append(f"{word:<13}", "" if word == "done" else WARN)
            row.append(one_line(titles.get(call_id, call_id), room))
            row.append(tail, QUIET)
            rows.append(truncate(row, width, signs.more))
    told = "the model sees this and goes on" if any(ids for _, ids, _ in groups) else "the model goes on from here"
    hint = Text(f"continue: {told}; or type something else", QUIET)
    return [*rows, *wrap_indented(hint, width, " " * MARGIN)]


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
