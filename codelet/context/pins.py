"""Pins: the messages that stay verbatim, known by identity so that they survive every rewrite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_

from codelet.errors import UsageError
from codelet.messages import Message, kind_of, reminder_type

VOTE = 5
"""The points of a pin for its turn, and of a drop against it."""


class Pins:
    """The pinned messages. A call and its results are pinned together.

    A pin also raises the score of its turn, a drop lowers it.
    """

    def __init__(self) -> None:
        self._pinned: dict[int, Message] = {}
        self._against: dict[int, Message] = {}

    def dropped(self, body: Sequence[Message], place: int, gone: Sequence[Message]) -> None:
        """Note a drop of messages at `place`, against the turn that they were in."""
        self.remove(gone)
        if place and kind_of(gone[0]) != "prompt":
            self._against[id(body[place - 1])] = body[place - 1]

    def undone(self, before: Sequence[Message], after: Sequence[Message], body: Sequence[Message]) -> None:
        """Note that `before` replaces `after` again at the beginning of this list."""
        self.prune(body)
        place = next((n for n, (old, new) in enumerate(zip(before, after, strict=False)) if old is not new), len(after))
        rest = after[place:]
        if place and all(map(is_, before[len(before) - len(rest) :], rest)):  # it was a drop
            self._against.pop(id(before[place - 1]), None)

    def votes(self, body: Sequence[Message]) -> dict[int, int]:
        """Return the points of pins and drops, by the number of the turn."""
        voted = [
            (place, message) for place, message in enumerate(body) if id(message) in self._against or message in self
        ]
        if not voted:
            return {}
        from codelet.context.compaction.segments import turns_of

        turns = turns_of(body)
        found: dict[int, int] = {}
        for place, message in voted:
            points = VOTE * (message in self) - VOTE * (id(message) in self._against)
            found[turns[place]] = max(-VOTE, min(VOTE, found.get(turns[place], 0) + points))
        return found

    def __contains__(self, message: Message) -> bool:
        return id(message) in self._pinned

    def __len__(self) -> int:
        return len(self._pinned)

    def add(self, messages: Iterable[Message]) -> None:
        self._pinned.update((id(message), message) for message in messages)

    def remove(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._pinned.pop(id(message), None)

    def prune(self, messages: Sequence[Message]) -> None:
        """Unpin messages that are no longer in the list."""
        there = set(map(id, messages))
        self._pinned = {key: message for key, message in self._pinned.items() if key in there}
        self._against = {key: message for key, message in self._against.items() if key in there}


def unit_at(messages: Sequence[Message], number: int) -> list[int]:
    """Return the numbers of the messages that form a unit with this one. Raises UsageError."""
    if not 0 <= number < len(messages):
        raise UsageError(f"there is no message {number}; /context lists them")
    if (kind := reminder_type(messages[number])) is not None:
        raise UsageError(f"message {number} is the reminder {kind}; /reminders switches it")
    first = number
    while first > 0 and messages[first]["role"] == "tool":
        first -= 1
    return list(range(first, first + len(messages[first].get("tool_calls", ())) + 1))
