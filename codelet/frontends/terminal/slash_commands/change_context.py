"""Commands that change what the model is sent: compaction and its report, pins, drops."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from codelet.context.allotment import NothingToCompact, Size, parsed
from codelet.context.tokens.budget import percent_of
from codelet.errors import UsageError
from codelet.frontends.terminal.show.numbers import next_request, plural, tokens
from codelet.frontends.terminal.show.style import ACCENT, QUIET, WARN
from codelet.frontends.terminal.slash_commands.show_context import in_words, indented
from codelet.frontends.terminal.slash_commands.show_session import styled
from codelet.system.text import clean, one_line
from codelet.system.text.typed import whole_number

if TYPE_CHECKING:
    from rich.text import Text

    from codelet.context.compaction.report import CompactionReport, Score
    from codelet.frontends.terminal.screen import Screen
    from codelet.frontends.terminal.slash_commands.slash_command import ReplControls
    from codelet.loop.session import Session

_WIDE = 110
"""Columns from which on the parts of a score are shown, too."""


async def compact_now(repl: ReplControls, argument: str) -> None:
    """Compact now, to a size and with what the argument says in mind; with --preview only say what that would do."""
    first, _, rest = argument.partition(" ")
    previewed = first == "--preview"
    wanted = rest.strip() if previewed else argument
    if not repl.session.messages:
        repl.screen.note("there is nothing to compact")
    elif wanted[:1] == "-" and wanted[1:2].strip():  # no instruction: an option that there is not, a size below nothing
        repl.screen.fail("/compact takes a size (20k, 30%) and what matters in your words, or --preview")
    else:
        try:
            size, instruction = parsed(wanted)
        except ValueError as error:
            repl.screen.fail(str(error))
            return
        if previewed:
            _preview(repl.screen, repl.session, instruction, size)
        else:
            await _compact(repl, instruction, size)


async def _compact(repl: ReplControls, instruction: str, size: Size | None) -> None:
    compactor = repl.session.compactor
    before = compactor.report
    if await repl.watch(repl.session.compact(instruction, size)) == "stopped" and compactor.report is before:
        repl.screen.note("not compacted: you stopped it; the conversation is as it was")


def _preview(screen: Screen, session: Session, instruction: str, size: Size | None) -> None:
    """Say what a compaction would do."""
    from codelet.context.compaction import IrreducibleContext

    try:
        seen = session.compactor.preview(instruction, size)
    except (IrreducibleContext, NothingToCompact) as error:
        screen.fail(f"not compacted: {clean(str(error))}")
        return
    pays = f"; after {plural(seen.pays_after, 'request')} it has paid for itself" if seen.pays_after else ""
    _show_report(screen, seen.report, "would be", (seen.before, seen.after), pays)


async def uncompact(repl: ReplControls, argument: str) -> None:
    """Put back what the last compaction took out."""
    try:
        event = repl.session.compactor.undo()
    except UsageError as error:
        repl.screen.fail(str(error))
        return
    if event is None:
        repl.screen.note("there is no compaction to undo")
    else:
        repl.show(event)


async def explain(screen: Screen, session: Session, argument: str) -> None:
    """What the last compaction did with each turn, or with one; with @FILE how much a file bears on the work now."""
    report = session.compactor.report
    if argument.startswith("@"):
        _explain_file(screen, session, argument[1:].strip('"'))
    elif report is None:
        screen.note("nothing was compacted yet; /compact --preview shows what would be")
    elif not argument:
        _show_report(screen, report, "was", session.compactor.sizes)
    elif (fate := next((fate for fate in report.turns if str(fate.turn) == argument), None)) is not None:
        sizes = f"{tokens(fate.before)} to {tokens(fate.after)} tokens"
        told = styled((f"turn {fate.turn} {fate.fate}", ACCENT), f", {sizes}, {tokens(fate.verbatim)} of them verbatim")
        score = styled((f"weight {_parts(fate.score)}", QUIET))
        summary = _summary(screen, report, "was", session.compactor.sizes)
        screen.say(*indented(screen, told), *indented(screen, score), *summary)
    else:
        screen.fail(f"the last compaction had no turn {clean(argument)}; /why lists what it had")


def _explain_file(screen: Screen, session: Session, path: str) -> None:
    """Why a file stands where it does behind an @."""
    relations = session.files.of(
        list(session.messages), root=str(session.workspace), records=session.conversation.calls
    )
    bearing = relations.bearing(path)
    if not bearing.total and not os.path.lexists(session.workspace / path):
        screen.fail(f"there is no file {one_line(path, 200)} here, and the session had nothing to do with one")
        return
    found = [f"{told} {points}" for name, told in _BEARS.items() if (points := getattr(bearing, name))]
    told = ", ".join(found) or "the session has nothing to do with it yet"
    screen.say(*indented(screen, styled((clean(path), ACCENT), (f"  weight {bearing.total}: {told}", QUIET))))


def _show_report(screen: Screen, report: CompactionReport, verb: str, sizes: tuple[int, int], more: str = "") -> None:
    details = screen.width >= _WIDE
    rows = []
    for fate in report.turns:
        score = _parts(fate.score) if details else str(fate.score.total)
        line = styled((f"{fate.turn:>5}  ", QUIET), (f"{fate.fate:<10} ", ACCENT))
        line.append(f"{tokens(fate.before):>6} to {tokens(fate.after):<6} ")
        line.append(f"weight {score}", QUIET)
        rows.append(screen.truncate(line))
    screen.say(*rows, *_summary(screen, report, verb, sizes, more))


def _summary(screen: Screen, report: CompactionReport, verb: str, sizes: tuple[int, int], more: str = "") -> list[Text]:
    """The next request's sizes before and after, what was done in general, and the warnings."""
    less = f", {100 - percent_of(sizes[1], sizes[0])}% less" if 0 < sizes[1] < sizes[0] else ""
    told = f"the conversation {verb} compacted: {next_request(*sizes, screen.signs)}{less}{more}"
    rows = indented(screen, styled(told))
    rows.extend(
        screen.truncate(styled((f"  {screen.signs.failed} ", WARN), clean(warning))) for warning in report.warnings
    )
    rows.extend(
        indented(screen, styled(("left out of the handoff: ", QUIET), clean(line)))[0] for line in report.struck
    )
    return rows


