"""What codelet says of itself: the greeting, the status row, the window's title and notifications."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from codelet import __version__
from codelet.context.tokens import percent_of
from codelet.frontends.terminal.show.numbers import money, plural, tokens
from codelet.loop.session import Session
from codelet.system.git import run_git
from codelet.system.text import clean, one_line

_BAR = 8
_LONGEST_MODEL = 40
_FOLLOW_SECONDS = 0.5
LONG_SECONDS = 10.0
"""A shorter turn is still being watched."""
_KEEP_TITLE, _GIVE_TITLE_BACK = "\x1b[22;2t", "\x1b[23;2t"
_KEYS = ("? keys", "/ commands", "@ files", "! shell", "shift-tab mode", "esc stop")


class StatusRow:
    """The row below the input line. `attached` is output for the next prompt."""

    def __init__(self, session: Session, attached: Sequence[str]) -> None:
        self._session, self._attached, self._branch = session, attached, ""

    async def read_branch(self) -> None:
        """Read the branch. Report a repository that git does not read because another user owns it."""
        answer = await run_git(self._session.workspace, "symbolic-ref", "--short", "-q", "HEAD", timeout=3.0)
        self._branch = ""
        if answer is not None and answer.foreign_owner:
            self._branch = "git not read: another owner"
        elif answer is not None and answer.exit_code == 0:
            self._branch = answer.stdout.decode("utf-8", "replace").strip()

    async def follow(self, refresh: Callable[[], None]) -> None:
        """Refresh while extensions have a status: it changes, for example when a background task ends."""
        while extension_words(self._session):
            await asyncio.sleep(_FOLLOW_SECONDS)
            refresh()

    def row(self, columns: int, *, running: bool = False) -> str:
        """Return the row; shorter during a turn."""
        return "  " + fitted(self._parts(running=running), columns - 3)

    def _parts(self, *, running: bool) -> list[str]:
        """The parts, most important first."""
        session = self._session
        size, budget = session.size, session.window.budget.limit
        parts = [f"{session.policy.mode} --yes" if session.policy.yes else session.policy.mode]
        parts += [*_confinement(session), *extension_words(session)]
        if self._attached:
            parts.append(f"{plural(len(self._attached), 'output')} to send")
        percent = percent_of(size, budget)
        filled = min(_BAR, max(1, round(size * _BAR / budget))) if size else 0
        bar = "█" * filled + "░" * (_BAR - filled)
        full = f"{bar} {percent}% of {tokens(budget)}"
        parts += [f"context {percent}%" if running else full, one_line(session.provider.model, _LONGEST_MODEL)]
        if running:
            return parts
        if self._branch:
            parts.append(clean(self._branch))
        if session.usage.total:
            used = f"{tokens(session.usage.total_input)} in {tokens(session.usage.output)} out in all"
            parts.append(f"{used} {money(session.meter.cost)}" if session.meter.cost else used)
        return parts


def greeting(session: Session, columns: int) -> list[str]:
    """The rows above the first prompt: version, model, folder, instruction files, first keys."""
    folder = clean(short_path(session.workspace))
    folder = folder if len(folder) <= columns else "…" + folder[1 - columns :]
    parts = [f"codelet {__version__}", one_line(session.provider.model, columns), folder]
    rows = parts[:1]
    for part in filter(None, parts[1:]):
        longer = f"{rows[-1]} · {part}"
        rows = [*rows[:-1], longer] if len(longer) <= columns else [*rows, part]
    # These are in force, unless that reminder is off.
    from codelet.context.reminders.instructions import Instructions

    is_on = "claudeMd" in session.reminders.sourced - session.reminders.off
    files = Instructions(session.workspace).in_force() if is_on else []
    root = Path(os.path.realpath(session.workspace))
    names = [clean(str(each.relative_to(root)) if each.is_relative_to(root) else short_path(each)) for each in files]
    if names:
        rows.append(fitted([f"instructions: {names[0]}", *names[1:]], columns - 1))
    return [*rows, fitted(list(_KEYS), columns - 1)]


def extension_words(session: Session) -> list[str]:
    """The extensions' status texts."""
    return [clean(word) for each in session.extensions if (word := each.status())]


def _confinement(session: Session) -> list[str]:
    """The confinement of commands in mode auto, or a warning without one; empty until known."""
    sandbox = session.safeguards.sandbox
    if sandbox is None or not sandbox.wanted or sandbox.found is None:
        return []
    if sandbox.found.way is None:
        return ["NO SANDBOX"]
    return [f"in {sandbox.found.way}"] if session.policy.mode == "auto" or sandbox.use == "on" else []


def fitted(parts: list[str], width: int) -> str:
    """The first part, and the others that fit."""
    line = parts[0][:width] if parts else ""
    for part in parts[1:]:
        longer = f"{line} · {part}"
        if len(longer) <= width:
            line = longer
    return line


def short_path(path: Path) -> str:
    """Return the path with ~ for the home folder."""
    home = os.path.expanduser("~")
    text = str(path)
    return "~" + text[len(home) :] if home != "/" and (text == home or text.startswith(home + os.sep)) else text


class Attention:
    """Notifications and the window's title, written with `send`; nothing unless configured.

    `way` is off, bell, osc9 or osc777. With `title` the window's title shows the state, and is restored at the end.
    """

    def __init__(self, way: str, *, title: bool, workspace: Path, send: Callable[[str], None]) -> None:
        self._way, self._titled, self._send = way, title, send
        self._name = one_line(clean(workspace.name or "/"), 40)

    def begin(self) -> None:
        if self._titled:
            self._send(_KEEP_TITLE)
        self.title("")

    def end(self) -> None:
        """Restore the title, if the terminal saved it."""
        if self._titled:
            self._send(f"\x1b]2;\x07{_GIVE_TITLE_BACK}")

    def title(self, doing: str) -> None:
        """Show the activity in the title."""
        if self._titled:
            self._send(f"\x1b]2;{f'{doing} - ' if doing else ''}{self._name} - codelet\x07")

    def asked(self) -> None:
        self.title("asking")
        self._call("codelet asks you something")

    def ended(self, seconds: float, status: str) -> None:
        """Notify after a long turn."""
        self.title("")
        if seconds >= LONG_SECONDS:
            self._call(f"codelet: the turn is {status}")

    def _call(self, words: str) -> None:
        words = f"{words} ({self._name})"
        sequence = {
            "bell": "\x07",
            "osc9": f"\x1b]9;{words}\x07",
            "osc777": f"\x1b]777;notify;codelet;{words.replace(';', ',')}\x07",
        }.get(self._way, "")
        if len(sequence) > 1 and os.environ.get("TMUX"):  # tmux passes it to the outer terminal
            sequence = f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
        if sequence:
            self._send(sequence)
