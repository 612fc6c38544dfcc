"""What OpenRouter refuses or ignores of cache marks. Source: OpenRouter, "Prompt Caching"; hermes-agent#58129."""

from __future__ import annotations

from typing import Any

Body = dict[str, Any]
MOST = 4


def parts(body: Body) -> list[tuple[Body, Body]]:
    """Each part of a content that is a list, with its message."""
    return [
        (message, part)
        for message in body["messages"]
        if isinstance(message.get("content"), list)
        for part in message["content"]
    ]


def cache_marks(body: Body) -> str | None:
    """Marks stand on texts, at most four, and one of them behind the system prompt."""
    marked = [(message, part) for message, part in parts(body) if "cache_control" in part]
    if any("cache_control" in message for message in body["messages"]):
        return "cache_control: Extra inputs are not permitted"
    if len(marked) > MOST:
        return f"A maximum of {MOST} blocks with cache_control may be provided. Found {len(marked)}."
    if any(part["type"] != "text" or not part["text"] for _, part in marked):
        return "messages.0.content.0: cache_control cannot be set for empty text blocks"
    if len(marked) < 2 or marked[0][0]["role"] != "system":
        return "nothing of this request would be cached"
    return None


def details_of_calls(body: Body) -> str | None:
    """A gateway stricter than the documentation: each message with calls needs its details."""
    for at, message in enumerate(body["messages"]):
        if message.get("tool_calls") and not message.get("reasoning_details"):
            return f"messages.{at}: reasoning_details missing"
    return None
