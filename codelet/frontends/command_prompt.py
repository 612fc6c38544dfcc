"""/commands outside the REPL: with -p, and in an editor."""

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


def fact_command(prompt: str, *, is_kept: bool) -> str:
    """Return the command that keeps `#TEXT` as a fact. Raises UsageError if the session ends with it."""
    if not is_kept:
        raise UsageError(
            "a prompt that begins with # is a fact, which nothing would keep: add --session FILE or --facts FILE; "
            "to ask the model, begin with a space"
        )
    return f"/facts add {prompt.lstrip('#').strip()}"


def text_commands(session: Session) -> list[SlashCommand]:
    """Return the commands that need no terminal, without subcommands."""
    return [each for each in commands_for(session) if (each.show or each.prompts) and " " not in each.name]


async def run_command(
    session: Session, text: str, *, piped: bool = False, kept: bool = True
) -> str | AsyncGenerator[Event, None]:
    """Return the prompt for the model, which is `text` or what its command gives, or the events of its command.

    A path such as /etc/hosts is a prompt. Raises UsageError for a word that is nearly a command, for a command that
    needs a terminal, and for one with `piped` input. A command that changes a session which is not `kept` says so.
    """
    if (found := commands_for(session).named_by(text)) is None:
        return text
    command, argument = found
    if command.prompts:
        return await session.run_command(command.name, argument)
    if command.show is None:
        raise UsageError(f"/{command.name} needs the full REPL: run codelet in a terminal that can move its cursor")
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
    messages = [id(message) for message in session.messages]
    pinned = [row.number for row in session.context() if row.pinned]
    return repr([messages, pinned, sorted(session.reminders.off), parts])
