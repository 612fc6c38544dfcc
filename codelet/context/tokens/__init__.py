"""The estimate: our own token count, cheap enough for every step, calibrated by the providers' reports.

A message is measured once, when it is new, so that a step costs no more in a long list.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from codelet.messages import ForeignMessage, images_of, text_of

Estimate = Callable[[ForeignMessage], int]
"""Measures one message in tokens."""

_CHARACTERS_PER_TOKEN = 4
_TOKENS_PER_MESSAGE = 4
_LARGEST_PICTURE = 1_600
# `json.dumps` with options makes an encoder again each time.
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)
LEAST_FACTOR = 700
LARGEST_FACTOR = 2_000
_LEAST_SAMPLE = 200


def characters(message: ForeignMessage) -> int:
    """Return the characters of a message: text, calls as JSON, and call id; an image counts as text of its tokens."""
    content = message.get("content")
    size = len(content) if isinstance(content, str) else len(text_of(message))
    calls = message.get("tool_calls")
    if calls:
        size += len(_ENCODER.encode(calls))
    call_id = message.get("tool_call_id")
    if "images" in message:
        size += _CHARACTERS_PER_TOKEN * picture_tokens(message)
    return size + len(call_id) if isinstance(call_id, str) else size


def picture_tokens(message: ForeignMessage) -> int:
    """Return the approximate tokens of a message's images: one for 750 pixels, as Anthropic counts.

    Most vendors shrink a large image before they count it.
    """
    return sum(min(_LARGEST_PICTURE, -(-each["width"] * each["height"] // 750)) for each in images_of(message))


def estimate_text(text: str) -> int:
    """Return the approximate tokens of a text: a quarter of its characters, rounded up."""
    return -(-len(text) // _CHARACTERS_PER_TOKEN)


def estimate_message(message: ForeignMessage) -> int:
    """Return the approximate tokens of a message of any shape: a quarter of its characters, rounded up, and four."""
    return -(-characters(message) // _CHARACTERS_PER_TOKEN) + _TOKENS_PER_MESSAGE


class Estimator:
    """The estimate times a factor that follows the provider's own counts, within 0.7 and 2.0.

    One per provider: tokenisers differ. The factor is in per mille, so that equal histories give equal numbers.
    """

    def __init__(self, factor: int = 1_000) -> None:
        self.factor = min(LARGEST_FACTOR, max(LEAST_FACTOR, factor))

    def message(self, message: ForeignMessage) -> int:
        """Return the calibrated tokens of one message."""
        return self.scaled(estimate_message(message))

    def scaled(self, tokens: int) -> int:
        """Calibrate a plain estimate, rounded up."""
        return -(-tokens * self.factor // 1_000)

    def characters(self, tokens: int) -> int:
        """Return the approximate characters of `tokens`, rounded down."""
        return tokens * _CHARACTERS_PER_TOKEN * 1_000 // self.factor

    def calibrate(self, estimated: int, reported: int) -> None:
        """Move the factor a quarter of the way to `reported / estimated`. Samples below 200 tokens are ignored."""
        if estimated < _LEAST_SAMPLE or reported <= 0:
            return
        seen = min(LARGEST_FACTOR, max(LEAST_FACTOR, 1_000 * reported // estimated))
        self.factor = (3 * self.factor + seen + 2) // 4
