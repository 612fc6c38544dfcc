"""A prompt that is a /command, if there is no terminal: with -p and in an editor. What works there gives a text."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from codelet.errors import UsageError
from codelet.events import Event, Text
from codelet.extensions.base import UNSAID
from codelet.frontends.terminal.screen import Screen
from codelet.frontends.terminal.slash_commands.command_list import commands_for
from codelet.frontends.terminal.slash_commands.slash_command import SlashCommand
from codelet.loop.session import Session
from codelet.safety.secrets import mask
from codelet.system.text import clean

if TYPE_CHECKING:
    from rich.text import Text as RichText

_COUNTED = frozenset({"metrics", "tool_stats"})
"""Keys of the export that a command only looks at."""
_COLUMNS_WITHOUT_TERMINAL = 100
_NOT_KEPT = "the session ends here, and this change with it: --export FILE keeps it"


class TextScreen(Screen):
    """Collects plain lines in `lines`, without colours and signs. What goes wrong is raised as UsageError."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    @property
    def width(self) -> int:
        """Columns of the terminal on stdout, else 100."""
        return shutil.get_terminal_size((_COLUMNS_WITHOUT_TERMINAL, 24)).columns

    def say(self, *rows: RichText) -> None:
        """Keep the rows' text."""
        self.lines += [row.plain.rstrip() for row in rows]

    def note(self, text: str) -> None:
        """Keep the remark."""
        self.lines.append(clean(mask(text)))

    def text(self, text: str) -> None:
        """Keep the text."""
        self.lines.append(clean(text.rstrip("\n")))

    def fail(self, text: str) -> None:
        """Raise UsageError."""
        raise UsageError(text)

    def forget(self) -> None:
        """Keep none of the lines."""
        self.lines.clear()


async def prompt_of_command(session: Session, prompt: str) -> str | None:
    """The prompt that a command gives, None if the text names no such command. Raises CodeletError."""
    try:
        found = commands_for(session).named_by(prompt)
    except LookupError:
        return None
    return await session.run_command(found[0].name, found[1]) if found is not None and found[0].prompts else None


def fact_command(prompt: str, *, is_kept: bool) -> str:
    """Return the command that keeps `#TEXT` as a fact. Raises UsageError if the session ends with it."""
    if not is_kept:
        raise UsageError(
            "a prompt that begins with # is a fact, which nothing would keep: add --session FILE or --facts FILE; "
            "to ask the model, begin with a space"
        )
    return f"/facts add {prompt.lstrip('#').strip()}"


def answer_of_command(
    session: Session, prompt: str, *, piped: bool, kept: bool = True
) -> AsyncGenerator[Event, None] | None:
    """The events of the command that the prompt names; None if it names none and is for the model, such as a path.

    Raises UsageError for a word that is nearly a command, for a command that only works in a terminal, and where
    something is `piped` to one. What changes the session says so where nothing of that is `kept`.
    """
    commands = commands_for(session)
    try:
        found = commands.named_by(prompt)
    except LookupError as error:
        raise UsageError(str(error.args[0])) from None
    if found is None:
        return None
    command, argument = found
    if command.show is None:
        raise UsageError(f"/{command.name} works in the terminal session only")
    if piped:
        raise UsageError(f"/{command.name} takes nothing from a pipe")
    return _shown(command, session, argument, kept=kept)


async def _shown(command: SlashCommand, session: Session, argument: str, *, kept: bool) -> AsyncGenerator[Event, None]:
    assert command.show is not None
    screen = TextScreen()
    before = _state(session)
    await command.show(screen, session, argument)
    if not kept and _state(session) != before:
        screen.note(_NOT_KEPT)
    yield Text(session.mask("\n".join(screen.lines)))


def _state(session: Session) -> str:
    """Return what of a session a command may change, to be compared."""
    saved = ((part.key, part.save()) for extension in session.extensions for part in extension.parts)
    parts = {key: value for key, value in saved if value and value is not UNSAID and key not in _COUNTED}
    shown = [id(message) for message in session.messages]
    pinned = [row.number for row in session.context() if row.pinned]
    return repr([shown, pinned, sorted(session.reminders.off), parts])
