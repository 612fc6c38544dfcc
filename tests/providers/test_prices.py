"""The cost of requests: known cases by the vendors' price lists, each worked out by hand, in dollars."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codelet.providers import open_provider
from codelet.providers.facts import facts_of, model_facts
from codelet.providers.protocol import ProviderOptions, Request, UsageChunk
from codelet.usage import Usage
from tests.support.script import Body
from tests.support.server import ModelServer

THOUSANDTH_OF_A_CENT = 0.00001
MONDAY = 1_767_571_200.0  # 5 January 2026, 0:00 UTC
HOUR = 3_600.0
PEAK = MONDAY + 7 * HOUR


@pytest.mark.parametrize(
    ("model", "usage", "dollars"),
    [
        # 10,000 at $2 and 500 at $10 a million
        ("anthropic/claude-sonnet-5-5", {"total_input": 10_000, "output": 500}, 0.025),
        # 10,000 at $2, 90,000 from the cache at $0.10, 1,000 at $10
        ("anthropic/claude-sonnet-5-5", {"total_input": 100_000, "cache_read": 90_000, "output": 1_000}, 0.039),
        # 2,000 at $5, 48,000 kept for five minutes at $6.25, 200 at $25
        ("anthropic/claude-opus-4-8", {"total_input": 50_000, "cache_write": 48_000, "output": 200}, 0.315),
        # the same kept for an hour, at $10
        (
            "anthropic/claude-opus-4-8",
            {"total_input": 50_000, "cache_write": 48_000, "cache_write_hour": 48_000, "output": 200},
            0.495,
        ),
        # 10,000 at $3, 60,000 read at $0.30, 20,000 written at $3.75 and 10,000 at $6, 2,000 at $15
        (
            "anthropic/claude-sonnet-4-5",
            {
                "total_input": 100_000,
                "cache_read": 60_000,
                "cache_write": 30_000,
                "cache_write_hour": 10_000,
                "output": 2_000,
            },
            0.213,
        ),
        # 200,000 are not over 200,000: $1.25 and $10
        ("gemini/gemini-2.5-pro", {"total_input": 200_000, "output": 1_000}, 0.26),
        # one more is: $2.50 and $15, for all of it
        ("gemini/gemini-2.5-pro", {"total_input": 200_001, "output": 1_000}, 0.5150025),
        # over it, 50,000 at $2.50, 250,000 read at $0.25, 2,000 at $15
        ("gemini/gemini-2.5-pro", {"total_input": 300_000, "cache_read": 250_000, "output": 2_000}, 0.2175),
        # over it, 50,000 at $4, 200,000 read at $1, 1,000 at $12
        ("xai/grok-4.7", {"total_input": 250_000, "cache_read": 200_000, "output": 1_000}, 0.412),
        # over 272,000: 50,000 at $8, 200,000 read at $0.80, 50,000 written at $10, 1,000 at $30
        (
            "openai/gpt-5.6",
            {"total_input": 300_000, "cache_read": 200_000, "cache_write": 50_000, "output": 1_000},
            1.09,
        ),
        # 4,000 at $2.50, 16,000 read at $1.25, 3,000 at $10
        ("openai/gpt-4o", {"total_input": 20_000, "cache_read": 16_000, "output": 3_000}, 0.06),
        # no tiers: a million at $0.75; reasoning costs what output does, $3.75, and is a part of it
        ("gemini/gemini-3.8-flash", {"total_input": 1_000_000, "output": 10_000, "reasoning": 8_000}, 0.7875),
        # 20,000 at $1.32, 80,000 read at $0.044, 1,000 at $3.96
        ("deepseek/deepseek-v4-pro", {"total_input": 100_000, "cache_read": 80_000, "output": 1_000}, 0.03388),
    ],
)
def test_known_cases_are_exact_to_a_thousandth_of_a_cent(model: str, usage: dict[str, int], dollars: float):
    cost = model_facts(model).cost(Usage(**usage), PEAK)
    assert cost is not None
    assert abs(cost - dollars) < THOUSANDTH_OF_A_CENT / 100


@pytest.mark.parametrize(
    ("hours", "dollars"),
    [
        (0.5, 0.01694),
        (1.0, 0.03388),
        (3.99, 0.03388),
        (4.0, 0.01694),
        (9.5, 0.03388),
        (10.0, 0.01694),
        (23.5, 0.01694),
        (4 * 24 + 7, 0.03388),
        (5 * 24 + 7, 0.01694),
        (6 * 24 + 23.9, 0.01694),
    ],
)
def test_a_model_that_is_cheaper_off_peak_costs_half_then(hours: float, dollars: float):
    """DeepSeek's peak: 1:00 to 4:00 and 6:00 to 10:00 UTC, Monday to Friday."""
    usage = Usage(total_input=100_000, cache_read=80_000, output=1_000)
    facts = model_facts("deepseek/deepseek-v4-pro")
    assert facts.cost(usage, MONDAY + hours * HOUR) == pytest.approx(dollars)
    assert facts.prices is not None
    assert facts.prices.cost(usage) == pytest.approx(0.03388), "a limit counts with the higher price"


