"""Commands that change what the model is sent: compaction and its report, pins, drops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from codelet.context.allotment import NothingToCompact, Size, parsed
from codelet.context.tokens.budget import percent_of
from codelet.errors import UsageError
from codelet.frontends.terminal.show.numbers import next_request, plural, tokens
from codelet.frontends.terminal.show.style import ACCENT, QUIET, WARN
from codelet.frontends.terminal.slash_commands.show_context import in_words, indented
from codelet.frontends.terminal.slash_commands.show_session import styled
from codelet.system.text import clean
from codelet.system.text.typed import whole_number

if TYPE_CHECKING:
    from rich.text import Text

    from codelet.context.compaction.report import CompactionReport, Score
    from codelet.frontends.terminal.screen import Screen
    from codelet.frontends.terminal.slash_commands.slash_command import ReplControls
    from codelet.loop.session import Session


async def compact_now(repl: ReplControls, argument: str) -> None:
    """Compact now, to a size and with instructions; --preview only shows the result."""
    first, _, rest = argument.partition(" ")
    previewed = first == "--preview"
    wanted = rest.strip() if previewed else argument
    if not repl.session.messages:
        repl.screen.note("there is nothing to compact")
    elif wanted[:1] == "-" and wanted[1:2].strip():  # an unknown option, or a negative size
        repl.screen.fail("/compact takes a size (20k, 30%) and instructions, or --preview")
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
        repl.screen.note("not compacted: stopped; the conversation is unchanged")


def _preview(screen: Screen, session: Session, instruction: str, size: Size | None) -> None:
    """Show what a compaction would do."""
    from codelet.context.compaction import IrreducibleContext

    try:
        seen = session.compactor.preview(instruction, size)
    except (IrreducibleContext, NothingToCompact) as error:
        screen.fail(f"not compacted: {clean(str(error))}")
        return
    pays = f"; saves money after {plural(seen.pays_after, 'request')}" if seen.pays_after else ""
    _show_report(screen, seen.report, "would be", (seen.before, seen.after), pays)


async def uncompact(repl: ReplControls, argument: str) -> None:
    """Undo the last compaction."""
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
    """Show what the last compaction did with each turn."""
    if (report := session.compactor.report) is None:
        screen.note("nothing was compacted yet; /compact --preview shows what would be")
    else:
        _show_report(screen, report, "was", session.compactor.sizes)


def _show_report(screen: Screen, report: CompactionReport, verb: str, sizes: tuple[int, int], more: str = "") -> None:
    rows = []
    for fate in report.turns:
        line = styled((f"{fate.turn:>5}  ", QUIET), (f"{fate.fate:<10} ", ACCENT))
        line.append(f"{tokens(fate.before):>6} to {tokens(fate.after):<6} ")
        line.append(f"weight {_parts(fate.score)}", QUIET)
        rows.append(screen.truncate(line))
    screen.say(*rows, *_summary(screen, report, verb, sizes, more))


def _summary(screen: Screen, report: CompactionReport, verb: str, sizes: tuple[int, int], more: str = "") -> list[Text]:
    """The next request's sizes before and after, and the warnings."""
    less = f", {100 - percent_of(sizes[1], sizes[0])}% less" if 0 < sizes[1] < sizes[0] else ""
    rows = indented(
        screen, styled(f"the conversation {verb} compacted: {next_request(*sizes, screen.signs)}{less}{more}")
    )
    rows.extend(
        screen.truncate(styled((f"  {screen.signs.failed} ", WARN), clean(warning))) for warning in report.warnings
    )
    rows.extend(
        indented(screen, styled(("left out of the handoff: ", QUIET), clean(line)))[0] for line in report.struck
    )
    return rows


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
    if (number := _held(screen, argument, session.compactor.pin)) is not None:
        screen.note(f"message {number} stays verbatim: {in_words(session)[number]}")


async def unpin(screen: Screen, session: Session, argument: str) -> None:
    """Remove a pin."""
    wanted = whole_number(argument)
    if any(row.number == wanted and not row.pinned for row in session.context()):
        screen.fail(f"message {wanted} is not pinned; /context marks pinned messages")
    elif (number := _held(screen, argument, session.compactor.unpin)) is not None:
        screen.note(f"message {number} is no longer pinned: {in_words(session)[number]}")


async def drop(screen: Screen, session: Session, argument: str) -> None:
    """Remove a message, a call with its results."""
    gone: list[int] = []
    was = in_words(session)
    if _held(screen, argument, lambda number: gone.extend(session.compactor.drop(number))) is not None:
        named = f"message {gone[0]}" if len(gone) == 1 else f"messages {gone[0]} to {gone[-1]}"
        screen.note(f"removed {named}; later messages have new numbers:")
        screen.say(*(row for number in gone for row in indented(screen, styled((was[number], QUIET)))))


def _held(screen: Screen, argument: str, act: Callable[[int], None]) -> int | None:
    """Apply `act` to a message and return its number; if that fails, say why and return None."""
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
