"""`codelet acp`: the agent of an editor, over the Agent Client Protocol, version 1, on stdin and stdout.

stdout carries the protocol alone: whatever else would be printed there goes to stderr.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from codelet import __version__
from codelet.errors import EXIT_DONE, UsageError
from codelet.frontends.acp.editor_session import EditorSession
from codelet.frontends.acp.json_lines import (
    BAD_PARAMETERS,
    INVALID_REQUEST,
    Handler,
    Json,
    Params,
    Peer,
    RpcError,
    open_pipes,
)  # fmt: skip
from codelet.frontends.streams import Stopper
from codelet.settings import Settings

if TYPE_CHECKING:
    from codelet.frontends.acp.saved_sessions import SavedSessions

_UNUSED = ("export", "snapshots", "resume", "record", "json_schema", "history")
_MOST_SESSIONS = 32


class Agent:
    """The sessions of one editor; `settings_for` reads the settings for one in a folder, `saved` keeps them."""

    def __init__(self, peer: Peer, settings_for: Callable[[Path], Settings], saved: SavedSessions | None) -> None:
        self._peer = peer
        self._settings_for = settings_for
        self._saved = saved
        self._sessions: dict[str, EditorSession] = {}
        self._opening = asyncio.Lock()
        self.methods: dict[str, Handler] = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
            "session/close": self._close,
            "session/set_config_option": self._set_option,
        }
        if saved is not None:
            self.methods["session/load"] = self._load
            self.methods["session/list"] = saved.list

    async def close(self) -> None:
        """End all sessions."""
        await asyncio.gather(*(each.close() for each in self._sessions.values()), return_exceptions=True)

    async def _initialize(self, params: Params) -> Json:
        listing: Json = {} if self._saved is None else {"list": {}}
        return {
            "protocolVersion": 1,
            "agentInfo": {"name": "codelet", "title": "codelet", "version": __version__},
            "agentCapabilities": {
                "loadSession": self._saved is not None,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": False},
                "sessionCapabilities": {"close": {}, **listing},
            },
            "authMethods": [],
        }

    async def _new(self, params: Params) -> Json:
        opened = await self._open(f"codelet-{os.urandom(8).hex()}", params)
        self._peer.start(opened.announce())
        return {"sessionId": opened.name, "configOptions": opened.options()}

    async def _load(self, params: Params) -> Json:
        opened = await self._open(params.session_id, params, load=True)
        await opened.replay()
        self._peer.start(opened.announce())
        return {"configOptions": opened.options()}

    async def _open(self, name: str, params: Params, *, load: bool = False) -> EditorSession:
        folder = Path(params.cwd or "")
        if not folder.is_absolute() or not folder.is_dir():
            raise RpcError(BAD_PARAMETERS, f"cwd must be the absolute path of a folder: {folder}")
        async with self._opening:
            if name in self._sessions:
                raise RpcError(INVALID_REQUEST, f"the session {name} is open")
            if len(self._sessions) >= _MOST_SESSIONS:
                raise RpcError(INVALID_REQUEST, f"{_MOST_SESSIONS} sessions are open: close one")
            settings = self._settings_for(folder)
            servers = (settings.mcp_servers or {}) | dict(each.settings() for each in params.mcp_servers or ())
            settings = settings.replace(mcp_servers=servers or None)
            if self._saved is not None:
                settings = settings.replace(**self._saved.settings(name, load=load))
            opened = EditorSession(name, self._peer, settings)
            await opened.open(folder)
            self._sessions[name] = opened
        return opened

    async def _prompt(self, params: Params) -> Json:
        return {"stopReason": await self._named(params).prompt(params.prompt)}

    async def _cancel(self, params: Params) -> Json:
        await self._named(params).cancel()
        return {}

    async def _close(self, params: Params) -> Json:
        opened = self._named(params)
        del self._sessions[opened.name]
        await opened.close()
        return {}

    async def _set_option(self, params: Params) -> Json:
        opened = self._named(params)
        await opened.set_option(params.config_id, params.value)
        return {"configOptions": opened.options()}

    def _named(self, params: Params) -> EditorSession:
        opened = self._sessions.get(params.session_id)
        if opened is None:
            raise RpcError(BAD_PARAMETERS, f"no session {params.session_id} is open")
        return opened


async def run_acp(settings_for: Callable[[Path], Settings], sessions: str | None) -> int:
    """Serve an editor until it closes stdin, or a signal ends it; the exit status.

    `settings_for` reads the settings for a session in a folder. `sessions` is the folder that keeps sessions. Raises
    UsageError.
    """
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
