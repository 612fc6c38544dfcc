"""An answer without end: bounded in time from piece to piece, in size and in calls, and signals have their turn."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from codelet.providers import open_provider
from codelet.providers.by_litellm.provider import LiteLLMProvider
from codelet.providers.protocol import LARGEST_ANSWER, MOST_CALLS, Deadlines, TextChunk, ToolCallChunk
from tests.providers.chunks import IN_TEXT, MODELS, WAYS, collect_until_error, joined, options, request
from tests.support.amount import FULL
from tests.support.fake_clock import timed
from tests.support.raw import Handler, RawServer, read_request
from tests.support.script import Body, Call, Insert, Reply
from tests.support.server import ModelServer

SHORT = Deadlines(connect=5.0, first_token=2.0, between_chunks=0.6)

every_wire = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
each_way = pytest.mark.parametrize(("model", "transport"), WAYS.values(), ids=WAYS.keys())

TEXTS = {
    "openai/responses/scripted": b'data: {"type": "response.output_text.delta", "delta": "begun"}\n\n',
    "openai/scripted": b'data: {"choices": [{"delta": {"content": "begun"}}]}\n\n',
    "anthropic/claude-sonnet-4-5": b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0, '
    b'"delta": {"type": "text_delta", "text": "begun"}}\n\n',
}
SIGNS = {"comments": b": alive\n\n", "pings": b'event: ping\ndata: {"type": "ping"}\n\n', "single bytes": b"x"}


@every_wire
@pytest.mark.parametrize("sign", SIGNS.values(), ids=SIGNS.keys())
async def test_signs_of_life_are_no_answer(sign: bytes, model: str):
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + TEXTS[model])
        if sign == b"x":
            writer.write(b"data: ")
        while not writer.is_closing():
            writer.write(sign)
            await writer.drain()
            await asyncio.sleep(0.1)  # clock: the server's pace

    with RawServer(handle) as server:
        provider = open_provider(model, options(server.base, deadlines=SHORT))
        chunks, error = await collect_until_error(provider)
        await provider.close()
    assert joined(chunks)["text"] == "begun"
    assert "2 seconds" in str(error)


@every_wire
async def test_signs_of_life_bridge_a_pause_that_is_longer_than_between_bytes(model: str):
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + TEXTS[model])
        for _ in range(10):
            writer.write(SIGNS["comments"] + SIGNS["pings"])
            await writer.drain()
            await asyncio.sleep(0.1)  # clock: the server's pace
        writer.write(TEXTS[model])
        await writer.drain()

    with RawServer(handle) as server:
        provider = open_provider(model, options(server.base, deadlines=SHORT))
        chunks, error = await collect_until_error(provider)
        await provider.close()
    assert joined(chunks)["text"] == "begunbegun"
    assert "finish marker" in str(error), "the server closed it; no limit passed"


OPENED = {
    "openai/responses/scripted": [
        {"type": "response.created", "response": {}},
        {"type": "response.in_progress", "response": {}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1"}},
    ],
    "openai/scripted": [],
    "anthropic/claude-sonnet-4-5": [
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    ],
}
"""The beginning of an answer after long thinking, without text."""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


async def answered(model: str, serve: Handler) -> tuple[str, str]:
    """The text and the error of the answer of a server that runs in this very loop, with the default deadlines."""
    serving: list[asyncio.Task[None]] = []

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.ensure_future(serve(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    provider = open_provider(model, options(f"http://127.0.0.1:{port}/v1", deadlines=Deadlines()))
    chunks, error = await collect_until_error(provider)
    await provider.close()
    for task in serving:
        task.cancel()
    await asyncio.gather(*serving, return_exceptions=True)
    server.close()
    return joined(chunks)["text"], str(error)


async def thought(model: str, alive: bytes, *, before: float, seconds: float) -> tuple[str, str]:
    """The text of an answer, and its error, whose server reads for `before` seconds and then thinks for `seconds`.

    Meanwhile it sends a sign of life every 10 s. It runs in this very loop, whose clock jumps.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD)
        try:
            await asyncio.sleep(before)  # clock: a fake one
            writer.write(lines(*OPENED[model]) + alive)
            for _ in range(int(seconds // 10)):
                await asyncio.sleep(10)  # clock: a fake one
                writer.write(alive)
            writer.write(TEXTS[model])
        finally:
            writer.close()

    return await answered(model, serve)


@every_wire
@pytest.mark.parametrize("sign", ["comments", "pings"])
def test_a_model_may_think_for_the_whole_limit_after_it_has_begun(sign: str, model: str):
    (text, error), passed = timed(thought(model, SIGNS[sign], before=600, seconds=890))
    assert text == "begun", error
    assert 1_490 <= passed < 1_500


@every_wire
def test_a_model_that_only_ever_shows_signs_of_life_is_given_up(model: str):
    (text, error), passed = timed(thought(model, SIGNS["comments"], before=5, seconds=10_000))
    assert text == ""
    assert "signs of life" in error
    assert 900 <= passed < 910


@every_wire
def test_a_server_that_says_nothing_is_given_up_after_the_first_limit(model: str):
    (_, error), passed = timed(thought(model, SIGNS["comments"], before=5_000, seconds=0))
    assert "no token within" in error
    assert 900 <= passed < 910


@pytest.mark.parametrize("model", [model for model, opened in OPENED.items() if opened])
def test_a_block_that_begins_behind_a_text_may_take_long_in_silence(model: str):
    """Hidden reasoning between two texts: no byte comes for longer than what is waited between pieces."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        again = {**OPENED[model][-1], "output_index": 1, "index": 1}
        writer.write(HEAD + TEXTS[model] + lines(again))
        await asyncio.sleep(600)  # clock: a fake one
        writer.write(TEXTS[model])
        writer.close()

    (text, error), passed = timed(answered(model, serve))
    assert text == "begunbegun", error
    assert 600 <= passed < 610


@each_way
async def test_an_answer_without_end_is_bounded(model: str, transport: Any, model_server: ModelServer):
    piece = "x" * 250_000
    model_server.script = [Reply([piece] * 80)] * 2
    provider = open_provider(model, options(model_server.openai, attempts=2), transport)
    chunks, error = await collect_until_error(provider)
    await provider.close()
    assert f"{LARGEST_ANSWER // 1_000_000} MB" in str(error)
    assert LARGEST_ANSWER - len(piece) <= sum(len(c.text) for c in chunks if isinstance(c, TextChunk)) <= LARGEST_ANSWER
    assert len(model_server.requests) == 1


@every_wire
async def test_the_arguments_of_a_call_are_bounded(model: str, model_server: ModelServer):
    text = '{"path": "' + "x" * (LARGEST_ANSWER + 100_000)
    cuts = tuple(range(250_000, len(text), 250_000))
    model_server.script = [Reply(calls=[Call("call_1", "read", text, cuts)])]
    provider = open_provider(model, options(model_server.openai))
    chunks, error = await collect_until_error(provider)
    await provider.close()
    assert f"{LARGEST_ANSWER // 1_000_000} MB" in str(error)
    assert sum(len(chunk.arguments) for chunk in chunks if isinstance(chunk, ToolCallChunk)) <= LARGEST_ANSWER


@every_wire
@pytest.mark.parametrize("more", [0, 1])
async def test_the_calls_of_an_answer_are_bounded(more: int, model: str, model_server: ModelServer):
    model_server.script = [Reply(calls=[Call(f"call_{number}", "read", {}) for number in range(MOST_CALLS + more)])]
    provider = open_provider(model, options(model_server.openai))
    _, error = await collect_until_error(provider)
    await provider.close()
    assert (error is not None and f"{MOST_CALLS:,}" in str(error)) is bool(more)


async def test_other_tasks_have_their_turn_however_fast_the_server_sends(model_server: ModelServer):
    model_server.script = [Reply(["x" * 1_000] * 4_000)]
    provider = open_provider("openai/scripted", options(model_server.openai))
    longest = ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticking = asyncio.create_task(tick())
    between, last = 0, 0
    async with aclosing(provider.stream(request())) as stream:
        async for _ in stream:
            between, last = (0, ticks) if ticks != last else (between + 1, last)
            longest = max(longest, between)
    ticking.cancel()
    await provider.close()
    assert longest < 400, "chunks in a row without a turn for anything else"


@every_wire
async def test_an_error_in_json_with_status_200_shows_the_servers_words(model: str, model_server: ModelServer):
    body = b'{"error": {"message": "the model is not loaded", "type": "invalid_request_error"}}'
    model_server.script = [Body(body, content_type="application/json")]
    provider = open_provider(model, options(model_server.openai))
    _, error = await collect_until_error(provider)
    await provider.close()
    assert str(error).endswith(": the model is not loaded")


async def test_litellm_does_not_call_it_cut(model_server: ModelServer):
    model_server.script = [Body(b'{"error": {"message": "no"}}', content_type="application/json"), Reply("x")]
    provider = open_provider("openai/scripted", options(model_server.openai, attempts=2), "litellm")
    assert isinstance(provider, LiteLLMProvider)
    _, error = await collect_until_error(provider)
    await provider.close()
    assert "application/json" in str(error)
    assert len(model_server.requests) == 1


@every_wire
async def test_one_byte_that_is_no_utf_8_does_not_end_an_answer(model: str, model_server: ModelServer):
    event = TEXTS[model].replace(b"begun", b"\xff")
    model_server.script = [Reply(["a", "b"], fault=Insert(event, after=IN_TEXT[model]))]
    provider = open_provider(model, options(model_server.openai))
    chunks, error = await collect_until_error(provider)
    await provider.close()
    assert error is None
    assert joined(chunks)["text"] == "a\ufffdb"


@pytest.mark.skipif(not FULL, reason="takes 400 s: scripts/test --full")
@pytest.mark.timeout(500)
@every_wire
async def test_a_model_may_think_for_400_real_seconds(model: str):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + lines(*OPENED[model]))
        for _ in range(40):
            writer.write(SIGNS["comments"])
            await asyncio.sleep(10)  # clock: the time that the model thinks
        writer.write(TEXTS[model])
        writer.close()

    text, error = await answered(model, serve)
    assert text == "begun", error
