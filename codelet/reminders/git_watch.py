"""Keeps gitStatus true within a turn: git is asked again after each step that may have changed files."""

from __future__ import annotations

import asyncio
from pathlib import Path

from codelet import prompt
from codelet.reminders.git_status import STEP_SECONDS, git_status


class GitWatch:
    """The gitStatus of one workspace. What it says always holds: now, or as of the moment that it names.

    A question that git does not answer within STEP_SECONDS goes on beside the request, and serves a later one.
    """

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._text: str | None = None
        self._when = prompt.TURN_START
        self._changes = 0
        self._answered = 0
        self._asking: asyncio.Task[None] | None = None

    async def for_turn(self) -> str | None:
        """The text at the start of a turn, the one before being stopped; None outside a repository or without git."""
        self._changes = self._answered = 0
        self._when = prompt.TURN_START
        self._text = await git_status(self._workspace)
        return self._text

    def changed(self) -> None:
        """Files may have changed: begin to ask git, unless it is still busy with the question before."""
        self._changes += 1
        self._ask()

    async def for_step(self) -> str | None:
        """The text for the next request; waits at most STEP_SECONDS for git."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + STEP_SECONDS
        while self._answered < self._changes and (left := deadline - clock()) > 0:
            asking = self._ask()
            done, _ = await asyncio.wait({asking}, timeout=left)
            for task in done:
                task.result()
        if self._text is None or self._answered == self._changes:
            return self._text
        return prompt.AS_OF_CHANGED.format(when=self._when, text=self._text)

    async def stop(self) -> None:
        """End a question that is still open: the turn is over."""
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    def _ask(self) -> asyncio.Task[None]:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._answer(self._changes))
        return self._asking

    async def _answer(self, changes: int) -> None:
        self._text = await git_status(self._workspace)
        self._answered, self._when = changes, prompt.EARLIER_STEP
