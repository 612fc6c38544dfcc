"""Reads an answer without trusting it: its events and the shape of their parts.

Malformed input is the provider's failure, not codelet's; a garbled or endless answer never passes for a short one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any, Self

from codelet.errors import ProviderError
from codelet.providers import protocol
from codelet.providers.content.inline_reasoning import InlineReasoning
from codelet.providers.failure import stream_failure

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


Batches = AsyncIterator[list[dict[str, Any]]]
"""The events of an answer, those that came together in one list. `DONE` ends the answer."""


class ServerEvents:
    """Iterates over an event stream in batches of its objects, `data: [DONE]` as `DONE`.

    Raises ProviderError for anything but JSON, after what came before it. A complete answer without a stream becomes
    the events that would have streamed it. No generator: each would be one more on the way of every chunk.
    """

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._fields = DataFields()
        self._is_over = False
        self._failure: ProviderError | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[dict[str, Any]]:
        while self._failure is None and not self._is_over:
            piece = await anext(self._pieces, None)
            events: list[dict[str, Any]] = []
            self._is_over = piece is None
            try:
                events.extend(map(_event, self._fields.flush() if piece is None else self._fields.feed(piece)))
            except NoEventStream as other:
                self._is_over, events = True, await _whole(other.args[0], self._pieces)
            except ProviderError as error:
                self._failure = error
            if events:
                return events
        if (failure := self._failure) is not None:
            self._failure, self._is_over = None, True
            raise failure
        raise StopAsyncIteration


async def chunks_of(decoder: protocol.Decoder, batches: Batches) -> AsyncGenerator[protocol.Chunk, None]:
    """Yield the chunks of an answer, the finish marker last; raises ProviderError if it is missing.

    Text that came together is one chunk, as each costs its way to the screen; nothing is held longer. Reasoning at the
    start of the text becomes reasoning chunks. After a finish reason silence ends the answer too: some servers neither
    say that it is done nor close.
    """
    finish: protocol.FinishReason | None = None
    end: dict[str, Any] | None = None
    is_empty, text = True, InlineReasoning()
    while end is None:
        try:
            async with asyncio.timeout(SILENCE if finish else None):
                batch = await anext(batches, None)
        except TimeoutError:
            if finish is None:
                raise
            batch = [DONE]
        if batch is None:
            break
        chunks, end, failure = _decoded(decoder, batch)
        for chunk in chunks:
            if isinstance(chunk, protocol.FinishChunk):
                finish = chunk.reason
            before = text.flush() if isinstance(chunk, protocol.ToolCallChunk | protocol.FinishChunk) else ()
            passed = text.feed(chunk.text) if isinstance(chunk, protocol.TextChunk) else (chunk,)
            for each in (*before, *passed):
                if not isinstance(each, protocol.FinishChunk):
                    is_empty = False
                    yield each
        if failure is not None:
            raise failure
    for chunk in text.flush():
        is_empty = False
        yield chunk
    is_whole = finish is not None and not decoder.last_events
    if end is not None:
        is_whole = end is not DONE or finish is not None or decoder.done_finishes
    if not is_whole and not (is_empty and decoder.may_be_empty):
        raise ProviderError(NO_MARKER, retryable=True)
    yield protocol.FinishChunk(finish or "stop")


def _decoded(
    decoder: protocol.Decoder, batch: list[dict[str, Any]]
) -> tuple[list[protocol.Chunk], dict[str, Any] | None, ProviderError | None]:
    """The chunks of a batch, the event in it that ends the answer, and the error of a bad event after the chunks."""
    chunks: list[protocol.Chunk] = []
    for event in batch:
        if event is DONE:
            return chunks, event, None
        try:
            found = decoder.decode(event)
        except protocol.ErrorEvent as error:
            return chunks, None, stream_failure(error.args[0])
        except ProviderError as error:
            return chunks, None, error
        except (AttributeError, KeyError, TypeError, ValueError):
            return chunks, None, ProviderError("the answer is garbled: an event has an unknown shape")
        for chunk in found:
            if isinstance(chunk, protocol.TextChunk) and chunks and isinstance(chunks[-1], protocol.TextChunk):
                chunks[-1] = protocol.TextChunk(chunks[-1].text + chunk.text)
            else:
                chunks.append(chunk)
        if event.get("type") in decoder.last_events:
            return chunks, event, None
    return chunks, None, None


class NoEventStream(Exception):
    """The answer is not an event stream; its argument holds the bytes so far, from the first line that is not empty."""


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
        if start and (ended or b"\n" in start):
            self._begun, self._buffer = True, bytearray(start)
            if not start.startswith(_FIELDS):
                raise NoEventStream(start)


def _data_of(event: bytearray) -> bytes | None:
    data = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
    return bytes(b"\n".join(data)) if data else None


def _event(data: bytes) -> dict[str, Any]:
    if data == b"[DONE]":
        return DONE
    try:
        event = _from_json(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise ProviderError(f"the answer is garbled: {_shown(data)} is not a JSON event", retryable=True) from None
    if not isinstance(event, dict):
        raise ProviderError("the answer is garbled: an event is not a JSON object")
    return event


async def _whole(start: bytes, pieces: AsyncIterator[bytes]) -> list[dict[str, Any]]:
    """The events of an answer without a stream. Raises ProviderError, with the server's message if it has one."""
    body = bytearray(start)
    if start.startswith((b"{", b"[")):
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
    shown = _shown(start.partition(b"\n")[0])
    raise ProviderError(f"the answer is no event stream, it begins with {shown}; check --api-base")


def _shown(data: bytes) -> str:
    return repr(data[:80].decode("utf-8", "replace"))


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
