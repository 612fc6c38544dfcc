"""Commands that show what the model is sent and let the user hold it: context, compaction, pins, reminders."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from codelet.context.asked import NothingToTakeOut, Size, parsed
from codelet.errors import UsageError
from codelet.frontends.render.lines import next_request
from codelet.frontends.render.numbers import plural, share, tokens
from codelet.frontends.render.style import ACCENT, QUIET, WARN
from codelet.frontends.repl.command_views import text
from codelet.messages import kind_of
from codelet.prompt import reminder_text
from codelet.text import clean, one_line

if TYPE_CHECKING:
    from rich.text import Text

    from codelet.compaction import Report
    from codelet.compaction.score import Score
    from codelet.context.rows import ContextRow
    from codelet.frontends.repl.repl import Repl

_ROWS = 40
_WIDE = 110
_MAP_CELLS = 60
_ROLE_STYLES = {"system": "magenta", "user": "green", "assistant": "cyan", "tool": "yellow"}
_MARKS = {"system": "s", "user": "u", "assistant": "a", "tool": "t"}


async def show(repl: Repl, argument: str) -> None:
    """Each message with its number, turn, source and tokens; the totals and limits; a map of the budget."""
    if argument not in ("", "all"):
        repl.fail(f"/context takes nothing, or all: {one_line(argument, 60)} is neither")
        return
    rows = repl.session.context()
    fixed = [row for row in rows if row.number < 0]
    listed = [row for row in rows if row.number >= 0]
    shown = listed if argument == "all" else listed[-_ROWS:]
    left_out = len(listed) - len(shown)
    note = [text((f"  {repl.signs.more} {plural(left_out, 'older message')}: /context all", QUIET))] if left_out else []
    latest = max((row.turn for row in rows), default=0)
    lines = [_row(repl, row, latest) for row in (*fixed, *shown)]
    repl.say(*lines[: len(fixed)], *note, *lines[len(fixed) :], *_budget_map(repl, rows), *_limits(repl, rows))
    if (exact := await _exact(repl)) is not None:
        repl.say(exact)


def _row(repl: Repl, row: ContextRow, latest: int) -> Text:
    place = str(row.number) if row.number >= 0 else ""
    line = text((f"{place:>5}  ", QUIET), f"{tokens(row.tokens):>6}  ")
    line.append(f"{row.role:<9} ", _ROLE_STYLES.get(row.role, ""))
    line.append("pinned  " if row.pinned else "", ACCENT)
    line.append(f"anchor: {row.anchor}  " if row.anchor else "", ACCENT)
    if row.source != row.role:
        line.append(f"{clean(row.source)}  ")
    age = latest - row.turn
    line.append(f"{plural(age, 'turn')} ago  " if row.turn and age else "", QUIET)
    line.append(_gist(repl, row.number), QUIET)
    return repl.cut(line)


def _gist(repl: Repl, number: int) -> str:
    """The beginning of a message on one line."""
    if number < 0:
        return ""
    message = repl.session.conversation.sent()[number]
    content = repl.session.approvals.masker.mask(message.get("content") or "")
    return one_line(reminder_text(content) if kind_of(message) == "reminder" else content, 200)


def _budget_map(repl: Repl, rows: Sequence[ContextRow]) -> list[Text]:
    """A bar of the whole budget: each role has its own letter and colour, dots are free."""
    sums: Counter[str] = Counter()
    for row in rows:
        sums[row.role] += row.tokens
    budget = repl.session.budget
    cells = min(_MAP_CELLS, repl.width - 4)
    bar = text("  ")
    used = 0
    for role, mark in _MARKS.items():
        wide = round(sums[role] * cells / budget) or int(sums[role] > 0)
        wide = min(wide, cells - used)
        bar.append(mark * wide, _ROLE_STYLES[role])
        used += wide
    bar.append(repl.signs.dot * (cells - used), QUIET)
    parts = [f"{mark} {role} {tokens(sums[role])}" for role, mark in _MARKS.items() if sums[role]]
    legend = f" {repl.signs.dot} ".join(parts)
    return [text(""), bar, repl.cut(text((f"  {legend}", QUIET)))]


def _limits(repl: Repl, rows: Sequence[ContextRow]) -> list[Text]:
    """The next request's size, real and effective, the sizes at which it is compacted, and what cannot shrink."""
    from codelet.context.rows import floor_of

    session = repl.session
    size, budget = session.size, session.gauge.budget
    effective = session.gauge.effective(session.conversation)
    dot = f" {repl.signs.dot} "
    parts = [f"{tokens(size)} of the budget of {tokens(session.budget)} tokens, {share(size, session.budget)}%"]
    parts.append(f"window {tokens(session.window)}{', a guess' if session.window_is_guessed else ''}")
    if effective < size:
        parts.append(f"{tokens(effective)} effective (cached at a tenth)")
    if session.compactor.options.automatic:
        parts.append(f"compacted at {tokens(budget.hard_trigger)}, or {tokens(budget.cost_trigger)} effective")
    else:
        parts.append("never compacted by itself")
    floor = floor_of(rows)
    items = ", ".join(f"{part} {tokens(count)}" for part, count in floor.items())
    parts.append(f"floor {tokens(sum(floor.values()))}: {items}")
    used = text()
    over = False
    for number, part in enumerate(session.compactor.shares()):
        used.append(dot if number else "", QUIET)
        used.append(
            f"{part.name} {tokens(part.used)} of {tokens(part.limit)}", WARN if part.used > part.limit else QUIET
        )
        over = over or (part.used > part.limit and part.name in ("context", "history"))
    if over:
        used.append(f"{dot}a compaction brings it back to its share", QUIET)
    return [*_indented(repl, text(dot.join(parts))), *_indented(repl, used)]


