"""Pictures of prompts and results on each wire: judged by the vendors' own types, with a prefix that stays."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from codelet import prompt
from codelet.errors import ProviderError
from codelet.messages import Message, Picture, assistant, reminder, tool_call, tool_result, user
from codelet.providers import open_provider
from codelet.providers.by_litellm.provider import LiteLLMProvider
from codelet.providers.native import NativeProvider
from codelet.providers.protocol import Chunk, NoteChunk, ProviderOptions, Request, Retries, TextChunk
from tests.providers.chunks import collect, options
from tests.support.official import complaints
from tests.support.pictures import png
from tests.support.script import HttpError, Reply
from tests.support.server import ModelServer

DATA = b64encode(png()).decode()
PICTURE: Picture = {"name": "a.png", "media_type": "image/png", "width": 3, "height": 2, "data": DATA}
ADDRESS = f"data:image/png;base64,{DATA}"
CALLS = [tool_call("c1", "read", '{"path": "a.png"}'), tool_call("c2", "read", '{"path": "b"}')]
LIST: list[Message] = [
    reminder("claudeMd", "the head"),
    user("look at this", [PICTURE]),
    assistant(None, CALLS),
    tool_result("c1", "a.png is shown", images=[PICTURE]),
    tool_result("c2", "text"),
]
TAIL = reminder("gitStatus", "the tail")
AFTER: list[Message] = [*LIST, assistant("I see."), user("and now?")]


def wire(model: str, base: str | None = None) -> NativeProvider:
    provider = open_provider(model, ProviderOptions(base, "k"))
    assert isinstance(provider, NativeProvider)
    return provider


def bodies(model: str, base: str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The request with a tail after the results, and the next one, from one provider; the first is its prefix."""
    provider = wire(model, base)
    first = provider.body(Request("s", [*LIST, TAIL], 1))
    second = provider.body(Request("s", [*AFTER, TAIL], 1))
    assert provider.body(Request("s", [*LIST, TAIL], 1)) is not None
    shared = first[: first.index(b"the tail") - 300].replace(b',"cache_control":{"type":"ephemeral"}', b"")
    assert second.replace(b',"cache_control":{"type":"ephemeral"}', b"").startswith(shared)
    return json.loads(first), json.loads(second)


def test_chat_completions_has_those_of_results_in_a_message_behind_them():
    first, second = bodies("openai/chat/gpt-4.1")
    listed = first["messages"]
    shown = {"type": "image_url", "image_url": {"url": ADDRESS}}
    assert [message["role"] for message in listed] == "system user user assistant tool tool user user".split()
    assert listed[2]["content"] == [shown, {"type": "text", "text": "look at this"}]
    assert [listed[4]["content"], listed[5]["content"]] == ["a.png is shown", "text"]
    assert listed[6]["content"][0] == shown
    assert "a.png" in listed[6]["content"][1]["text"]
    assert second["messages"][:7] == listed[:7]


def test_strict_templates_get_them_in_turn_and_in_lists():
    first, second = bodies("house", "http://127.0.0.1:9/v1")
    listed = first["messages"]
    assert [message["role"] for message in listed] == "system user assistant tool tool assistant user".split()
    head = listed[1]["content"]
    assert [part["type"] for part in head] == ["image_url", "text"]
    assert head[1]["text"] == "the head\n\nlook at this"
    assert listed[5]["content"] == prompt.NO_ANSWER
    last = listed[6]["content"]
    assert (last[0]["type"], last[1]["text"].endswith("the tail")) == ("image_url", True)
    assert [message["role"] for message in second["messages"][7:]] == ["assistant", "user"]


@pytest.mark.parametrize("base", [None, "http://127.0.0.1:9/v1"])
def test_responses_has_them_in_messages_and_in_outputs(base: str | None):
    first, _ = bodies("openai/responses/gpt-4.1", base)
    assert complaints(first) == []
    said = [part for item in first["input"] if item.get("role") == "user" for part in item["content"]]
    assert {"type": "input_image", "detail": "auto", "image_url": ADDRESS} in said
    output = next(item for item in first["input"] if item.get("call_id") == "c1" and "output" in item)["output"]
    assert [part["type"] for part in output] == ["input_image", "input_text"]
    roles = [item.get("role", item.get("type")) for item in first["input"]]
    assert roles == (
        ["user", "user", "function_call", "function_call", "function_call_output", "function_call_output", "user"]
        if base is None
        else ["user", "function_call", "function_call", "function_call_output", "function_call_output"]
    )


def test_a_cache_mark_stands_on_the_text_behind_a_picture():
    provider = wire("openai/gpt-5.6")
    body = json.loads(provider.body(Request("s", [user("look", [PICTURE]), TAIL], 1)))
    assert complaints(body) == []
    parts = body["input"][1]["content"]
    assert [part["type"] for part in parts] == ["input_image", "input_text"]
    assert "prompt_cache_breakpoint" in parts[1]


def test_anthropic_has_blocks_also_in_results():
    first, _ = bodies("anthropic/claude-sonnet-5-5")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}
    blocks = [block for message in first["messages"] for block in message["content"]]
    assert blocks[1] == image
    result = next(block for block in blocks if block["type"] == "tool_result")
    assert result["content"] == [image, {"type": "text", "text": "a.png is shown"}]


