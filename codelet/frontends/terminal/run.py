"""Runs the REPL: sets the terminal to raw mode, ends at signals, saves, restores the terminal.

prompt-toolkit is imported after the terminal is raw: keys typed while codelet starts keep their meaning.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from codelet.errors import (
    EXIT_DONE,
    EXIT_HANGUP,
    EXIT_INCOMPLETE,
    EXIT_TERMINATE,
    EXIT_USAGE,
    CodeletError,
    UsageError,
)
from codelet.frontends.streams import say, say_ending, unknown_settings
from codelet.system.text import one_line

if TYPE_CHECKING:
    from codelet.export.live import Reserved
    from codelet.frontends.exporting import Exporting
    from codelet.loop.session import Session
    from codelet.settings import Settings

RunPlain: TypeAlias = "Callable[[Session, Exporting | None, str | None], Awaitable[int]]"

_Ending: TypeAlias = Literal["saved", "unsaved", "abandoned", "incomplete"]
"""How a session ended; incomplete: a file that an option names has no end."""

_PATIENCE = 2.0
"""The longest time, in seconds, that the first request waits for extensions: the user sees it wait."""
_SAVING_SECONDS = 1.0
"""Before the user sees that the last save is waited for."""


async def run_repl(settings: Settings, first: str | None = None, plain: RunPlain | None = None) -> int:
    """Run the REPL on a terminal until the user leaves; return the exit status.

    `first` is the first prompt. `plain` runs it on a terminal that cannot move its cursor. SIGTERM and SIGHUP end it
    with 143 and 129. Raises UsageError without a terminal or a model.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the REPL needs a terminal for its input and output; use -p PROMPT for non-interactive use")
    task = asyncio.current_task()
    assert task is not None
    ended: list[int] = []
    opened: list[tuple[Session, Exporting | None]] = []
    closing, signalled, last_lines = False, asyncio.Event(), list[str]()

    def end(status: int) -> None:
        if closing:
            signalled.set()
        else:
            ended.append(status)
            task.cancel()

    for line in unknown_settings(settings):
        say(f"codelet: {line}")
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, end, EXIT_TERMINATE)
    loop.add_signal_handler(signal.SIGHUP, end, EXIT_HANGUP)
    try:
        try:
            async with _repl(settings, first, plain, opened) as run:
                status = await run()
        except asyncio.CancelledError:
            if not ended:
                raise
            task.uncancel()
            status = ended[0]
        finally:
            closing = True  # a signal no longer cancels
            left = [await _close(session, export, signalled, last_lines) for session, export in opened]
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGHUP)
        for line in last_lines:
            say(f"codelet: {one_line(line, 1_000)}")
    if status == EXIT_DONE and any(each != "saved" for each in left):
        status = EXIT_INCOMPLETE if "incomplete" in left else EXIT_USAGE
    if "abandoned" in left:
        sys.stdout.flush()
        os._exit(status)  # the thread that still waits for the store would hold the exit up
    return status


@asynccontextmanager
async def _repl(
    settings: Settings, first: str | None, plain: RunPlain | None, opened: list[tuple[Session, Exporting | None]]
) -> AsyncIterator[Callable[[], Awaitable[int]]]:
    """Open the session, into `opened`; yield what runs its REPL: with the terminal raw, unless it is `plain`."""
    reserved = None
    if settings.wait is not None:  # the terminal is not raw yet: Ctrl-C ends the wait
        from codelet.opening import reserved_for

        reserved = await reserved_for(
            settings, lambda held: say(f"codelet: waiting for {held.shown}, in use by {one_line(held.holder, 100)}")
        )
    with nullcontext() if plain else raw_terminal():
        await _open(settings, reserved, opened)
        session, export = opened[0]
        if plain is not None:
            yield partial(plain, session, export, first)
            return
        from codelet.frontends.terminal.repl import Repl

        yield Repl(session, settings, export, first).run


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


async def _close(
    session: Session, export: Exporting | None, signalled: asyncio.Event, last_lines: list[str]
) -> _Ending:
    """Save for the last time and close the session; `signalled` ends the wait for the store."""
    left: _Ending = "saved"
    if export is not None:
        saving, stop = asyncio.create_task(export.close()), asyncio.create_task(signalled.wait())
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, signalled.set)  # the terminal is restored: Ctrl-C is a signal here
        if not (await asyncio.wait({saving, stop}, timeout=_SAVING_SECONDS, return_when="FIRST_COMPLETED"))[0]:
            say(f"codelet: saving in {one_line(export.place or 'the store', 300)}; ctrl-c leaves without it")
            await asyncio.wait({saving, stop}, return_when="FIRST_COMPLETED")
        loop.remove_signal_handler(signal.SIGINT)
        stop.cancel()
        error = saving.exception() if saving.done() else None
        if error is not None and not isinstance(error, CodeletError):
            raise error
        left = "abandoned" if not saving.done() else "saved" if error is None else "unsaved"
        ending = "left before the session was saved for the last time" if left == "abandoned" else export.parting
        last_lines += filter(None, [*export.notices.take(), str(error) if error is not None else ending])
    say_ending(session)
    try:
        await session.close()
    except CodeletError as error:
        say(f"codelet: {one_line(str(error), 1_000)}")
        left = "incomplete" if error.exit_status == EXIT_INCOMPLETE and left == "saved" else left
    return left


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
