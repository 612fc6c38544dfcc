"""Where each reminder's text comes from, gathered anew for every turn."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from codelet.reminders.environment import environment
from codelet.reminders.git_watch import GitWatch
from codelet.reminders.instructions import Instructions

Texts = dict[str, str | None]


class Sources:
    """The sources of one session's reminders. `bare` means that it has none."""

    def __init__(self, workspace: Path, *, bare: bool = False) -> None:
        self.bare = bare
        self.instructions = Instructions(workspace)
        self.git = GitWatch(workspace)
        self._workspace = workspace

    def head(self, folders: Iterable[Path]) -> Texts:
        """The stable texts by type; `folders` are those that the model has worked in."""
        return {"environment": environment(self._workspace), "claudeMd": self.instructions.text(folders)}
