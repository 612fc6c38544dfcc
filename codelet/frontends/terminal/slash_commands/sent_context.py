"""/context and reminders: what the model is sent. /compact, /pin, /drop: commands that change it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from codelet.context.allotment import ContextRow, NothingToCompact, Size, floor_of, parsed
from codelet.context.tokens import percent_of
from codelet.errors import UsageError
from codelet.frontends.terminal.screen import Screen, styled
from codelet.frontends.terminal.show.numbers import next_request, plural, tokens
from codelet.frontends.terminal.show.style import ACCENT, QUIET, WARN
from codelet.messages import kind_of, reasoning_of
from codelet.prompt import reminder_text
from codelet.system.text import clean, one_line
from codelet.system.text.typed import whole_number

if TYPE_CHECKING:
    from rich.text import Text

    from codelet.context.compaction.engine import CompactionReport
    from codelet.context.compaction.observed import Score
    from codelet.frontends.terminal.slash_commands.slash_command import ReplControls
    from codelet.loop.session import Session


_ROWS = 10
_ROLE_STYLES = {"system": "magenta", "user": "green", "assistant": "cyan", "tool": "yellow"}


async def context(screen: Screen, session: Session, argument: str) -> None:
    """List messages with number, turn, source and tokens; the total. Or show one message in full."""
    from codelet.frontends.terminal.show.console import wrap

    number = whole_number(argument)
    if argument not in ("", "all") and number is None:
        raise UsageError(f"/context takes all or a message's number, not {one_line(argument, 60)}")
    rows = session.context()
    if number is not None:
        _show_entry(screen, session, rows, number)
        return
    fixed = [row for row in rows if row.number < 0]
    listed = [row for row in rows if row.number >= 0]
    whole = argument == "all"
    shown = listed if whole else listed[-_ROWS:]
    left_out = len(listed) - len(shown)
    older = f"  … {plural(left_out, 'older message')}: /context all"
    note = [styled((older, QUIET))] if left_out else []
    latest = max((row.turn for row in rows), default=0)
    lines = [_entry_row(screen, session, row, latest) for row in (*fixed, *shown)]
    screen.say(*lines[: len(fixed)], *note, *lines[len(fixed) :])
    sums: Counter[str] = Counter()
    for row in rows:
        sums[row.role] += row.tokens
    roles = [(f"{role} {tokens(sums[role])}  ", style) for role, style in _ROLE_STYLES.items() if sums[role]]
    screen.say(styled(""), screen.truncate(styled("  ", *roles)))
    if not whole:
        size, budget = session.size, session.window.budget
        words = f"{tokens(size)} of {tokens(budget.limit)} used, {percent_of(size, budget.limit)}%"
        words += f"; compacts at {tokens(budget.hard_trigger)}" if session.compactor.options.automatic else ""
        screen.say(styled(f"  {words}; /context all has the rest"))
        return
    facts = _limits(session, rows)
    if (report := session.compactor.report) is not None and report.allocation:
        given = [f"{name} {tokens(size)}" for name, size in report.allocation.items() if size]
        given.append(f"answer {tokens(session.window.budget.reserve)}")
        facts.append(("gave", f"{', '.join(given)} (the last compaction)"))
    for name, words in facts:
        first, *more = wrap(styled(words), max(screen.width - 11, 20))
        screen.say(styled((f"  {name:<9}", QUIET)) + first, *(styled(" " * 11) + row for row in more))
    if (exact := await _exact(session)) is not None:
        screen.say(screen.truncate(styled(("  exact    ", QUIET), exact)))


def _entry_row(screen: Screen, session: Session, entry: ContextRow, latest: int) -> Text:
    place = str(entry.number) if entry.number >= 0 else ""
    line = styled((f"{place:>5}  ", QUIET), f"{tokens(entry.tokens):>6}  ")
    line.append(f"{entry.role:<9} ", _ROLE_STYLES.get(entry.role, ""))
    line.append("pinned  " if entry.pinned else "", ACCENT)
    line.append(f"anchor: {entry.anchor}  " if entry.anchor else "", ACCENT)
    if entry.source != entry.role:
        line.append(f"{clean(entry.source)}  ")
    age = latest - entry.turn
    line.append(f"{plural(age, 'turn')} ago  " if entry.turn and age else "", QUIET)
    line.append(one_line(_content(session, entry.number), 200) if entry.number >= 0 else "", QUIET)
    return screen.truncate(line)


def _show_entry(screen: Screen, session: Session, rows: Sequence[ContextRow], number: int) -> None:
    """Show a message's text, reasoning and calls."""
    found = next((row for row in rows if row.number == number), None)
    if found is None:
        raise UsageError(f"there is no message {number}; /context lists them")
    message, mask = session.conversation.sent()[number], session.mask
    head = styled((f"message {number}", ACCENT), f" · {found.role}")
    if found.source != found.role:
        head.append(f" · {clean(found.source)}")
    head.append(f" · {plural(found.tokens, 'token')}", QUIET)
    screen.say(screen.truncate(head))
    if reasoning := reasoning_of(message):
        screen.say(styled(("reasoning", QUIET)))
        screen.text(mask(reasoning))
    if content := _content(session, number):
        screen.text(content)
    for call in message.get("tool_calls", ()):
        function = call["function"]
        screen.say(styled(("calls ", QUIET), (clean(function["name"]), ACCENT)))
        screen.text(mask(_arguments(function["arguments"])))


