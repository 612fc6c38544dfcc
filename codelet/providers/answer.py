"""Reads an answer without trusting it: its events and the shape of their parts.

Malformed input is the provider's failure, not codelet's; a garbled or endless answer never passes for a short one.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any, ClassVar, Self

from codelet.errors import CodeletError, ProviderError
from codelet.providers.content.inline_reasoning import InlineReasoning
from codelet.providers.failure import stream_failure
from codelet.providers.protocol import Chunk, FinishChunk, FinishReason, TextChunk, ToolCallChunk

_EVENT_LIMIT = 16 << 20
_BOM = b"\xef\xbb\xbf"
_FIELDS = (b"data", b"event", b"id", b"retry", b":")

_from_json = json.JSONDecoder().decode

DONE: dict[str, Any] = {}
SILENCE = 2.0
"""Seconds of silence after a finish reason that end an answer, even if the server keeps the stream open."""

NO_MARKER = "the answer was cut: the stream ended without its finish marker"
"""The error for an answer without its end. Another attempt may return all of it."""

MOST_TOKENS = 10**9
"""More than any request has: a larger number is not a count, and its sums would leave an export's range."""


class Events(ABC):
    """The events of an answer, each with a flag: the last one read so far.

    `DONE` ends the answer. Once `finished` is set, silence does too: some servers neither send it nor close.
    """

    def __init__(self) -> None:
        self.finished = False
        self._read: deque[dict[str, Any]] = deque()
        self._failure: CodeletError | None = None
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[dict[str, Any], bool]:
        if not self._read:
            try:
                async with asyncio.timeout(SILENCE if self.finished else None):
                    while not self._read and not self._ended and self._failure is None:
                        await self._read_on()
            except TimeoutError:
                if not self.finished:
                    raise
                self._read.append(DONE)
        if not self._read:
            raise self._failure or StopAsyncIteration
        event = self._read.popleft()
        if event is DONE:
            self._read.clear()
            self._ended, self._failure = True, None
        return event, not self._read

    @abstractmethod
    async def _read_on(self) -> None:
        """Read more. An error becomes `_failure`, which is raised after the events before it."""


class ServerSentEvents(Events):
    """The objects of an event stream, `data: [DONE]` as `DONE`; raises ProviderError for anything but JSON."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces
        self._fields = DataFields()

    async def _read_on(self) -> None:
        try:
            piece = await anext(self._pieces, None)
            self._ended = piece is None
            for data in self._fields.flush() if piece is None else self._fields.feed(piece):
                self._read.append(_event(data))
        except NoEventStream as other:
            self._ended = True
            self._read.extend(await _whole(other.first, other.rest, self._pieces))
        except ProviderError as error:
            self._failure = error


class JoinedText:
    """Joins pieces of text that arrive together: each piece costs its way to the screen, and a fast answer has
    thousands.

    Nothing is held longer than the events read so far. Reasoning at the start of the text becomes reasoning chunks.
    """

    def __init__(self) -> None:
        self._held: list[str] = []
        self._text = InlineReasoning()

    def take(
        self, decode: Callable[[dict[str, Any]], list[Chunk]], event: dict[str, Any], last: bool
    ) -> Iterator[Chunk]:
        """The chunks to pass on after this event; raises ProviderError after them."""
        try:
            chunks = decoded(decode, event)
        except ProviderError:
            yield from self.rest()
            raise
        for chunk in chunks:
            if isinstance(chunk, TextChunk):
                self._held.append(chunk.text)
            else:
                yield from self.rest()
                if isinstance(chunk, ToolCallChunk | FinishChunk):
                    yield from self.end()
                yield chunk
        if last:
            yield from self.rest()

    def end(self) -> Iterator[Chunk]:
        """Yield everything held, including text that might have become a tag."""
        yield from self.rest()
        yield from self._text.flush()

    def rest(self) -> Iterator[Chunk]:
        """Yield the joined text."""
        if self._held:
            text, self._held = "".join(self._held), []
            yield from self._text.feed(text)


class Decoder(ABC):
    """Turns the events of one answer into chunks.

    `last_events` are the types that end it; an API without them ends with a finish reason. `done_finishes`: `[DONE]`
    alone is a finish marker. `may_be_empty`: a stream without any event is an empty answer.
    """

    last_events: ClassVar[frozenset[str]] = frozenset()
    done_finishes: ClassVar[bool] = False
    may_be_empty: ClassVar[bool] = True

    @abstractmethod
    def decode(self, event: dict[str, Any]) -> list[Chunk]:
        """The chunks of one event, the finish reason included; raises ProviderError for an error event."""

    async def chunks(self, events: Events) -> AsyncGenerator[Chunk, None]:
        """The chunks of the answer, the finish marker last; raises ProviderError if it is missing."""
        finish: FinishReason | None = None
        empty, is_whole, text = True, False, JoinedText()
        async for event, last in events:
            is_end = event.get("type") in self.last_events
            for chunk in text.take(self.decode, event, last or is_end):
                if isinstance(chunk, FinishChunk):
                    finish = chunk.reason
                else:
                    empty = False
                    yield chunk
            has_finish = finish is not None
            is_whole = is_end or (has_finish and not self.last_events)
            if event is DONE:
                is_whole = has_finish or self.done_finishes
            if is_end:
                break
            events.finished = has_finish
        for chunk in text.end():
            empty = False
            yield chunk
        if not is_whole and not (empty and self.may_be_empty):
            raise ProviderError(NO_MARKER, retryable=True)
        yield FinishChunk(finish or "stop")


class NoEventStream(Exception):
    """The answer is not an event stream: its first non-empty line, and what followed it so far."""

    def __init__(self, first: bytes, rest: bytes) -> None:
        self.first = first
        self.rest = rest


class DataFields:
    """Parses an event stream into the data of its events. Not a coroutine: many small pieces come together."""

    def __init__(self) -> None:
        self._line: list[bytes] = []  # the pieces of a line whose end has not come
        self._line_size = 0
        self._data: list[bytes] = []
        self._data_size = 0
        self._begun = False
        self._returned = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that end with this piece. Raises NoEventStream and ProviderError."""
        if self._returned or b"\r" in piece:  # a line may end in CR, LF, or both
            piece, self._returned = piece.removeprefix(b"\n" if self._returned else b""), piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *others = piece.split(b"\n")
        self._line.append(first)
        self._line_size += len(first)
        if self._line_size > _EVENT_LIMIT:
            raise ProviderError("the answer is garbled: a line of more than 16 MiB")
        if not others:
            return []
        lines = [b"".join(self._line), *others[:-1]]
        self._line, self._line_size = [others[-1]], len(others[-1])
        ended = [self._taken(line, lines[number:]) for number, line in enumerate(lines, 1)]
        return [data for data in ended if data is not None]

    def flush(self) -> list[bytes]:
        """The data of an event that only the stream's end ends."""
        if self._line_size:
            line, self._line, self._line_size = b"".join(self._line), [], 0
            self._taken(line, [])
        return [b"\n".join(self._data)] if self._data else []

    def _taken(self, line: bytes, rest: list[bytes]) -> bytes | None:
        if not self._begun:
            line = line.removeprefix(_BOM)
            self._begun = bool(line)
            if line and not line.startswith(_FIELDS):
                raise NoEventStream(line, b"\n".join([*rest, *self._line]))
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
            self._data_size += len(line)
            if self._data_size > _EVENT_LIMIT:
                raise ProviderError("the answer is garbled: an event of more than 16 MiB")
        elif not line and self._data:
            data, self._data, self._data_size = b"\n".join(self._data), [], 0
            return data
        return None


