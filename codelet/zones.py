"""The places of reminders in the list: before the conversation, after it, or appended to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from codelet import prompt
from codelet.messages import Message, reminder, reminder_type
from codelet.record import Record

Placement = Literal["tail", "append", "prepend"]
"""The place of changing reminders: last in each request, appended once when they change, or first with all others."""
PlacementChoice = Literal["auto", "tail", "append", "prepend"]
"""The user's choice of it; `auto` is `append` for models that need an unchanged prefix, else `tail`."""

HEAD = ("environment", "claudeMd")
RESERVED = ("plan", "facts", "tasks")
NESTED = ("nestedClaudeMd",)
VOLATILE = ("gitStatus", "tokenStatus")
PREPENDED = ("claudeMd", "environment")


class Zones(Record):
    """The types of reminders in their order. `more_head` and `more_tail` are those of extensions."""

    more_head: tuple[str, ...] = ()
    more_tail: tuple[str, ...] = ()

    @property
    def head(self) -> tuple[str, ...]:
        """The types before the conversation."""
        return (*HEAD, *self.more_head)

    @property
    def tail(self) -> tuple[str, ...]:
        """The types after the conversation."""
        return (*RESERVED, *self.more_tail, *NESTED, *VOLATILE)

    @property
    def types(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.head, *self.tail)

    @property
    def prepended(self) -> tuple[str, ...]:
        """The types before the conversation if the volatile ones are there too."""
        return (*PREPENDED, *self.more_head, *RESERVED, *self.more_tail, *VOLATILE)

    def parts_of(self, messages: Sequence[Message]) -> tuple[int, int]:
        """Return where the conversation begins and ends in a list that holds reminders: those around it are not its."""
        types, tail, last = self.types, self.tail, len(messages)
        while last > 0 and reminder_type(messages[last - 1]) in tail:
            last -= 1
        first = 0
        while first < last and reminder_type(messages[first]) in types:
            first += 1
        return first, last


class ReminderChange(Record):
    """The change of the reminder of one type; `text` is the whole message, empty if it was removed."""

    kind: str
    change: Literal["added", "replaced", "removed"]
    text: str = ""


def renewed(
    zone: tuple[str, ...],
    texts: Mapping[str, str | None],
    own: Sequence[Message],
    other: Sequence[Message],
) -> tuple[tuple[Message, ...], tuple[Message, ...], list[ReminderChange]]:
    """Return the reminders at a zone's own end of the list and at the other, brought up to date, and the changes.

    `texts` holds the reminders gathered again: an empty text or None removes a reminder, a type that is not named
    stays. Reminders that another placement left at the other end move.
    """
    here, there = _of(zone, own), _of(zone, other)
    wanted: list[Message] = []
    changes: list[ReminderChange] = []
    for kind in zone:
        old = here.get(kind, there.get(kind))
        message = _renewed(kind, old, texts[kind]) if kind in texts else old
        if message is not None:
            wanted.append(message)
        if message is not old or kind in there:
            changes.append(_change(kind, old, message))
    rest = [message for message in own if reminder_type(message) not in zone]
    kept = [message for message in other if reminder_type(message) not in zone]
    return (*wanted, *rest), tuple(kept), changes


def appended(
    texts: Mapping[str, str | None], messages: Iterable[Message], zones: Zones
) -> tuple[list[Message], list[ReminderChange]]:
    """Return what to append to a list so that the newest reminder of each type has the text in `texts`, and the
    changes.

    An empty text or None says that the type's last text no longer applies.
    """
    newest = {kind: message for message in messages if (kind := reminder_type(message)) is not None}
    new: list[Message] = []
    changes: list[ReminderChange] = []
    for kind in (kind for kind in zones.types if kind in texts):
        text, old = texts[kind], newest.get(kind)
        if not text and (old is None or is_withdrawn(old)):
            continue
        plain = prompt.as_reminder(kind, text or prompt.NO_LONGER)
        content = prompt.as_reminder(kind, prompt.FROM_HERE.format(text=text)) if text else plain
        if old is not None and old["content"] in (plain, content):
            continue
        new.append(reminder(kind, content))
        known = None if old is None or is_withdrawn(old) else old
        changes.append(_change(kind, known, new[-1] if text else None))
    return new, changes


def is_withdrawn(message: Message) -> bool:
    """Return whether a reminder only says that its type no longer applies."""
    kind = reminder_type(message)
    return kind is not None and message["content"] == prompt.as_reminder(kind, prompt.NO_LONGER)


def _of(zone: tuple[str, ...], messages: Sequence[Message]) -> dict[str, Message]:
    """The reminders of a zone among these messages, by type."""
    return {kind: message for message in messages if (kind := reminder_type(message)) is not None and kind in zone}


def _renewed(kind: str, old: Message | None, text: str | None) -> Message | None:
    if not text:
        return None
    content = prompt.as_reminder(kind, text)
    return old if old is not None and old["content"] == content else reminder(kind, content)


def _change(kind: str, old: Message | None, new: Message | None) -> ReminderChange:
    if new is None:
        return ReminderChange(kind, "removed")
    return ReminderChange(kind, "added" if old is None else "replaced", new["content"] or "")
