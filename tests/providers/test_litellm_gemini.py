"""Gemini through litellm, whose adapter says "stop" with each piece: a cut answer must not pass for a whole one."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from codelet.loop.reply import Reply
from codelet.messages import assistant, tool_call, tool_result, user
from codelet.providers import open_provider
from codelet.providers.answer import NO_MARKER
from codelet.providers.by_litellm.provider import LiteLLMProvider
from codelet.providers.protocol import FinishChunk
from tests.providers.chunks import collect, collect_until_error, joined, options, request
from tests.support.script import Body
from tests.support.script import Reply as Script
from tests.support.server import ModelServer


def provider(server: ModelServer) -> LiteLLMProvider:
    return LiteLLMProvider("gemini/gemini-flash", options(f"{server.base}/v1beta/models/gemini-flash"))


def piece(*parts: dict[str, Any], reason: str | None = None, tokens: int = 5) -> dict[str, Any]:
    """One object of `streamGenerateContent`: usage is in each, the finish reason in the last."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if reason is not None:
        candidate["finishReason"] = reason
    usage = {"promptTokenCount": 100, "candidatesTokenCount": tokens, "totalTokenCount": 100 + tokens}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-flash", "responseId": "r"}


def answer(*pieces: dict[str, Any]) -> Body:
    data = "".join(f"data: {json.dumps(entry)}\r\n\r\n" for entry in pieces)
    return Body(data.encode(), content_type="text/event-stream")


USAGE = {"usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 5, "totalTokenCount": 105}}
CALL = {"functionCall": {"name": "read", "args": {"x": "1"}}}


@pytest.mark.parametrize(
    ("pieces", "text", "finish"),
    [
        ([piece({"text": "hel"}), piece({"text": "lo"}, reason="STOP")], "hello", "stop"),
        ([piece({"text": "hello"}, reason="STOP")], "hello", "stop"),
        ([piece({"text": "hello"}), piece({"text": ""}, reason="STOP")], "hello", "stop"),
        ([piece({"text": "hello"}), piece({"text": ""}, reason="MAX_TOKENS")], "hello", "length"),
        ([piece({"text": "on it"}), piece(CALL, reason="STOP")], "on it", "tool_calls"),
        ([piece({"text": "hello"}, reason="STOP"), USAGE], "hello", "stop"),
        ([piece({"text": "hello"}, reason="STOP"), piece()], "hello", "stop"),
    ],
)
async def test_a_whole_answer(model_server: ModelServer, pieces: list[dict[str, Any]], text: str, finish: str):
    model_server.script = [answer(*pieces)]
    chunks = await collect(provider(model_server))
    assert joined(chunks)["text"] == text
    assert chunks[-1] == FinishChunk(finish)


@pytest.mark.parametrize(
    "pieces",
    [
        [piece({"text": "hel"})],
        [piece({"text": "hel"}), piece({"text": "lo"})],
        [piece({"text": "hel"}), piece({"text": "lo"}, reason="FINISH_REASON_UNSPECIFIED")],
        [piece({"text": "on it"}), piece(CALL)],
    ],
)
async def test_an_answer_that_ends_before_its_finish_reason_is_cut(
    model_server: ModelServer, pieces: list[dict[str, Any]]
):
    model_server.script = [answer(*pieces)]
    chunks, error = await collect_until_error(provider(model_server))
    assert NO_MARKER in str(error)
    assert joined(chunks)["text"] in ("hel", "hello", "on it"), "what came is kept"


async def test_a_signature_comes_back_with_its_call_and_goes_to_nobody_else(model_server: ModelServer):
    """litellm hides it in the call's id: there it would reach the next vendor, and be too long for it."""
    signature = "c2lnbmF0dXJl" * 60
    model_server.script = [answer(piece({**CALL, "thoughtSignature": signature}, reason="STOP"))] * 2
    first = provider(model_server)
    reply = Reply()
    for chunk in await collect(first):
        reply.add(chunk)
    [call] = reply.calls(set())
    assert "__thought__" not in call["id"]
    assert len(call["id"]) <= 40
    told = [user("go"), reply.message([call], first.origin), tool_result(call["id"], "text")]
    await collect(first, request(*told))
    model = next(turn for turn in model_server.requests[1].json["contents"] if turn["role"] == "model")
    assert [part.get("thoughtSignature") for part in model["parts"] if "function_call" in part] == [signature], model

    model_server.script = lambda sent: Script("ok")
    for transport in ("native", "litellm"):
        other = open_provider("openai/scripted", options(model_server.openai), transport)
        await collect(other, request(*told))
        await other.close()
        assert signature not in model_server.requests[-1].body.decode()


async def test_litellm_signs_calls_of_other_models_itself(model_server: ModelServer):
    """With the text that Google's documentation names, in base64: nothing that codelet could do better."""
    model_server.script = [answer(piece({"text": "ok"}, reason="STOP"))]
    foreign = assistant(None, [tool_call("c1", "read", '{"x": "1"}')])
    model = LiteLLMProvider("gemini/gemini-3.8-flash", options(f"{model_server.base}/v1beta/models/gemini-3.8-flash"))
    await collect(model, request(user("go"), foreign, tool_result("c1", "text")))
    sent = model_server.requests[0].body.decode()
    assert b64encode(b"skip_thought_signature_validator").decode() in sent
    assert "extra_content" not in sent
