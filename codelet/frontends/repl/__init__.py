"""The REPL: prompt-toolkit reads, the renderer shows; commands, keys, status row, approvals."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from codelet.errors import EXIT_HANGUP, EXIT_TERMINATE
from codelet.providers.base import Provider
from codelet.session import Session

__all__ = ["run_repl"]


async def run_repl(
    session: Session,
    open_model: Callable[[str], Provider],
    *,
    warm: Callable[[Provider], None] | None = None,
) -> int:
    """Run the REPL on a terminal until the user leaves; the exit status.

    `open_model` makes the provider of a model's name, raising UsageError. `warm` readies a provider in a
    thread of its own once the prompt is on the screen. SIGTERM and SIGHUP end it with 143 and 129, after the
    turn in hand was stopped and the terminal restored.
    """
    from codelet.frontends.repl.repl import Repl

    repl = Repl(session, open_model, warm)
    loop = asyncio.get_running_loop()
    endings = {signal.SIGTERM: EXIT_TERMINATE, signal.SIGHUP: EXIT_HANGUP}
    for number, status in endings.items():
        loop.add_signal_handler(number, repl.leave, status)
    try:
        return await repl.run()
    finally:
        for number in endings:
            loop.remove_signal_handler(number)
