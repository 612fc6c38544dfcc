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
    from codelet.frontends.stderr import say
    from codelet.text import one_line

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the REPL needs a terminal for its input and output; -p PROMPT answers without one")
    task = asyncio.current_task()
    assert task is not None
    ended: list[int] = []
    parting: list[str] = []

    def end(status: int) -> None:
        ended.append(status)
        task.cancel()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, end, EXIT_TERMINATE)
    loop.add_signal_handler(signal.SIGHUP, end, EXIT_HANGUP)
    try:
        with raw_terminal():
            return await _run(settings, parting)
    except asyncio.CancelledError:
        if not ended:
            raise
        task.uncancel()
        return ended[0]
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGHUP)
        for line in parting:
            say(f"codelet: {one_line(line, 1_000)}")


async def _run(settings: Settings, parting: list[str]) -> int:
    """The REPL on a prepared terminal; what is to be said afterwards goes to `parting`."""
    from functools import partial

    from codelet.errors import EXIT_DONE, EXIT_USAGE, CodeletError
    from codelet.frontends.repl.kept import Kept
    from codelet.frontends.repl.repl import Repl
    from codelet.frontends.workspace import open_session, provider_named

    session, export = await open_session(settings)
    saved = True
    try:
        kept = Kept(export, raw=settings.raw)
        status = await Repl(session, partial(provider_named, settings=settings), kept).run()
    finally:
        if export is not None:
            problem = None
            try:
                await export.close()
            except CodeletError as error:
                saved, problem = False, str(error)
            parting.extend(filter(None, [*export.notices(), problem or export.parting]))
        session.safeguards.close()
        await session.provider.close()
    return status if saved or status != EXIT_DONE else EXIT_USAGE
