"""Answers that come otherwise than asked for: whole in place of a stream, packed, and with other line ends."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest

from codelet.messages import user
from codelet.providers import open_provider
from codelet.usage import Usage
from tests.providers.chunks import MODELS, collect, collect_until_error, joined, options, request
from tests.support.raw import RawServer, saying
from tests.support.script import Body
from tests.support.server import ModelServer

CALL = {"path": "notes.txt"}
WHOLE: dict[str, dict[str, Any]] = {
    "chat completions": {
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Looking.",
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "read", "arguments": json.dumps(CALL)},
                        }
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3},
    },
    "responses": {
        "object": "response",
        "status": "completed",
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Looking."}],
            },
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": json.dumps(CALL)},
        ],
        "usage": {"input_tokens": 10, "output_tokens": 3},
    },
    "messages": {
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Looking."},
            {"type": "tool_use", "id": "c1", "name": "read", "input": CALL},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 10, "output_tokens": 3},
    },
}
STREAM = (
    b'data: {"choices": [{"delta": {"content": "Line "}}]}\n\n: alive\n\n'
    b'data: {"choices": [{"delta": {"content": "2."}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
)


async def answer(server: ModelServer, model: str) -> dict[str, Any]:
    provider = open_provider(model, options(server.openai))
    seen = joined(await collect(provider, request(user("look"))))
    await provider.close()
    return seen


@pytest.mark.parametrize("wire", WHOLE)
@pytest.mark.parametrize("indent", [None, 2])
async def test_an_answer_that_is_no_stream_is_read(wire: str, indent: int | None, model_server: ModelServer):
    raw = json.dumps(WHOLE[wire], indent=indent).encode()
    model_server.script = [Body(raw, content_type="text/event-stream")]
    seen = await answer(model_server, MODELS[wire])
    assert seen["text"] == "Looking."
    assert [(call_id, name, json.loads(arguments)) for call_id, name, arguments in seen["calls"]] == [
        ("c1", "read", CALL)
    ]
    assert seen["usage"] == Usage(total_input=10, output=3)
    assert seen["finish"] == ["tool_calls"]


@pytest.mark.parametrize("other", [{"choices": []}, {"choices": [1]}, {"type": "message"}, {"output": []}, {}])
async def test_what_is_no_answer_is_still_refused(other: dict[str, Any], model_server: ModelServer):
    model_server.script = [Body(json.dumps(other).encode(), content_type="text/event-stream")]
    provider = open_provider("openai/scripted", options(model_server.openai))
    chunks, error = await collect_until_error(provider)
    await provider.close()
    assert chunks == []
    assert "no event stream" in str(error)


PACKED = {
    "gzip": gzip.compress(STREAM),
    "deflate": zlib.compress(STREAM),
    "identity": STREAM,
}


@pytest.mark.parametrize("encoding", PACKED)
@pytest.mark.parametrize("cut", [1, 7, 10_000])
async def test_a_packed_body_is_unpacked(encoding: str, cut: int):
    body = PACKED[encoding]
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: {encoding}\r\nConnection: close"
    pieces = [body[at : at + cut] for at in range(0, len(body), cut)]
    with RawServer(saying(f"{head}\r\n\r\n".encode(), *pieces)) as server:
        provider = open_provider("openai/scripted", options(server.base))
        assert joined(await collect(provider))["text"] == "Line 2."
        await provider.close()


@pytest.mark.parametrize(("encoding", "body"), [("gzip", b"no gzip"), ("br", b"x"), ("gzip\x1b[2J", b"x")])
async def test_what_cannot_be_unpacked_is_said_without_its_bytes(encoding: str, body: bytes, model_server: ModelServer):
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: {encoding}\r\nConnection: close"
    with RawServer(saying(f"{head}\r\n\r\n".encode(), body)) as server:
        provider = open_provider("openai/scripted", options(server.base))
        chunks, error = await collect_until_error(provider)
        await provider.close()
    assert chunks == []
    assert error is not None and str(error).isprintable()
    assert not error.retryable


@pytest.mark.parametrize("end", [b"\r", b"\r\n", b"\n"])
@pytest.mark.parametrize("cut", [1, 2, 3, 10_000])
async def test_each_line_end_of_the_standard_is_one(end: bytes, cut: int):
    body = STREAM.replace(b"\n", end)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    with RawServer(saying(head, *[body[at : at + cut] for at in range(0, len(body), cut)])) as server:
        provider = open_provider("openai/scripted", options(server.base))
        assert joined(await collect(provider))["text"] == "Line 2."
        await provider.close()
