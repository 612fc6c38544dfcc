"""The sessions in the folder that `codelet acp --sessions` names: one export for each."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from codelet.errors import UsageError
from codelet.export.decode import from_json
from codelet.export.stores.file import FileStore
from codelet.export.stores.store import StoredExport
from codelet.frontends.acp.json_lines import BAD_PARAMETERS, Json, Params, RpcError
from codelet.frontends.commands.session_commands import first_prompt
from codelet.system.text import one_line

_PAGE = 50
_TITLE = 100


class SavedSessions:
    """The exports of a folder. Raises UsageError if the folder does not exist."""

    def __init__(self, folder: str) -> None:
        if not Path(folder).is_dir():
            raise UsageError(f"--sessions {folder}: no such folder")
        self._store = FileStore(Path(folder).absolute())

    def settings(self, name: str, *, load: bool) -> dict[str, str]:
        """Return the settings that save the session `name` here, and with `load` continue it. Raises RpcError."""
        if load and f"{name}.json" not in {each.name for each in self._store.entries()}:
            raise RpcError(BAD_PARAMETERS, f"there is no session {name}")
        target = self._store.shown(f"{name}.json")
        return {"export": target, "resume": target} if load else {"export": target}

    async def list(self, params: Params) -> Json:
        """Return a page of the sessions, those of the folder `cwd` if it is set."""
        return await asyncio.to_thread(self._page, params.cwd, params.cursor or "0")

    def _page(self, cwd: str | None, cursor: str) -> Json:
        if not cursor.isascii() or not cursor.isdigit():
            raise RpcError(BAD_PARAMETERS, f"there is no page {cursor}")
        entries = list(enumerate(self._store.entries(), 1))[int(cursor) :]
        described = ((place, info) for place, entry in entries if (info := self._info(entry, cwd)) is not None)
        page = list(islice(described, _PAGE))
        following = {"nextCursor": str(page[-1][0])} if len(page) == _PAGE else {}
        return {"sessions": [info for _, info in page], **following}

    def _info(self, entry: StoredExport, cwd: str | None) -> Json | None:
        """Return what the editor shows of a session; None for another folder's, and for a file that is no export."""
        try:
            stored = self._store.load(entry.name)
            document = None if stored is None else from_json(stored.data, entry.name)
        except UsageError:
            return None
        workspace = None if document is None else (document.last_known_environment or {}).get("workspace")
        if document is None or workspace is None or cwd not in (None, workspace):
            return None
        return {
            "sessionId": entry.name.removesuffix(".json"),
            "cwd": workspace,
            "title": one_line(first_prompt(document), _TITLE),
            "updatedAt": datetime.fromtimestamp(entry.saved, UTC).isoformat(),
        }
