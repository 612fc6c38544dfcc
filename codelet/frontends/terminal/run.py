"""Runs the REPL: sets the terminal to raw mode, turns signals into an orderly end, saves, restores the terminal.

prompt-toolkit is imported only once the terminal is raw: keys typed while codelet starts keep their meaning.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import termios
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from codelet.errors import EXIT_HANGUP, EXIT_TERMINATE, CodeletError, UsageError
from codelet.frontends.streams import say, say_ending, unknown_settings
from codelet.frontends.terminal.last_save import LastSave
from codelet.system.text import one_line

if TYPE_CHECKING:
    from codelet.export.live import Reserved
    from codelet.frontends.exporting import Exporting
    from codelet.loop.session import Session
    from codelet.providers.protocol import Effort, Provider
    from codelet.settings import Settings

RunPlain: TypeAlias = "Callable[[Session, Exporting | None, str | None], Awaitable[int]]"

_PATIENCE = 2.0
"""Seconds for which the first request waits for what extensions prepare: who sees it wait can ask again."""


async def run_repl(
    settings: Settings, first: str | None = None, plain: RunPlain | None = None, *, debug: bool = False
) -> int:
    """Run the REPL on a terminal until the user leaves; the exit status. `first` is the prompt to begin with, `plain`
    reads and answers instead on a terminal that cannot move its cursor.

    SIGTERM and SIGHUP end it with 143 and 129. Raises UsageError if there is no terminal or no model can be opened.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the REPL needs a terminal for its input and output; use -p PROMPT for non-interactive use")
    task = asyncio.current_task()
    assert task is not None
    ended: list[int] = []
    opened: list[tuple[Session, Exporting | None]] = []
    last_save = LastSave()

    def end(status: int) -> None:
        if not last_save.signalled():
            ended.append(status)
            task.cancel()

    for line in unknown_settings(settings):
        say(f"codelet: {line}")
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, end, EXIT_TERMINATE)
    loop.add_signal_handler(signal.SIGHUP, end, EXIT_HANGUP)
    try:
        try:
            waited = await _waited_for(settings)
            with nullcontext() if plain else raw_terminal():
                status = await _run(settings, waited, opened, first, plain, debug=debug)
        except asyncio.CancelledError:
            if not ended:
                raise
            task.uncancel()
            status = ended[0]
        finally:
            for session, export in opened:
                if export is not None:
                    await last_save.save(export)
                say_ending(session)
                try:
                    await session.close()
                except CodeletError as error:
                    say(f"codelet: {one_line(str(error), 1_000)}")
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGHUP)
        last_save.say_what_is_left()
    return last_save.exit_status(status)


async def _waited_for(settings: Settings) -> Reserved | None:
    """Return what the session continues with, and its place, locked, where `--wait` says that this may take long.

    The terminal is not raw meanwhile: Ctrl-C ends the wait.
    """
    if settings.wait is None:
        return None
    from codelet.opening import reserved_for

    return await reserved_for(
        settings, lambda held: say(f"codelet: waiting for {held.shown}, in use by {one_line(held.holder, 100)}")
    )


async def _run(
    settings: Settings,
    waited: Reserved | None,
    opened: list[tuple[Session, Exporting | None]],
    first: str | None,
    plain: RunPlain | None,
    *,
    debug: bool,
) -> int:
    """The REPL on a prepared terminal; the session and its export, which are still to be closed, go to `opened`."""
    from codelet.extensions.services import asking
    from codelet.frontends.terminal.export_log import ExportLog
    from codelet.frontends.terminal.preferences import preferences_of
    from codelet.frontends.terminal.prompt_keys import KEYS_HELP
    from codelet.frontends.terminal.repl import Repl
    from codelet.frontends.terminal.slash_commands.command_list import commands_for
    from codelet.opening import models_to_choose, provider_named, reserved_for, session_from

    reserved = waited or await reserved_for(settings)
    async with reserved or nullcontext():
        session, export = await session_from(settings, reserved=reserved, extensions=[asking()]), None
        session.upkeep.patience = _PATIENCE
        try:
            if reserved is not None:
                from codelet.frontends.exporting import Exporting

                export = await Exporting.begin(session, settings, reserved)
        finally:
            opened.append((session, export))
    if plain is not None:
        return await plain(session, export, first)
    log = ExportLog(export, raw=settings.raw)

    def open_model(name: str, effort: Effort | None) -> Provider:
        return provider_named(name, settings.replace(effort=effort))

    commands, preferences = commands_for(session, KEYS_HELP), preferences_of(settings)
    repl = Repl(
        session, commands, open_model, log, first, preferences, partial(models_to_choose, settings), debug=debug
    )
    return await repl.run()


@contextmanager
def raw_terminal() -> Iterator[None]:
    """The terminal without echo, line editing and signals from keys; as it was before when the block ends."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    raw = list(before)
    raw[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON | termios.IXOFF)
    raw[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
    termios.tcsetattr(terminal, termios.TCSANOW, raw)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
