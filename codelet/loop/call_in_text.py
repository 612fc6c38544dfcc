"""A tool call that a model wrote as text, which runs nothing: some models do, and some servers do not parse calls.

The forms are those of the chat templates of Qwen, Hermes, GLM, Llama, MiniMax, DeepSeek, Kimi, Mistral and gpt-oss.
"""

from __future__ import annotations

import json
import re

_NAME = r"(?P<name>[\w.:-]{1,80})"
_LINE = r"^[^\S\n]*"
_FORMS = (
    (_LINE + rf'<tool_call>\s*\{{\s*"name"\s*:\s*"{_NAME}"', r"</tool_call>"),
    (_LINE + rf"<tool_call>\s*{_NAME}\s*(?:\n|<arg_key>)", r"</tool_call>"),
    (_LINE + rf"<(?:\w+:)?invoke\s+name=\"{_NAME}\"\s*>", r"</(?:\w+:)?invoke>"),
    (_LINE + rf"(?:<tool_call>\s*)?<function={_NAME}>", r"</function>"),
    (rf"<\uff5cDSML\uff5cinvoke\s+name=\"{_NAME}\"\s*>", r"</\uff5cDSML\uff5cinvoke>"),
    (
        rf"<\uff5ctool\u2581call\u2581begin\uff5c>(?:function<\uff5ctool\u2581sep\uff5c>)?\s*{_NAME}",
        r"<\uff5ctool\u2581call\u2581end\uff5c>",
    ),
    (rf"<\|tool_call_begin\|>\s*{_NAME}", r"<\|tool_call_end\|>"),
    (rf"\bto={_NAME}[^\n]*?<\|message\|>", r"<\|call\|>"),
    (rf"\[TOOL_CALLS\]\s*{_NAME}\[ARGS\]", r"(?!)"),
)
"""The marks around a call; the first is at the start of a line unless it has a special token."""

_AFTER = re.compile(r"(?:\s|</[\w:\uff5c\u2581-]{1,40}>|<[|\uff5c][^<>\n]{1,40}[|\uff5c]>|```|~~~)*\Z")
"""Text that may follow a call at the end of an answer: closing tags, special tokens, the end of a code block."""

_JSON_CALL = re.compile(
    r'^[^\S\n]*(?:[^\s{}]{0,40}[>\]])?\s{0,20}(?=(?:\[\s{0,20})?\{\s{0,20}"(?:name|tool|type|function|tool_calls)")',
    re.MULTILINE,
)
_ARGUMENTS = ("arguments", "parameters", "args", "input")


def called_in_text(text: str) -> str | None:
    """Return the name in a call that an answer ends with, None if it ends otherwise.

    The text between an earlier call and the end counts: an answer that continues after it explains, or is done.
    """
    for opening, closing in _FORMS:
        last: re.Match[str] | None = None
        for found in re.finditer(opening, text, re.MULTILINE):
            last = found
        if last is None:
            continue
        end = re.compile(closing).search(text, last.end())
        if end is not None and _AFTER.match(text, end.end()):
            return last["name"]
        place = text.find("{", last.start())
        if end is None and place >= 0 and _value_at_end(text, place) is not None:  # its closing tag is missing
            return last["name"]
    for found in _JSON_CALL.finditer(text):
        value = _value_at_end(text, found.end())
        if value is not None:
            return _named(value)
    return None


def _value_at_end(text: str, start: int) -> object:
    """Return the JSON value between that position and the end, or None."""
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value if _AFTER.match(text, end) else None


def _named(value: object) -> str | None:
    """The tool that a value calls, if it has the form of a call or of a list of calls."""
    if isinstance(value, list):
        return _named(value[-1]) if value else None
    if not isinstance(value, dict):
        return None
    for inside in ("tool_calls", "function"):
        if isinstance(value.get(inside), list | dict):
            return _named(value[inside])
    name = value.get("name") or value.get("tool")
    return name if isinstance(name, str) and any(key in value for key in _ARGUMENTS) else None
