"""Server-sent events: the same objects however the bytes are cut, and no garbled stream passes for a short one."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from codelet.errors import ProviderError
from codelet.providers.answer import DONE, ServerEvents, chunks_of
from codelet.providers.openai_chat import ChatDecoder
from codelet.providers.protocol import Chunk, FinishChunk, TextChunk

STREAM = (
    ": a comment\n\n"
    'event: first\ndata: {"a": "größer → 🎉"}\n\n'
    'id: 7\nretry: 10\ndata:{"no": "blank"}\n\n\n\n'
    'data: {"on":\ndata: "two lines"}\n\n'
    ": ping\n\n"
    'data: {"cr": "\\r\\n"}\n\n'
    "data: [DONE]\n\n"
    'data: {"after": "the end"}\n\n'
)
EVENTS = [{"a": "größer → 🎉"}, {"no": "blank"}, {"on": "two lines"}, {"cr": "\r\n"}, {}]


async def pieces_of(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def events_of(data: bytes, size: int = 1 << 20) -> list[dict[str, Any]]:
    return await all_of(pieces_of(data, size))


async def all_of(pieces: AsyncIterator[bytes]) -> list[dict[str, Any]]:
    found = [event async for batch in ServerEvents(pieces) for event in batch]
    end = next((number for number, event in enumerate(found, 1) if event is DONE), None)
    return found[:end]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
async def test_the_same_events_wherever_the_bytes_are_cut(line_end: str):
    data = STREAM.replace("\n", line_end).encode()
    for size in [*range(1, 40), len(data)]:
        assert await events_of(data, size) == EVENTS, size
    for cut in range(len(data)):

        async def two(place: int = cut) -> AsyncIterator[bytes]:
            yield data[:place]
            yield data[place:]

        assert await all_of(two()) == EVENTS, cut


async def test_the_end_marker_is_told_from_an_empty_object():
    events = await events_of(b"data: {}\n\ndata: [DONE]\n\n")
    assert events == [{}, {}]
    assert events[0] is not DONE
    assert events[1] is DONE


async def test_a_byte_order_mark_does_not_hide_the_first_event():
    assert await events_of(b'\xef\xbb\xbfdata: {"a": 1}\n\n', 1) == [{"a": 1}]


async def test_the_last_event_needs_no_empty_line():
    assert await events_of(b'data: {"a": 1}\n\ndata: {"b": 2}') == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"data: {nonsense\n\n", "'{nonsense'"),
        (b'data: {"cut": "in the mid', "garbled"),
        (b'data: "text"\n\n', "JSON object"),
        (b"data: " + b"[" * 200_000 + b"\n\n", "garbled"),
        (b'{"id": "chatcmpl-1", "choices": []}', "no event stream"),
        (b'{"error": null}', "no event stream"),
        (b'{"error": {"message": "the model is being loaded", "code": 503}}', "broke off: the model is being loaded"),
        (b'{\n  "error": {\n    "message": "in lines"\n  }\n}\n', "broke off: in lines"),
        (b'[{"error": {"message": "in a list"}}]', "broke off: in a list"),
        (b'{"error": {"message": "prompt is too long"}}', "model's window"),
        (b'{"error": {"message": "cut', "no event stream"),
        (b'{"' + b"a" * 200_000, "no event stream"),
        (b"\n\n<!doctype html>\n<html>", "'<!doctype html>'; check --api-base"),
    ],
)
async def test_what_is_no_stream_of_json_events_is_an_error(data: bytes, says: str):
    with pytest.raises(ProviderError) as caught:
        await events_of(data)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 300


async def test_bytes_that_are_no_utf_8_are_replaced():
    data = b'data: {"a": "so \xff\xfe on"}\n\ndata: {"b": 1}\n\n'
    for size in (1, 1 << 20):
        assert await events_of(data, size) == [{"a": "so \ufffd\ufffd on"}, {"b": 1}]


async def endless(start: bytes, more: bytes) -> AsyncIterator[bytes]:
    yield start
    while True:
        yield more


@pytest.mark.parametrize(
    ("start", "more"),
    [(b"data: ", b"a" * 65_536), (b"data: 1\n", b"data: " + b"a" * 1000 + b"\n"), (b":", b"x" * 4_000)],
    ids=["one line", "many lines", "a comment"],
)
async def test_an_event_without_end_is_bounded(start: bytes, more: bytes):
    began = time.process_time()
    with pytest.raises(ProviderError, match="16 MiB"):
        async for _ in ServerEvents(endless(start, more)):
            pass
    assert time.process_time() - began < 3


async def test_a_long_line_costs_no_more_than_its_length():
    data = b"data: " + json.dumps({"a": "x" * 4_000_000}).encode() + b"\n\n"
    began = time.process_time()
    assert len((await events_of(data, 1_000))[0]["a"]) == 4_000_000
    assert time.process_time() - began < 2


def _said(*words: str) -> bytes:
    return b"".join(b'data: {"choices": [{"delta": {"content": "%s"}}]}\n\n' % word.encode() for word in words)


@pytest.mark.parametrize(
    "failure", [b"data: {nonsense\n\n", b'data: {"error": {"message": "overloaded"}}\n\n', b'data: {"choices": 7}\n\n']
)
async def test_text_that_came_together_is_one_piece_and_is_given_out_before_what_ends_it(failure: bytes):
    async def pieces() -> AsyncIterator[bytes]:
        yield _said("one ", "two ")
        yield _said("three ")
        yield _said("four ", "five ") + failure

    found: list[Chunk] = []
    with pytest.raises(ProviderError):
        async for chunk in chunks_of(ChatDecoder(), ServerEvents(pieces())):
            found.append(chunk)
    assert found == [TextChunk("one two "), TextChunk("three "), TextChunk("four five ")]


async def test_no_text_waits_for_the_server():
    found: list[Chunk] = []
    seen: list[list[Chunk]] = []

    async def pieces() -> AsyncIterator[bytes]:
        yield _said("one ", "two ")
        seen.append(list(found))
        yield _said("three") + b'data: {"usage": null}\n\n: a sign of life\n\n'
        seen.append(list(found))
        yield b"data: [DONE]\n\n"

    async for chunk in chunks_of(ChatDecoder(), ServerEvents(pieces())):
        found.append(chunk)
    assert seen == [[TextChunk("one two ")], [TextChunk("one two "), TextChunk("three")]]
    assert found[2:] == [FinishChunk("stop")]
