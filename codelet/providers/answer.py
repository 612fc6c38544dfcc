"""Reads an answer without trusting it: its events and the shape of their parts.

Malformed input is the provider's failure, not codelet's; a garbled or endless answer never passes for a short one.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any, ClassVar, Self

from codelet.errors import ProviderError
from codelet.providers.content.inline_reasoning import InlineReasoning
from codelet.providers.failure import stream_failure
from codelet.providers.protocol import Chunk, FinishChunk, FinishReason, TextChunk, ToolCallChunk

_EVENT_LIMIT = 16 << 20
_BOM = b"\xef\xbb\xbf"
_FIELDS = (b"data", b"event", b"id", b"retry", b":")

_from_json = json.JSONDecoder().decode

_AT_ONCE = 1 << 20
_PACKED = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""The supported encodings, with zlib's number for each."""

DONE: dict[str, Any] = {}
SILENCE = 2.0
"""Seconds of silence after a finish reason that end an answer, even if the server keeps the stream open."""

NO_MARKER = "the answer was cut: the stream ended without its finish marker"
"""The error for an answer without its end. Another attempt may return all of it."""

MOST_TOKENS = 10**9
"""More than any request has: a larger number is not a count, and its sums would leave an export's range."""


Batches = AsyncIterator[list[dict[str, Any]]]
"""The events of an answer, those that came together in one list. `DONE` ends the answer."""


class ServerSentEvents:
    """The objects of an event stream, `data: [DONE]` as `DONE`; raises ProviderError for anything but JSON."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces, self._fields = pieces, DataFields()
        self._failure: ProviderError | None = None
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        while not events:
            if self._failure is not None or self._ended:
                raise self._failure or StopAsyncIteration
            try:
                piece = await anext(self._pieces, None)
                self._ended = piece is None
                read = self._fields.flush() if piece is None else self._fields.feed(piece)
                events.extend(map(_event, read))  # up to a bad one
            except NoEventStream as other:
                self._ended, events = True, await _whole(other.first, other.rest, self._pieces)
            except ProviderError as error:
                self._failure = error
        return events


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

    async def chunks(self, batches: Batches) -> AsyncGenerator[Chunk, None]:
        """The chunks of the answer, the finish marker last; raises ProviderError if it is missing.

        After a finish reason silence ends the answer too: some servers neither say that it is done nor close.
        """
        finish: FinishReason | None = None
        is_empty, is_whole, is_over, text = True, False, False, JoinedText()
        while not is_over:
            try:
                async with asyncio.timeout(SILENCE if finish else None):
                    batch = await anext(batches, None)
            except TimeoutError:
                if finish is None:
                    raise
                batch = [DONE]
            is_over = batch is None
            for number, event in enumerate(batch or (), 1):
                is_over = event is DONE or event.get("type") in self.last_events
                for chunk in text.take(self.decode, event, is_over or number == len(batch or ())):
                    if isinstance(chunk, FinishChunk):
                        finish = chunk.reason
                    else:
                        is_empty = False
                        yield chunk
                if event is DONE:
                    is_whole = finish is not None or self.done_finishes
                else:
                    is_whole = is_over or (finish is not None and not self.last_events)
                if is_over:
                    break
        for chunk in text.end():
            is_empty = False
            yield chunk
        if not is_whole and not (is_empty and self.may_be_empty):
            raise ProviderError(NO_MARKER, retryable=True)
        yield FinishChunk(finish or "stop")


class NoEventStream(Exception):
    """The answer is not an event stream: its first non-empty line, and what followed it so far."""

    def __init__(self, first: bytes, rest: bytes) -> None:
        self.first = first
        self.rest = rest


class DataFields:
    """Splits an event stream into the data of its events. Not a coroutine: many small pieces come together."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._begun = False
        self._returned = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that end with this piece. Raises NoEventStream and ProviderError."""
        if self._returned or b"\r" in piece:  # a line may end in CR, LF, or both
            piece, self._returned = piece.removeprefix(b"\n" if self._returned else b""), piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        known = max(0, len(self._buffer) - 1)
        self._buffer += piece
        if len(self._buffer) > _EVENT_LIMIT:
            raise ProviderError("the answer is garbled: an event of more than 16 MiB")
        if not self._begun and b"\n" in piece:
            self._begin(ended=False)
            known = 0
        if not self._begun or self._buffer.find(b"\n\n", known) < 0:
            return []
        *events, self._buffer = self._buffer.split(b"\n\n")
        return [data for event in events if (data := _data_of(event)) is not None]

    def flush(self) -> list[bytes]:
        """The data of an event that only the stream's end ends."""
        if not self._begun:
            self._begin(ended=True)
        data = _data_of(self._buffer)
        return [] if data is None else [data]

    def _begin(self, *, ended: bool) -> None:
        """Look at the first line that is not empty, once it is there."""
        start = bytes(self._buffer).removeprefix(_BOM).lstrip(b"\n")
        line, end, rest = start.partition(b"\n")
        if line and (end or ended):
            self._begun, self._buffer = True, bytearray(start)
            if not line.startswith(_FIELDS):
                raise NoEventStream(line, rest)


def _data_of(event: bytearray) -> bytes | None:
    data = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
    return bytes(b"\n".join(data)) if data else None


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
    if isinstance(found, dict) and (events := events_of(found)) is not None:
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


def events_of(answer: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The events that would have streamed this answer, for any of the three APIs; None if it is not an answer."""
    choices = answer.get("choices")
    if isinstance(choices, list) and choices and all(isinstance(each, dict) and "message" in each for each in choices):
        return [{"choices": [{**each, "delta": each["message"]} for each in choices], "usage": answer.get("usage")}]
    if answer.get("object") == "response" and isinstance(answer.get("output"), list):
        kind = "response.incomplete" if answer.get("status") == "incomplete" else "response.completed"
        return [{"type": kind, "response": answer}]
    if answer.get("type") == "message" and isinstance(answer.get("content"), list):
        return _messages(answer)
    return None


def _messages(answer: dict[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"usage": answer.get("usage")}}]
    for index, block in enumerate(answer["content"]):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        if isinstance(block, dict) and block.get("type") == "tool_use":
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block.get("input") or {})}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": answer.get("stop_reason")}})
    return [*events, {"type": "message_stop"}]


async def unpacked(pieces: AsyncIterator[bytes], encoding: str) -> AsyncIterator[bytes]:
    """The decompressed body; raises ProviderError if that fails."""
    form = _PACKED.get(encoding.strip().lower())
    if form is None:
        raise ProviderError(f"the answer is packed as {encoding[:40]!r}, which was not requested; check --api-base")
    import zlib

    reader = zlib.decompressobj(form)
    async for piece in pieces:
        rest = piece
        try:
            while rest:
                yield reader.decompress(rest, _AT_ONCE)
                rest = reader.unconsumed_tail
        except zlib.error as error:
            raise ProviderError(f"the answer is garbled: it is no {encoding[:40]} ({error})") from None
