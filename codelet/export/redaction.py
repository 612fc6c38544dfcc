"""Masks the secrets in every text of a value, without changing its structure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from codelet.record import Record

Cover = Callable[[str], str]
"""Returns a text without its secrets."""


def _everything(_: bytes) -> bool:
    return True


class Mask(Record):
    """The masking of secrets: `suspects` is a quick test on encoded messages."""

    cover: Cover
    suspects: Callable[[bytes], bool] = staticmethod(_everything)


_OPAQUE = frozenset({"id", "tool_call_id", "signature", "data", "encrypted_content", "thought_signature"})
_SIGNED = ("thinking_blocks", "blocks", "reasoning_details", "extra")
PIECE_LENGTH = 16 * 1024
"""Characters that are masked in one go, a few milliseconds' work during which no other thread runs."""

_OPEN_HEADER = re.compile(r"(?i:authorization\s*(?::\s*(?:\w+\s*)?)?)\Z")
"""A header that names its scheme only after a space, or its value: a cut there would hide what it is."""
_HEADER_LENGTH = 200

_KEY_BEGINS, _KEY_ENDS = "-----BEGIN ", "-----END "


def redacted(value: object, cover: Cover) -> object:
    """Return `value` with every text in it masked; the same object if nothing was found.

    A text that is itself the JSON of an object (a call's arguments) stays JSON: if masking the whole would break it,
    its own texts are masked one by one. Ids and signatures stay unchanged; reasoning that its provider signed is
    removed if masking changes it, since the provider would refuse it.
    """
    if type(value) is str:
        return _masked_text(value, cover)
    if isinstance(value, dict):
        items = {key: item if key in _OPAQUE else redacted(item, cover) for key, item in value.items()}
        changed = [key for key, item in value.items() if items[key] is not item]
        for key in _SIGNED:
            if key in changed:
                del items[key]
        named = {cover(key): item for key, item in items.items()}  # a tool that no one has may be named like a secret
        return named if changed or named.keys() != items.keys() else value
    if isinstance(value, list | tuple):
        entries = [redacted(item, cover) for item in value]
        return value if all(new is old for new, old in zip(entries, value, strict=True)) else entries
    return value


def _masked_text(text: str, cover: Cover) -> str:
    covered = "".join(map(cover, _pieces(text)))
    if covered == text:
        return text
    if text.startswith("{") and _parsed(covered) is None and (inside := _parsed(text)) is not None:
        return json.dumps(redacted(inside, cover), ensure_ascii=False)
    return covered


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _pieces(text: str) -> Iterator[str]:
    """Cuts at ends of lines, or at spaces where a line is long; a key's block and a header's line stay whole."""
    start = 0
    while start < len(text):
        cut = _cut(text, start + PIECE_LENGTH)
        begins = text.rfind(_KEY_BEGINS, start, cut)
        if begins >= 0 and text.find(_KEY_ENDS, begins, cut) < 0:
            ends = text.find(_KEY_ENDS, cut)
            cut = len(text) if ends < 0 else _cut(text, ends + len(_KEY_ENDS))
        while cut < len(text) and _OPEN_HEADER.search(text, max(start, cut - _HEADER_LENGTH), cut):
            cut = _cut(text, cut)
        yield text[start:cut]
        start = cut


def _cut(text: str, least: int) -> int:
    """The first place to cut from `least` on."""
    for mark in ("\n", " "):
        found = text.find(mark, least, least + PIECE_LENGTH)
        if found >= 0:
            return found + 1
    found = text.find("\n", least)
    return found + 1 if found >= 0 else len(text)
