"""Models that are newer than litellm's map: the vendor's own figures, else those of the newest one of their family."""

from __future__ import annotations

import json

import pytest

from codelet.messages import user
from codelet.providers import open_provider
from codelet.providers.choice.known import doubts
from codelet.providers.effort import taken_words
from codelet.providers.facts import DEFAULT_WINDOW, model_facts, whole_map
from codelet.providers.native import NativeProvider
from codelet.providers.protocol import Request
from tests.providers.chunks import options

MAP = whole_map()
NEWER = {
    # dollars per million: input, output, read from the cache
    "openai/gpt-6.2-sol": (2, 10, 0.1),
    "anthropic/claude-fable-5-2": (8, 40, 0.2),
    "moonshot/kimi-k3.1-pro": (2, 10, 0.2),
    "gemini/gemini-4-hydrogen": (1.5, 7.5, 0.075),
}


@pytest.mark.parametrize("model", NEWER)
def test_a_vendors_own_figures_hold_for_what_the_map_does_not_have_yet(model: str):
    facts = model_facts(model)
    assert facts.known
    assert facts.window >= 900_000
    assert facts.prices is not None
    told = (facts.prices.input, facts.prices.output, facts.prices.cache_read)
    assert [price and price * 1_000_000 for price in told] == [pytest.approx(price) for price in NEWER[model]]
    assert facts.tools
    assert doubts(model, local=False) is None


@pytest.mark.parametrize(
    ("model", "like"),
    [
        ("openai/gpt-6.3-sol", "gpt-6.1-sol"),
        ("gpt-6.3-sol", "gpt-6.1-sol"),
        ("openai/gpt-9-nova", "gpt-6.1-sol"),
        ("anthropic/claude-opus-6", "claude-opus-5-5"),
        ("anthropic/claude-sonnet-5-7", "claude-sonnet-5-5"),
        ("moonshot/kimi-k4", "kimi-k3"),
        ("gemini/gemini-4.1-argon", "gemini-4-argon"),
        ("zai/glm-5.4", "glm-5.3"),
        ("xai/grok-4.9", "grok-4.7"),
        ("deepseek/deepseek-v5-pro", "deepseek-v4-pro"),
        ("dashscope/qwen3.9-max", "qwen3.8-max"),
        ("openrouter/anthropic/claude-opus-6", "claude-opus-5-5"),
        ("openrouter/x-ai/grok-4.9", "grok-4.7"),
    ],
)
def test_an_unknown_model_is_like_the_newest_of_its_family(model: str, like: str):
    facts = model_facts(model)
    entry = MAP.get(like) or MAP[f"{model.split('/')[0]}/{like}" if "openrouter" not in model else f"xai/{like}"]
    assert (facts.like, facts.known, facts.prices) == (like, False, None), "no price is made up"
    assert facts.window == entry["max_input_tokens"] > 2 * DEFAULT_WINDOW
    told = doubts(model, local=False) or ""
    assert like in told and f"{facts.window:,}" in told


@pytest.mark.parametrize(
    "model",
    ["openai/scripted", "openai/gpt-unheard-of", "anthropic/claude-poem-6", "ollama/qwen3.9", "foo/bar-2", "gpt-120b"],
)
def test_without_a_family_the_window_is_a_guess(model: str):
    facts = model_facts(model)
    assert (facts.window, facts.like, facts.known) == (DEFAULT_WINDOW, "", False)


@pytest.mark.parametrize(("model", "window"), [("deepseek/deepseek-r1.5", 65_536), ("deepseek/deepseek-r2", 128_000)])
def test_a_small_window_holds_for_the_same_main_version_only(model: str, window: int):
    assert MAP["deepseek/deepseek-r1"]["max_input_tokens"] == 65_536
    assert model_facts(model).window == window


def test_a_model_is_not_like_one_that_is_newer():
    assert model_facts("openai/gpt-4.2").like.startswith("gpt-4")
    assert model_facts("openai/gpt-5.9-sol").like.startswith("gpt-5")


def test_abilities_come_along_over_the_wire():
    """Cache marks for a newer GPT, and an effort that its family takes."""
    provider = open_provider("openai/responses/gpt-6.3-sol", options("http://127.0.0.1:1/v1", effort="none"))
    assert isinstance(provider, NativeProvider)
    body = json.loads(provider.body(Request("Be brief.", [user("look")])))
    assert body["prompt_cache_options"] == {"mode": "explicit"}
    assert body["reasoning"]["effort"] == "low", "it always thinks"
    assert "none" not in (taken_words("anthropic/claude-fable-6") or ("none",))
