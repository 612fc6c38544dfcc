"""/rewind: back to before a prompt, with the conversation, files or both. /undo: the last change."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from codelet.errors import ToolError, UsageError
from codelet.extensions.services import file_history
from codelet.frontends.terminal.show.numbers import plural
from codelet.frontends.terminal.show.style import ACCENT, QUIET, WARN
from codelet.frontends.terminal.slash_commands.show_changes import change_words, changed_rows
from codelet.frontends.terminal.slash_commands.show_session import styled
from codelet.record import Record
from codelet.system.text import clean, one_line
from codelet.system.text.typed import whole_number

if TYPE_CHECKING:
    from rich.text import Text

    from codelet.conversation import Checkpoint
    from codelet.extensions.services import ChangeLog, FileBack, RanCommand
    from codelet.frontends.terminal.slash_commands.slash_command import ReplControls

What = Literal["both", "conversation", "files"]

_WHAT: dict[What, str] = {
    "both": "Conversation and files",
    "conversation": "Conversation only",
    "files": "Files only",
}
_NO_CHANGE = "no file changes to undo"
_MOST_NAMED = 3
_MOST_LISTED = 12
_FOREIGN_ROWS = 20


class _Wish(Record):
    """The command's arguments; None for what is still to be chosen."""

    prompts: int | None = None
    what: What | None = None
    overwrite: bool = False


def _wish(argument: str) -> _Wish:
    """Raises UsageError."""
    wish = _Wish()
    for word in argument.lower().split():
        if (number := whole_number(word)) and wish.prompts is None:
            wish = wish.replace(prompts=number)
        elif (what := next((each for each in _WHAT if each == word), None)) is not None and wish.what is None:
            wish = wish.replace(what=what)
        elif word == "overwrite" and not wish.overwrite:
            wish = wish.replace(overwrite=True)
        else:
            raise UsageError(f"/rewind takes N, then both, conversation or files, not {one_line(word, 40)}")
    return wish


async def rewind(repl: ReplControls, argument: str) -> None:
    """Go back to before a prompt, which returns to the input line."""
    screen, session = repl.screen, repl.session
    points, log = session.conversation.checkpoints[::-1], file_history(session)
    try:
        wish = _wish(argument)
    except UsageError as error:
        screen.fail(str(error))
        return
    if not points:
        screen.note("there is no prompt to go back to")
        return
    prompts = wish.prompts or await _chosen_point(repl, points, log)
    if prompts is None:
        return
    if prompts > len(points):
        screen.fail(f"/rewind {prompts}: there are no {prompts:,} prompts to go back to, only {len(points)}")
        return
    point = points[prompts - 1]
    plan = [back for back in log.plan(log.since(point.turn)) if not back.stands]
    ran = [command for command in log.commands if command.turn >= point.turn]
    what = wish.what or await _chosen_what(repl, point, plan, ran)
    if what is None:
        screen.note("nothing was changed")
        return
    done: list[FileBack] = []
    if what != "conversation" and plan:
        found = await _files_back(repl, log, plan, overwrite=wish.overwrite)
        if found is None:
            if what == "both":
                screen.note("the conversation is unchanged")
            return
        done = found
    if what != "conversation" and ran:
        screen.note(_commands_told(ran))
    if what == "files":
        repl.rewound.add(done)
        if not plan and not ran:
            screen.note(_NO_CHANGE)
        return
    repl.can_resume = False
    pinned = len(session.compactor.pinned_outside(point.parts.body))
    repl.prefill = session.rewind(prompts, unpin=True) or ""
    stay = "" if what == "both" else "; files unchanged"
    unpinned = f"; {plural(pinned, 'pinned message')} went, too" if pinned else ""
    screen.note(f"rewound to before {'your last prompt' if prompts == 1 else 'that prompt'}{stay}{unpinned}")
    repl.rewound.add(done, claimed=False)
    if names := repl.rewound.went_to(point.turn):
        screen.note(f"restored since: {names}; the model learns this with your next prompt")


async def undo(repl: ReplControls, argument: str) -> None:
    """Undo the last call that changed files."""
    screen, log = repl.screen, file_history(repl.session)
    if argument not in ("", "overwrite"):
        screen.fail(f"/undo takes overwrite or nothing, not {one_line(argument, 40)}")
        return
    if not log.changes:
        screen.note(_NO_CHANGE)
        if log.commands:
            screen.note(_commands_told(log.commands))
        return
    last = log.last()
    plan = log.plan(last)
    words = f"the {_clock(last[0].at)} {last[0].tool}"
    if all(back.stands for back in plan):
        for back in plan:
            log.put_back(back)
        screen.note(f"{words}: {_names(plan)} is already as before; /undo goes one change further back")
        return
    screen.note(f"undoing {words}")
    repl.rewound.add(await _files_back(repl, log, plan, overwrite=argument == "overwrite") or ())


