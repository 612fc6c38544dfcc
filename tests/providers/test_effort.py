"""The effort: its form on each vendor's wire, its notes, and what a refusal teaches."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from codelet.loop.session import Session
from codelet.providers import open_provider
from codelet.providers.effort import nearest_word
from codelet.providers.facts import model_facts
from codelet.providers.protocol import Chunk, Effort, NoteChunk
from codelet.safety import Policy
from tests.providers.chunks import collect, options
from tests.support.script import HttpError, Reply
from tests.support.server import ModelServer
from tests.support.vendors import DIALECTS, GREP, READ

VARIED = ("prompt_cache_key", "max_tokens")  # a number of chance; and room for what is thought
FIELDS = ("reasoning_effort", "reasoning", "thinking", "output_config", "chat_template_kwargs")
ADAPTIVE = {"type": "adaptive"}


def said_in(body: dict[str, Any]) -> dict[str, Any]:
    return {name: body[name] for name in FIELDS if name in body}


def notes_in(chunks: list[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks if isinstance(chunk, NoteChunk)]


async def asked(server: ModelServer, model: str, effort: Effort | None, transport: Any = "auto") -> Any:
    """The effort of the second of two requests, and the notes of both."""
    server.script = lambda _: Reply("a")
    provider = open_provider(model, options(server.openai, effort=effort), transport)
    told = notes_in(await collect(provider)) + notes_in(await collect(provider))
    await provider.close()
    return said_in(server.requests[-1].json), told


def nearest(name: str, level: str, word: str) -> list[str]:
    return [f"{name} has no effort {level!r}: its nearest, {word!r}, is taken"]


SUMMARY = {"summary": "auto"}
KEPT = {"type": "enabled", "clear_thinking": False}
"""Z.ai's field in each request that keeps returned reasoning."""
ON_THE_WIRE: list[tuple[str, Effort, dict[str, Any], list[str]]] = [
    ("openai/responses/gpt-5.6", "high", {"reasoning": {**SUMMARY, "effort": "high"}}, []),
    ("openai/responses/gpt-5.6", "none", {"reasoning": {**SUMMARY, "effort": "none"}}, []),
    (
        "openai/responses/gpt-5.6",
        "max",
        {"reasoning": {**SUMMARY, "effort": "xhigh"}},
        nearest("gpt-5.6", "max", "xhigh"),
    ),
    ("openai/responses/house-1", "max", {"reasoning": {"effort": "max"}}, []),
    ("openai/responses/gpt-5.6", "xhigh", {"reasoning": {**SUMMARY, "effort": "xhigh"}}, []),
    ("openai/responses/gpt-6.2-sol", "max", {"reasoning": {**SUMMARY, "effort": "max"}}, []),
    ("anthropic/claude-sonnet-5-5", "xhigh", {"thinking": ADAPTIVE, "output_config": {"effort": "xhigh"}}, []),
    ("openrouter/anthropic/claude-sonnet-5.5", "xhigh", {"reasoning": {"effort": "xhigh"}}, []),
    ("xai/responses/grok-4.7", "xhigh", {"reasoning": {**SUMMARY, "effort": "xhigh"}}, []),
    (
        "xai/responses/grok-4.7",
        "max",
        {"reasoning": {**SUMMARY, "effort": "xhigh"}},
        nearest("grok-4.7", "max", "xhigh"),
    ),
    (
        "xai/responses/grok-4.7",
        "none",
        {"reasoning": {**SUMMARY, "effort": "low"}},
        nearest("grok-4.7", "none", "low"),
    ),
    ("dashscope/qwen3.8-max", "max", {"reasoning_effort": "xhigh"}, nearest("qwen3.8-max", "max", "xhigh")),
    ("dashscope/qwen3.8-max", "none", {"reasoning_effort": "none"}, []),
    ("zai/glm-5.3", "none", {"reasoning_effort": "low", "thinking": KEPT}, nearest("glm-5.3", "none", "low")),
    ("zai/glm-5.3", "xhigh", {"reasoning_effort": "max", "thinking": KEPT}, nearest("glm-5.3", "xhigh", "max")),
    ("zai/glm-5.1", "none", {"thinking": {"type": "disabled"}}, []),
    ("openai/responses/gpt-4.1", "low", {}, ["gpt-4.1 takes no effort: 'low' is not sent"]),
    ("openai/gpt-5", "minimal", {"reasoning_effort": "minimal"}, []),
    ("openai/gpt-5", "none", {"reasoning_effort": "minimal"}, nearest("gpt-5", "none", "minimal")),
    ("openai/o3", "minimal", {"reasoning_effort": "low"}, nearest("o3", "minimal", "low")),
    ("openai/house-1", "max", {"reasoning_effort": "max"}, []),
    ("anthropic/claude-sonnet-5-5", "high", {"thinking": ADAPTIVE, "output_config": {"effort": "high"}}, []),
    ("anthropic/claude-sonnet-5-5", "max", {"thinking": ADAPTIVE, "output_config": {"effort": "max"}}, []),
    (
        "anthropic/claude-sonnet-5-5",
        "none",
        {"thinking": ADAPTIVE, "output_config": {"effort": "low"}},
        nearest("claude-sonnet-5-5", "none", "low"),
    ),
    ("anthropic/claude-opus-4-7", "none", {"thinking": {"type": "disabled"}}, []),
    ("anthropic/claude-sonnet-4-5", "high", {}, ["claude-sonnet-4-5 takes no effort: 'high' is not sent"]),
    ("anthropic/claude-house-1", "low", {"thinking": ADAPTIVE, "output_config": {"effort": "low"}}, []),
    ("gemini/gemini-3.8-flash", "medium", {"reasoning_effort": "medium"}, []),
    ("gemini/gemini-3.8-flash", "minimal", {"reasoning_effort": "low"}, nearest("gemini-3.8-flash", "minimal", "low")),
    ("gemini/gemini-2.5-flash", "none", {"reasoning_effort": "none"}, []),
    ("openrouter/moonshotai/kimi-k3", "minimal", {"reasoning": {"effort": "minimal"}}, []),
    ("deepseek/deepseek-v4-pro", "none", {"thinking": {"type": "disabled"}}, []),
    ("deepseek/deepseek-v4-pro", "max", {"reasoning_effort": "max"}, []),
    ("moonshot/kimi-k3", "medium", {"reasoning_effort": "high"}, nearest("kimi-k3", "medium", "high")),
    ("moonshot/kimi-k2.6", "none", {"thinking": {"type": "disabled"}}, []),
    ("moonshot/kimi-k2.6", "high", {}, nearest("kimi-k2.6", "high", "default")),
    ("xai/grok-4.3", "none", {"reasoning_effort": "none"}, []),
    ("groq/openai/gpt-oss-120b", "max", {"reasoning_effort": "high"}, nearest("gpt-oss-120b", "max", "high")),
    ("ollama/qwen3", "none", {"reasoning_effort": "none"}, []),
    ("llamafile/qwen3", "none", {"chat_template_kwargs": {"enable_thinking": False}}, []),
    ("hosted_vllm/qwen3", "low", {"chat_template_kwargs": {"enable_thinking": True, "reasoning_effort": "low"}}, []),
]


