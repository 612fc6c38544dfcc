"""`codelet acp`: the agent of an editor, over the Agent Client Protocol, version 1, on stdin and stdout.

stdout carries the protocol alone: whatever else would be printed there goes to stderr.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.errors import EXIT_DONE, UsageError
from codelet.frontends.streams import Stopper

if TYPE_CHECKING:
    from codelet.settings import Settings

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
    agent, stopper = Agent(peer, settings_for, saved), Stopper()
    try:
        with stopper:
            await peer.serve(agent.methods)
    except asyncio.CancelledError:
        return stopper.take_back()[0]
    finally:
        await agent.close()
    return EXIT_DONE
