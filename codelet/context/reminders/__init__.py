"""Reminders: tagged text that codelet adds for the model and keeps current.

Each type has one current text. Types of the head (`environment`, `claudeMd`) are renewed each turn, and the message
object stays while its text does. Types of the tail (`gitStatus`, `tokenStatus`, …) are renewed before each request and
are the last messages of the list; in a turn's first request a server on this machine gets the prompt after them.

Instructions of folders that appear during a turn go to the tail, as `nestedClaudeMd`: in the head they would void the
provider's cache at that step. At the next turn they become part of `claudeMd`, which voids the cache once, however
many folders there are. Reminders of extensions come after `claudeMd` or before `nestedClaudeMd`, in the extensions'
order.

`--reminders prepend` puts all types before the conversation, in the order of PREPENDED, except `nestedClaudeMd`.
`append`, the default for models whose thinking is only valid after an unchanged prefix, never moves or changes what
was sent: a type whose text changed is added at the end, and its newest text is the one in force. The head is written
again only when the conversation begins or is rewritten from its start.

The sources of codelet's own types are here, too; extensions bring theirs.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codelet import events, prompt
from codelet.context.reminders.instructions import Instructions, Touched
from codelet.context.tokens import estimate_message, estimate_text, percent_of
from codelet.conversation import NESTED, Zones, is_withdrawn
from codelet.messages import reminder_type
from codelet.record import Record
from codelet.system.git import STATUS, run_git

if TYPE_CHECKING:
    from codelet.conversation import Conversation

Zone = Literal["head", "tail"]
_SHOWN = 20
_OUTPUT_LIMIT = 256_000
_TIMEOUT = 2.0
# The number of fields before the path, by the kind of entry.
_COLUMNS = {"1 ": 8, "2 ": 9, "u ": 10}
STEP_SECONDS = 0.15
"""Seconds that a request within a turn waits for git; at the turn's start it waits for all of _TIMEOUT."""


class Source:
    """The source of one reminder's text. Subclasses set `name` and `text()`, and the attributes that differ.

    `name` is the reminder's type, unique in a session. Texts of the `head` zone are read once a turn and should keep
    their bytes while nothing has changed, as they are part of the cached prefix. Texts of the `tail` zone are read at
    the turn's start and before each request; with `late` only before each request, after any compaction. `off` is the
    default switch; a source that is off is never called. `instructs` means that only the user can switch it off, not a
    saved session. `stays` is set before each turn: sent texts stay
    in the conversation, so figures should change rarely.
    """

    name: str
    zone: Zone = "tail"
    late: bool = False
    off: bool = False
    instructs: bool = False
    stays: bool = False

    async def text(self) -> str | None:
        """Return the current text; None or "" removes the reminder."""
        return None

    async def begin(self) -> None:
        """Prepare for a new turn; `text` is called next."""

    def sent(self) -> None:
        """Note that the provider has begun to answer a request with the last text."""

    def changed(self) -> None:
        """Note that calls may have changed files. Returns immediately."""

    async def stop(self) -> None:
        """End all work for the turn."""


class ReminderRow(Record):
    """One type: its text in the list, the text's tokens, the tokens `sent` in all requests so far, and its switch."""

    kind: str
    text: str
    tokens: int
    sent: int
    on: bool


