"""The REPL: prompt-toolkit reads, the renderer shows; commands, keys, status row, approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codelet.frontends.exporting import Exporting
    from codelet.settings import Settings

__all__ = ["run_repl"]


async def run_repl(settings: Settings, first: str | None = None) -> int:
    """Run the REPL on a terminal until the user leaves; the exit status. `first` is a prompt to begin with.

    SIGTERM and SIGHUP end it with 143 and 129, after the turn in hand was stopped and the terminal
    restored. Raises UsageError where there is no terminal, or no model can be opened.
    """
    import asyncio
    import signal
    import sys

    from codelet.errors import EXIT_HANGUP, EXIT_TERMINATE, UsageError
    from codelet.frontends.repl.leaving import Leaving
    from codelet.frontends.repl.raw import raw_terminal

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the REPL needs a terminal for its input and output; -p PROMPT answers without one")
    task = asyncio.current_task()
    assert task is not None
    ended: list[int] = []
    exports: list[Exporting] = []
    leaving = Leaving()

    def end(status: int) -> None:
        if not leaving.signalled():
            ended.append(status)
            task.cancel()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, end, EXIT_TERMINATE)
    loop.add_signal_handler(signal.SIGHUP, end, EXIT_HANGUP)
    try:
        try:
            with raw_terminal():
                status = await _run(settings, exports, first)
        except asyncio.CancelledError:
            if not ended:
                raise
            task.uncancel()
            status = ended[0]
        finally:
            for export in exports:
                await leaving.save(export)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGHUP)
        leaving.part()
    return leaving.left(status)


async def _run(settings: Settings, exports: list[Exporting], first: str | None) -> int:
    """The REPL on a prepared terminal; the session's export, which is still to be closed, goes to `exports`."""
    from functools import partial

    from codelet.frontends.repl.kept import Kept
    from codelet.frontends.repl.repl import Repl
    from codelet.frontends.workspace import open_session, provider_named

    session, export = await open_session(settings)
    exports.extend([export] if export is not None else [])
    try:
        kept = Kept(export, raw=settings.raw)
        return await Repl(session, partial(provider_named, settings=settings), kept, first).run()
    finally:
        await session.close()
