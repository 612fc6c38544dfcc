"""The litellm bridge against a real server: what it sends, what it makes of answers and errors, how it stops."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from codelet.errors import ProviderError
from codelet.messages import Message, assistant, reminder, tool_call, tool_result, user
from codelet.providers.by_litellm.provider import LiteLLMProvider
from codelet.providers.protocol import Deadlines, FinishChunk, RetryChunk, TextChunk, UsageChunk
from tests.providers.chunks import TOOLS, collect, collect_until_error, joined, options, request
from tests.support.script import Call, HttpError, Reply, Stop, Tokens
from tests.support.server import ModelServer
from tests.support.templates import mistral, strict
from tests.support.waiting import PATIENCE, Neighbour

OPENAI = "openai/scripted"
ANTHROPIC = "anthropic/claude-sonnet-4-5"
BOTH = pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])


def provider(server: ModelServer, model: str = OPENAI, **settings: Any) -> LiteLLMProvider:
    return LiteLLMProvider(model, options(server.openai, **settings))


async def reached(flag: Any, limit: float = PATIENCE) -> bool:
    """Wait for one of the server's flags without holding up the loop."""
    return bool(await asyncio.to_thread(flag.wait, limit))


@BOTH
async def test_a_key_of_the_options_is_sent_and_the_prompt_arrives(model: str, model_server: ModelServer):
    model_server.script = [Reply("hello")]
    chunks = await collect(provider(model_server, model))
    assert joined(chunks)["text"] == "hello"
    sent = model_server.requests[0]
    assert sent.header("authorization" if model == OPENAI else "x-api-key") in ("Bearer test-key", "test-key")
    assert sent.json["stream"] is True
    assert [tool["name"] if model == ANTHROPIC else tool["function"]["name"] for tool in sent.json["tools"]] == [
        "read",
        "grep",
    ]
    if model == ANTHROPIC:
        assert sent.json["max_tokens"] == 8_192


async def test_an_unknown_name_with_an_own_address_is_openais_protocol(model_server: ModelServer):
    model_server.script = [Reply("hello")]
    assert joined(await collect(provider(model_server, "house/own-model")))["text"] == "hello"
    assert model_server.requests[0].path == "/v1/chat/completions"
    assert model_server.requests[0].json["model"] == "house/own-model"


async def test_tools_reach_a_provider_that_litellm_believes_to_have_none(model_server: ModelServer):
    model_server.script = [Reply("hello")]
    await collect(provider(model_server, "perplexity/sonar-pro"))
    assert len(model_server.requests[0].json["tools"]) == 2


async def test_usage_that_the_server_did_not_report_is_unknown_not_estimated(model_server: ModelServer):
    model_server.script = [Reply("some text that could be counted", usage=None)]
    chunks = await collect(provider(model_server))
    assert not [chunk for chunk in chunks if isinstance(chunk, UsageChunk)]
    assert chunks[-1] == FinishChunk("stop")


async def test_reasoning_tokens_that_anthropic_did_not_report_are_not_made_up(model_server: ModelServer):
    model_server.script = [Reply("done", reasoning=["let me ", "think"], usage=Tokens(100, 60, 30, 20))]
    usage = joined(await collect(provider(model_server, ANTHROPIC)))["usage"]
    assert (usage.total_input, usage.cache_read, usage.cache_write, usage.output) == (100, 60, 30, 20)
    assert usage.reasoning == 0


async def test_a_hundred_and_fifty_equal_chunks_are_no_error(model_server: ModelServer):
    model_server.script = [Reply(["ha ha "] * 150)]
    assert joined(await collect(provider(model_server)))["text"] == "ha ha " * 150


def conversation(origin: str) -> list[Message]:
    """A turn with a tool call, its reasoning in all three forms."""
    made: Message = assistant("Reading.", [tool_call("c1", "read", '{"x": "a"}')])
    made["reasoning_content"] = "hidden thought"
    made["thinking_blocks"] = [{"type": "thinking", "thinking": "hidden thought", "signature": "c2ln"}]
    made["origin"] = origin
    return [user("go on"), made, tool_result("c1", "content of a")]


@BOTH
async def test_reasoning_goes_back_to_the_provider_that_made_it_only(model: str, model_server: ModelServer):
    model_server.script = [Reply("one"), Reply("two")]
    bridge = provider(model_server, model)
    await collect(bridge, request(*conversation(bridge.origin), tools=TOOLS))
    await collect(bridge, request(*conversation("somebody else"), tools=TOOLS))
    own, other = (sent.body.decode() for sent in model_server.requests)
    assert "hidden thought" in own
    assert "hidden thought" not in other
    assert "origin" not in own + other
    assert "somebody else" not in other