def _indented(repl: Repl, line: Text) -> list[Text]:
    """Rows of a line, moved in."""
    from codelet.frontends.render.wrap import wrap

    return [text("  ").append_text(row) for row in wrap(line, repl.width - 2)]


async def _exact(repl: Repl) -> Text | None:
    """What a real tokeniser counts, where one is on this machine; the provider's own may differ."""
    from codelet.tokens.counter import exact_size, has_own_encoding
    from codelet.tokens.exact import ExactUnavailable, encoding_name

    session = repl.session
    model = session.provider.model
    beside = [session.system_prompt, json.dumps([tool.schema() for tool in session.tools], ensure_ascii=False)]
    try:
        counted = await asyncio.to_thread(exact_size, session.conversation.sent(), beside, model)
    except ExactUnavailable:
        return None
    own = "" if has_own_encoding(model) else "; the model's own tokeniser is another"
    return repl.cut(text((f"  {tokens(counted)} as {encoding_name(model)} counts them{own}", QUIET)))


async def compact(repl: Repl, argument: str) -> None:
    """Compact now, to a size and with what the argument says in mind; with --preview only say what that would do."""
    first, _, rest = argument.partition(" ")
    previewed = first == "--preview"
    if not repl.session.messages:
        repl.note("there is nothing to compact")
    elif first.startswith("--") and not previewed:
        repl.fail("/compact takes a size (20k, 30%) and what matters in your words, or --preview")
    else:
        try:
            size, wish = parsed(rest.strip() if previewed else argument)
        except ValueError as error:
            repl.fail(str(error))
            return
        if previewed:
            _preview(repl, wish, size)
        else:
            await repl.watch(repl.session.compact(wish, size))


def _preview(repl: Repl, wish: str, size: Size | None) -> None:
    """Say what a compaction would do."""
    from codelet.compaction import IrreducibleContext

    try:
        seen = repl.session.compactor.preview(wish, size)
    except (IrreducibleContext, NothingToTakeOut) as error:
        repl.fail(f"not compacted: {clean(str(error))}")
        return
    pays = f"; pays back after {plural(seen.pays_after, 'request')}" if seen.pays_after else ""
    _show_report(repl, seen.report, "would be", (seen.before, seen.after), pays)


async def uncompact(repl: Repl, argument: str) -> None:
    """Put back what the last compaction took out."""
    event = repl.session.compactor.undo()
    if event is None:
        repl.note("there is no compaction to take back")
    else:
        repl.renderer.show(event)
        repl.renderer.stop()


async def why(repl: Repl, argument: str) -> None:
    """What the last compaction did with each turn, or with one."""
    report = repl.session.compactor.report
    if report is None:
        repl.note("nothing was compacted yet; /compact --preview shows what would be")
    elif not argument:
        _show_report(repl, report, "was", repl.session.compactor.sizes)
    elif (fate := next((fate for fate in report.turns if str(fate.turn) == argument), None)) is not None:
        sizes = f"{tokens(fate.before)} to {tokens(fate.after)} tokens"
        told = text((f"turn {fate.turn} {fate.fate}", ACCENT), f", {sizes}: {clean(fate.why)}")
        score = text((f"score {_parts(fate.score)}", QUIET))
        summary = _summary(repl, report, "was", repl.session.compactor.sizes)
        repl.say(*_indented(repl, told), *_indented(repl, score), *summary)
    else:
        repl.fail(f"the last compaction had no turn {clean(argument)}; /why lists what it had")


