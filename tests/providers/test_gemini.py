"""Gemini over its own endpoint that speaks Chat Completions, in the shapes in which that endpoint answers.

Usage stands in every event and leaves out what was thought, several calls come under one index, and reasons to stop
are Gemini's own words.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from codelet.errors import ProviderError
from codelet.loop.reply import Reply
from codelet.messages import tool_result, user
from codelet.providers import open_provider
from codelet.providers.protocol import Chunk, FinishChunk, Provider, usage_of
from codelet.usage import Usage
from tests.providers.chunks import TOOLS, collect, joined, options, request
from tests.support.script import Body, HttpError
from tests.support.server import ModelServer

MODEL = "gemini/gemini-3.8-flash"
USAGE = {"prompt_tokens": 1_000, "completion_tokens": 5, "total_tokens": 1_305}


def event(delta: dict[str, Any], finish: str | None = None, usage: Any = USAGE) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish}
    return {"choices": [choice], "object": "chat.completion.chunk", "model": "gemini-3.8-flash", "usage": usage}


def answer(*events: dict[str, Any]) -> Body:
    lines = [f"data: {json.dumps(each)}\n\n" for each in events]
    return Body("".join([*lines, "data: [DONE]\n\n"]).encode(), content_type="text/event-stream")


def call(number: int, signature: str = "", call_id: str | None = None) -> dict[str, Any]:
    extra = {"extra_content": {"google": {"thought_signature": signature}}} if signature else {}
    function = {"name": "read", "arguments": json.dumps({"x": str(number)})}
    chosen = f"function-call-{number}" if call_id is None else call_id
    return {"index": 0, "id": chosen, "type": "function", "function": function, **extra}


def provider(server: ModelServer, *, attempts: int = 1, effort: Any = None) -> Provider:
    return open_provider(MODEL, options(server.openai, attempts=attempts, effort=effort))


async def ask(server: ModelServer, step: Any, *, attempts: int = 1) -> list[Chunk]:
    server.script = step if isinstance(step, list) else [step]
    asked = provider(server, attempts=attempts)
    try:
        return await collect(asked)
    finally:
        await asked.close()


@pytest.mark.parametrize("ids", [None, ""])
async def test_parallel_calls_come_apart_and_the_signature_goes_back(model_server: ModelServer, ids: str | None):
    calls = [call(1, "c2lnbmVk", ids), call(2, call_id=ids), call(3, call_id=ids)]
    first = answer(event({"tool_calls": calls[:2]}), event({"tool_calls": calls[2:]}, "tool_calls"))
    model_server.script = [first, answer(event({"content": "done"}, "stop"))]
    asked, reply = provider(model_server), Reply()
    for chunk in await collect(asked):
        reply.add(chunk)
    made = reply.calls(set())
    assert [json.loads(each["function"]["arguments"])["x"] for each in made] == ["1", "2", "3"]
    told = [user("go"), reply.message(made, asked.origin), *(tool_result(each["id"], "text") for each in made)]
    await collect(asked, request(*told, tools=TOOLS))
    await asked.close()
    back = next(each for each in model_server.requests[1].json["messages"] if each["role"] == "assistant")
    signatures = [each.get("extra_content") for each in back["tool_calls"]]
    assert signatures == [{"google": {"thought_signature": "c2lnbmVk"}}, None, None], "as they came, on the first only"


async def test_what_was_thought_is_counted_as_output(model_server: ModelServer):
    cached = USAGE | {"prompt_tokens_details": {"cached_tokens": 900}}
    chunks = await ask(model_server, answer(event({"content": "a"}), event({"content": "b"}, "stop", cached)))
    assert joined(chunks)["usage"] == Usage(total_input=1_000, cache_read=900, output=305, reasoning=300)


@pytest.mark.parametrize(
    ("reported", "output", "reasoning"),
    [
        ({"completion_tokens_details": {"reasoning_tokens": 300}}, 305, 300),  # xAI counts it separately
        ({"total_tokens": 1_005}, 5, 0),
        ({"total_tokens": 0}, 5, 0),
        ({"total_tokens": "many"}, 5, 0),
        ({"total_tokens": 900}, 5, 0),
        ({"prompt_tokens_details": {"cached_tokens": 300}}, 5, 0),  # counted twice by a gateway
        ({"total_tokens": 1_005, "completion_tokens_details": {"reasoning_tokens": 4}}, 5, 4),
        ({"completion_tokens_details": {"reasoning_tokens": 4}}, 5, 4),
        ({"prompt_tokens": 0}, 5, 0),
    ],
)
def test_a_total_is_believed_only_where_nothing_else_explains_it(reported: dict[str, Any], output: int, reasoning: int):
    usage = usage_of(USAGE | reported)
    assert (usage.output, usage.reasoning) == (output, reasoning)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("STOP", "stop"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("content_filter", "refused"),
        ("content_filter: RECITATION", "refused"),
        ("content_filter: SOMETHING_NEW", "refused"),
        ("SAFETY", "refused"),
        ("PROHIBITED_CONTENT", "refused"),
        ("something new", "stop"),
    ],
)
async def test_each_reason_to_stop_has_its_meaning(model_server: ModelServer, reason: str, finish: str):
    chunks = await ask(model_server, answer(event({"content": "a"}), event({}, reason)))
    assert chunks[-1] == FinishChunk(finish)


@pytest.mark.parametrize(
    "reason",
    ["function_call_filter: MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"],
)
async def test_a_call_that_cannot_be_read_is_asked_for_again(model_server: ModelServer, reason: str):
    whole = answer(event({"content": "fine"}, "stop"))
    chunks = await ask(model_server, [answer(event({}, reason)), whole], attempts=2)
    assert joined(chunks)["text"] == "fine"
    with pytest.raises(ProviderError, match=f"finish reason {reason.rpartition(': ')[2]!r}"):
        await ask(model_server, [answer(event({}, reason))] * 4)


@pytest.mark.parametrize("choices", [[], None])
async def test_events_without_a_choice_are_no_answer(model_server: ModelServer, choices: Any):
    nothing = {"choices": choices, "object": "chat.completion.chunk", "usage": USAGE}
    chunks = await ask(model_server, answer(nothing))
    assert joined(chunks)["text"] == ""
    cut = Body(f"data: {json.dumps(event({'content': 'a'}))}\n\n".encode(), content_type="text/event-stream")
    with pytest.raises(ProviderError, match="was cut"):
        await ask(model_server, [cut] * 2)


async def test_a_limit_of_the_minute_is_waited_for(model_server: ModelServer):
    said = "You exceeded your current quota, please check your plan and billing details."
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.1s"}]
    error = [{"error": {"code": 429, "message": said, "status": "RESOURCE_EXHAUSTED", "details": details}}]
    steps = [HttpError(429, body=json.dumps(error).encode()), answer(event({"content": "fine"}, "stop"))]
    chunks = await ask(model_server, steps, attempts=2)
    assert joined(chunks)["text"] == "fine"
    assert joined(chunks)["retries"] == [(2, 2)]


async def test_an_overflow_names_the_window(model_server: ModelServer):
    said = "The input token count (1196265) exceeds the maximum number of tokens allowed (1048576)."
    error = [{"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}}]
    with pytest.raises(ProviderError) as raised:
        await ask(model_server, HttpError(400, body=json.dumps(error).encode()))
    assert (raised.value.overflow, raised.value.window) == (True, 1_048_576)


@pytest.mark.parametrize(("effort", "sent"), [("low", "low"), ("max", "high"), ("none", "low"), (None, None)])
async def test_its_thinking_level_is_an_effort(model_server: ModelServer, effort: Any, sent: str | None):
    model_server.script = [answer(event({"content": "a"}, "stop"))]
    asked = provider(model_server, effort=effort)
    await collect(asked)
    await asked.close()
    assert model_server.requests[0].json.get("reasoning_effort") == sent


async def test_summaries_of_thoughts_are_asked_for_and_shown_and_do_not_go_back(model_server: ModelServer):
    marked = {"extra_content": {"google": {"thought": True}}}
    first = answer(
        event({"content": "<thought>**Looking**", **marked}),
        event({"content": " at it.", **marked}),
        event({"content": "</thought>So."}),
        event({"tool_calls": [call(1, "sig")]}, "tool_calls"),
    )
    model_server.script = [first, answer(event({"content": "Done."}, "stop"))]
    asked = provider(model_server)
    chunks = await collect(asked)
    assert (joined(chunks)["reasoning"], joined(chunks)["text"]) == ("**Looking** at it.", "So.")
    folded = Reply()
    for chunk in chunks:
        folded.add(chunk)
    calls = folded.calls(set())
    message = folded.message(calls, asked.origin)
    await collect(asked, request(user("go"), message, tool_result(calls[0]["id"], "text"), tools=TOOLS))
    await asked.close()
    for sent in model_server.requests:
        assert sent.json["extra_body"] == {"google": {"thinking_config": {"include_thoughts": True}}}
    back = model_server.requests[1].json["messages"][2]
    assert back["content"] == "So." and "extra_content" not in back
    assert back["tool_calls"][0]["extra_content"]["google"]["thought_signature"] == "sig"


async def test_summaries_that_are_refused_or_stand_beside_an_effort_are_not_asked_for(model_server: ModelServer):
    refusal = HttpError(400, 'Invalid JSON payload received. Unknown name "extra_body": Cannot find field.')
    model_server.script = [refusal, answer(event({"content": "a"}, "stop")), answer(event({"content": "b"}, "stop"))]
    asked = provider(model_server)
    assert joined(await collect(asked))["text"] == "a"
    await asked.close()
    told = provider(model_server, effort="low")
    await collect(told)
    await told.close()
    assert ["extra_body" in sent.json for sent in model_server.requests] == [True, False, False]
