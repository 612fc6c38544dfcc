"""Codelet's own reminders: where each text comes from. gitStatus is in a module of its own."""

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
    """The sources of a session. `used` and `budget` give the size of its list and what it may reach, in tokens;
    `model` is the name of the model that answers, `permissions` a line on what commands may do.
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
    """Where the model works, and what it may do there. No clock, only the date: it stands in the cached prefix."""

    name = "environment"
    zone = "head"
    momentary = True

    def __init__(self, workspace: Path, permissions: Callable[[], str]) -> None:
        self._workspace = workspace
        self._permissions = permissions

    async def text(self) -> str:
        """Folder, platform, shell, permissions and date."""
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
    """The instructions for the workspace and for the folders that the model has worked in."""

    name = "claudeMd"
    zone = "head"
    instructs = True

    def __init__(self, instructions: Instructions, touched: Touched) -> None:
        self._instructions = instructions
        self._touched = touched

    async def text(self) -> str | None:
        """The instructions that hold at the turn's start."""
        return self._instructions.text(self._touched.folders)


class NestedClaudeMd(Source):
    """The instructions of folders that came up in the middle of the turn. Nothing while claudeMd is switched off."""

    name = "nestedClaudeMd"
    instructs = True

    def __init__(self, instructions: Instructions, touched: Touched) -> None:
        self._instructions = instructions
        self._touched = touched
        self._known = 0
        self._text: str | None = None

    async def begin(self) -> None:
        """What came up in the turn before is part of claudeMd now."""
        self._known = self._touched.count
        self._text = None
        self._instructions.forget()

    def changed(self) -> None:
        """Instruction files may have changed too."""
        self._known = -1

    async def text(self) -> str | None:
        """The instructions that claudeMd does not have yet."""
        if self._known != self._touched.count:
            self._known = self._touched.count
            self._text = self._instructions.more(self._touched.folders)
        return self._text


TOKEN_STATUS = (
    "Context: about {percent} % of the budget of {budget:,} tokens used, about {left:,} tokens left. Model: {model}."
)


class TokenStatus(Source):
    """How much of the budget is used, in whole % so that it changes seldom, and by which model."""

    name = "tokenStatus"
    late = True
    quiet = True
    momentary = True

    def __init__(self, used: Callable[[], int], budget: Callable[[], int], model: Callable[[], str]) -> None:
        self._used = used
        self._budget = budget
        self._model = model

    async def text(self) -> str:
        """Return how full the list is: in whole %, or in tenths of the budget where each text stays in the list."""
        budget = self._budget()
        percent = min(100, percent_of(self._used(), budget))
        percent -= percent % 10 if self.stays else 0
        left = budget * (100 - percent) // 100
        return TOKEN_STATUS.format(percent=percent, budget=budget, left=left, model=self._model())
