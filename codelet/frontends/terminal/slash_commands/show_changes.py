"""/diff: what the session changed, file by file, or what the work tree has since the last commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codelet.extensions.services import file_history
from codelet.frontends.terminal.show.numbers import plural
from codelet.frontends.terminal.show.style import QUIET, WARN
from codelet.frontends.terminal.slash_commands.show_session import styled
from codelet.system.git import run_git
from codelet.system.text import clean, one_line

if TYPE_CHECKING:
    from rich.text import Text

    from codelet.extensions.services import FileBack, PlaceState
    from codelet.frontends.terminal.screen import Screen
    from codelet.loop.session import Session
    from codelet.system.git import GitAnswer

_MOST_NEW = 40
_LONGEST_NAME = 1_000
_MOST_ROWS = 400
_MOST_BYTES = 4 << 20


async def diff(screen: Screen, session: Session, argument: str) -> None:
    """Show what the session changed, in a file or all; or the working tree with `git` or without changes."""
    log = file_history(session)
    plan = [back for back in log.plan(log.changes) if not back.stands]
    if argument == "git" or (not plan and not argument):
        await _work_tree(screen, session)
        return
    chosen = [back for back in plan if argument in ("", back.name)]
    if not chosen:
        screen.fail(
            f"this session has not changed {one_line(argument, 60)}; /diff git shows changes since the last commit"
        )
        return
    for back in chosen:
        others = "  also changed by someone else or a command" if back.foreign else ""
        screen.say(styled((clean(back.name), "bold"), (f"  {change_words(back)}", QUIET), (others, WARN)))
        screen.say(*changed_rows(screen, session, back, limit=_MOST_ROWS))
    if not argument:
        ran = f"; {plural(len(log.commands), 'command')} may have changed more (/diff git)" if log.commands else ""
        screen.note(f"{plural(len(chosen), 'file')} edited{ran}")


def change_words(back: FileBack) -> str:
    """A file's change in a few words: `new`, `removed`, `+3 -1`, `mode 755`."""
    from codelet.frontends.terminal.show.diff_rows import count_diff

    before, now = back.target, back.now
    if before.kind == "nothing":
        return "new file"
    if now.kind == "nothing":
        return "removed"
    if before.kind != now.kind:
        return f"now {_KINDS[now.kind]}"
    if before.digest == now.digest:
        return f"mode {before.mode:o}, now {now.mode:o}"
    text = _unified(back.name, before, now)
    if text is None:
        sizes = [plural(len(each.data), "byte") if each.data is not None else "unknown size" for each in (before, now)]
        return f"{sizes[0]}, now {sizes[1]}"
    count = count_diff(text)
    return " ".join(f"{sign}{number}" for sign, number in (("+", count.added), ("-", count.removed)) if number)


_KINDS = {"nothing": "gone", "file": "a file", "other": "no regular file"}


def changed_rows(screen: Screen, session: Session, back: FileBack, *, limit: int, reverse: bool = False) -> list[Text]:
    """The diff between before and now; `reverse` for what restoring would do."""
    from codelet.frontends.terminal.show.diff_rows import diff_rows

    old, new = (back.now, back.target) if reverse else (back.target, back.now)
    text = _unified(back.name, old, new)
    if text is None:
        return [styled((f"  {change_words(back)}: no text to compare", QUIET))]
    return diff_rows(session.mask(text), screen.width, screen.signs, limit=limit)


def _unified(name: str, old: PlaceState, new: PlaceState) -> str | None:
    """The diff of two states; None for binary files."""
    from codelet.tools.change import unified

    texts = [_text(state) for state in (old, new)]
    return None if texts[0] is None or texts[1] is None else unified(texts[0], texts[1], name)


def _text(state: PlaceState) -> str | None:
    from codelet.tools.encoding import decode_text

    if state.kind == "nothing":
        return ""
    decoded = None if state.data is None else decode_text(state.data)
    return None if decoded is None else decoded[0]


def _no_diff(answer: GitAnswer | None) -> str:
    """Why there is no diff."""
    if answer is None:
        return "git does not work here; codelet doctor says why"
    if answer.broken_off:
        return f"unknown changes: {answer.broken_off}"
    if "not a git repository" in answer.stderr.lower():
        return "there is no git repository here"
    return f"git made no diff: {one_line(answer.stderr.rpartition(chr(10))[2], 200)}"


async def _work_tree(screen: Screen, session: Session) -> None:
    """Show changes since the last commit."""
    from codelet.frontends.terminal.show.diff_rows import diff_rows

    folder = session.workspace
    answer = await run_git(folder, "diff", "HEAD", limit=_MOST_BYTES)
    if answer is not None and answer.exit_code > 0:  # before the first commit
        answer = await run_git(folder, "diff", limit=_MOST_BYTES)
    if answer is None or answer.broken_off or (answer.exit_code and answer.complete):
        screen.fail(_no_diff(answer))
        return
    if not answer.complete:
        screen.note(f"more than {_MOST_BYTES >> 20} MiB of changes: only the first are shown")
    changes = session.mask(answer.stdout.decode("utf-8", "replace"))
    fresh = await run_git(folder, "ls-files", "--others", "--exclude-standard", "-z")
    names = fresh.stdout.decode("utf-8", "replace").split("\0")[:-1] if fresh is not None else []
    if not changes.strip() and not names:
        screen.note("no changes")
        return
    rows = diff_rows(changes, screen.width, screen.signs, limit=_MOST_ROWS, files=True)
    screen.say(*rows, *(styled("  new ", (one_line(name, _LONGEST_NAME), "green")) for name in names[:_MOST_NEW]))
