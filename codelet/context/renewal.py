"""Renewal: brings the reminders in a session's list up to date, all of them for a turn, the volatile ones each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from codelet import prompt
from codelet.context.ledger import ReminderLedger
from codelet.errors import CodeletError
from codelet.events import Event, Note
from codelet.extensions.base import Source
from codelet.reminders.zones import NESTED

if TYPE_CHECKING:
    from codelet.loop.conversation import Conversation


class _SourceFailed(CodeletError):
    """A reminder's text could not be had."""


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
            await source.begin()
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
            await source.stop()

    def _on(self) -> Iterator[Source]:
        return (source for source in self._sources if source.name not in self.ledger.off)

    def _in_front(self, source: Source) -> bool:
        """Whether a volatile reminder stands in front with all others."""
        return self._conversation.placement == "prepend" and source.name not in NESTED

    async def _text(self, source: Source) -> str | None:
        """The source's text, masked; None where the user switched it off, or it fails, which is told."""
        if source.name in self.ledger.off:
            return None
        try:
            text = await _asked(source)
        except _SourceFailed as error:
            self._notes.append(Note(str(error)))
            return None
        return self._mask(text) if text else None

    def _renewed(self, head: dict[str, str | None], tail: dict[str, str | None]) -> list[Event]:
        notes, self._notes = self._notes, []
        return [*notes, *self._conversation.renew(head, tail)]


async def _asked(source: Source) -> str | None:
    try:
        return await source.text()
    except Exception as error:
        raise _SourceFailed(f"the reminder {source.name} was left out: {type(error).__name__}: {error}") from error
