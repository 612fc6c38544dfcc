"""The REPL: prompt-toolkit reads, the renderer shows; commands, keys, status row, approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codelet.settings import Settings

__all__ = ["run_repl"]


async def run_repl(settings: Settings) -> int:
    """Run the REPL on a terminal until the user leaves; the exit status.

    SIGTERM and SIGHUP end it with 143 and 129, after the turn in hand was stopped and the terminal
    restored. Raises UsageError where there is no terminal, or no model can be opened.
    """
    import asyncio
    import signal
    import sys

    from codelet.errors import EXIT_HANGUP, EXIT_TERMINATE, UsageError
    from codelet.frontends.repl.raw import raw_terminal

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the REPL needs a terminal for its input and output; -p PROMPT answers without one")
    task = asyncio.current_task()
    assert task is not None
    ended: list[int] = []

    def end(status: int) -> None:
        ended.append(status)
        task.cancel()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, end, EXIT_TERMINATE)
    loop.add_signal_handler(signal.SIGHUP, end, EXIT_HANGUP)
    try:
        with raw_terminal():
            return await _run(settings)
    except asyncio.CancelledError:
        if not ended:
            raise
        task.uncancel()
        return ended[0]
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGHUP)


async def _run(settings: Settings) -> int:
    from functools import partial

    from codelet.frontends.repl.repl import Repl
    from codelet.frontends.workspace import provider_for, provider_named, session_for

    session = session_for(settings, await provider_for(settings))
    try:
        return await Repl(session, partial(provider_named, settings=settings)).run()
    finally:
        session.safeguards.close()
        await session.provider.close()
