"""Reminders: brought up to date in a session's list, all of them for a turn, the volatile ones each step.

Their ledger has each type's text, its tokens, what it has cost so far, and its switch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from codelet import prompt
from codelet.context.reminders.zones import NESTED, Zones
from codelet.context.tokens.estimate import estimate_message
from codelet.errors import CodeletError
from codelet.events import Event, Note
from codelet.extensions.base import Source
from codelet.messages import reminder_type
from codelet.record import Record


class ReminderRow(Record):
    """One type: `text` as it stands in the list, `tokens` of it, `sent` tokens over all requests so far."""

    kind: str
    text: str
    tokens: int
    sent: int
    on: bool


class ReminderLedger:
    """Counts what reminders cost; `off` are the types that are switched off, `at_first` those that begin so.

    `quiet` are those of which no front end says that their text was replaced.
    """

    def __init__(self, sources: Sequence[Source] = ()) -> None:
        self.zones = Zones.of(sources)
        self.at_first = frozenset(source.name for source in sources if source.off)
        self.quiet = frozenset(source.name for source in sources if source.quiet)
        self.off = set(self.at_first)
        self._sent: dict[str, int] = {}

    @property
    def switched_off(self) -> tuple[str, ...]:
        """The types that the user switched off, in the order of the list; those that are not known here last."""
        off = self.off - self.at_first
        return (*(kind for kind in self.zones.types if kind in off), *sorted(off.difference(self.zones.types)))

    @property
    def switched_on(self) -> tuple[str, ...]:
        """The types that begin switched off and that the user switched on."""
        return tuple(kind for kind in self.zones.types if kind in self.at_first - self.off)

    def switch(self, *, off: Iterable[str], on: Iterable[str]) -> None:
        """Set the switches as a session was left."""
        self.off = (self.off | set(off)) - set(on)

    def count(self, parts: Parts) -> None:
        """A request with these reminders leaves."""
        for message in (*parts.head, *parts.tail):
            if (kind := reminder_type(message)) is not None:
                self._sent[kind] = self._sent.get(kind, 0) + estimate_message(message)

    def rows(self, parts: Parts) -> list[ReminderRow]:
        """One row for each type that stands in the list, was sent or is off."""
        standing = {kind: message for message in parts.sent() if (kind := reminder_type(message)) is not None}
        rows = []
        for kind in self.zones.types:
            message = standing.get(kind)
            if message is None and kind not in self._sent and kind not in self.off:
                continue
            text = (message["content"] or "") if message else ""
            tokens = estimate_message(message) if message else 0
            rows.append(ReminderRow(kind, text, tokens, self._sent.get(kind, 0), kind not in self.off))
        return rows


if TYPE_CHECKING:
    from codelet.loop.conversation import Conversation, Parts


class _SourceFailed(CodeletError):
    """What a reminder's source was to do it could not: the turn goes on without it."""


class Renewal:
    """Brings the reminders of `conversation` up to date from their sources. `mask` takes secrets out of a text.

    What the user switched off is taken out, and nothing is asked of its source.
    """

    def __init__(
        self,
        conversation: Conversation,
        sources: Sequence[Source],
        ledger: ReminderLedger,
        *,
        mask: Callable[[str], str],
    ) -> None:
        self._conversation = conversation
        self._sources = sources
        self.ledger = ledger
        self._mask = mask
        self._notes: list[Event] = []

    async def for_turn(self) -> list[Event]:
        """Gather everything anew, at the start of a turn."""
        for source in self._on():
            await self._tried(source, source.begin)
        head, tail = {}, {}
        for source in self._sources:
            if source.zone == "head":
                head[source.name] = await self._text(source)
        for source in self._sources:
            if source.zone == "head" or (source.late and not self._in_front(source)):
                continue
            text = await self._text(source)
            if not self._in_front(source):
                tail[source.name] = text
            else:  # once a turn: it says of when it is, as the turn goes on
                head[source.name] = prompt.AS_OF.format(when=prompt.TURN_START, text=text) if text else None
        return self._renewed(head, tail)

    def changed(self) -> None:
        """Calls have run that may have changed files: begin at once to see what is different."""
        for source in self._on():
            if source.zone == "tail" and not self._in_front(source):
                source.changed()

    async def for_step(self) -> list[Event]:
        """Renew what changes within a turn, right before a request."""
        texts = {}
        for source in self._sources:
            if source.zone == "tail" and not self._in_front(source):
                texts[source.name] = await self._text(source)
        return self._renewed({}, texts)

    async def stop(self) -> None:
        """The turn is over: nothing is looked at any more."""
        for source in self._sources:
            await self._tried(source, source.stop)

    def _on(self) -> Iterator[Source]:
        return (source for source in self._sources if source.name not in self.ledger.off)

    def _in_front(self, source: Source) -> bool:
        """Whether a volatile reminder stands in front with all others."""
        return self._conversation.placement == "prepend" and source.name not in NESTED

    async def _text(self, source: Source) -> str | None:
        """The source's text, masked; None where the user switched it off, or it fails, which is told."""
        if source.name in self.ledger.off:
            return None
        text = await self._tried(source, source.text)
        return self._mask(text) if text else None

    async def _tried(self, source: Source, act: Callable[[], Awaitable[str | None]]) -> str | None:
        try:
            return await _done(source, act)
        except _SourceFailed as error:
            self._notes.append(Note(self._mask(str(error))))
            return None

    def _renewed(self, head: dict[str, str | None], tail: dict[str, str | None]) -> list[Event]:
        notes, self._notes = self._notes, []
        return [*notes, *self._conversation.renew(head, tail)]


async def _done(source: Source, act: Callable[[], Awaitable[str | None]]) -> str | None:
    try:
        return await act()
    except Exception as error:
        raise _SourceFailed(f"the reminder {source.name} failed: {type(error).__name__}: {error}") from error