async def _chosen_point(repl: ReplControls, points: Sequence[Checkpoint], log: ChangeLog) -> int | None:
    """Let the user choose a prompt; 1 is the newest."""
    rows = [_point_row(repl, number, points, log) for number in range(1, len(points) + 1)]
    chosen = await repl.choose([styled(("Rewind to before which prompt?", "bold"))], rows)
    if chosen is None:
        repl.screen.note("nothing was changed")
        return None
    return chosen + 1


def _point_row(repl: ReplControls, number: int, points: Sequence[Checkpoint], log: ChangeLog) -> Text:
    """A prompt with its time and the files its calls changed."""
    point = points[number - 1]
    following = points[number - 2].turn if number > 1 else None
    own = [each for each in log.since(point.turn) if following is None or each.turn < following] if point.turn else []
    names = list(dict.fromkeys(change.name for change in own))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    at = _clock(point.at) if point.at else "     "
    room = repl.screen.width - 13
    files = one_line(", ".join(names[:_MOST_NAMED]) + more, room // 2)
    words = one_line(repl.session.mask(repl.pastes.fold(point.prompt)), room - len(files) - 2 if files else room)
    return styled((f"{number:>2} ", ACCENT), (f"{at} ", QUIET), words, (f"  {files}" if files else "", QUIET))


async def _chosen_what(
    repl: ReplControls, point: Checkpoint, plan: Sequence[FileBack], ran: Sequence[RanCommand]
) -> What | None:
    """Let the user choose what to restore, if files changed."""
    if not plan:
        return "conversation"
    asked = one_line(repl.session.mask(repl.pastes.fold(point.prompt)), max(repl.screen.width - 9, 10))
    head = [styled((f"Before: {asked}", "bold"))]
    head += [_back_row(back) for back in plan[:_MOST_LISTED]]
    if len(plan) > _MOST_LISTED:
        head.append(styled((f"  and {len(plan) - _MOST_LISTED} more files", QUIET)))
    if ran:
        head.append(styled((f"  {_commands_told(ran)}", WARN)))
    chosen = await repl.choose(head, [styled(about) for about in _WHAT.values()])
    return None if chosen is None else list(_WHAT)[chosen]


def _back_row(back: FileBack) -> Text:
    """A file and its fate."""
    if why := back.lost or back.foreign:
        return styled("  ", clean(back.name), (f"  {why}", WARN))
    return styled("  ", clean(back.name), (f"  {change_words(back)} undone", QUIET))


async def _files_back(
    repl: ReplControls, log: ChangeLog, plan: Sequence[FileBack], *, overwrite: bool
) -> list[FileBack] | None:
    """Restore files; those changed by someone else only after a yes. None on failure or refusal."""
    screen = repl.screen
    foreign = [back for back in plan if back.foreign and not back.lost]
    if foreign and not overwrite:
        answer = await _may_overwrite(repl, foreign)
        if answer is None:
            screen.note("nothing was changed")
            return None
        overwrite = answer
    done, failed = [], False
    for back in plan:
        if back.lost or (back.foreign and not overwrite):
            screen.note(f"{back.name} not restored: {back.lost or f'it was {back.foreign}'}")
            continue
        try:
            log.put_back(back)
        except ToolError as error:
            screen.fail(str(error))
            failed = True
        else:
            done.append(back)
    if done:
        screen.note(f"restored: {_names(done)}")
    if failed:
        repl.rewound.add(done)
    return None if failed else done


async def _may_overwrite(repl: ReplControls, foreign: Sequence[FileBack]) -> bool | None:
    """Show someone else's changes and ask whether to overwrite them; None to cancel."""
    rows: list[Text] = []
    for back in foreign:
        rows.append(styled((clean(back.name), "bold"), (f" {back.foreign}", WARN)))
        rows += changed_rows(repl.screen, repl.session, back, reverse=True, limit=_FOREIGN_ROWS)
    which = "it" if len(foreign) == 1 else "them"
    options = [styled(f"keep {which}")]
    options += [styled(f"overwrite {which}: the - lines above are lost"), styled("cancel")]
    chosen = await repl.choose(rows, options)
    return None if chosen in (None, 2) else chosen == 1


def _commands_told(ran: Sequence[RanCommand]) -> str:
    """A note about commands, whose changes are unknown."""
    named = "; ".join(one_line(command.about, 40) for command in ran[-_MOST_NAMED:])
    more = "" if len(ran) <= _MOST_NAMED else f" and {len(ran) - _MOST_NAMED} earlier"
    return f"not undone, changed by commands: {named}{more}"


def _names(plan: Sequence[FileBack]) -> str:
    return ", ".join(clean(back.name) for back in plan)


def _clock(at: float) -> str:
    return time.strftime("%H:%M", time.localtime(at))
