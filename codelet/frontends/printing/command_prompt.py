"""A prompt that is a /command: `codelet -p "/usage"` runs what works without a terminal, and prints its text."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from codelet.errors import UsageError
from codelet.events import Event, Text
from codelet.frontends.terminal.screen import TextScreen
from codelet.frontends.terminal.slash_commands.command_list import commands_for
from codelet.frontends.terminal.slash_commands.slash_command import SlashCommand
from codelet.loop.session import Session


def answer_of_command(session: Session, prompt: str, *, piped: bool) -> AsyncGenerator[Event, None] | None:
    """The events of the command that the prompt names; None where it names none and is for the model, such as a path.

    Raises UsageError for a word that is nearly a command, for a command that only works in a terminal, and where
    something is `piped` to one.
    """
    commands = commands_for(session)
    name = prompt.split(maxsplit=1)[0][1:]
    try:
        found = commands.find(prompt)
    except LookupError as error:
        if not name or commands.near(name.lower()) is None:
            return None
        raise UsageError(f"{error.args[0]}; for a prompt, begin with a blank") from None
    if found is None:
        return None
    command, argument = found
    if command.show is None:
        raise UsageError(f"/{command.name} works in the terminal session only, not with -p")
    if piped:
        raise UsageError(f"/{command.name} takes nothing from a pipe")
    return _shown(command, session, argument)


async def _shown(command: SlashCommand, session: Session, argument: str) -> AsyncGenerator[Event, None]:
    assert command.show is not None
    screen = TextScreen()
    await command.show(screen, session, argument)
    yield Text(session.mask("\n".join(screen.lines)))