@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-5-5", "mistral/devstral"])
def test_litellm_is_given_what_chat_completions_has(model: str):
    body = json.loads(LiteLLMProvider(model, ProviderOptions()).body(Request("s", [*LIST, TAIL], 1)))
    listed = body["arguments"]["messages"]
    shown = {"type": "image_url", "image_url": {"url": ADDRESS}}
    lists = [message["content"] for message in listed if isinstance(message["content"], list)]
    assert sum(shown in content for content in lists) == 2
    roles = [message["role"] for message in listed]
    if model.startswith("mistral"):
        assert roles == "system user assistant tool tool assistant user".split()
        assert lists[0][-1]["text"].endswith("look at this")
    else:
        assert roles == "system user user assistant tool tool user user".split()


@pytest.mark.parametrize("model", ["openai/chat/gpt-4", "openai/responses/o3-mini", "deepseek/deepseek-v4-pro"])
def test_a_model_that_takes_none_is_told_their_names_only(model: str):
    body = wire(model).body(Request("s", LIST)).decode()
    assert DATA not in body
    assert body.count(prompt.PICTURES_NOT_SHOWN) == 2
    json.loads(body)
    assert DATA not in LiteLLMProvider(model, ProviderOptions()).body(Request("s", LIST)).decode()


REFUSAL = HttpError(400, "this model does not support image input", "invalid_request_error")


async def answer(server: ModelServer, messages: list[Message], *, unseen: bool = False) -> list[Chunk]:
    provider = open_provider("openai/scripted", ProviderOptions(server.openai, "k", retries=Retries(attempts=1)))
    try:
        return [chunk async for chunk in provider.stream(Request("s", messages, unseen=unseen))]
    finally:
        await provider.close()


async def test_a_server_that_refuses_a_result_s_picture_gets_none_from_then_on(model_server: ModelServer):
    model_server.script = [REFUSAL, Reply("fine")]
    messages = [user("go"), *LIST[2:]]
    chunks = await answer(model_server, messages)
    assert [chunk.text for chunk in chunks if isinstance(chunk, TextChunk)] == ["fine"]
    assert any("scripted" in chunk.text for chunk in chunks if isinstance(chunk, NoteChunk))
    assert [DATA.encode() in sent.body for sent in model_server.requests] == [True, False]


ONE_REFUSED = (
    HttpError(400, "Could not process image", "invalid_request_error"),
    HttpError(400, "image dimensions exceed max allowed size for many-image requests: 2000 pixels", "invalid"),
    HttpError(422, "the image is too large: 6 MB", "invalid"),
)


@pytest.mark.parametrize("refusal", ONE_REFUSED)
async def test_pictures_of_earlier_prompts_are_left_out_and_later_ones_are_sent(
    model_server: ModelServer, refusal: HttpError
):
    other: Picture = {**PICTURE, "name": "b.png", "data": b64encode(png() + b"b").decode()}
    earlier: list[Message] = [user("one", [PICTURE]), assistant("seen"), user("two", [other])]
    model_server.script = [refusal, Reply("fine"), Reply("fine")]
    provider = open_provider("openai/scripted", ProviderOptions(model_server.openai, "k", retries=Retries(attempts=1)))
    chunks = [chunk async for chunk in provider.stream(Request("s", earlier))]
    later = [*earlier, assistant("fine"), user("three")]
    chunks += [chunk async for chunk in provider.stream(Request("s", later))]
    await provider.close()
    assert sum("/drop" in chunk.text for chunk in chunks if isinstance(chunk, NoteChunk)) == 1
    bodies = [sent.body.decode() for sent in model_server.requests]
    assert [body.count(DATA + '"') for body in bodies] == [1, 0, 0]
    assert [body.count(other["data"]) for body in bodies] == [1, 1, 1]
    assert [body.count(prompt.PICTURES_REFUSED) for body in bodies] == [0, 1, 1]
    assert bodies[2].startswith(bodies[1][: bodies[1].index('"two"')])


@pytest.mark.parametrize("refusal", ONE_REFUSED)
async def test_the_newest_prompt_s_refused_picture_fails_with_a_way_out(model_server: ModelServer, refusal: HttpError):
    model_server.script = [refusal] * 2
    with pytest.raises(ProviderError, match="/drop"):
        await answer(model_server, LIST[:2], unseen=True)
    assert len(model_server.requests) == 1
    model_server.script = [refusal] * 2
    with pytest.raises(ProviderError, match="/rewind"):
        await answer(model_server, LIST)
    assert [sent.body.count(DATA.encode()) for sent in model_server.requests] == [1, 2]


async def test_a_prompt_s_picture_is_never_left_out_unasked(model_server: ModelServer):
    model_server.script = [REFUSAL]
    with pytest.raises(ProviderError, match=r"/rewind .* /model "):
        await answer(model_server, LIST)
    assert len(model_server.requests) == 1
    model_server.script = [REFUSAL] * 2
    with pytest.raises(ProviderError, match=r"name another --model$"):  # in a pipe nobody has a prompt to type at
        await answer(model_server, LIST, unseen=True)


@pytest.mark.parametrize(
    ("says", "requests"),
    [
        ("image input is not supported - hint: you may need to provide the mmproj", 1),  # llama.cpp
        ("failed to process image", 3),  # that may pass
    ],
)
async def test_a_server_without_eyes_is_not_asked_again(says: str, requests: int, model_server: ModelServer):
    model_server.script = [HttpError(500, says)] * 3
    provider = open_provider("openai/house-1", options(model_server.openai, attempts=3))
    with pytest.raises(ProviderError, match=says[:20]):
        await collect(provider, Request("s", [user("look", [PICTURE])]))
    await provider.close()
    assert len(model_server.requests) == requests