def test_on_this_machine_nothing_has_a_price_and_all_is_free():
    facts = facts_of("openai/gpt-4o", local=True)
    assert (facts.prices, facts.free, facts.cost(Usage(total_input=1_000, output=10))) == (None, True, None)
    assert facts.window == model_facts("openai/gpt-4o").window
    unknown = facts_of("openai/nobody-knows-it", local=False)
    assert (unknown.prices, unknown.free) == (None, False)


@pytest.mark.parametrize(
    ("model", "api_base", "here"),
    [
        ("openai/gpt-4o", None, False),
        ("openai/gpt-4o", "http://127.0.0.1:8080/v1", True),
        ("openai/gpt-4o", "https://models.example/v1", False),
        ("ollama/qwen3", None, True),
        ("bedrock/x", None, False),
    ],
)
def test_where_a_model_answers_is_known_before_it_is_asked(model: str, api_base: str | None, here: bool):
    assert open_provider(model, ProviderOptions(api_base, "k")).local is here


async def test_an_hour_in_the_cache_is_told_apart_on_anthropics_wire(model_server: ModelServer):
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 30,
        "cache_read_input_tokens": 60,
        "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
        "output_tokens": 1,
    }
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"usage": usage}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    raw = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    model_server.script = [Body(raw.encode(), "text/event-stream")]
    provider = open_provider("anthropic/claude-sonnet-4-5", ProviderOptions(model_server.anthropic, "k"))
    seen = [chunk async for chunk in provider.stream(Request("", [{"role": "user", "content": "go"}]))]
    await provider.close()
    last = [chunk for chunk in seen if isinstance(chunk, UsageChunk)][-1]
    assert last.usage == Usage(total_input=100, cache_read=60, cache_write=30, cache_write_hour=10, output=2)


@pytest.mark.parametrize(
    ("reported", "dollars"),
    [
        ({"cost": 0.0123}, 0.0123),
        ({"cost": 0}, 0.0),
        # the user's own key at the vendor: OpenRouter's fee, and what the vendor takes
        ({"cost": 0.95, "is_byok": True, "cost_details": {"upstream_inference_cost": 19}}, 19.95),
        ({"cost": 0.95, "is_byok": False, "cost_details": {"upstream_inference_cost": 19}}, 0.95),
        ({}, None),
        ({"cost": None}, None),
        ({"cost": "0.5"}, None),
        ({"cost": -1}, None),
        ({"cost": True}, None),
        ({"cost": 0.95, "is_byok": True}, None),
    ],
)
@pytest.mark.parametrize("model", ["openrouter/auto", "groq/x/y"])
async def test_what_openrouter_says_it_charged_is_the_cost(
    model: str, reported: dict[str, Any], dollars: float | None, model_server: ModelServer
):
    """Of nobody else: what others call so may be in another unit."""
    usage = {"prompt_tokens": 100, "completion_tokens": 7, **reported}
    events = [{"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}, {"choices": [], "usage": usage}]
    raw = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    model_server.script = [Body(raw.encode(), "text/event-stream")]
    provider = open_provider(model, ProviderOptions(model_server.openai, "k"))
    seen = [chunk async for chunk in provider.stream(Request("", [{"role": "user", "content": "go"}]))]
    await provider.close()
    last = [chunk for chunk in seen if isinstance(chunk, UsageChunk)][-1]
    assert (last.usage.total_input, last.usage.output) == (100, 7)
    assert facts_of(model, local=False).cost(last.usage) == (dollars if "openrouter" in model else None)