class Reminders:
    """The reminders of a conversation: their texts from the sources, their switches, and their cost.

    `off` are the types that are off now, `sourced` those with a source here. `mask` removes secrets from a text. Types
    that are off are removed, and their sources are not called.
    """

    def __init__(
        self,
        conversation: Conversation,
        sources: Sequence[Source],
        notices: events.Notices,
        mask: Callable[[str], str],
    ) -> None:
        self._conversation = conversation
        self._sources = sources
        self._notices = notices
        self._mask = mask
        self._head: dict[str, str | None] = {}
        own = Zones().types
        head, tail = (
            tuple(source.name for source in sources if source.zone == zone and source.name not in own)
            for zone in ("head", "tail")
        )
        conversation.zones = self._zones = Zones(head, tail)
        self.sourced = frozenset(source.name for source in sources)
        self._off_by_default = frozenset(source.name for source in sources if source.off)
        self.off = set(self._off_by_default)
        self._sent: dict[str, int] = {}

    @property
    def switched_off(self) -> tuple[str, ...]:
        """The types that the user switched off, in the order of the list; unknown ones last."""
        off = self.off - self._off_by_default
        return (*(kind for kind in self._zones.types if kind in off), *sorted(off.difference(self._zones.types)))

    @property
    def switched_on(self) -> tuple[str, ...]:
        """The types that are off by default and that the user switched on."""
        return tuple(kind for kind in self._zones.types if kind in self._off_by_default - self.off)

    def switch(self, *, off: Iterable[str], on: Iterable[str]) -> None:
        """Set the switches of a saved session, except for instructions; notify the user of changes."""
        before, on = set(self.off), self._off_by_default.intersection(on)
        instructing = frozenset(source.name for source in self._sources if source.instructs)
        self.off = (self.off | (set(off) - instructing)) - on
        if ignored := instructing.intersection(off) - before:
            names = ", ".join(sorted(ignored))
            self._notices.say(f"the saved session had {names} switched off: instruction files are still sent")
        changed = self.sourced & (self.off ^ before)
        for word, back, kinds in (("off", "on", changed & self.off), ("on", "off", changed - self.off)):
            if kinds:
                names = ", ".join(sorted(kinds))
                self._notices.say(
                    f"the saved session switches {word} the reminders {names}; /context reminders NAME {back} undoes it"
                )

    def count(self) -> None:
        """Count the reminders of a request that is being sent."""
        for message in self._conversation.reminders:
            if (kind := reminder_type(message)) is not None:
                self._sent[kind] = self._sent.get(kind, 0) + estimate_message(message)

    def rows(self) -> list[ReminderRow]:
        """Return a row for each type that has a source, is in the list, was sent, or is off."""
        newest = {reminder_type(message): message for message in self._conversation.reminders}
        rows = []
        for kind in self._zones.types:
            message = newest.get(kind)
            if message is None and kind not in self._sent and kind not in self.off | self.sourced:
                continue
            in_force = message is not None and not is_withdrawn(message)
            text = (message["content"] or "") if message and in_force else ""
            tokens = estimate_message(message) if message and in_force else 0
            rows.append(ReminderRow(kind, text, tokens, self._sent.get(kind, 0), kind not in self.off))
        return rows

    async def for_turn(self) -> list[events.Event]:
        """Renew all types at the start of a turn."""
        for source in self._sources:
            source.stays = self._conversation.placement == "append"
        for source in self._on():
            await self._tried(source, source.begin)
        head: dict[str, str | None] = {}
        tail: dict[str, str | None] = {}
        for source in self._sources:
            if source.zone == "head":
                head[source.name] = await self._text(source)
            elif self._is_prepended(source):  # read once a turn, so it says as of when
                text = await self._text(source)
                head[source.name] = prompt.AS_OF.format(when=prompt.TURN_START, text=text) if text else None
            elif not source.late and not source.stays:  # texts that stay are read right before a request
                tail[source.name] = await self._text(source)
        self._head = head
        return self._renewed(head, tail)

    def changed(self) -> None:
        """Tell the sources that calls may have changed files."""
        for source in self._on():
            if source.zone == "tail" and not self._is_prepended(source):
                source.changed()

    async def for_step(self) -> list[events.Event]:
        """Renew the types of the tail right before a request."""
        texts = {}
        for source in self._sources:
            if source.zone == "tail" and not self._is_prepended(source):
                texts[source.name] = await self._text(source)
        # With `append`, a compaction may have removed texts of the head's types: they are sent again.
        return self._renewed(self._head if self._conversation.placement == "append" else {}, texts)

    def sent(self) -> None:
        """Tell the sources that the provider has begun to answer."""
        for source in self._on():
            source.sent()

    async def stop(self) -> None:
        """End the sources' work for the turn."""
        for source in self._sources:
            await self._tried(source, source.stop)

    def _on(self) -> Iterator[Source]:
        return (source for source in self._sources if source.name not in self.off)

    def _is_prepended(self, source: Source) -> bool:
        return self._conversation.placement == "prepend" and source.name not in NESTED

    async def _text(self, source: Source) -> str | None:
        """Return the source's text, masked; None if it is switched off or fails."""
        text = None if source.name in self.off else await self._tried(source, source.text)
        return self._mask(text) if text else None

    async def _tried(self, source: Source, act: Callable[[], Awaitable[str | None]]) -> str | None:
        """Return the result of a source's method; notify the user if it fails, as the turn continues without it."""
        [found] = await asyncio.gather(act(), return_exceptions=True)
        if isinstance(found, Exception):
            self._notices.say(f"the reminder {source.name} failed: {type(found).__name__}: {found}")
            return None
        if isinstance(found, BaseException):
            raise found
        return found

    def _renewed(self, head: dict[str, str | None], tail: dict[str, str | None]) -> list[events.Event]:
        changes = self._conversation.renew(head, tail)
        return [events.Reminder(each.kind, each.change, estimate_text(each.text)) for each in changes]


def own_sources(
    workspace: Path,
    touched: Touched,
    used: Callable[[], int],
    budget: Callable[[], int],
    model: Callable[[], str],
    permissions: Callable[[], str],
    notices: events.Notices,
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

    def __init__(self, workspace: Path, notices: events.Notices | None = None) -> None:
        self._notices = notices or events.Notices()
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
