"""Where each reminder's text comes from, gathered anew for every turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from codelet.reminders.environment import environment
from codelet.reminders.git_status import git_status
from codelet.reminders.instructions import Instructions
from codelet.reminders.token_status import token_status

Texts = dict[str, str | None]


class Sources:
    """Gathers the reminders of one session. `bare` gathers none."""

    def __init__(self, workspace: Path, *, bare: bool = False) -> None:
        self.bare = bare
        self._workspace = workspace
        self._instructions = Instructions(workspace)

    async def gather(self, touched: Iterable[Path]) -> tuple[Mapping[str, str | None], Mapping[str, str | None]]:
        """The head's texts and the tail's by type; `touched` are the files that the model has worked with."""
        if self.bare:
            return {}, {}
        head: Texts = {
            "environment": environment(self._workspace),
            "claudeMd": self._instructions.text(touched),
        }
        tail: Texts = {"gitStatus": await git_status(self._workspace)}
        return head, tail

    def token_status(self, used: int, window: int) -> str:
        """The text of tokenStatus."""
        return token_status(used, window)
