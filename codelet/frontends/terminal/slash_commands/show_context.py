"""/context: what the model is sent, message by message, and the reminders."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from codelet.context.tokens.budget import percent_of
from codelet.frontends.terminal.show.numbers import plural, tokens
from codelet.frontends.terminal.show.style import ACCENT, QUIET, WARN
from codelet.frontends.terminal.slash_commands.show_session import styled
from codelet.messages import kind_of, reasoning_of
from codelet.prompt import reminder_text
from codelet.system.text import clean, one_line
from codelet.system.text.typed import whole_number

if TYPE_CHECKING:
    from rich.text import Text

    from codelet.context.reminders import ReminderRow
    from codelet.context.rows import ContextRow
    from codelet.frontends.terminal.screen import Screen
    from codelet.loop.session import Session

_ROWS = 10
_ROLE_STYLES = {"system": "magenta", "user": "green", "assistant": "cyan", "tool": "yellow"}


async def context(screen: Screen, session: Session, argument: str) -> None:
    """List messages with number, turn, source and tokens; the total. Or show one message in full."""
    number = whole_number(argument)
    if argument not in ("", "all") and number is None:
        screen.fail(f"/context takes all or a message's number, not {one_line(argument, 60)}")
        return
    rows = session.context()
    if number is not None:
        _show_entry(screen, session, rows, number)
        return
    fixed = [row for row in rows if row.number < 0]
    listed = [row for row in rows if row.number >= 0]
    whole = argument == "all"
    shown = listed if whole else listed[-_ROWS:]
    left_out = len(listed) - len(shown)
    older = f"  {screen.signs.more} {plural(left_out, 'older message')}: /context all"
    note = [styled((older, QUIET))] if left_out else []
    latest = max((row.turn for row in rows), default=0)
    lines = [_entry_row(screen, session, row, latest) for row in (*fixed, *shown)]
    screen.say(*lines[: len(fixed)], *note, *lines[len(fixed) :])
    screen.say(*_by_role(screen, rows), *(_limits(screen, session, rows) if whole else [_total(session)]))
    if whole and (exact := await _exact(screen, session)) is not None:
        screen.say(exact)


def _entry_row(screen: Screen, session: Session, entry: ContextRow, latest: int) -> Text:
    place = str(entry.number) if entry.number >= 0 else ""
    line = styled((f"{place:>5}  ", QUIET), f"{tokens(entry.tokens):>6}  ")
    line.append(f"{entry.role:<9} ", _ROLE_STYLES.get(entry.role, ""))
    line.append("pinned  " if entry.pinned else "", ACCENT)
    line.append(f"anchor: {entry.anchor}  " if entry.anchor else "", ACCENT)
    if entry.source != entry.role:
        line.append(f"{clean(_source(entry))}  ")
    age = latest - entry.turn
    line.append(f"{plural(age, 'turn')} ago  " if entry.turn and age else "", QUIET)
    line.append(_gist(session, entry.number), QUIET)
    return screen.truncate(line)


def _show_entry(screen: Screen, session: Session, rows: Sequence[ContextRow], number: int) -> None:
    """Show a message's text, reasoning and calls."""
    found = next((row for row in rows if row.number == number), None)
    if found is None:
        screen.fail(f"there is no message {number}; /context lists them")
        return
    message, mask = session.conversation.sent()[number], session.mask
    head = styled((f"message {number}", ACCENT), f" {screen.signs.dot} {found.role}")
    if found.source != found.role:
        head.append(f" {screen.signs.dot} {clean(_source(found))}")
    head.append(f" {screen.signs.dot} {plural(found.tokens, 'token')}", QUIET)
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
    words = []
    for key, value in parsed.items():
        words.append(f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)}")
    return "\n".join(words)


def in_words(session: Session) -> dict[int, str]:
    """A short description of each message, by number."""
    words = {}
    for row in session.context():
        gist = one_line(_content(session, row.number), 60) if row.number >= 0 else ""
        words[row.number] = f"{clean(_source(row))}, {plural(row.tokens, 'token')}" + (f": {gist}" if gist else "")
    return words


_REMINDER_NAMES = {
    "environment": "the machine and the folder",
    "claudeMd": "instruction files",
    "nestedClaudeMd": "instruction files of a folder",
    "toolFailures": "tools that keep failing",
    "machine": "the machine's state",
    "gitStatus": "the state of git",
    "tokenStatus": "how full the context is",
}
"""Reminders in plain words; others are shown by name."""


def _source(row: ContextRow) -> str:
    """A message's source in plain words."""
    kind, _, name = row.source.partition("reminder ")
    return row.source if kind or not name else f"reminder: {_REMINDER_NAMES.get(name, name)}"


