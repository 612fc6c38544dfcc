"""The sources of codelet's own reminders."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

from codelet import prompt
from codelet.context.reminders import Source
from codelet.context.reminders.instructions import Instructions, Touched
from codelet.context.tokens import percent_of
from codelet.events import Notices
from codelet.system.git import STATUS, run_git

_SHOWN = 20
_OUTPUT_LIMIT = 256_000
_TIMEOUT = 2.0
# The number of fields before the path, by the kind of entry.
_COLUMNS = {"1 ": 8, "2 ": 9, "u ": 10}
STEP_SECONDS = 0.15
"""Seconds that a request within a turn waits for git; at the turn's start it waits for all of _TIMEOUT."""


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
        system = os.uname()
        lines = [
            f"Working directory: {self._workspace}",
            f"Platform: {system.sysname} {system.release} {system.machine}",
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

    async def begin(self) -> None:
        self._instructions.forget()

    async def text(self) -> str | None:
        return self._instructions.more(self._touched.folders)


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


class GitStatus(Source):
    """The status of one workspace; a text that is not current says as of when it holds.

    git runs at the turn's start and after each step that may have changed files. If it takes longer than STEP_SECONDS,
    it continues during the request, and a later request gets the result. After one turn has waited in vain, later turns
    do not wait until git answers in time again.
    """

    name = "gitStatus"

    def __init__(self, workspace: Path, notices: Notices | None = None) -> None:
        self._notices = notices or Notices()
        self._workspace = workspace
        self._text: str | None = None
        self._when = prompt.TURN_START
        self._slow = False
        self._asking: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Run git and wait for it; the previous turn was stopped."""
        if not self._slow:
            await self._read()
        elif self._asking is None or self._asking.done():
            self.changed()
        self._when = prompt.TURN_START

    def changed(self) -> None:
        """Start git again."""
        self._asking = asyncio.create_task(self._read_after(self._asking))

    async def text(self) -> str | None:
        """Return the status after waiting at most STEP_SECONDS; None outside a repository or without git."""
        if self._asking is not None and not self._slow:
            done, _ = await asyncio.wait({self._asking}, timeout=STEP_SECONDS)
            if not done and self._text is not None:
                return prompt.AS_OF_CHANGED.format(when=self._when, text=self._text)
            for task in done:
                task.result()
        return self._text

    async def stop(self) -> None:
        """Stop a git that is still running."""
        asking, self._asking = self._asking, None
        await _ended(asking)

    async def _read_after(self, before: asyncio.Task[None] | None) -> None:
        await _ended(before)  # files have changed since
        await self._read()
        self._when = prompt.EARLIER_STEP

    async def _read(self) -> None:
        """Ask git, for at most _TIMEOUT seconds."""
        answer = await run_git(self._workspace, "status", *STATUS, timeout=_TIMEOUT, limit=_OUTPUT_LIMIT)
        self._text, self._slow = None, answer is not None and answer.timed_out
        if answer is None:
            return
        if answer.broken_off:
            self._text = prompt.GIT_BROKEN_OFF.format(why=answer.broken_off)
        elif answer.foreign_owner:
            self._text = prompt.GIT_NOT_READ
            self._notices.say(answer.foreign_owner, once=answer.foreign_owner)
        elif answer.exit_code == 0 or not answer.complete:
            self._text = describe(answer.stdout, complete=answer.complete)


async def _ended(asking: asyncio.Task[None] | None) -> None:
    if asking is not None:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


def describe(output: bytes, *, complete: bool = True) -> str:
    """Return the output of `git status --porcelain=v2 --branch -z` as text for the model; the last entry may be cut."""
    head, changes = dict[str, str](), list[str]()
    entries = iter(output.decode("utf-8", "replace").split("\0")[: None if complete else -1])
    for entry in entries:
        if entry.startswith("# branch."):
            key, _, head[key] = entry.removeprefix("# branch.").partition(" ")
        elif entry.startswith("? "):
            changes.append(f"?? {_shown(entry[2:])}")
        elif (columns := _COLUMNS.get(entry[:2])) is not None and entry.count(" ") >= columns:
            fields = entry.split(" ", columns)
            # The old name follows a rename or a copy.
            old = f"{_shown(next(entries, '?'))} -> " if entry[0] == "2" else ""
            changes.append(f"{fields[1].replace('.', ' ')} {old}{_shown(fields[-1])}")
    branch = head.get("head", "")
    line = prompt.GIT_BRANCH.format(branch=prompt.GIT_DETACHED if branch == "(detached)" else branch)
    line += prompt.GIT_UNBORN if head.get("oid") == "(initial)" else ""
    if "upstream" in head:
        ahead, _, behind = head.get("ab", "+0 -0").partition(" ")
        line += prompt.GIT_UPSTREAM.format(name=head["upstream"], ahead=ahead[1:], behind=behind[1:])
    if not changes:
        return line + prompt.GIT_CLEAN
    more = len(changes) - _SHOWN
    line += prompt.GIT_CHANGES.format(changes="\n".join(changes[:_SHOWN]))
    return line + (prompt.GIT_MORE.format(count=f"{more}{'' if complete else '+'}") if more > 0 else "")


def _shown(path: str) -> str:
    """Return a path on one line, with unprintable characters escaped."""
    return path if path.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in path)
