"""The estimate: our own token count, cheap enough for every step."""

from __future__ import annotations

from codelet.messages import Message

_CHARACTERS_PER_TOKEN = 4
_TOKENS_PER_MESSAGE = 4


def estimate_text(text: str) -> int:
    """About how many tokens a text has: a quarter of its characters, rounded up."""
    return -(-len(text) // _CHARACTERS_PER_TOKEN)


def estimate_message(message: Message) -> int:
    """About how many tokens a message has, its tool calls included."""
    characters = len(message["content"] or "")
    for call in message.get("tool_calls", ()):
        characters += len(call["function"]["name"]) + len(call["function"]["arguments"])
    return -(-characters // _CHARACTERS_PER_TOKEN) + _TOKENS_PER_MESSAGE