def _gist(session: Session, number: int) -> str:
    """The start of a message."""
    return one_line(_content(session, number), 200) if number >= 0 else ""


def _content(session: Session, number: int) -> str:
    """A message's text, without reminder tags."""
    message = session.conversation.sent()[number]
    content = session.mask(message.get("content") or "")
    return reminder_text(content) if kind_of(message) == "reminder" else content


def _by_role(screen: Screen, rows: Sequence[ContextRow]) -> list[Text]:
    """The tokens of each role."""
    sums: Counter[str] = Counter()
    for row in rows:
        sums[row.role] += row.tokens
    line = styled("  ")
    for role, style in _ROLE_STYLES.items():
        if sums[role]:
            line.append(f"{role} {tokens(sums[role])}  ", style)
    return [styled(""), screen.truncate(line)]


def _total(session: Session) -> Text:
    """The next request's size."""
    size, budget = session.size, session.window.budget
    words = f"  {tokens(size)} of {tokens(budget.limit)} used, {percent_of(size, budget.limit)}%"
    words += f"; compacts at {tokens(budget.hard_trigger)}" if session.compactor.options.automatic else ""
    return styled(f"{words}; /context all has the rest")


def _limits(screen: Screen, session: Session, rows: Sequence[ContextRow]) -> list[Text]:
    """The next request's size, the compaction triggers, and what cannot shrink."""
    from codelet.context.rows import floor_of

    size, budget = session.size, session.window.budget
    effective = session.window.effective(session.conversation)
    dot = f" {screen.signs.dot} "
    parts = [f"{tokens(size)} of the budget of {tokens(budget.limit)} tokens, {percent_of(size, budget.limit)}%"]
    parts.append(f"window {tokens(budget.window)}{', a guess' if session.models.window_is_guessed else ''}")
    if effective < size:
        parts.append(f"{tokens(effective)} effective (cached at a tenth)")
    if session.compactor.options.automatic:
        parts.append(f"compacted at {tokens(budget.hard_trigger)}, or {tokens(budget.cost_trigger)} effective")
    else:
        parts.append("never compacted automatically")
    floor = floor_of(rows)
    items = ", ".join(f"{part} {tokens(count)}" for part, count in floor.items())
    parts.append(f"floor {tokens(sum(floor.values()))}: {items}")
    used = styled()
    over = False
    for number, part in enumerate(session.compactor.shares()):
        used.append(dot if number else "", QUIET)
        used.append(
            f"{part.name} {tokens(part.used)} of {tokens(part.limit)}", WARN if part.used > part.limit else QUIET
        )
        over = over or (part.used > part.limit and part.name in ("context", "history"))
    if over:
        used.append(f"{dot}a compaction brings it back to its share", QUIET)
    listed = [*indented(screen, styled(dot.join(parts))), *indented(screen, used)]
    if (report := session.compactor.report) is not None and any(report.allocation):
        words = [
            f"{name.replace('_', ' ')} {tokens(size)}" for name, size in report.allocation._asdict().items() if size
        ]
        words.append(f"answer {tokens(budget.reserve)}")
        listed += indented(screen, styled((f"the last compaction gave {dot.join(words)}", QUIET)))
    return listed


def indented(screen: Screen, line: Text) -> list[Text]:
    """Wrap and indent a line."""
    from codelet.frontends.terminal.show.console import wrap

    return [styled("  ").append_text(row) for row in wrap(line, screen.width - 2)]


async def _exact(screen: Screen, session: Session) -> Text | None:
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
    return screen.truncate(styled((f"  {tokens(counted)} as {encoding_name(model)} counts them{own}", QUIET)))


async def reminders(screen: Screen, session: Session, argument: str) -> None:
    """List reminders with tokens, cost and switch, and tools; or set a switch."""
    from codelet.frontends.terminal.show.console import wrap

    ledger = session.reminders
    rows = ledger.rows(session.conversation)
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
    elif not any(row.is_known for row in rows):
        screen.note("the model has no reminders yet")
        for row in rows:
            screen.say(styled((f"  {row.kind:<15}", ACCENT), _switch(row)))
    else:
        for row in rows:
            if row.on and not row.is_known:
                continue
            line = styled(
                (f"  {row.kind:<15}", ACCENT), f"{tokens(row.tokens):>6} tokens  {tokens(row.sent):>6} sent  "
            )
            screen.say(line.append_text(styled(_switch(row))))
        screen.note("/reminders TYPE shows one, /reminders TYPE off switches it off")


def _switch(row: ReminderRow) -> tuple[str, str]:
    return ("on", "") if row.on else ("off", WARN)
