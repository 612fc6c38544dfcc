"""Reads the response to a request without trusting it: HTTP, the events in its body, and the chunks in these.

Malformed input is the provider's failure, not codelet's; a garbled or endless answer never passes for a short one.
Imported after the first request has left: h11 costs more than the request, and the server needs a moment.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import suppress
from typing import Any, Self

import h11

from codelet.errors import ProviderError
from codelet.providers import protocol
from codelet.providers.connection import ClosedEarly, Connection
from codelet.providers.content.inline_reasoning import InlineReasoning
from codelet.providers.failure import stream_failure, unreachable

_TURN = 0.005
"""Seconds of uninterrupted reading before signals and other tasks get their turn."""
_TRAILER_WAIT = 0.3
_TLS_ALERT = b"\x15\x03"
_CUT = "the connection was cut in the middle of the answer"

_EVENT_LIMIT = 16 << 20
_BOM = b"\xef\xbb\xbf"
_FIELDS = (b"data", b"event", b"id", b"retry", b":")

_AT_ONCE = 1 << 20
_PACKED = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""The supported encodings, with zlib's number for each."""

DONE: dict[str, Any] = {}
SILENCE = 2.0
"""Seconds of silence after a finish reason that end an answer, even if the server keeps the stream open."""

NO_MARKER = "the answer was cut: the stream ended without its finish marker"
"""The error for an answer without its end. Another attempt may return all of it."""


class Response:
    """The response to a request that has just left; `read_head` comes first, then `body()` yields the rest.

    Its reader calls `heard` for each piece of the answer, and `opened` when a block begins. The deadline for the first
    token counts from the request, the first byte of the body, each piece and each new block: a model can think for
    minutes while the server sends keep-alives. Between the pieces of a block there must also be bytes of any kind.
    """

    def __init__(self, connection: Connection, deadlines: protocol.Deadlines, method: str) -> None:
        self.connection = connection
        self.status = 0
        self.headers: dict[str, str] = {}
        self._deadlines = deadlines
        self._clock = asyncio.get_running_loop().time
        self._turned = self._clock()
        self._begun = self._heard = False
        self._quiet_from: float | None = self._turned  # None: from the next wait on
        self._ahead: object = h11.NEED_DATA  # the event after the last piece
        self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
        self._state.send(h11.Request(method=method, target="/", headers=[("host", "-")]))  # what was sent matters not
        self._state.send(h11.EndOfMessage())

    async def read_head(self) -> None:
        """Read status and headers; raises ClosedEarly if the peer hangs up instead, and ProviderError."""
        while not isinstance(event := await self._next_event(), h11.Response):
            pass  # an interim answer
        self.status = event.status_code
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}

    def heard(self) -> None:
        """The last bytes held a piece of the answer."""
        self._heard, self._quiet_from = True, None

    def opened(self) -> None:
        """A block has begun: its first piece may take as long as the first token."""
        self._begun, self._heard, self._quiet_from = True, False, self._clock()

    def body(self) -> AsyncIterator[bytes]:
        """The body's pieces; raises ProviderError if it stalls or is cut."""
        encoding = self.headers.get("content-encoding", "identity")
        return self if encoding == "identity" else _unpacked(self, encoding)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """The data of all chunks that came together: many servers send each event as a chunk."""
        if (now := self._clock()) - self._turned > _TURN:
            await asyncio.sleep(0)  # signals get their turn, however fast the server is
            self._turned = now
        event, pieces = await self._next_event(), []
        while isinstance(event, h11.Data):
            pieces.append(event.data)
            event = self._parsed()
        self._ahead = event
        if pieces:
            if not self._begun:
                self.opened()
            return b"".join(pieces)
        raise StopAsyncIteration if isinstance(event, h11.EndOfMessage) else ProviderError(_CUT, retryable=True)

    async def read(self, limit: int = 65_536, until: float | None = None) -> bytes:
        """The body, cut at `limit` bytes, at the loop's time `until`, or where it fails."""
        data = bytearray()
        with suppress(ProviderError, TimeoutError):
            async with asyncio.timeout_at(until):
                async for piece in self.body():
                    data += piece
                    if len(data) >= limit:
                        break
        return bytes(data[:limit])

    async def finish(self) -> bool:
        """Read past the stream's end marker. Return whether the connection can carry another request."""
        until = self._clock() + _TRAILER_WAIT
        with suppress(ProviderError):
            while self._state.their_state is h11.SEND_BODY:
                await self._next_event(until)
        return self._state.our_state is h11.DONE and self._state.their_state is h11.DONE

    def _due(self) -> tuple[float, str]:
        """The loop's time until which the next event may take, and the problem after it."""
        now, first, silence = self._clock(), self._deadlines.first_token, self._deadlines.between_chunks
        start = self._quiet_from = now if self._quiet_from is None else self._quiet_from
        most = max(silence, first) if self._heard else first
        if self._heard and now + silence <= start + most:
            return now + silence, f"no data for {silence:g} seconds"
        return start + most, f"{'nothing but signs of life for' if self._begun else 'no token within'} {most:g} seconds"

    async def _next_event(self, until: float | None = None) -> object:
        """The next protocol event; raises ProviderError after the loop's time `until`, or the deadline."""
        event, self._ahead = self._ahead, h11.NEED_DATA
        has_head, late = self._state.their_state is not h11.SEND_RESPONSE, ""
        try:
            if event is h11.NEED_DATA and (event := self._parsed()) is h11.NEED_DATA:
                due, late = self._due()
                async with asyncio.timeout_at(until or due):
                    while event is h11.NEED_DATA:
                        data = await self.connection.read()
                        if not has_head and data[:2] == _TLS_ALERT:
                            raise ProviderError("the server speaks https: begin --api-base with https://")
                        if not has_head and not data:
                            raise ClosedEarly
                        self._state.receive_data(data)
                        event = self._parsed()
        except TimeoutError:
            raise unreachable(f"{late}: the answer has stalled") from None
        except OSError:
            if not has_head:
                raise ClosedEarly from None
            raise ProviderError(_CUT, retryable=True) from None
        if isinstance(event, ProviderError):
            raise event
        return event

    def _parsed(self) -> object:
        """The next protocol event in the read bytes, NEED_DATA, or the error for invalid HTTP."""
        try:
            return self._state.next_event()
        except h11.RemoteProtocolError as error:
            if self._state.trailing_data[1]:  # the end was read
                return ProviderError(_CUT, retryable=True)
            return ProviderError(f"the answer is not valid HTTP: {error}")


