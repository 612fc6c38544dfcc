"""How much one answer may hold: a server that never ends must not fill the memory."""

from __future__ import annotations

from codelet.errors import ProviderError
from codelet.providers.base import (
    Chunk,
    ExtraChunk,
    ReasoningChunk,
    RefusalChunk,
    TextChunk,
    ToolCallChunk,
)

LARGEST_ANSWER = 16_000_000
"""Characters of all that an answer holds: text, reasoning, and the names and arguments of its calls."""

MOST_CALLS = 1_000
"""Tool calls of one answer."""


class Bounds:
    """What one answer has come to so far."""

    def __init__(self) -> None:
        self._size = 0
        self._calls: set[tuple[int, str]] = set()

    def take(self, chunk: Chunk) -> None:
        """Count a chunk; raises ProviderError where the answer is too large with it."""
        match chunk:
            case TextChunk() | RefusalChunk():
                self._size += len(chunk.text)
            case ReasoningChunk():
                self._size += len(chunk.text) + _size(chunk.block) + _size(chunk.details)
            case ExtraChunk():
                self._size += _size(chunk.extra)
            case ToolCallChunk():
                self._size += len(chunk.name) + len(chunk.arguments) + _size(chunk.extra)
                if chunk.id or chunk.name:
                    self._calls.add((chunk.index, chunk.id))
        if self._size > LARGEST_ANSWER:
            raise ProviderError(f"the answer is longer than {LARGEST_ANSWER / 1e6:.0f} MB: it was not read to its end")
        if len(self._calls) > MOST_CALLS:
            raise ProviderError(f"the answer has more than {MOST_CALLS:,} tool calls: it was not read to its end")


def _size(value: object) -> int:
    return 0 if value is None else len(repr(value))
