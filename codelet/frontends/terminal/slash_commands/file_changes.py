"""/diff: what the session changed. /rewind: back to before a prompt, with its files. /undo: the last change."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from codelet.errors import ToolError, UsageError
from codelet.extensions.services import file_history
from codelet.frontends.terminal.screen import Screen, styled
from codelet.frontends.terminal.show.numbers import plural
from codelet.frontends.terminal.show.style import ACCENT, QUIET, WARN
from codelet.system.git import run_git
from codelet.system.text import clean, one_line
from codelet.system.text.typed import whole_number

if TYPE_CHECKING:
    from rich.text import Text

    from codelet.conversation import Checkpoint
    from codelet.extensions.services import ChangeLog, FileBack, PlaceState, RanCommand
    from codelet.frontends.terminal.slash_commands.slash_command import ReplControls
    from codelet.loop.session import Session


_MOST_NEW = 40
_LONGEST_NAME = 1_000
_MOST_ROWS = 400
_MOST_BYTES = 4 << 20
_MOST_NAMED = 3
_MOST_LISTED = 12
_FOREIGN_ROWS = 20
_NO_CHANGE = "no file changes to undo"
What = Literal["both", "conversation", "files"]
_WHAT: dict[What, str] = {
    "both": "Conversation and files",
    "conversation": "Conversation only",
    "files": "Files only",
}


async def diff(screen: Screen, session: Session, argument: str) -> None:
    """Show what the session changed, in a file or all; or the working tree with `git` or without changes."""
    log = file_history(session)
    plan = [back for back in log.plan(log.changes) if not back.stands]
    if argument == "git" or (not plan and not argument):
        await _work_tree(screen, session)
        return
    chosen = [back for back in plan if argument in ("", back.name)]
    if not chosen:
        raise UsageError(
            f"this session has not changed {one_line(argument, 60)}; /diff git shows changes since the last commit"
        )
    for back in chosen:
        others = "  also changed by someone else or a command" if back.foreign else ""
        screen.say(styled((clean(back.name), "bold"), (f"  {_change_words(back)}", QUIET), (others, WARN)))
        screen.say(*_changed_rows(screen, session, back, limit=_MOST_ROWS))
    if not argument:
        ran = f"; {plural(len(log.commands), 'command')} may have changed more (/diff git)" if log.commands else ""
        screen.note(f"{plural(len(chosen), 'file')} edited{ran}")


def _change_words(back: FileBack) -> str:
    """A file's change in a few words, such as `new file`, `removed`, `+3 -1`."""
    from codelet.frontends.terminal.show.diff_rows import diff_size

    if back.target.kind == "nothing":
        return "new file"
    if back.now.kind == "nothing":
        return "removed"
    if back.target.mode != back.now.mode and back.target.digest == back.now.digest:
        return f"mode {back.target.mode:o}, now {back.now.mode:o}"
    text = _unified(back.name, back.target, back.now)
    return "changed, not as text" if text is None else diff_size(text)


def _changed_rows(screen: Screen, session: Session, back: FileBack, *, limit: int, reverse: bool = False) -> list[Text]:
    """The diff between before and now; `reverse` for what restoring would do."""
    from codelet.frontends.terminal.show.diff_rows import diff_rows

    old, new = (back.now, back.target) if reverse else (back.target, back.now)
    text = _unified(back.name, old, new) or ""
    return diff_rows(session.mask(text), screen.width, limit=limit) if text else []


def _unified(name: str, old: PlaceState, new: PlaceState) -> str | None:
    """The diff of two states; None for binary files."""
    from codelet.tools.change import unified

    before, after = _text(old), _text(new)
    return None if before is None or after is None else unified(before, after, name)


def _text(state: PlaceState) -> str | None:
    from codelet.tools.encoding import decode_text

    if state.kind == "nothing":
        return ""
    decoded = None if state.data is None else decode_text(state.data)
    return None if decoded is None else decoded[0]


async def _work_tree(screen: Screen, session: Session) -> None:
    """Show changes since the last commit."""
    from codelet.frontends.terminal.show.diff_rows import diff_rows

    folder = session.workspace
    answer = await run_git(folder, "diff", "HEAD", limit=_MOST_BYTES)
    if answer is not None and answer.exit_code > 0:  # before the first commit
        answer = await run_git(folder, "diff", limit=_MOST_BYTES)
    if answer is None:
        raise UsageError("git does not work here; codelet doctor says why")
    if answer.broken_off or (answer.exit_code and answer.complete):
        why = answer.broken_off or answer.stderr.rpartition("\n")[2]
        if "not a git repository" in answer.stderr.lower():
            why = "there is no git repository here"
        raise UsageError(f"git made no diff: {one_line(why, 200)}")
    if not answer.complete:
        screen.note(f"more than {_MOST_BYTES >> 20} MiB of changes: only the first are shown")
    changes = session.mask(answer.stdout.decode("utf-8", "replace"))
    fresh = await run_git(folder, "ls-files", "--others", "--exclude-standard", "-z")
    names = fresh.stdout.decode("utf-8", "replace").split("\0")[:-1] if fresh is not None else []
    if not changes.strip() and not names:
        screen.note("no changes")
        return
    rows = diff_rows(changes, screen.width, limit=_MOST_ROWS, files=True)
    screen.say(*rows, *(styled("  new ", (one_line(name, _LONGEST_NAME), "green")) for name in names[:_MOST_NEW]))


