"""The REPL: prompt-toolkit reads, the renderer shows; commands, keys, status row, approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codelet.settings import Settings

__all__ = ["run_repl"]


async def run_repl(settings: Settings) -> int:
    """Run the REPL on a terminal until the user leaves; the exit status.

    SIGTERM and SIGHUP end it with 143 and 129, after the turn in hand was stopped and the terminal
    restored. Raises UsageError where no model can be opened.
    """
    import asyncio
    import signal
    from functools import partial

    from codelet.errors import EXIT_HANGUP, EXIT_TERMINATE
    from codelet.frontends.repl.repl import Repl
    from codelet.frontends.workspace import provider_for, provider_named, session_for

    session = session_for(settings, await provider_for(settings))
    repl = Repl(session, partial(provider_named, settings=settings))
    loop = asyncio.get_running_loop()
    endings = {signal.SIGTERM: EXIT_TERMINATE, signal.SIGHUP: EXIT_HANGUP}
    for number, status in endings.items():
        loop.add_signal_handler(number, repl.leave, status)
    try:
        return await repl.run()
    finally:
        for number in endings:
            loop.remove_signal_handler(number)
        await session.provider.close()