async def _unpacked(pieces: AsyncIterator[bytes], encoding: str) -> AsyncIterator[bytes]:
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


class NoEventStream(Exception):
    """The body is not an event stream; the argument holds the bytes so far, from the first line that is not empty."""


class EventData:
    """Iterates over the data of events, those that came together in one list. Raises NoEventStream and ProviderError.

    No generator: each would be resumed for every piece of an answer.
    """

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._buffer = bytearray()
        self._is_begun = self._has_return = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[bytes]:
        while (piece := await anext(self._pieces, None)) is not None:
            if self._has_return or b"\r" in piece:  # a line may end in CR, LF, or both
                piece = piece.removeprefix(b"\n" if self._has_return else b"")
                self._has_return = piece.endswith(b"\r")
                piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            known = max(0, len(self._buffer) - 1)
            self._buffer += piece
            if len(self._buffer) > _EVENT_LIMIT:
                raise ProviderError("the answer is garbled: an event of more than 16 MiB")
            if not self._is_begun and b"\n" in piece:
                self._buffer, known = _beginning(self._buffer), 0
                self._is_begun = b"\n" in self._buffer
            if self._is_begun and self._buffer.find(b"\n\n", known) >= 0:
                *events, self._buffer = self._buffer.split(b"\n\n")
                return [data for event in events if (data := _data_of(event)) is not None]
        rest, self._buffer = self._buffer if self._is_begun else _beginning(self._buffer + b"\n"), bytearray()
        if (data := _data_of(rest)) is not None:
            return [data]
        raise StopAsyncIteration


