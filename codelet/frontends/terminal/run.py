"""Runs the REPL: sets the terminal to raw mode, ends at signals, saves, restores the terminal.

prompt-toolkit is imported after the terminal is raw: keys typed while codelet starts keep their meaning.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

from codelet.errors import EXIT_HANGUP, EXIT_TERMINATE, CodeletError, UsageError
from codelet.frontends.streams import say, say_ending, unknown_settings
from codelet.frontends.terminal.last_save import LastSave
from codelet.system.text import one_line

if TYPE_CHECKING:
    from codelet.export.live import Reserved
    from codelet.frontends.exporting import Exporting
    from codelet.frontends.terminal.repl import Repl
    from codelet.loop.session import Session
    from codelet.providers.protocol import Effort, Provider
    from codelet.settings import Settings

_PATIENCE = 2.0
"""The longest time, in seconds, that the first request waits for extensions: the user sees it wait."""


async def run_repl(settings: Settings, first: str | None = None, *, debug: bool = False) -> int:
    """Run the REPL on a terminal until the user leaves; return the exit status.

    `first` is the first prompt. SIGTERM and SIGHUP end it with 143 and 129. Raises UsageError without a terminal or a
    model.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the REPL needs a terminal for its input and output; use -p PROMPT for non-interactive use")
    task = asyncio.current_task()
    assert task is not None
    ended: list[int] = []
    opened: list[tuple[Session, Exporting | None]] = []
    last_save, closing = LastSave(), False

    def end(status: int) -> None:
        if not last_save.signalled() and not closing:
            ended.append(status)
            task.cancel()

    for line in unknown_settings(settings):
        say(f"codelet: {line}")
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, end, EXIT_TERMINATE)
    loop.add_signal_handler(signal.SIGHUP, end, EXIT_HANGUP)
    try:
        try:
            reserved = await _waited_for(settings)
            with raw_terminal():
                await _open(settings, reserved, opened)
                status = await _repl(settings, *opened[0], first, debug=debug).run()
        except asyncio.CancelledError:
            if not ended:
                raise
            task.uncancel()
            status = ended[0]
        finally:
            closing = True  # a signal no longer cancels
            for session, export in opened:
                await _close(session, export, last_save)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGHUP)
        last_save.say_what_is_left()
    return last_save.exit_status(status)


async def _waited_for(settings: Settings) -> Reserved | None:
    """With `--wait`, wait for the session file and lock it. The terminal is not raw yet, so Ctrl-C ends the wait."""
    if settings.wait is None:
        return None
    from codelet.opening import reserved_for

    return await reserved_for(
        settings, lambda held: say(f"codelet: waiting for {held.shown}, in use by {one_line(held.holder, 100)}")
    )


async def _open(settings: Settings, reserved: Reserved | None, opened: list[tuple[Session, Exporting | None]]) -> None:
    """Open the session and its export; they are put into `opened`, also if the export fails."""
    from codelet.extensions.services import asking
    from codelet.opening import reserved_for, session_from

    reserved = reserved or await reserved_for(settings)
    async with reserved or nullcontext():
        session, export = await session_from(settings, reserved=reserved, extensions=[asking()]), None
        session.upkeep.patience = _PATIENCE
        try:
            if reserved is not None:
                from codelet.frontends.exporting import Exporting

                export = await Exporting.begin(session, settings, reserved)
        finally:
            opened.append((session, export))


def _repl(settings: Settings, session: Session, export: Exporting | None, first: str | None, *, debug: bool) -> Repl:
    from codelet.frontends.terminal.export_log import ExportLog
    from codelet.frontends.terminal.preferences import preferences_of
    from codelet.frontends.terminal.repl import Repl
    from codelet.frontends.terminal.slash_commands.command_list import commands_for
    from codelet.opening import models_to_choose, provider_named

    def open_model(name: str, effort: Effort | None) -> Provider:
        return provider_named(name, settings.replace(effort=effort))

    log, models = ExportLog(export, raw=settings.raw), partial(models_to_choose, settings)
    commands, preferences = commands_for(session, in_repl=True), preferences_of(settings)
    return Repl(session, commands, open_model, log, first, preferences, models, debug=debug)


async def _close(session: Session, export: Exporting | None, last_save: LastSave) -> None:
    if export is not None:
        await last_save.save(export)
    say_ending(session)
    try:
        await session.close()
    except CodeletError as error:
        say(f"codelet: {one_line(str(error), 1_000)}")


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Switch off echo, line editing and signals from keys inside the block."""
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