async def test_a_reasoning_text_alone_goes_back_as_it_came(model_server: ModelServer):
    model_server.script = [Reply("one")]
    bridge = provider(model_server)
    messages = conversation(bridge.origin)
    del messages[1]["thinking_blocks"]
    await collect(bridge, request(*messages))
    assert model_server.requests[0].json["messages"][2]["reasoning_content"] == "hidden thought"


@pytest.mark.parametrize("arguments", ['{"x": ', "[1]", "", '"text"', "[" * 100_000])
async def test_arguments_that_are_no_object_never_leave(arguments: str, model_server: ModelServer):
    model_server.script = [Reply("one")]
    messages = [user("go"), assistant(None, [tool_call("c1", "read", arguments)]), tool_result("c1", "bad arguments")]
    await collect(provider(model_server, ANTHROPIC), request(*messages, tools=TOOLS))
    (call,) = model_server.requests[0].json["messages"][1]["content"]
    assert call["input"] == {}


@BOTH
async def test_the_messages_given_are_not_changed(model: str, model_server: ModelServer):
    from copy import deepcopy

    model_server.script = [Reply("one")]
    bridge = provider(model_server, model)
    wanted = request(*conversation(bridge.origin), reminder("gitStatus", "<system-reminder>"), tail=1, tools=TOOLS)
    before = deepcopy((wanted.messages, wanted.tools))
    await collect(bridge, wanted)
    assert (wanted.messages, wanted.tools) == before


def marked(body: dict[str, Any]) -> list[str]:
    """The texts that carry a cache mark."""
    found = []
    blocks = list(body.get("system", ()))
    for message in body["messages"]:
        blocks += message["content"] if isinstance(message["content"], list) else []
    for block in blocks:
        if "cache_control" in block:
            found.append(str(block.get("text") or block.get("content")))
    return found


async def test_cache_marks_stand_after_the_system_prompt_and_before_the_tail(model_server: ModelServer):
    model_server.script = [Reply("one"), Reply("two")]
    bridge = provider(model_server, ANTHROPIC)
    first = [user("first prompt")]
    await collect(bridge, request(*first, user("tail"), tail=1, tools=TOOLS))
    later = [*first, *conversation(bridge.origin)[1:]]
    await collect(bridge, request(*later, user("tail"), tail=1, tools=TOOLS))
    assert marked(model_server.requests[0].json) == ["Be brief.", "first prompt"]
    system, kept, new = marked(model_server.requests[1].json)
    assert (system, kept) == ("Be brief.", "first prompt")
    assert "content of a" in new


async def test_cache_marks_go_to_anthropics_models_alone(model_server: ModelServer):
    model_server.script = [Reply("one"), Reply("two")]
    await collect(provider(model_server, OPENAI), request(user("hello"), tools=TOOLS))
    await collect(provider(model_server, "house/claude-like"), request(user("hello"), tools=TOOLS))
    assert not [sent for sent in model_server.requests if b"cache_control" in sent.body]


async def test_mistral_gets_the_reminders_inside_the_tool_result(model_server: ModelServer):
    model_server.script = [Reply("one")]
    messages = [*conversation("other"), reminder("gitStatus", "<system-reminder>tokens</system-reminder>")]
    await collect(provider(model_server, "mistral/devstral"), request(*messages, tail=1, tools=TOOLS))
    last = model_server.requests[0].json["messages"][-1]
    assert last["role"] == "tool"
    assert "content of a" in str(last["content"])
    assert "<system-reminder>tokens" in str(last["content"])


@BOTH
@pytest.mark.parametrize("status", [429, 500, 503, 529])
async def test_one_request_per_attempt_and_our_own_retries(model: str, status: int, model_server: ModelServer):
    model_server.script = [HttpError(status, "busy", retry_after=0.01), Reply("hello")]
    chunks = await collect(provider(model_server, model, attempts=3))
    assert isinstance(chunks[0], RetryChunk)
    assert (chunks[0].attempt, chunks[0].attempts) == (2, 3)
    assert "busy" in chunks[0].reason
    assert joined(chunks)["text"] == "hello"
    assert len(model_server.requests) == 2


@BOTH
async def test_a_failure_without_retries_is_one_request(model: str, model_server: ModelServer):
    model_server.script = [HttpError(500, "broken"), HttpError(500, "again")]
    chunks, error = await collect_until_error(provider(model_server, model))
    assert (chunks, len(model_server.requests)) == ([], 1)
    assert error is not None
    assert (error.status, error.retryable) == (500, True)


@BOTH
async def test_nobody_listening_is_said_in_one_line(model: str):
    bridge = LiteLLMProvider(model, options("http://127.0.0.1:1/v1"))
    _, error = await collect_until_error(bridge)
    assert error is not None
    assert error.retryable
    assert error.status is None
    assert "cannot reach" in str(error)
    assert "\n" not in str(error)


