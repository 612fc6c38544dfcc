"""The ledger of reminders: each type's text, its tokens, what it has cost so far, and its switch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from codelet.extensions.base import Source
from codelet.messages import reminder_type
from codelet.record import Record
from codelet.reminders.zones import Zones
from codelet.tokens.estimate import estimate_message

if TYPE_CHECKING:
    from codelet.loop.conversation import Parts


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
