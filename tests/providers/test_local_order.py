"""A local server reads the prompt last: small models take anything after it for the question."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import pytest

from codelet.messages import Message, Picture, assistant, reminder, tool_call, tool_result, user
from codelet.providers import open_provider
from codelet.providers.native import OpenAIWire
from codelet.providers.protocol import Request
from tests.providers.chunks import collect, options
from tests.support.pictures import png
from tests.support.script import Reply
from tests.support.server import ModelServer

HEAD = reminder("environment", "environment: here")
TAIL = [reminder("gitStatus", "gitStatus: clean"), reminder("tokenStatus", "tokenStatus: 1 %")]
PROMPT = user("Say hello in three words.")
LONG = user("word " * 1_000)
CALLED: list[Message] = [assistant(None, [tool_call("c1", "read", "{}")]), tool_result("c1", "text")]
PICTURE: Picture = {
    "name": "a.png",
    "media_type": "image/png",
    "width": 3,
    "height": 2,
    "data": b64encode(png()).decode(),
}
SHOWN: list[Message] = [assistant(None, [tool_call("c1", "read", "{}")]), tool_result("c1", "text", images=[PICTURE])]

LISTS: dict[str, tuple[Sequence[Message], list[str]]] = {
    "a prompt": ([HEAD, PROMPT], ["environment", "gitStatus", "tokenStatus", "Say hello"]),
    "a later prompt": (
        [PROMPT, assistant("Hello."), user("Again?")],
        ["Say hello", "Hello.", "gitStatus", "tokenStatus", "Again?"],
    ),
    "a tool's result": ([PROMPT, *CALLED], ["Say hello", "text", "gitStatus", "tokenStatus"]),
    "a prompt with a picture": (
        [HEAD, user("Say hello to it.", [PICTURE])],
        ["environment", "gitStatus", "tokenStatus", "Say hello"],
    ),
    "a result with a picture": ([PROMPT, *SHOWN], ["Say hello", "data:image/png", "gitStatus", "tokenStatus"]),
    "a long prompt": ([HEAD, LONG], ["environment", "word", "gitStatus", "tokenStatus"]),
}
MODELS = {"chat": ("openai/small", "auto"), "responses": ("openai/responses/small", "auto")}
WAYS = {**MODELS, "litellm": ("openai/small", "litellm")}


def places(body: dict[str, Any], marks: Sequence[str]) -> list[int]:
    text = json.dumps(body["messages"] if "messages" in body else body["input"])
    return [text.index(mark) for mark in marks]


@pytest.mark.parametrize(("model", "transport"), WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(("messages", "order"), LISTS.values(), ids=LISTS)
async def test_reminders_stand_before_the_prompts_text(
    messages: Sequence[Message], order: list[str], model: str, transport: Any, model_server: ModelServer
):
    model_server.script = [Reply("ok")]
    provider = open_provider(model, options(model_server.openai), transport)
    await collect(provider, Request("Be brief.", [*messages, *TAIL], tail=len(TAIL)))
    await provider.close()
    found = places(model_server.requests[0].json, order)
    assert found == sorted(found)


@pytest.mark.parametrize("model", [model for model, _ in MODELS.values()])
@pytest.mark.parametrize(("messages", "order"), LISTS.values(), ids=LISTS)
async def test_elsewhere_they_stay_behind_what_a_cache_keeps(messages: Sequence[Message], order: list[str], model: str):
    provider = open_provider(model, options("https://models.example/v1"))
    assert isinstance(provider, OpenAIWire)
    body = json.loads(provider.body(Request("Be brief.", [*messages, *TAIL], tail=len(TAIL))))
    behind = [mark for mark in order if "Status" not in mark] + ["gitStatus", "tokenStatus"]
    found = places(body, behind)
    assert found == sorted(found)
    await provider.close()
