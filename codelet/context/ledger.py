"""The ledger of reminders: each type's text, its tokens, what it has cost so far, and its switch."""

from __future__ import annotations

from codelet.loop.conversation import Parts
from codelet.messages import reminder_type
from codelet.record import Record
from codelet.reminders import zones
from codelet.tokens.estimate import estimate_message


class ReminderRow(Record):
    """One type: `text` as it stands in the list, `tokens` of it, `sent` tokens over all requests so far."""

    kind: str
    text: str
    tokens: int
    sent: int
    on: bool


class ReminderLedger:
    """Counts what reminders cost; `off` are the types that the user switched off."""

    def __init__(self) -> None:
        self.off: set[str] = set()
        self._sent: dict[str, int] = {}

    def count(self, parts: Parts) -> None:
        """A request with these reminders leaves."""
        for message in (*parts.head, *parts.tail):
            if (kind := reminder_type(message)) is not None:
                self._sent[kind] = self._sent.get(kind, 0) + estimate_message(message)

    def rows(self, parts: Parts) -> list[ReminderRow]:
        """One row for each type that stands in the list, was sent or is off."""
        standing = {kind: message for message in parts.sent() if (kind := reminder_type(message)) is not None}
        rows = []
        for kind in (*zones.HEAD, *zones.TAIL):
            message = standing.get(kind)
            if message is None and kind not in self._sent and kind not in self.off:
                continue
            text = (message["content"] or "") if message else ""
            tokens = estimate_message(message) if message else 0
            rows.append(ReminderRow(kind, text, tokens, self._sent.get(kind, 0), kind not in self.off))
        return rows