def _wish(argument: str) -> tuple[int | None, What | None, bool]:
    """Return how many prompts to go back, with what, and whether to overwrite. Raises UsageError."""
    prompts: int | None = None
    wanted: What | None = None
    words = argument.lower().split()
    for word in words:
        if (number := whole_number(word)) and prompts is None:
            prompts = number
        elif (what := next((each for each in _WHAT if each == word), None)) is not None and wanted is None:
            wanted = what
        elif word != "overwrite":
            raise UsageError(f"/rewind takes N, then both, conversation or files, not {one_line(word, 40)}")
    return prompts, wanted, "overwrite" in words


async def rewind(repl: ReplControls, argument: str) -> None:
    """Go back to before a prompt, which returns to the input line."""
    screen, session = repl.screen, repl.session
    points, log = session.conversation.checkpoints[::-1], file_history(session)
    prompts, what, overwrite = _wish(argument)
    if not points:
        screen.note("there is no prompt to go back to")
        return
    if prompts is None:
        rows = [_point_row(repl, number, points, log) for number in range(1, len(points) + 1)]
        chosen = await repl.choose([styled(("Rewind to before which prompt?", "bold"))], rows)
        if chosen is None:
            screen.note("nothing was changed")
            return
        prompts = chosen + 1
    if prompts > len(points):
        raise UsageError(f"/rewind {prompts}: there are no {prompts:,} prompts to go back to, only {len(points)}")
    point = points[prompts - 1]
    plan = [back for back in log.plan(log.since(point.turn)) if not back.stands]
    ran = [command for command in log.commands if command.turn >= point.turn]
    if what is None:
        what = await _chosen_what(repl, point, plan, ran)
    elif what != "conversation" and ran:
        screen.note(_commands_told(ran))
    if what is None:
        screen.note("nothing was changed")
        return
    done: list[FileBack] = []
    if what != "conversation" and plan:
        found = await _files_back(repl, log, plan, overwrite=overwrite)
        if found is None:
            if what == "both":
                screen.note("the conversation is unchanged")
            return
        done = found
    if what == "files":
        repl.rewound.add(done)
        if not plan and not ran:
            screen.note(_NO_CHANGE)
        return
    repl.can_resume = False
    pinned = len(session.compactor.pinned_outside(point.parts.body))
    repl.edit_again(session.rewind(prompts, unpin=True) or "")
    stay = "" if what == "both" else "; files unchanged"
    unpinned = f"; {plural(pinned, 'pinned message')} went, too" if pinned else ""
    screen.note(f"rewound to before {'your last prompt' if prompts == 1 else 'that prompt'}{stay}{unpinned}")
    repl.rewound.add(done)
    if names := repl.rewound.went_to(point.turn - 1 if point.turn else session.turns):
        screen.note(f"restored since: {names}; the model learns this with your next prompt")


async def undo(repl: ReplControls, argument: str) -> None:
    """Undo the last call that changed files."""
    screen, log = repl.screen, file_history(repl.session)
    if argument not in ("", "overwrite"):
        raise UsageError(f"/undo takes overwrite or nothing, not {one_line(argument, 40)}")
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
    words = one_line(repl.session.mask(repl.words_of(point.prompt)), room - len(files) - 2 if files else room)
    return styled((f"{number:>2} ", ACCENT), (f"{at} ", QUIET), words, (f"  {files}" if files else "", QUIET))


async def _chosen_what(
    repl: ReplControls, point: Checkpoint, plan: Sequence[FileBack], ran: Sequence[RanCommand]
) -> What | None:
    """Let the user choose what to restore, if files changed."""
    if not plan:
        return "conversation"
    asked = one_line(repl.session.mask(repl.words_of(point.prompt)), max(repl.screen.width - 9, 10))
    head = [styled((f"Before: {asked}", "bold"))]
    for back in plan[:_MOST_LISTED]:
        why = back.lost or back.foreign
        told = (f"  {why}", WARN) if why else (f"  {_change_words(back)} undone", QUIET)
        head.append(styled("  ", clean(back.name), told))
    if len(plan) > _MOST_LISTED:
        head.append(styled((f"  and {len(plan) - _MOST_LISTED} more files", QUIET)))
    if ran:
        head.append(styled((f"  {_commands_told(ran)}", WARN)))
    chosen = await repl.choose(head, [styled(about) for about in _WHAT.values()])
    return None if chosen is None else list(_WHAT)[chosen]


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
        rows += _changed_rows(repl.screen, repl.session, back, reverse=True, limit=_FOREIGN_ROWS)
    which = "it" if len(foreign) == 1 else "them"
    options = [styled(f"keep {which}")]
    options += [styled(f"overwrite {which}: the - lines above are lost"), styled("cancel")]
    chosen = await repl.choose(rows, options)
    return None if chosen in (None, 2) else chosen == 1


def _commands_told(ran: Sequence[RanCommand]) -> str:
    """A note about commands, whose changes are unknown."""
    named = "; ".join(one_line(command.about, 40) for command in ran[-_MOST_NAMED:])
    more = "" if len(ran) <= _MOST_NAMED else f" and {len(ran) - _MOST_NAMED} earlier"
    return f"changes made by commands are not undone: {named}{more}"


def _names(plan: Sequence[FileBack]) -> str:
    return ", ".join(clean(back.name) for back in plan)


def _clock(at: float) -> str:
    return time.strftime("%H:%M", time.localtime(at))
