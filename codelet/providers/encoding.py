"""Encode each message once: the bytes of a list that only grows are kept from request to request."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

from codelet.messages import Message
from codelet.text import valid_unicode

EncodeMessage = Callable[[Message, str], tuple[bytes, str]]


def to_json(value: Any) -> bytes:
    """Compact UTF-8 JSON; halves of surrogate pairs, which a model's JSON may spell, are replaced."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return valid_unicode(text).encode()


class PrefixCache:
    """The encoded fragments of a message list, reused as far as the list is unchanged.

    `encode(message, state)` gives a message's bytes and the state for the next one (a wire uses it for the
    role that is open). Messages are compared by identity: they are never changed once they stand in a list.
    """

    def __init__(self, encode: EncodeMessage) -> None:
        self._encode = encode
        self._messages: list[Message] = []
        self._fragments: list[bytes] = []
        self._states: list[str] = []

    def fragments(self, messages: Sequence[Message]) -> list[bytes]:
        """One fragment a message, in order; the new part alone is encoded."""
        same = list(map(is_, self._messages, messages))
        keep = same.index(False) if False in same else len(same)
        del self._messages[keep:], self._fragments[keep:], self._states[keep:]
        state = self._states[-1] if self._states else ""
        for message in messages[keep:]:
            fragment, state = self._encode(message, state)
            self._messages.append(message)
            self._fragments.append(fragment)
            self._states.append(state)
        return list(self._fragments)

    @property
    def state(self) -> str:
        """The state behind the last message."""
        return self._states[-1] if self._states else ""
