"""Where reminders stand in the list: each type once, the stable ones first, the volatile ones last.

Head: `environment`, `claudeMd`; put in place anew each turn, but the same message object while the text is
the same, so that the prefix of the request stays as it is. Tail: `gitStatus`, `tokenStatus`, …; always the
last messages of the list, behind the conversation.

Instructions of folders that come up in the middle of a turn stand in the tail, as `nestedClaudeMd`: in the head they
would move everything behind it, and the provider's cache with it, at that very step. With the next turn they are part
of `claudeMd`, which costs the cache once, however many folders have come up.

Reminders of extensions stand behind `claudeMd` or before `nestedClaudeMd`, in the extensions' order.

With `--reminders prepend` all of them stand in front, in the order of PREPENDED; only what comes up in the middle of
a turn stands in the tail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from codelet import events, prompt
from codelet.context.tokens.estimate import estimate_text
from codelet.extensions.base import Source
from codelet.messages import Message, reminder, reminder_type
from codelet.record import Record

Placement = Literal["tail", "prepend"]
"""Where the volatile reminders stand: last, or with all others in front."""

HEAD = ("environment", "claudeMd")
RESERVED = ("plan", "facts", "tasks")
NESTED = ("nestedClaudeMd",)
VOLATILE = ("gitStatus", "tokenStatus")
PREPENDED = ("claudeMd", "environment")


class Zones(Record):
    """The types of reminders in the order in which they stand. `more_head` and `more_tail` are those of extensions."""

    more_head: tuple[str, ...] = ()
    more_tail: tuple[str, ...] = ()

    @classmethod
    def of(cls, sources: Iterable[Source]) -> Zones:
        """The zones with what these sources have beside codelet's own types."""
        own = Zones()
        more = [source for source in sources if source.name not in own.types]
        head, tail = ([source.name for source in more if source.zone == zone] for zone in ("head", "tail"))
        return cls(tuple(head), tuple(tail))

    @property
    def head(self) -> tuple[str, ...]:
        """Those in front of the conversation."""
        return (*HEAD, *self.more_head)

    @property
    def tail(self) -> tuple[str, ...]:
        """Those behind it."""
        return (*RESERVED, *self.more_tail, *NESTED, *VOLATILE)

    @property
    def types(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.head, *self.tail)

    @property
    def prepended(self) -> tuple[str, ...]:
        """Those in front where the volatile ones stand there too."""
        return (*PREPENDED, *self.more_head, *RESERVED, *self.more_tail, *VOLATILE)

    def parts_of(self, messages: Sequence[Message]) -> tuple[int, int]:
        """Where the conversation begins and ends in a list that holds reminders: those around it are not its."""
        types, tail, last = self.types, self.tail, len(messages)
        while last > 0 and reminder_type(messages[last - 1]) in tail:
            last -= 1
        first = 0
        while first < last and reminder_type(messages[first]) in types:
            first += 1
        return first, last


def renewed(
    zone: tuple[str, ...],
    texts: Mapping[str, str | None],
    own: Sequence[Message],
    other: Sequence[Message],
) -> tuple[tuple[Message, ...], tuple[Message, ...], list[events.Event]]:
    """The reminders at a zone's own end of the list and at the other, brought up to date; an event for each change.

    `texts` holds the reminders gathered anew: an empty text or None takes a reminder out, a type that is not
    named stays as it is. What stands at the other end of the list, as another placement left it, moves.
    """
    here, there = _of(zone, own), _of(zone, other)
    wanted: list[Message] = []
    changes: list[events.Event] = []
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


def _of(zone: tuple[str, ...], messages: Sequence[Message]) -> dict[str, Message]:
    """The reminders of a zone among these messages, by type."""
    return {kind: message for message in messages if (kind := reminder_type(message)) is not None and kind in zone}


def _renewed(kind: str, old: Message | None, text: str | None) -> Message | None:
    if not text:
        return None
    content = prompt.as_reminder(kind, text)
    return old if old is not None and old["content"] == content else reminder(kind, content)


def _change(kind: str, old: Message | None, new: Message | None) -> events.Event:
    if new is None:
        return events.Reminder(kind, "removed", 0)
    return events.Reminder(kind, "added" if old is None else "replaced", estimate_text(new["content"] or ""))