def _arguments(written: str) -> str:
    """A call's arguments, one per line."""
    try:
        parsed = json.loads(written)
    except (ValueError, RecursionError):
        return written
    if not isinstance(parsed, dict):
        return written
    values = ((key, each if isinstance(each, str) else json.dumps(each, indent=2)) for key, each in parsed.items())
    return "\n".join(f"{key}: {value}" for key, value in values)


def _in_words(session: Session) -> dict[int, str]:
    """A short description of each message, by number."""
    words = {}
    for row in session.context():
        if row.number >= 0:
            gist = one_line(_content(session, row.number), 60)
            words[row.number] = f"{clean(row.source)}, {plural(row.tokens, 'token')}" + (f": {gist}" if gist else "")
    return words


def _content(session: Session, number: int) -> str:
    """A message's text, without reminder tags."""
    message = session.conversation.sent()[number]
    content = session.mask(message.get("content") or "")
    return reminder_text(content) if kind_of(message) == "reminder" else content


def _limits(session: Session, rows: Sequence[ContextRow]) -> list[tuple[str, str]]:
    """The next request's size, when it is compacted, what cannot shrink, and the shares of the budget, by name."""
    size, budget = session.size, session.window.budget
    effective, floor = session.window.effective(session.conversation), floor_of(rows)
    guess = ", a guess" if session.models.window_is_guessed else ""
    used = f"{tokens(size)} of {tokens(budget.limit)}, {percent_of(size, budget.limit)}%"
    when = "only with /compact"
    if session.compactor.options.automatic:
        now = f" (now {tokens(effective)})" if effective < size else ""
        when = f"at {tokens(budget.hard_trigger)}, or at {tokens(budget.cost_trigger)}"
        when += f" with cached tokens counted at a tenth{now}"
    shares = (
        f"{part.name} {tokens(part.used)} of {tokens(part.limit)}{' (over)' if part.used > part.limit else ''}"
        for part in session.compactor.shares()
    )
    items = ", ".join(f"{part} {tokens(count)}" for part, count in floor.items())
    return [
        ("used", f"{used} (window {tokens(budget.window)}{guess})"),
        ("compacts", when),
        ("fixed", f"{tokens(sum(floor.values()))}: {items}"),
        ("shares", ", ".join(shares)),
    ]


async def _exact(session: Session) -> str | None:
    """The count of a real tokeniser, if one is installed."""
    from codelet.context.tokens.exact import ExactUnavailable, encoding_name, exact_size, has_own_encoding

    model = session.provider.model
    beside = [
        session.upkeep.system,
        json.dumps([tool.schema() for tool in session.toolbox.tools.values()], ensure_ascii=False),
    ]
    try:
        counted = await asyncio.to_thread(exact_size, session.conversation.sent(), beside, model)
    except ExactUnavailable:
        return None
    own = "" if not model or has_own_encoding(model) else "; the model's own tokeniser differs"
    return f"{tokens(counted)} as {encoding_name(model)} counts{own}"


async def reminders(screen: Screen, session: Session, argument: str) -> None:
    """List reminders with tokens, cost and switch, and tools; or set a switch."""
    from codelet.frontends.terminal.show.console import wrap

    ledger = session.reminders
    rows = ledger.rows()
    kind, _, switch = (part.strip() for part in argument.partition(" "))
    found = next((row for row in rows if row.kind.lower() == kind.lower()), None)
    if kind and found is None:
        known = ", ".join(row.kind for row in rows)
        screen.fail(f"there is no reminder {one_line(kind, 60)}" + (f"; there are {known}" if known else ""))
    elif found is not None and switch in ("on", "off"):
        (ledger.off.discard if switch == "on" else ledger.off.add)(found.kind)
        screen.note(f"reminder {found.kind}: {switch} from the next step")
    elif switch:
        screen.fail(f"switch a reminder on or off, not {one_line(switch, 60)}")
    elif found is not None:
        screen.say(*wrap(styled((clean(found.text or "it is not in the list now"), QUIET)), screen.width))
    else:
        for row in rows:
            sizes = f"{tokens(row.tokens):>6} tokens  {tokens(row.sent):>6} sent  "
            screen.say(styled((f"  {row.kind:<15}", ACCENT), sizes, "on" if row.on else ("off", WARN)))
        screen.note("/context reminders TYPE shows one, /context reminders TYPE off switches it off")


