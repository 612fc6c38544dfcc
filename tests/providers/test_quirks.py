"""Quirks by a model's name, lessons from refusals, and the name on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from codelet.errors import ProviderError
from codelet.messages import Message, assistant, tool_call, tool_result, user
from codelet.providers import open_provider
from codelet.providers.catalog import NO_REASONING, table, table_names
from codelet.providers.endpoint import quirks_of
from codelet.providers.facts import model_facts
from codelet.providers.native import NativeProvider
from codelet.providers.protocol import NoteChunk, RetryChunk
from tests.providers.chunks import TOOLS, collect, joined, options, request
from tests.support.script import HttpError, Reply
from tests.support.server import ModelServer

WAYS = pytest.mark.parametrize("transport", ["native", "litellm"])
HERE = "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(
    ("model", "effort"),
    [
        ("openai/gpt-5.6", "none"),
        ("gpt-5.6", "none"),
        ("openai/gpt-5.6-luna", "none"),
        ("openai/chat/gpt-5.6", "none"),
        ("house/gpt-5.6", "none"),
        ("openai/gpt-5.4", ""),  # the map says that it begins without reasoning
        ("openai/gpt-5", ""),  # it does not take that
        ("openai/gpt-4o", ""),
        ("openrouter/openai/gpt-5.6", ""),  # a service of its own, which says itself what it wants
        ("groq/openai/gpt-oss-120b", ""),
        ("xai/grok-4.7", ""),
        ("qwen3", ""),
    ],
)
def test_who_is_asked_not_to_reason(model: str, effort: str):
    assert quirks_of(model, HERE).effort == effort
    assert quirks_of(model, None).effort == effort


@pytest.mark.parametrize(
    ("model", "reasoning", "signatures"),
    [
        ("deepseek/deepseek-v4-pro", True, False),
        ("openrouter/deepseek/deepseek-v4-pro", True, False),
        ("openrouter/moonshotai/kimi-k3", True, False),
        ("kimi-k2.6", True, False),
        ("openai/kimi-k2.6", True, False),
        ("groq/moonshotai/kimi-k2-instruct-0905", False, False),
        ("ollama/deepseek-r1", False, False),
        ("gemini/gemini-3.8-flash", False, True),
        ("openai/gemini-3.8-flash", False, True),
        ("gemini/gemini-2.5-pro", False, False),
        ("openrouter/google/gemini-3.8-flash", False, False),
    ],
)
def test_who_wants_reasoning_or_signatures_on_messages_of_others(model: str, reasoning: bool, signatures: bool):
    quirks = quirks_of(model, HERE)
    assert (quirks.reasoning, quirks.signatures) == (reasoning, signatures)


@WAYS
async def test_the_effort_is_said_with_tools_alone_and_the_user_is_told_once(transport: Any, model_server: ModelServer):
    model_server.script = [Reply("a")] * 3
    provider = open_provider("gpt-5.6", options(model_server.openai), transport)
    plain = await collect(provider, request())
    first = await collect(provider)
    second = await collect(provider)
    await provider.close()
    assert [sent.json.get("reasoning_effort") for sent in model_server.requests] == [None, "none", "none"]
    assert [type(chunk) for chunk in plain].count(NoteChunk) == 0
    [note] = [chunk.text for chunk in first if isinstance(chunk, NoteChunk)]
    assert "openai/responses/gpt-5.6" in note
    assert not [chunk for chunk in second if isinstance(chunk, NoteChunk)]


def history() -> list[Message]:
    made = assistant(None, [tool_call("c1", "read", '{"x": "a"}')])
    return [user("go"), made, tool_result("c1", "text"), assistant("So."), user("on")]


LEARNT = {
    "effort": "Function tools with reasoning_effort are not supported for house-1 in /v1/chat/completions. "
    "To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
    "reasoning": "The `reasoning_content` in the thinking mode must be passed back to the API.",
    "kimi": "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
    "signature": "Function call is missing a thought_signature in functionCall parts.",
}


@WAYS
@pytest.mark.parametrize("rule", LEARNT)
async def test_a_refusal_teaches_what_an_unknown_name_demands(rule: str, transport: Any, model_server: ModelServer):
    model_server.script = [HttpError(400, LEARNT[rule]), Reply("ok"), Reply("ok again")]
    provider = open_provider("openai/house-1", options(model_server.openai), transport)
    chunks = await collect(provider, request(*history(), tools=TOOLS))
    assert joined(chunks)["text"] == "ok"
    assert [chunk.wait for chunk in chunks if isinstance(chunk, RetryChunk)] == [0.0]
    await collect(provider, request(*history(), tools=TOOLS))
    await provider.close()
    before, *after = [sent.json for sent in model_server.requests]
    assert len(after) == 2
    for body in after:
        assert body != before
        call = body["messages"][2]
        match rule:
            case "effort":
                assert body["reasoning_effort"] == "none"
            case "signature":
                signature = call["tool_calls"][0]["extra_content"]["google"]["thought_signature"]
                assert signature == "skip_thought_signature_validator"
            case _:
                told = [
                    message.get("reasoning_content") for message in body["messages"] if message["role"] == "assistant"
                ]
                assert told == [NO_REASONING] * 2


MODELS = {"chat": "openai/chat/gpt-5.6", "responses": "openai/responses/gpt-5.6", "messages": "anthropic/claude-x-5-5"}


FILE = "refusals.toml"
LESSONS = [name for name in table_names(FILE) if name.startswith("lesson.")]


@pytest.mark.parametrize("name", [name for name in LESSONS if "quirks" in table(name, FILE)])
def test_each_row_of_the_table_is_learned_once(name: str):
    lesson = table(name, FILE)
    quirks = dict(lesson["quirks"])
    provider = open_provider(MODELS[lesson.get("apis", ["messages"])[-1]], options("http://127.0.0.1:1/v1"))
    assert isinstance(provider, NativeProvider)
    provider.quirks = provider.quirks.replace(**{quirk: not value for quirk, value in quirks.items()})
    words = lesson["words"] if "words" in lesson else list(table(lesson["words_of"], FILE))
    refusal = ProviderError(f"{words[0]} {lesson.get('also', '')}", status=400)
    while name not in provider.learnt:  # another row with the same words may come first
        assert provider.learn(refusal, request())
    assert {quirk: getattr(provider.quirks, quirk) for quirk in quirks} == quirks
    assert "note" not in lesson or lesson["note"].format(model=provider.model) in provider.notes
    while provider.learn(refusal, request()):
        assert len(provider.learnt) < len(LESSONS)
    provider.quirks = provider.quirks.replace(**{quirk: not value for quirk, value in quirks.items()})
    assert not provider.learn(refusal, request()), "no server is asked for ever"
    assert not provider.learn(ProviderError(str(refusal), status=503), request())


@WAYS
async def test_a_server_that_refuses_what_it_was_given_gets_it_no_more(transport: Any, model_server: ModelServer):
    refusals = {
        "reasoning_content": "'messages.2' : for 'role:assistant' the following must be satisfied"
        "[('messages.2' : property 'reasoning_content' is unsupported)]",
        "reasoning_effort": "Unrecognized request argument supplied: reasoning_effort",
    }
    for name, words in refusals.items():
        model = "openai/kimi-k3" if name == "reasoning_content" else "openai/gpt-5.6"
        model_server.requests.clear()
        model_server.script = [HttpError(400, words), Reply("ok")]
        provider = open_provider(model, options(model_server.openai), transport)
        assert joined(await collect(provider, request(*history(), tools=TOOLS)))["text"] == "ok"
        await provider.close()
        first, second = [sent.body.decode() for sent in model_server.requests]
        assert (name in first, name in second) == (True, False)


@WAYS
async def test_a_server_that_contradicts_itself_is_not_asked_for_ever(transport: Any, model_server: ModelServer):
    model_server.script = lambda sent: HttpError(
        400, LEARNT["effort"] if "reasoning_effort" not in sent.json else "unknown parameter reasoning_effort"
    )
    provider = open_provider("openai/house-1", options(model_server.openai), transport)
    with pytest.raises(ProviderError):
        await collect(provider)
    await provider.close()
    assert len(model_server.requests) == 3


@WAYS
@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("openai/chat/gpt-4o", "gpt-4o"),
        ("openai/chat/org/name", "org/name"),
        ("openai/gpt-4o", "gpt-4o"),
        ("openrouter/auto", "openrouter/auto"),
        ("openrouter/moonshotai/kimi-k3", "moonshotai/kimi-k3"),
    ],
)
async def test_the_name_on_the_wire(model: str, sent: str, transport: Any, model_server: ModelServer):
    model_server.script = [Reply("ok")]
    provider = open_provider(model, options(model_server.openai), transport)
    await collect(provider)
    await provider.close()
    assert model_server.requests[0].json["model"] == sent
    assert model_server.requests[0].path == "/v1/chat/completions"


def test_sizes_and_prices_of_the_name_behind_the_wire():
    assert model_facts("openai/chat/gpt-4o") == model_facts("openai/gpt-4o")
    assert model_facts("openai/chat/gpt-4o").prices
