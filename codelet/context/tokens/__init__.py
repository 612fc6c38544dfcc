"""The estimate: our own token count, cheap enough for every step.

A message is measured once, when it is new, so that a step costs no more in a long list.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from codelet.messages import ForeignMessage, images_of, text_of

Estimate = Callable[[ForeignMessage], int]
"""Measures one message in tokens."""

CHARACTERS_PER_TOKEN = 4
_TOKENS_PER_MESSAGE = 4
_LARGEST_PICTURE = 1_600
# `json.dumps` with options makes an encoder again each time.
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


def characters(message: ForeignMessage) -> int:
    """Return the characters of a message: text, calls as JSON, and call id; an image counts as text of its tokens."""
    content = message.get("content")
    size = len(content) if isinstance(content, str) else len(text_of(message))
    calls = message.get("tool_calls")
    if calls:
        size += len(_ENCODER.encode(calls))
    call_id = message.get("tool_call_id")
    if "images" in message:
        size += CHARACTERS_PER_TOKEN * picture_tokens(message)
    return size + len(call_id) if isinstance(call_id, str) else size


def picture_tokens(message: ForeignMessage) -> int:
    """Return the approximate tokens of a message's images: one for 750 pixels, as Anthropic counts.

    Most vendors shrink a large image before they count it.
    """
    return sum(min(_LARGEST_PICTURE, -(-each["width"] * each["height"] // 750)) for each in images_of(message))


def estimate_text(text: str) -> int:
    """Return the approximate tokens of a text: a quarter of its characters, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def estimate_message(message: ForeignMessage) -> int:
    """Return the approximate tokens of a message of any shape: a quarter of its characters, rounded up, and four."""
    return -(-characters(message) // CHARACTERS_PER_TOKEN) + _TOKENS_PER_MESSAGE