async def compact_now(repl: ReplControls, argument: str) -> None:
    """Compact now, to a size and with instructions; --preview only shows the result."""
    first, _, rest = argument.partition(" ")
    wanted = rest.strip() if first == "--preview" else argument
    if not repl.session.messages:
        repl.screen.note("there is nothing to compact")
        return
    if wanted[:1] == "-" and wanted[1:2].strip():  # an unknown option, or a negative size
        raise UsageError("/compact takes a size (20k, 30%) and instructions, or --preview")
    try:
        size, instruction = parsed(wanted)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if first == "--preview":
        _preview(repl.screen, repl.session, instruction, size)
        return
    compactor = repl.session.compactor
    before = compactor.report
    if await repl.watch(repl.session.compact(instruction, size)) == "stopped" and compactor.report is before:
        repl.screen.note("not compacted: stopped; the conversation is unchanged")


def _preview(screen: Screen, session: Session, instruction: str, size: Size | None) -> None:
    """Show what a compaction would do."""
    from codelet.context.compaction.engine import IrreducibleContext

    try:
        seen = session.compactor.preview(instruction, size)
    except (IrreducibleContext, NothingToCompact) as error:
        raise UsageError(f"not compacted: {error}") from None
    _show_report(screen, seen.report, "would be", (seen.before, seen.after))


async def uncompact(repl: ReplControls, argument: str) -> None:
    """Undo the last compaction."""
    if (event := repl.session.compactor.undo()) is None:
        repl.screen.note("there is no compaction to undo")
    else:
        repl.show(event)


async def explain(screen: Screen, session: Session, argument: str) -> None:
    """Show what the last compaction did with each turn."""
    if (report := session.compactor.report) is None:
        screen.note("nothing was compacted yet; /compact --preview shows what would be")
    else:
        _show_report(screen, report, "was", session.compactor.sizes)


def _show_report(screen: Screen, report: CompactionReport, verb: str, sizes: tuple[int, int]) -> None:
    """Show each turn's fate, the next request's sizes before and after, and the warnings."""
    for fate in report.turns:
        line = styled((f"{fate.turn:>5}  ", QUIET), (f"{fate.fate:<10} ", ACCENT))
        line.append(f"{tokens(fate.before):>6} to {tokens(fate.after):<6} ")
        line.append(f"weight {_parts(fate.score)}", QUIET)
        screen.say(screen.truncate(line))
    less = f", {100 - percent_of(sizes[1], sizes[0])}% less" if 0 < sizes[1] < sizes[0] else ""
    sizes_told = f"the conversation {verb} compacted: {next_request(*sizes)}{less}"
    screen.say(*screen.indented(styled(sizes_told)))
    for warning in report.warnings:
        screen.say(screen.truncate(styled(("  ✗ ", WARN), clean(warning))))
    for struck in report.struck:
        screen.say(screen.truncate(styled(("  left out of the handoff: ", QUIET), clean(struck))))


def _parts(score: Score) -> str:
    """A turn's score and its parts."""
    found = [f"{value} {words}" for name, words in _SCORED.items() if (value := getattr(score, name))]
    return f"{score.total}: {', '.join(found)}" if found else str(score.total)


_SCORED = {
    "anchor": "settled something",
    "recency": "recent",
    "relevance": "relevant to the prompt",
    "files": "files in use",
    "reference": "referred to later",
    "feedback": "your feedback",
}


async def pin(screen: Screen, session: Session, argument: str) -> None:
    """Keep a message verbatim through compactions."""
    session.compactor.pin(number := _number(argument))
    screen.note(f"message {number} stays verbatim: {_in_words(session)[number]}")


async def unpin(screen: Screen, session: Session, argument: str) -> None:
    """Remove a pin."""
    number = _number(argument)
    if any(row.number == number and not row.pinned for row in session.context()):
        raise UsageError(f"message {number} is not pinned; /context marks pinned messages")
    session.compactor.unpin(number)
    screen.note(f"message {number} is no longer pinned: {_in_words(session)[number]}")


async def drop(screen: Screen, session: Session, argument: str) -> None:
    """Remove a message, a call with its results."""
    was = _in_words(session)
    gone = session.compactor.drop(_number(argument))
    named = f"message {gone[0]}" if len(gone) == 1 else f"messages {gone[0]} to {gone[-1]}"
    screen.note(f"removed {named}; later messages have new numbers:")
    screen.say(*(row for number in gone for row in screen.indented(styled((was[number], QUIET)))))


def _number(argument: str) -> int:
    if (number := whole_number(argument)) is None:
        raise UsageError("name one message by its number in /context")
    return number