def _event(data: bytes) -> dict[str, Any]:
    if data == b"[DONE]":
        return DONE
    try:
        event = _parsed(data)
    except (ValueError, RecursionError):
        raise ProviderError(f"the answer is garbled: {_shown(data)} is not a JSON event", retryable=True) from None
    if not isinstance(event, dict):
        raise ProviderError("the answer is garbled: an event is not a JSON object")
    return event


def _parsed(data: bytes) -> Any:
    """The JSON value; invalid UTF-8 is replaced, as in any event stream."""
    with suppress(ValueError):
        return _from_json(data.decode())
    try:
        return json.loads(data)
    except UnicodeDecodeError:
        return json.loads(data.decode("utf-8", "replace"))


async def _whole(first: bytes, rest: bytes, pieces: AsyncIterator[bytes]) -> list[dict[str, Any]]:
    """The events of an answer that came without a stream. Raises ProviderError, with the server's message if it has
    one.
    """
    body = bytearray(first + b"\n" + rest)
    if first.startswith((b"{", b"[")):
        with suppress(ProviderError):  # one that is cut is judged by what came
            async for piece in pieces:
                body += piece
                if len(body) > _EVENT_LIMIT:
                    break
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    found = found[0] if isinstance(found, list) and found else found
    if isinstance(found, dict) and found.get("error"):
        raise stream_failure(found["error"])
    if isinstance(found, dict):
        from codelet.providers.content.whole_answer import events_of

        if (events := events_of(found)) is not None:
            return events
    raise ProviderError(f"the answer is no event stream, it begins with {_shown(first)}; check --api-base")


def _shown(data: bytes) -> str:
    return repr(data[:80].decode("utf-8", "replace"))


def decoded(decode: Callable[[dict[str, Any]], list[Chunk]], event: dict[str, Any]) -> list[Chunk]:
    """The chunks of an event; raises ProviderError if its parts have unexpected types."""
    try:
        return decode(event)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ProviderError("the answer is garbled: an event has an unknown shape") from None


def as_text(value: object) -> str:
    """A text; null is empty, a list is joined from its text parts. Raises TypeError for anything else."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "".join(as_text(part.get("text")) for part in value if part.get("type") == "text")
    if not isinstance(value, str):
        raise TypeError(f"a text was expected, not {type(value).__name__}")
    return value


def as_count(value: object, most: int = MOST_TOKENS) -> int:
    """A number of tokens; anything else counts as 0: usage is never worth losing an answer for."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        return 0
    return int(value)


def as_counts(value: object) -> dict[str, Any]:
    """An object of counts; anything else counts as empty."""
    return value if isinstance(value, dict) else {}
