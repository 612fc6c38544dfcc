"""The part of each request that a vendor's cache can read, if it stores only marked text.

The rules are Anthropic's, OpenRouter's and OpenAI's ("Prompt caching"): a mark ends a prefix that is written; a later
request reads the longest prefix that was written and that one of its own marks ends; at most four marks count.
"""

from __future__ import annotations

import itertools
import json
import re
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from codelet.loop.session import Session
from codelet.messages import Message, assistant, reminder, tool_result, user
from codelet.providers import open_provider
from codelet.providers.native import NativeProvider
from codelet.providers.protocol import ProviderOptions, Request
from codelet.safety import Policy
from tests.providers.chunks import TOOLS, options
from tests.support.bodies import stable_prefix, without_marks
from tests.support.script import Call, Reply
from tests.support.server import ModelServer
from tests.support.vendors import DIALECTS

MARK = re.compile(rb',"(?:cache_control|prompt_cache_breakpoint)":\{[^{}]*\}')
MODELS = {
    "Claude at OpenRouter": "openrouter/anthropic/claude-sonnet-5.5",
    "Qwen at OpenRouter": "openrouter/qwen/qwen3.8-max",
    "OpenAI": "openai/responses/gpt-6.1-sol",
    "Anthropic": "anthropic/claude-sonnet-5-5",
}
each_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())


class Cache:
    """A vendor's cache: what was written, and how much of a request it reads."""

    def __init__(self) -> None:
        self.written: set[bytes] = set()

    def read(self, raw: bytes) -> int:
        """Read and write as a request asks for it; return how many bytes of it were read."""
        ends = [without_marks(raw[: mark.start()]) for mark in MARK.finditer(raw)]
        assert 1 <= len(ends) <= 4
        read = max((len(end) for end in ends if end in self.written), default=0)
        self.written.update(ends)
        return read


def opened(model: str, base: str = "http://127.0.0.1:1/v1") -> NativeProvider:
    provider = open_provider(model, options(base))
    assert isinstance(provider, NativeProvider)
    return provider


def step(number: int) -> list[Message]:
    """A step with as many parallel calls as its number says."""
    calls: list[Any] = [
        {"id": f"call_{number}_{each}", "type": "function", "function": {"name": "read", "arguments": '{"x": "a"}'}}
        for each in range(number % 6 + 1)
    ]
    return [assistant("Looking.", calls), *(tool_result(call["id"], "line\n" * 40) for call in calls)]


def tail(number: int) -> list[Message]:
    return [reminder("gitStatus", f"state {number}")]


@each_model
async def test_a_session_reads_nearly_all_of_the_last_request(model: str, model_server: ModelServer, tmp_path: Path):
    (tmp_path / "notes.txt").write_text("hay\n" * 200, encoding="utf-8")
    calls = [Call(f"toolu_{number}", "read", {"path": "notes.txt"}) for number in range(100)]
    steps = [Reply("", calls=[calls.pop() for _ in range(number % 5 + 1)]) for number in range(20)]
    model_server.script = [*steps, Reply("Done.")]
    session = Session(opened(model, model_server.openai), workspace=tmp_path, policy=Policy(tmp_path))
    async with aclosing(session.send("look")) as stream:
        async for _ in stream:
            pass
    await session.close()
    assert len(model_server.requests) == 21
    cache, before = Cache(), None
    for request in model_server.requests:
        read = cache.read(request.body)
        assert before is None or read >= 0.9 * len(stable_prefix(before)), request.number
        before = request


AUTOMATIC = ("openai", "gemini", "deepseek", "moonshot", "mistral", "groq", "zai", "dashscope", "xai, Responses")
BLOCK = 512
"""Bytes of the smallest piece that such a cache keeps: about 128 tokens, as OpenAI counts them. The first is eight."""


@pytest.mark.parametrize("name", AUTOMATIC)
async def test_a_cache_without_marks_reads_nearly_all_too(name: str, model_server: ModelServer, tmp_path: Path):
    """It keeps whole blocks of each request, and reads what a later one begins with."""
    for number in range(20):
        (tmp_path / f"notes{number}.txt").write_text(f"hay {number}\n" * 200, encoding="utf-8")
    calls = [Call("", "read", {"path": f"notes{number}.txt"}) for number in range(20)]
    steps = [Reply("Looking.", calls=[call]) for call in calls]
    model_server.script = DIALECTS[name].script([*steps, Reply("Done.")])
    session = Session(opened(DIALECTS[name].model, model_server.openai), workspace=tmp_path, policy=Policy(tmp_path))
    async with aclosing(session.send("look")) as stream:
        async for _ in stream:
            pass
    await session.close()
    bodies = [request.body for request in model_server.requests]
    assert len(bodies) == 21
    for before, body in itertools.pairwise(bodies):
        differing = (at for at, (one, other) in enumerate(zip(before, body, strict=False)) if one != other)
        same = next(differing, min(len(before), len(body))) // BLOCK * BLOCK
        assert same >= max(8 * BLOCK, 0.9 * len(before)), (name, same, len(before))


