"""Reasoning on screen: from APIs that hide it by default, and from parts of the text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codelet.messages import user
from codelet.providers import open_provider
from codelet.providers.native import NativeProvider
from codelet.providers.protocol import Effort, Request
from tests.providers.chunks import collect, joined, options, request
from tests.support.script import Body
from tests.support.server import ModelServer

ANTHROPIC = "https://api.anthropic.com"
SHOWN = {"type": "adaptive", "display": "summarized"}


def asked(model: str, base: str, effort: Effort | None = None) -> dict[str, Any]:
    provider = open_provider(model, options(base, effort=effort))
    assert isinstance(provider, NativeProvider)
    body: dict[str, Any] = json.loads(provider.body(Request("Be brief.", [user("look")])))
    return body


@pytest.mark.parametrize(
    ("model", "effort", "thinking"),
    [
        ("anthropic/claude-sonnet-5-5", None, SHOWN),
        ("anthropic/claude-fable-5-2", None, SHOWN),
        ("anthropic/claude-opus-6", None, SHOWN),
        ("anthropic/claude-sonnet-5-5", "max", SHOWN),
        ("anthropic/claude-opus-5", "none", {"type": "disabled"}),
        ("anthropic/claude-opus-4-8", None, None),  # it thinks only on request
        ("anthropic/claude-opus-4-8", "high", SHOWN),
        ("anthropic/claude-opus-4-6", "high", {"type": "adaptive"}),  # it shows its thinking anyway
        ("anthropic/claude-sonnet-4-5", None, None),
    ],
)
def test_the_text_of_thinking_is_asked_for(model: str, effort: Effort | None, thinking: dict[str, Any] | None):
    assert asked(model, ANTHROPIC, effort).get("thinking") == thinking


@pytest.mark.parametrize("base", ["https://gateway.example.org", "http://127.0.0.1:1"])
def test_other_servers_may_not_know_these_fields(base: str):
    body = asked("anthropic/claude-sonnet-5-5", base)
    assert "thinking" not in body
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}


def test_rules_and_tools_are_kept_for_an_hour():
    body = asked("anthropic/claude-sonnet-5-5", ANTHROPIC)
    assert body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}, "the shorter one comes last"


async def test_thinking_among_the_parts_of_a_text_is_reasoning(model_server: ModelServer):
    """As Mistral's models send it."""
    deltas: list[Any] = [
        {"role": "assistant", "content": ""},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Let me "}]}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "see."}]}]},
        {"content": [{"type": "text", "text": "Line "}]},
        {"content": "2."},
    ]
    events = [{"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    raw = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    model_server.script = [Body(raw.encode(), "text/event-stream")]
    provider = open_provider("mistral/mistral-medium-3-5", options(model_server.openai))
    seen = joined(await collect(provider, request(user("look"))))
    await provider.close()
    assert (seen["reasoning"], seen["text"]) == ("Let me see.", "Line 2.")