@pytest.mark.parametrize(("model", "effort", "sent", "told"), ON_THE_WIRE)
async def test_each_vendor_is_told_in_its_own_field(
    model: str, effort: Effort, sent: dict[str, Any], told: list[str], model_server: ModelServer
):
    assert await asked(model_server, model, effort) == (sent, told)


@pytest.mark.parametrize(("effort", "most"), [(None, 8_192), ("none", 8_192), ("low", 32_000)])
async def test_who_thinks_has_room_for_it(effort: Effort | None, most: int, model_server: ModelServer):
    await asked(model_server, "anthropic/claude-sonnet-5-5", effort)
    assert model_server.requests[-1].json["max_tokens"] == most


def test_of_two_that_are_as_near_the_higher_is_taken_and_no_thinking_stands_for_itself_alone():
    assert nearest_word("medium", ("low", "xhigh")) == "xhigh"
    assert nearest_word("minimal", ("none", "low")) == "low"
    assert nearest_word("low", ("none",)) == "none"
    assert nearest_word("none", ("none", "low")) == "none"
    assert nearest_word("high", ()) is None


@pytest.mark.parametrize("model", dict.fromkeys(model for model, *_ in ON_THE_WIRE))
async def test_nothing_is_said_where_nobody_asked(model: str, model_server: ModelServer):
    """Neither does the effort change a byte of anything before it."""
    said, told = await asked(model_server, model, None)
    kept = {"thinking": KEPT} if model.startswith("zai/") else {}
    assert (said, told) == (
        {"reasoning": SUMMARY} if model_facts(model).reasons and "responses" in model else kept,
        [],
    )
    plain = model_server.requests[0].json
    await asked(model_server, model, "high")
    with_effort = model_server.requests[2].json
    rest = [name for name in with_effort if name not in (*FIELDS, *VARIED)]
    assert {name: with_effort[name] for name in rest} == {name: plain[name] for name in rest}
    asks = ("extra_body",)  # for summaries, which an effort leaves no room for
    assert [name for name in plain if name not in (*FIELDS, *VARIED, *asks)] == rest