@BOTH
@pytest.mark.parametrize("after", [None, 0, 4])
async def test_the_time_limits_are_ours(model: str, after: int | None, model_server: ModelServer):
    model_server.script = [Reply(["one ", "two"], fault=Stop("stall", after=after))] * 2
    first = Deadlines(connect=5.0, first_token=0.4, between_chunks=0.4)
    await collect_until_error(provider(model_server, model, deadlines=first))  # the slow first call
    late = Deadlines(connect=5.0, first_token=0.5, between_chunks=0.3)
    with Neighbour() as clock:
        _, error = await collect_until_error(provider(model_server, model, deadlines=late))
    assert clock.waited > 0.25
    assert clock.passed < 2.5
    assert error is not None
    assert "stalled" in str(error)
    assert await reached(model_server.requests[-1].gone)


@BOTH
async def test_a_slow_but_steady_answer_outlives_the_limit_between_chunks(model: str, model_server: ModelServer):
    from tests.support.script import Delivery

    model_server.script = [Reply("x"), Reply(["a", "b", "c", "d", "e", "f"], delivery=Delivery(pause=0.15))]
    await collect(provider(model_server, model))
    chunks = await collect(
        provider(model_server, model, deadlines=Deadlines(connect=5.0, first_token=5.0, between_chunks=0.6))
    )
    assert joined(chunks)["text"] == "abcdef"


STATES = {"before the headers": None, "before the first event": 0, "in the text": 4, "in a call": 7}


@BOTH
@pytest.mark.parametrize("after", STATES.values(), ids=STATES.keys())
async def test_a_cancel_closes_the_connection_at_once(model: str, after: int | None, model_server: ModelServer):
    stalled = Reply(["one ", "two"], calls=[Call("c1", "read", {"x": "long"}, (2, 5))], fault=Stop("stall", after))
    model_server.script = [Reply("warm"), stalled, Reply("next")]
    bridge = provider(model_server, model)
    await collect(bridge)
    task = asyncio.create_task(collect(bridge))
    await asyncio.to_thread(model_server.wait_for, 2)
    if after is not None:
        assert await reached(model_server.requests[1].started)
        await asyncio.sleep(0.05)  # clock: any moment will do
    with Neighbour() as clock:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await reached(model_server.requests[1].gone)
    assert clock.passed < 0.5
    assert joined(await collect(bridge))["text"] == "next"


@BOTH
async def test_a_stream_that_is_left_early_is_closed_too(model: str, model_server: ModelServer):
    model_server.script = [Reply(["one ", "two"], fault=Stop("stall", 4 if model == ANTHROPIC else 2))]
    async with aclosing(provider(model_server, model).stream(request())) as stream:
        async for chunk in stream:
            if isinstance(chunk, TextChunk):
                break
    assert await reached(model_server.requests[0].gone)


async def test_a_request_after_closing_works(model_server: ModelServer):
    model_server.script = [Reply(str(number)) for number in range(3)]
    for number, model in enumerate((OPENAI, ANTHROPIC, OPENAI)):
        bridge = provider(model_server, model)
        assert joined(await collect(bridge))["text"] == str(number)
        await bridge.close()
        await bridge.close()


async def test_closing_one_provider_leaves_anothers_stream_alone(model_server: ModelServer):
    from tests.support.script import Delivery

    model_server.script = [Reply(["a", "b", "c", "d"], delivery=Delivery(pause=0.1))]
    slow, other = provider(model_server), provider(model_server, ANTHROPIC)
    task = asyncio.create_task(collect(slow))
    await asyncio.to_thread(model_server.wait_for, 1)
    await other.close()
    assert joined(await task)["text"] == "abcd"


async def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch):
    from codelet.providers.protocol import ProviderOptions

    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for model, name in ((OPENAI, "OPENAI_API_KEY"), (ANTHROPIC, "ANTHROPIC_API_KEY")):
        with pytest.raises(ProviderError, match=f"no key for .* set {name}") as caught:
            await collect(LiteLLMProvider(model, ProviderOptions()))
        assert not caught.value.retryable


async def test_a_refusal_for_roles_out_of_turn_is_answered_in_turn(
    model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
):
    """The model server replaces the vendor, as a proxy on the way to it."""
    monkeypatch.setenv("HTTP_PROXY", model_server.base)
    monkeypatch.delenv("NO_PROXY", raising=False)
    model_server.script = strict(lambda _: Reply("hello"), mistral, status=500)
    asked = LiteLLMProvider("groq/strict", options("http://api.groq.com/openai/v1"))
    messages = [reminder("gitStatus", "<system-reminder>here</system-reminder>"), *conversation("other"), user("more")]
    for sent in (2, 3):
        chunks = await collect(asked, request(*messages, tools=TOOLS))
        assert joined(chunks)["text"] == "hello"
        assert len(model_server.requests) == sent, "one refusal, and it is remembered"
    assert isinstance(chunks[0], TextChunk)
    assert mistral(model_server.requests[0].json["messages"])
