"""`codelet acp`: the agent of an editor, over the Agent Client Protocol, version 1, on stdin and stdout.

stdout carries the protocol alone: whatever else would be printed there goes to stderr.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.errors import EXIT_DONE, EXIT_HANGUP, EXIT_INTERRUPT, EXIT_TERMINATE, UsageError

if TYPE_CHECKING:
    from codelet.settings import Settings

_SIGNALS = {signal.SIGINT: EXIT_INTERRUPT, signal.SIGTERM: EXIT_TERMINATE, signal.SIGHUP: EXIT_HANGUP}
_UNUSED = ("export", "snapshots", "resume", "record", "json_schema", "history")


async def run_acp(settings_for: Callable[[Path], Settings], sessions: str | None) -> int:
    """Serve an editor until it closes stdin, or a signal ends it; the exit status.

    `settings_for` reads the settings for a session in a folder. `sessions` is the folder that keeps sessions. Raises
    UsageError.
    """
    from codelet.frontends.acp.agent import Agent
    from codelet.frontends.acp.peer import Peer, open_pipes

    settings = settings_for(Path.cwd())
    for name in _UNUSED:
        if getattr(settings, name) is not None:
            hint = "; --sessions DIR keeps sessions" if name in ("export", "snapshots", "resume") else ""
            raise UsageError(f"--{name.replace('_', '-')} does not go with codelet acp{hint}")
    saved = None
    if sessions is not None:
        from codelet.frontends.acp.saved_sessions import SavedSessions

        saved = SavedSessions(sessions)
    own = os.dup(1)
    os.dup2(2, 1)
    try:
        peer = Peer(*await open_pipes(0, own))
    except ValueError:
        raise UsageError("codelet acp speaks with an editor through pipes: set it as an agent there") from None
    loop, serving = asyncio.get_running_loop(), asyncio.current_task()
    ended: list[int] = []

    def end(status: int) -> None:
        ended.append(status)
        if serving is not None:
            serving.cancel()

    for number, status in _SIGNALS.items():
        loop.add_signal_handler(number, end, status)
    agent = Agent(peer, settings_for, saved)
    try:
        await peer.serve(agent.methods)
    except asyncio.CancelledError:
        if not ended or serving is None:
            raise
        serving.uncancel()
    finally:
        await agent.close()
    return ended[0] if ended else EXIT_DONE
