"""The sources of codelet's own reminders, apart from gitStatus."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from codelet.context.reminders import Source
from codelet.context.reminders.git_status import GitStatus
from codelet.context.reminders.instructions import Instructions, Touched
from codelet.context.tokens.budget import percent_of
from codelet.events import Notices


def own_sources(
    workspace: Path,
    touched: Touched,
    used: Callable[[], int],
    budget: Callable[[], int],
    model: Callable[[], str],
    permissions: Callable[[], str],
    notices: Notices,
) -> list[Source]:
    """Return the sources of a session.

    `used` and `budget` return the size of its list and the limit, in tokens, `model` the current model's name,
    `permissions` a line on what commands can do.
    """
    instructions = Instructions(workspace, notices)
    return [
        Environment(workspace, permissions),
        ClaudeMd(instructions, touched),
        NestedClaudeMd(instructions, touched),
        GitStatus(workspace, notices),
        TokenStatus(used, budget, model),
    ]


class Environment(Source):
    """The model's surroundings and permissions. The date without the time, as it is part of the cached prefix."""

    name = "environment"
    zone = "head"

    def __init__(self, workspace: Path, permissions: Callable[[], str]) -> None:
        self._workspace = workspace
        self._permissions = permissions

    async def text(self) -> str:
        system = os.uname() if hasattr(os, "uname") else None
        platform = f"{system.sysname} {system.release} {system.machine}" if system else sys.platform
        lines = [
            f"Working directory: {self._workspace}",
            f"Platform: {platform}",
            f"Shell: {os.environ.get('SHELL', 'sh')}",
            self._permissions(),
            f"Date: {time.strftime('%Y-%m-%d')}",
        ]
        return "\n".join(lines)


class ClaudeMd(Source):
    """The instructions for the workspace and for the folders that the model had worked in at the turn's start."""

    name = "claudeMd"
    zone = "head"
    instructs = True

    def __init__(self, instructions: Instructions, touched: Touched) -> None:
        self._instructions = instructions
        self._touched = touched

    async def text(self) -> str | None:
        return self._instructions.text(self._touched.folders)


class NestedClaudeMd(Source):
    """The instructions of folders that appeared during the turn, unless claudeMd is switched off."""

    name = "nestedClaudeMd"
    instructs = True

    def __init__(self, instructions: Instructions, touched: Touched) -> None:
        self._instructions = instructions
        self._touched = touched
        self._known = 0
        self._text: str | None = None

    async def begin(self) -> None:
        self._known = self._touched.count
        self._text = None
        self._instructions.forget()

    def changed(self) -> None:
        self._known = -1  # instruction files may have changed too

    async def text(self) -> str | None:
        if self._known != self._touched.count:
            self._known = self._touched.count
            self._text = self._instructions.more(self._touched.folders)
        return self._text


TOKEN_STATUS = (
    "Context: about {percent} % of the budget of {budget:,} tokens used, about {left:,} tokens left. Model: {model}."
)


class TokenStatus(Source):
    """The used share of the budget, in whole % so that it changes rarely, and the model."""

    name = "tokenStatus"
    late = True

    def __init__(self, used: Callable[[], int], budget: Callable[[], int], model: Callable[[], str]) -> None:
        self._used = used
        self._budget = budget
        self._model = model

    async def text(self) -> str:
        """Return the share in whole %, or in tenths if each text stays in the list."""
        budget = self._budget()
        percent = min(100, percent_of(self._used(), budget))
        percent -= percent % 10 if self.stays else 0
        left = budget * (100 - percent) // 100
        return TOKEN_STATUS.format(percent=percent, budget=budget, left=left, model=self._model())