@pytest.mark.parametrize("transport", ["native", "litellm"])
async def test_tools_win_over_an_effort_that_forbids_them(transport: Any, model_server: ModelServer):
    said, told = await asked(model_server, "gpt-5.6", "high", transport)
    assert said == {"reasoning_effort": "none"}
    [note] = told
    assert "'high'" in note and "openai/responses/gpt-5.6" in note


async def test_where_tools_turn_out_to_forbid_it_they_win_too(model_server: ModelServer):
    refusal = (
        "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. "
        "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
    )
    model_server.script = lambda sent: (
        HttpError(400, refusal) if sent.json.get("reasoning_effort") == "high" else Reply("a")
    )
    provider = open_provider("openai/gpt-5.4", options(model_server.openai, effort="high"))
    told = notes_in(await collect(provider))
    await provider.close()
    assert [said_in(sent.json) for sent in model_server.requests] == [
        {"reasoning_effort": "high"},
        {"reasoning_effort": "none"},
    ]
    assert ["'high'" in note for note in told] == [True]


@pytest.mark.parametrize(
    ("model", "effort", "refusal", "sent", "told"),
    [
        (
            "openai/house-1",
            "max",
            "Unsupported value: 'max' is not supported with this model. Supported values are: 'low' and 'high'. "
            "(reasoning_effort)",
            {"reasoning_effort": "high"},
            nearest("house-1", "max", "high"),
        ),
        (
            "openai/responses/gpt-5.6",
            "minimal",
            "Unsupported value: 'reasoning.effort' does not support 'low'. Supported values are: 'medium' and 'high'.",
            {"reasoning": {**SUMMARY, "effort": "medium"}},
            [*nearest("gpt-5.6", "minimal", "low"), *nearest("gpt-5.6", "minimal", "medium")],
        ),
        (
            "xai/grok-4.7",
            "high",
            "Model grok-4.7 does not support parameter reasoningEffort.",
            {},
            ["grok-4.7 takes no effort: 'high' is not sent"],
        ),
        (
            "deepseek/deepseek-v4-pro",
            "none",
            "unknown field 'thinking'",
            {},
            ["deepseek-v4-pro takes no effort: 'none' is not sent"],
        ),
    ],
)
async def test_what_a_server_refuses_is_learnt_once_and_said(
    model: str, effort: Effort, refusal: str, sent: dict[str, Any], told: list[str], model_server: ModelServer
):
    model_server.script = [HttpError(400, refusal), Reply("a"), Reply("b")]
    provider = open_provider(model, options(model_server.openai, effort=effort))
    assert notes_in(await collect(provider)) == told
    assert notes_in(await collect(provider)) == []
    await provider.close()
    assert [said_in(each.json) for each in model_server.requests[1:]] == [sent, sent]


async def test_a_server_that_refuses_whatever_is_said_is_not_asked_for_ever(model_server: ModelServer):
    model_server.script = [HttpError(400, "reasoning_effort: supported values are: low, medium, high")] * 9
    provider = open_provider("openai/house-1", options(model_server.openai, effort="max"))
    with pytest.raises(Exception, match="supported values"):
        await collect(provider)
    await provider.close()
    assert [said_in(sent.json) for sent in model_server.requests] == [
        {"reasoning_effort": "max"},
        {"reasoning_effort": "high"},
        {},
    ]


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("openai/house-1", "low", {"reasoning_effort": "low"}),
        ("openai/gpt-5", "none", {"reasoning_effort": "minimal"}),
        ("anthropic/claude-sonnet-5-5", "high", {"thinking": ADAPTIVE, "output_config": {"effort": "high"}}),
        ("deepseek/deepseek-v4-pro", "none", {"thinking": {"type": "disabled"}}),
    ],
)
async def test_litellm_hands_it_on(model: str, effort: Effort, sent: dict[str, Any], model_server: ModelServer):
    said, _ = await asked(model_server, model, effort, "litellm")
    said.get("thinking", {}).pop("display", None)  # its own addition
    assert said == sent


@pytest.mark.parametrize("name", [name for name in DIALECTS if "claude" not in DIALECTS[name].model])
@pytest.mark.parametrize("effort", ["none", "max"])
async def test_each_vendor_takes_every_effort_in_a_session_with_tools(
    name: str, effort: Effort, model_server: ModelServer, tmp_path: Path
):
    (tmp_path / "notes.txt").write_text("hay\nneedle\n", encoding="utf-8")
    dialect = DIALECTS[name]
    model_server.script = dialect.script([Reply("Looking.", calls=[READ, GREP]), Reply(calls=[GREP]), Reply("Line 2.")])
    provider = open_provider(dialect.model, options(model_server.openai, effort=effort), "native")
    session = Session(provider, workspace=tmp_path, policy=Policy(tmp_path))
    async with aclosing(session.send("find the needle")) as stream:
        async for _ in stream:
            pass
    await provider.close()
    assert session.messages[-1]["content"] == "Line 2."