@pytest.mark.parametrize("model", [name for name in MODELS.values() if not name.startswith("anthropic/")])
def test_who_goes_on_with_a_conversation_finds_what_was_written(model: str):
    """Another provider takes the list over, as after --resume, and with another effort. Anthropic itself looks for
    earlier ends within twenty blocks before a mark.
    """
    cache, first = Cache(), opened(model)
    messages: list[Message] = [user("look")]
    for number in range(12):
        raw = first.body(Request("Be brief.", [*messages, *tail(number)], tail=1, tools=TOOLS))
        cache.read(raw)
        messages += step(number)
    second = opened(model)
    resumed = second.body(Request("Be brief.", [*messages, *tail(13)], tail=1, tools=TOOLS))
    assert cache.read(resumed) >= 0.7 * len(raw)
    assert json.loads(resumed).get("prompt_cache_key") == json.loads(raw).get("prompt_cache_key")


def test_each_conversation_has_its_own_key_and_a_review_has_one():
    def key(prompt: str, shared: str = "") -> str:
        provider = opened("openai/responses/gpt-6.1-sol")
        if shared:
            provider.share_cache(shared, "")
        told: str = json.loads(provider.body(Request("Be brief.", [user(prompt)])))["prompt_cache_key"]
        return told

    assert key("a") == key("a") != key("b")
    assert key("a", "review") == key("b", "review") == "review"


@each_model
def test_other_conversations_with_the_same_rules_read_these(model: str):
    cache = Cache()
    rules = "Look for mistakes. " * 400
    reads = [cache.read(opened(model).body(Request(rules, [user(f"diff {each}")], tools=TOOLS))) for each in range(6)]
    assert reads[0] == 0
    assert min(reads[1:]) > len(rules)


@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-5-5"])
def test_two_questions_about_one_text_share_it(model: str):
    """A review asks about a part of a change, and then about its findings: the part is read from the cache."""
    cache, part = Cache(), "A part of a change. " * 500
    reads = []
    for question in ("What is wrong?", "Is it?", "And this?"):
        provider = opened(model)
        provider.share_cache("review", "\nYour task:\n")
        body = provider.body(Request("Be brief.", [user(f"{part}\nYour task:\n{question}")], tools=TOOLS))
        reads.append(cache.read(body))
    assert reads[0] == 0 and min(reads[1:]) > len(part)


@each_model
def test_an_empty_text_carries_no_mark(model: str):
    if "openai" in model:
        pytest.skip("OpenAI takes a mark on any input")
    messages = [user("look"), *step(0)[:1], tool_result("call_0_0", "")]
    raw = opened(model).body(Request("", messages, tools=TOOLS))
    assert not re.search(rb'"text":"","cache_control"', raw)


@pytest.mark.parametrize("model", ["openrouter/moonshotai/kimi-k3", "openrouter/openai/gpt-6.1-sol", "groq/qwen/qwen3"])
def test_nobody_else_is_sent_marks_over_chat_completions(model: str):
    assert not MARK.search(opened(model).body(Request("Be brief.", [user("look")])))


FIRST = {
    "anthropic/claude-sonnet-5-5": (2, ["ttl"]),
    "minimax/MiniMax-M3": (2, []),
    "openai/responses/gpt-6.1-sol": (2, ["prompt_cache_key", "prompt_cache_options"]),
    "xai/grok-4.7": (0, ["prompt_cache_key"]),
    "openrouter/anthropic/claude-sonnet-5.5": (2, []),
    "openrouter/qwen/qwen3.8-max": (2, []),
    **dict.fromkeys(["gemini/gemini-3.8-flash", "deepseek/deepseek-v4-pro", "moonshot/kimi-k3.1-pro"], (0, [])),
    **dict.fromkeys(["mistral/devstral-latest", "zai/glm-5.3", "groq/openai/gpt-oss-120b"], (0, [])),
}
"""Marks, and other fields of the cache, that a vendor documents for the first request; without any it needs none."""


def test_a_first_request_has_the_cache_fields_of_its_vendor():
    """At the vendors' own addresses, with tools, a system prompt and reminders."""
    found = {}
    for model in FIRST:
        provider = open_provider(model, ProviderOptions(api_key="k"))
        assert isinstance(provider, NativeProvider)
        listed = [reminder("claudeMd", "Use tabs."), user("look"), *tail(1)]
        body = provider.body(Request("Be brief.", listed, tail=1, tools=TOOLS))
        fields = [name for name in ("prompt_cache_key", "prompt_cache_options", "ttl") if f'"{name}"'.encode() in body]
        found[model] = (len(MARK.findall(body)), fields)
    assert found == FIRST