def _show_report(repl: Repl, report: Report, verb: str, sizes: tuple[int, int], more: str = "") -> None:
    details = repl.width >= _WIDE
    rows = []
    for fate in report.turns:
        score = _parts(fate.score) if details else str(fate.score.total)
        line = text((f"{fate.turn:>5}  ", QUIET), (f"{fate.fate:<10} ", WARN if fate.fate == "dropped" else ACCENT))
        line.append(f"{tokens(fate.before):>6} to {tokens(fate.after):<6} ")
        line.append(f"score {score}  {clean(fate.why)}", QUIET)
        rows.append(repl.cut(line))
    repl.say(*rows, *_summary(repl, report, verb, sizes, more))


def _summary(repl: Repl, report: Report, verb: str, sizes: tuple[int, int], more: str = "") -> list[Text]:
    """The next request's sizes before and after, what was done in general, and the warnings."""
    how = "; old messages are reduced, no turn is summarised" if report.tier == 1 else ""
    less = f", {100 - share(sizes[1], sizes[0])}% less" if 0 < sizes[1] < sizes[0] else ""
    told = f"the conversation {verb} compacted: {next_request(*sizes, repl.signs)}{less}{how}{more}"
    rows = _indented(repl, text(told))
    rows.extend(repl.cut(text((f"  {repl.signs.failed} ", WARN), clean(warning))) for warning in report.warnings)
    return rows


def _parts(score: Score) -> str:
    """The score and the parts that it is made of."""
    names = ("anchor", "recency", "relevance", "files", "reference", "feedback")
    found = [f"{name} {value}" for name in names if (value := getattr(score, name))]
    return f"{score.total}: {', '.join(found)}" if found else str(score.total)


async def pin(repl: Repl, argument: str) -> None:
    """Keep a message word for word through compactions; or put back, and keep, what the last one lost."""
    if argument == "lost":
        try:
            size = repl.session.compactor.pin_lost()
        except UsageError as error:
            repl.fail(str(error))
        else:
            repl.note(f"what was lost stands in the list again, pinned: {tokens(size)} tokens; /uncompact takes it out")
        return
    if _held(repl, argument, repl.session.compactor.pin):
        repl.note(f"message {argument} stays word for word")


async def unpin(repl: Repl, argument: str) -> None:
    """Let go of a pin."""
    rows = repl.session.context()
    if argument.isdecimal() and any(row.number == int(argument) and not row.pinned for row in rows):
        repl.fail(f"message {int(argument)} is not pinned; /context marks those that are")
    elif _held(repl, argument, repl.session.compactor.unpin):
        repl.note(f"message {argument} is no longer pinned")


async def drop(repl: Repl, argument: str) -> None:
    """Take a message out of the list, a call with its results."""
    gone: list[int] = []
    if _held(repl, argument, lambda number: gone.extend(repl.session.compactor.drop(number))):
        named = f"message {gone[0]} is" if len(gone) == 1 else f"messages {gone[0]} to {gone[-1]} are"
        repl.note(f"{named} gone; the ones after it have new numbers")


def _held(repl: Repl, argument: str, act: Callable[[int], None]) -> bool:
    """Apply `act` to the message of that number; False, with a line that says why, where that cannot be."""
    if not argument.isdecimal():
        repl.fail("name one message by its number in /context")
        return False
    try:
        act(int(argument))
    except UsageError as error:
        repl.fail(str(error))
        return False
    return True


async def reminders(repl: Repl, argument: str) -> None:
    """Each reminder with its tokens, its cost so far and its switch; or set one switch."""
    from codelet.frontends.render.wrap import wrap

    ledger = repl.session.reminders
    rows = ledger.rows(repl.session.conversation)
    kind, _, switch = (part.strip() for part in argument.partition(" "))
    found = next((row for row in rows if row.kind.lower() == kind.lower()), None)
    if kind and found is None:
        known = ", ".join(row.kind for row in rows)
        repl.fail(f"there is no reminder {kind}; there are {known}" if known else "nothing was told to the model yet")
    elif found is not None and switch in ("on", "off"):
        (ledger.off.discard if switch == "on" else ledger.off.add)(found.kind)
        repl.note(f"the reminder {found.kind} is {switch} from the next step on")
    elif switch:
        repl.fail(f"a reminder is switched on or off: {one_line(switch, 60)} is neither")
    elif found is not None:
        repl.say(*wrap(text((clean(found.text or "it is not in the list now"), QUIET)), repl.width))
    elif not rows:
        repl.note("nothing was told to the model yet")
    else:
        for row in rows:
            line = text((f"  {row.kind:<13}", ACCENT), f"{tokens(row.tokens):>6} tokens  {tokens(row.sent):>6} sent  ")
            line.append("on" if row.on else "off", "" if row.on else WARN)
            repl.say(line)
        repl.note("/reminders TYPE shows one, /reminders TYPE off switches it off")
