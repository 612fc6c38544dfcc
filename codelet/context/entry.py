"""The entry: what is too large for the list is cut to its head, its tail and its error lines before it comes in.

The whole text goes into the archive, where it fits; the marker in the list names it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from codelet.context.compactor import Compactor
from codelet.messages import Message

LARGEST_TEXT = 256 * 1024
_SMALLEST_CAP = 2_000
_ARCHIVED_CHARACTERS = 4 * 1024 * 1024
_CHARACTERS_PER_TOKEN = 4


class Entry:
    """Cuts texts on their way into `messages`. `room` gives the tokens that a tool result may have.

    `reduced` are sentences on what was cut since they were last taken.
    """

    def __init__(self, messages: list[Message], compactor: Compactor, room: Callable[[], int]) -> None:
        self.reduced: list[str] = []
        self._messages = messages
        self._compactor = compactor
        self._room = room

    def result(self, text: str) -> str:
        """A tool result as it goes into the list: within the working share, and 256 KiB."""
        if len(text) <= _SMALLEST_CAP:
            return text
        cap = max(_SMALLEST_CAP, min(LARGEST_TEXT, _CHARACTERS_PER_TOKEN * self._room()))
        return self._cut(text, cap, "tool", "a tool result")

    def prompt(self, text: str) -> str:
        """A prompt as it goes into the list: within 256 KiB."""
        return self._cut(text, LARGEST_TEXT, "user", "the prompt")

    def _cut(self, text: str, cap: int, role: Literal["user", "tool"], what: str) -> str:
        if len(text) <= cap:
            return text
        from codelet.compaction.reading import read
        from codelet.compaction.reduce import on_entry

        key = None
        if len(text) <= _ARCHIVED_CHARACTERS:
            readings = read(self._messages)
            turn = (readings[-1].turn if readings else 0) + (role == "user")
            key = self._compactor.archive.put(turn, {"role": role, "content": text})
        self.reduced.append(f"{what} of {len(text):,} characters was cut to its head and tail")
        return on_entry(text, cap, key or "")
