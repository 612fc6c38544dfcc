"""gitStatus: branch, distance to the upstream, and changed files, bounded; kept current within a turn."""

from __future__ import annotations

import asyncio
from pathlib import Path

from codelet import prompt
from codelet.context.reminders import Source
from codelet.events import Notices
from codelet.system.git import STATUS, run_git

_SHOWN = 20
_OUTPUT_LIMIT = 256_000
_TIMEOUT = 2.0
_PATIENCE = 1.2
"""Seconds for the full status alone; for the rest of _TIMEOUT, git also runs without looking for new files."""
STEP_SECONDS = 0.15
"""Seconds that a request within a turn waits for git; at the turn's start it waits for all of _TIMEOUT."""


class GitStatus(Source):
    """The status of one workspace; a text that is not current says as of when it holds.

    git runs at the turn's start and after each step that may have changed files. If it takes longer than STEP_SECONDS,
    it continues during the request, and a later request gets the result. After one turn has waited in vain, later turns
    do not wait until git answers in time again.
    """

    name = "gitStatus"
    quiet = True

    def __init__(self, workspace: Path, notices: Notices | None = None) -> None:
        self._notices = notices or Notices()
        self._workspace = workspace
        self._text: str | None = None
        self._when = prompt.TURN_START
        self._changes = 0
        self._answered = 0
        self._slow = False
        self._unread: str | None = None
        self._asking: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Run git and wait for it; the previous turn was stopped."""
        self._changes = self._answered = 0
        self._when = prompt.TURN_START
        if self._slow:  # the text says so already
            self._ask()
            return
        await self._read()

    def changed(self) -> None:
        """Start git, unless it is still running."""
        self._changes += 1
        self._ask()

    async def text(self) -> str | None:
        """Return the status after waiting at most STEP_SECONDS; None outside a repository or without git."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + STEP_SECONDS
        while not self._slow and self._answered < self._changes and (left := deadline - clock()) > 0:
            asking = self._ask()
            done, _ = await asyncio.wait({asking}, timeout=left)
            for task in done:
                task.result()
        if self._text is None or self._slow or self._answered == self._changes:
            return self._text
        return prompt.AS_OF_CHANGED.format(when=self._when, text=self._text)

    async def stop(self) -> None:
        """Stop a git that is still running."""
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    def _ask(self) -> asyncio.Task[None]:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._answer(self._changes))
        return self._asking

    async def _answer(self, changes: int) -> None:
        await self._read()
        self._answered, self._when = changes, prompt.EARLIER_STEP

    async def _read(self) -> None:
        before = self._unread
        self._text, self._slow, self._unread = await _ask_git(self._workspace)
        if self._unread is not None and self._unread != before:
            self._notices.say(self._unread)


class RepositoryStatus:
    """The output of `git status`. `changes` are lines such as ` M src/app.py`; `more` counts the lines left out."""

    def __init__(self, *, cut: bool = False) -> None:
        self.branch = self.upstream = ""
        self.ahead = self.behind = self.more = 0
        self.unborn = False
        self.changes: list[str] = []
        self.cut = cut


async def git_status(workspace: Path) -> str | None:
    """The reminder's text; None outside a repository or without git.

    If looking for new files takes too long, they are left out and the text says so.
    """
    text, _, _ = await _ask_git(workspace)
    return text


async def _ask_git(workspace: Path) -> tuple[str | None, bool, str | None]:
    """Return within _TIMEOUT the reminder's text, whether git timed out, and why it refuses to read the repository."""
    whole = asyncio.create_task(run_git(workspace, "status", *STATUS, timeout=_TIMEOUT, limit=_OUTPUT_LIMIT))
    asked = [whole]
    try:
        await asyncio.wait(asked, timeout=_PATIENCE)
        if not whole.done():  # the search for new files may be what takes long
            less, left = (*STATUS[:-1], "--untracked-files=no"), _TIMEOUT - _PATIENCE
            asked.append(asyncio.create_task(run_git(workspace, "status", *less, timeout=left, limit=_OUTPUT_LIMIT)))
        answer = await whole
        if without_new := answer is not None and answer.timed_out:
            answer = await asked[-1]
    finally:
        for question in asked:
            question.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
    if answer is not None and answer.broken_off:
        return prompt.GIT_BROKEN_OFF.format(why=answer.broken_off), answer.timed_out, None
    if answer is not None and answer.foreign_owner:
        return prompt.GIT_NOT_READ, False, answer.foreign_owner
    if answer is None or (answer.exit_code != 0 and answer.complete):
        return None, False, None
    text = describe(parse_status(answer.stdout, complete=answer.complete))
    return text + (prompt.GIT_WITHOUT_NEW if without_new else ""), False, None


def parse_status(output: bytes, *, complete: bool = True) -> RepositoryStatus:
    """Parse the output of `git status --porcelain=v2 --branch -z`; the last entry may be cut."""
    status = RepositoryStatus(cut=not complete)
    entries = output.decode("utf-8", "replace").split("\0")
    if not complete:
        entries.pop()
    remaining = iter(entries)
    for entry in remaining:
        if entry.startswith("# branch."):
            _read_branch(status, entry[len("# branch.") :])
            continue
        change = _change(entry)
        if change is not None and entry.startswith("2 "):  # a rename or copy is followed by the old name
            change = f"{change[:3]}{_shown(next(remaining, '?'))} -> {change[3:]}"
        if change is None:
            continue
        if len(status.changes) < _SHOWN:
            status.changes.append(change)
        else:
            status.more += 1
    return status


def describe(status: RepositoryStatus) -> str:
    """Return the status as text for the model."""
    branch = status.branch if status.branch != "(detached)" else prompt.GIT_DETACHED
    line = prompt.GIT_BRANCH.format(branch=branch) + (prompt.GIT_UNBORN if status.unborn else "")
    if status.upstream:
        line += prompt.GIT_UPSTREAM.format(name=status.upstream, ahead=status.ahead, behind=status.behind)
    if not status.changes:
        return line + prompt.GIT_CLEAN
    more = prompt.GIT_MORE.format(count=f"{status.more}{'+' if status.cut else ''}") if status.more else ""
    return line + prompt.GIT_CHANGES.format(changes="\n".join(status.changes)) + more


def _read_branch(status: RepositoryStatus, entry: str) -> None:
    name, _, value = entry.partition(" ")
    if name == "oid":
        status.unborn = value == "(initial)"
    elif name == "head":
        status.branch = value
    elif name == "upstream":
        status.upstream = value
    elif name == "ab":
        ahead, _, behind = value.partition(" ")
        status.ahead, status.behind = abs(int(ahead)), abs(int(behind))


def _change(entry: str) -> str | None:
    """Return an entry in git's short form: two letters and the path."""
    kind = entry[:2]
    if kind == "? ":
        return f"?? {_shown(entry[2:])}"
    columns = {"1 ": 8, "2 ": 9, "u ": 10}.get(kind)
    if columns is None:
        return None
    fields = entry.split(" ", columns)
    if len(fields) <= columns:
        return None
    return f"{fields[1].replace('.', ' ')} {_shown(fields[-1])}"


def _shown(path: str) -> str:
    """Return a path on one line, with unprintable characters escaped."""
    return path if path.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in path)
