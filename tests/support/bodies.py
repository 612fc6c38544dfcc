"""Looks into recorded request bodies as bytes: what a provider's prompt cache sees."""

from __future__ import annotations

import json
import re
from typing import Any

from codelet.context import reminders
from codelet.conversation import Zones
from tests.support.server import Recorded

_VOLATILE = {
    one.name for one in vars(reminders).values() if getattr(one, "zone", "") == "tail" and hasattr(one, "name")
}
_TYPES = "|".join(sorted(_VOLATILE | set(Zones().tail)))
_TAIL = re.compile(rf"<system-reminder>\\n<!-- type:(?:{_TYPES}) -->".encode())
_MARK = re.compile(
    rb',\s*"cache_control":\s*\{[^{}]*\}|"cache_control":\s*\{[^{}]*\},\s*|,"prompt_cache_breakpoint":\{[^{}]*\}'
)
_REMINDER = re.compile(r"(?s)(<system-reminder>\n<!-- type:\w+ -->\n.*?\n</system-reminder>)")
_JOINT = b"\\n\\n"
_OPENINGS = (b'{"role":"user","content":[', b'{"role": "user", "content": [')


def without_marks(raw: bytes) -> bytes:
    """The body without the provider's cache marks."""
    return _MARK.sub(b"", raw)


def stable_prefix(recorded: Recorded) -> bytes:
    """The body up to the volatile reminders at its end, or all messages where there are none."""
    raw = without_marks(recorded.body)
    found = [match.start() for match in _TAIL.finditer(raw)]
    if found:
        if raw[: found[0]].endswith(_JOINT):  # joined to the message before
            return raw[: found[0]].removesuffix(_JOINT)
        start = raw.rfind(b"{", 0, found[0])
        prefix = raw[:start].rstrip(b", ")
        for opening in _OPENINGS:  # a message opened for the reminders alone
            prefix = prefix.removesuffix(opening)
        return prefix.rstrip(b", ")
    start, end = _span(raw, "input" if recorded.wire == "responses" else "messages")
    return raw[: start + len(raw[start:end].rstrip(b"] \n"))]


def messages_of(recorded: Recorded) -> list[dict[str, Any]]:
    """The messages of a Chat Completions body, with the reminders that were joined to others taken apart again."""
    apart: list[dict[str, Any]] = []
    for message in recorded.json["messages"]:
        if message["role"] not in ("user", "tool"):
            apart.append(message)
            continue
        texts = _REMINDER.split(message["content"])
        for number, text in enumerate(texts):
            if number % 2:
                apart.append({"role": "user", "content": text})
                continue
            own = text[2 * (number > 0) :] if number == len(texts) - 1 else text[2 * (number > 0) : -2]
            if own or len(texts) == 1:
                apart.append({**message, "content": own})
    return apart


def field(recorded: Recorded, name: str) -> bytes:
    """The bytes of a field at the top of the body, cache marks left out; empty where it is missing."""
    raw = without_marks(recorded.body)
    start, end = _span(raw, name)
    return raw[start:end]


def system_bytes(recorded: Recorded) -> bytes:
    """The bytes of the system prompt, wherever the protocol puts it."""
    if recorded.wire != "chat" and (told := field(recorded, "system" if recorded.anthropic else "instructions")):
        return told
    messages = field(recorded, "messages" if recorded.wire == "chat" else "input").decode()
    start = messages.index("{")
    _, end = json.JSONDecoder().raw_decode(messages, start)
    return messages[start:end].encode()


def _span(raw: bytes, name: str) -> tuple[int, int]:
    """Where the value of a top-level field stands, in bytes; (0, 0) where it is missing."""
    text = raw.decode()
    decoder = json.JSONDecoder()
    place = 1
    while True:
        while text[place] in " ,\n":
            place += 1
        if text[place] == "}":
            return 0, 0
        key, place = decoder.raw_decode(text, place)
        place = text.index(":", place) + 1
        while text[place] in " \n":
            place += 1
        _, end = decoder.raw_decode(text, place)
        if key == name:
            return len(text[:place].encode()), len(text[:end].encode())
        place = end
