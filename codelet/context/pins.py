"""Pins: the messages that the user keeps word for word, known by identity, so that they survive every rewrite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from codelet.errors import UsageError
from codelet.messages import Message, reminder_type


class Pins:
    """The pinned messages. A call and its results are pinned together."""

    def __init__(self) -> None:
        self._kept: dict[int, Message] = {}

    def __contains__(self, message: Message) -> bool:
        return id(message) in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, messages: Iterable[Message]) -> None:
        """Pin messages."""
        self._kept.update((id(message), message) for message in messages)

    def remove(self, messages: Iterable[Message]) -> None:
        """Let go of pins."""
        for message in messages:
            self._kept.pop(id(message), None)

    def prune(self, messages: Sequence[Message]) -> None:
        """Let go of what is no longer in the list."""
        standing = set(map(id, messages))
        self._kept = {key: message for key, message in self._kept.items() if key in standing}


def unit_at(messages: Sequence[Message], number: int) -> list[int]:
    """The numbers of the messages that stay or go together with this one. Raises UsageError."""
    if not 0 <= number < len(messages):
        raise UsageError(f"there is no message {number}; /context lists them")
    if (kind := reminder_type(messages[number])) is not None:
        raise UsageError(f"message {number} is the reminder {kind}; /reminders switches it")
    first = number
    while first > 0 and messages[first]["role"] == "tool":
        first -= 1
    return list(range(first, first + len(messages[first].get("tool_calls", ())) + 1))
