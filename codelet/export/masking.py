"""Takes secrets out of every text of a value, and leaves its structure as it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from time import sleep, thread_time
from typing import Any

Mask = Callable[[str], str]

_OPAQUE = frozenset({"id", "tool_call_id", "signature", "data", "encrypted_content"})
_SIGNED = ("thinking_blocks", "reasoning_details")
PIECE = 16 * 1024
"""Characters that are masked in one go, a few milliseconds' work during which no other thread runs."""

BREATH_SECONDS = 0.0005
"""A pause in which the thread that runs the turn goes first."""

BREATH_AFTER_SECONDS = 0.004
"""How long to work without one, in processor time."""

_KEY_BEGINS, _KEY_ENDS = "-----BEGIN ", "-----END "


def masked(value: Any, mask: Mask) -> Any:
    """`value` with every text in it masked; the same object where nothing was found.

    A text that is itself the JSON of an object (a call's arguments) stays JSON: where masking the whole would
    break it, its own texts are masked one by one. Ids and signatures stay as they are; reasoning that its
    provider signed goes where masking changes it, since the provider would refuse it.
    """
    if type(value) is str:
        return _masked_text(value, mask)
    if isinstance(value, dict):
        items = {key: item if key in _OPAQUE else masked(item, mask) for key, item in value.items()}
        changed = [key for key, item in value.items() if items[key] is not item]
        for key in _SIGNED:
            if key in changed:
                del items[key]
        return items if changed else value
    if isinstance(value, list | tuple):
        entries = [masked(item, mask) for item in value]
        return value if all(new is old for new, old in zip(entries, value, strict=True)) else entries
    return value


def _masked_text(text: str, mask: Mask) -> str:
    covered = _piecewise(text, mask)
    if covered == text:
        return text
    if text.startswith("{") and _parsed(covered) is None and (inside := _parsed(text)) is not None:
        return json.dumps(masked(inside, mask), ensure_ascii=False)
    return covered


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _piecewise(text: str, mask: Mask) -> str:
    """A long text masked piece by piece."""
    if len(text) <= 2 * PIECE:
        return mask(text)
    done: list[str] = []
    rested = thread_time()
    for piece in _pieces(text):
        done.append(mask(piece))
        if thread_time() - rested > BREATH_AFTER_SECONDS:
            sleep(BREATH_SECONDS)
            rested = thread_time()
    covered = "".join(done)
    return text if covered == text else covered


def _pieces(text: str) -> Iterator[str]:
    """Cuts at ends of lines, or at blanks where a line is long; a key's block stays whole."""
    start = 0
    while start < len(text):
        cut = _cut(text, start + PIECE)
        begins = text.rfind(_KEY_BEGINS, start, cut)
        if begins >= 0 and text.find(_KEY_ENDS, begins, cut) < 0:
            ends = text.find(_KEY_ENDS, cut)
            cut = len(text) if ends < 0 else _cut(text, ends + len(_KEY_ENDS))
        yield text[start:cut]
        start = cut


def _cut(text: str, least: int) -> int:
    """The first place to cut from `least` on."""
    for mark in ("\n", " "):
        found = text.find(mark, least, least + PIECE)
        if found >= 0:
            return found + 1
    found = text.find("\n", least)
    return found + 1 if found >= 0 else len(text)