def _parts(score: Score) -> str:
    """Return how much a turn counts, and what for."""
    found = [f"{value} {told}" for name, told in _SCORED.items() if (value := getattr(score, name))]
    return f"{score.total}: {', '.join(found)}" if found else str(score.total)


_SCORED = {
    "anchor": "something was settled",
    "recency": "it is recent",
    "relevance": "it bears on the prompt",
    "files": "its files are in use",
    "reference": "you came back to it",
    "feedback": "you judged it",
}


_BEARS = {
    "recent": "touched lately",
    "changed": "changed",
    "named": "named by the prompt",
    "refers": "imports a file in use",
    "referred": "imported by a file in use",
}


async def pin(screen: Screen, session: Session, argument: str) -> None:
    """Keep a message verbatim through compactions."""
    if (number := _held(screen, argument, session.compactor.pin)) is not None:
        screen.note(f"message {number} stays verbatim: {in_words(session)[number]}")


async def unpin(screen: Screen, session: Session, argument: str) -> None:
    """Remove a pin."""
    wanted = whole_number(argument)
    if any(row.number == wanted and not row.pinned for row in session.context()):
        screen.fail(f"message {wanted} is not pinned; /context marks those that are")
    elif (number := _held(screen, argument, session.compactor.unpin)) is not None:
        screen.note(f"message {number} is no longer pinned: {in_words(session)[number]}")


async def drop(screen: Screen, session: Session, argument: str) -> None:
    """Take a message out of the list, a call with its results."""
    gone: list[int] = []
    was = in_words(session)
    if _held(screen, argument, lambda number: gone.extend(session.compactor.drop(number))) is not None:
        named = f"message {gone[0]} is" if len(gone) == 1 else f"messages {gone[0]} to {gone[-1]} are"
        screen.note(f"{named} gone; the ones after it have new numbers; it was:")
        screen.say(*(row for number in gone for row in indented(screen, styled((was[number], QUIET)))))


def _held(screen: Screen, argument: str, act: Callable[[int], None]) -> int | None:
    """Apply `act` to the message of that number, which is given back; if that is impossible, say why."""
    number = whole_number(argument)
    if number is None:
        screen.fail("name one message by its number in /context")
        return None
    try:
        act(number)
    except UsageError as error:
        screen.fail(str(error))
        return None
    return number