def _beginning(buffer: bytearray) -> bytearray:
    """The stream from its first line that is not empty. Raises NoEventStream."""
    start = buffer.removeprefix(_BOM).lstrip(b"\n")
    if b"\n" in start and not start.startswith(_FIELDS):
        raise NoEventStream(bytes(start))
    return start


def _data_of(event: bytearray) -> bytes | None:
    data = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
    return bytes(b"\n".join(data)) if data else None


class ServerEvents:
    """Iterates over the objects of an event stream in batches, `data: [DONE]` as `DONE`; a batch raises ProviderError.

    A complete answer without a stream becomes the events that would have streamed it.
    """

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces, self._data = pieces, EventData(pieces)
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Iterable[dict[str, Any]]:
        if self._is_over:
            raise StopAsyncIteration
        try:
            return map(_event, await anext(self._data))
        except NoEventStream as other:
            self._is_over = True
            return await _whole(other.args[0], self._pieces)


def _event(data: bytes) -> dict[str, Any]:
    if data == b"[DONE]":
        return DONE
    try:
        event = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise ProviderError(f"the answer is garbled: {_shown(data)} is not a JSON event", retryable=True) from None
    if not isinstance(event, dict):
        raise ProviderError("the answer is garbled: an event is not a JSON object")
    return event


async def chunks_of(
    decoder: protocol.Decoder, batches: AsyncIterator[Iterable[dict[str, Any]]]
) -> AsyncGenerator[protocol.Chunk, None]:
    """Yield the chunks of an answer, the finish marker last; raises ProviderError if it is missing.

    Text that came together is one chunk, as each costs its way to the screen. Reasoning at the start of the text
    becomes reasoning chunks. After a finish reason silence ends the answer too: some servers never close it.
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
                continue
            before = text.flush() if isinstance(chunk, protocol.ToolCallChunk) else ()
            passed = text.feed(chunk.text) if isinstance(chunk, protocol.TextChunk) else (chunk,)
            for each in (*before, *passed):
                is_empty = False
                yield each
        if failure is not None:
            raise failure
    for each in text.flush():
        is_empty = False
        yield each
    signs = end is not None, finish is not None
    is_whole = end not in (None, DONE) or (all(signs) if decoder.last_events else any(signs))
    if not is_whole and not (is_empty and decoder.may_be_empty):
        raise ProviderError(NO_MARKER, retryable=True)
    yield protocol.FinishChunk(finish or "stop")


def _decoded(
    decoder: protocol.Decoder, batch: Iterable[dict[str, Any]]
) -> tuple[list[protocol.Chunk], dict[str, Any] | None, ProviderError | None]:
    """The chunks of a batch, the event in it that ends the answer, and the error of a bad event after the chunks."""
    chunks: list[protocol.Chunk] = []
    try:
        for event in batch:
            if event is DONE:
                return chunks, event, None
            for chunk in decoder.decode(event):
                if isinstance(chunk, protocol.TextChunk) and chunks and isinstance(chunks[-1], protocol.TextChunk):
                    chunks[-1] = protocol.TextChunk(chunks[-1].text + chunk.text)
                else:
                    chunks.append(chunk)
            if event.get("type") in decoder.last_events:
                return chunks, event, None
    except protocol.ErrorEvent as error:
        return chunks, None, stream_failure(error.args[0])
    except ProviderError as error:
        return chunks, None, error
    except (AttributeError, KeyError, TypeError, ValueError):
        return chunks, None, ProviderError("the answer is garbled: an event has an unknown shape")
    return chunks, None, None


async def _whole(start: bytes, pieces: AsyncIterator[bytes]) -> list[dict[str, Any]]:
    """The events of an answer without a stream. Raises ProviderError, with the server's message if it has one."""
    body = bytearray(start)
    if start.startswith((b"{", b"[")):
        with suppress(ProviderError):  # a cut answer is judged by its beginning
            async for piece in pieces:
                body += piece
                if len(body) > _EVENT_LIMIT:
                    break
    found = protocol.json_value(body)
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
