"""What an editor can ask of the agent: sessions, prompts, and what is switched in them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from codelet import __version__
from codelet.frontends.acp.editor_session import EditorSession
from codelet.frontends.acp.peer import BAD_PARAMETERS, INVALID_REQUEST, Handler, Peer, RpcError, RpcResult
from codelet.settings import Settings

_MOST_SESSIONS = 32
_ABOUT = {
    "protocolVersion": 1,
    "agentInfo": {"name": "codelet", "title": "codelet", "version": __version__},
    "agentCapabilities": {
        "loadSession": False,
        "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
        "mcpCapabilities": {"http": True, "sse": False},
        "sessionCapabilities": {"close": {}},
    },
    "authMethods": [],
}


def _mcp_server(given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return an MCP server of the editor's, which its user has named, as the settings have it."""
    table: dict[str, Any] = {key: given[key] for key in ("type", "command", "args", "url") if key in given}
    for key in ("env", "headers"):
        table |= {key: {each["name"]: each["value"] for each in given[key]}} if key in given else {}
    return given["name"], table


class Agent:
    """The sessions of one editor; `settings_for` reads the settings for one in a folder."""

    def __init__(self, peer: Peer, settings_for: Callable[[Path], Settings]) -> None:
        self._peer = peer
        self._settings_for = settings_for
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

    async def close(self) -> None:
        """End all sessions."""
        await asyncio.gather(*(each.close() for each in self._sessions.values()), return_exceptions=True)

    async def _initialize(self, params: dict[str, Any]) -> RpcResult:
        return RpcResult(_ABOUT)

    async def _new(self, params: dict[str, Any]) -> RpcResult:
        folder = Path(params["cwd"])
        if not folder.is_absolute() or not folder.is_dir():
            raise RpcError(BAD_PARAMETERS, f"cwd must be the absolute path of a folder: {folder}")
        name = f"codelet-{os.urandom(8).hex()}"
        async with self._opening:
            if len(self._sessions) >= _MOST_SESSIONS:
                raise RpcError(INVALID_REQUEST, f"{_MOST_SESSIONS} sessions are open: close one")
            settings = self._settings_for(folder)
            servers = (settings.mcp_servers or {}) | dict(map(_mcp_server, params.get("mcpServers") or ()))
            opened = EditorSession(name, self._peer, settings.replace(mcp_servers=servers or None))
            await opened.open(folder)
            self._sessions[name] = opened
        return RpcResult({"sessionId": name, "configOptions": opened.options()}, opened.announce)

    async def _prompt(self, params: dict[str, Any]) -> RpcResult:
        return RpcResult({"stopReason": await self._named(params).prompt(params["prompt"])})

    async def _cancel(self, params: dict[str, Any]) -> RpcResult:
        await self._named(params).cancel()
        return RpcResult({})

    async def _close(self, params: dict[str, Any]) -> RpcResult:
        opened = self._named(params)
        del self._sessions[opened.name]
        await opened.close()
        return RpcResult({})

    async def _set_option(self, params: dict[str, Any]) -> RpcResult:
        opened = self._named(params)
        await opened.set_option(params["configId"], params["value"])
        return RpcResult({"configOptions": opened.options()})

    def _named(self, params: dict[str, Any]) -> EditorSession:
        opened = self._sessions.get(params["sessionId"])
        if opened is None:
            raise RpcError(BAD_PARAMETERS, f"there is no session {params['sessionId']}")
        return opened
