"""The conversation as HTML: what was said, what was called, what changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from codelet.export.markup import Markup, join, tag
from codelet.messages import Message, ToolCall
from codelet.reminders.zones import kind_of
from codelet.text import one_line
from codelet.tools.diff import unified

_LONGEST = 60_000
_FENCE = re.compile(r"^[ ]{0,3}(```+|~~~+)[^\n]*$", re.MULTILINE)
_INLINE = re.compile(r"(`+)([^`\n]+)\1")
_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@", re.MULTILINE)
_SUMMARIES = ("<compacted ", "[Memory Summary]")


def conversation(messages: Sequence[Message]) -> Markup:
    """All messages in order; a tool's result stands with its call."""
    results: dict[str, str] = {}
    shown: list[Markup] = []
    for message in reversed(messages):  # ids may come twice: a call's result is the nearest one after it
        if message["role"] == "tool":
            results[message["tool_call_id"]] = message["content"] or ""
        else:
            shown.append(_message(message, results))
    return join(*reversed(shown))


def _message(message: Message, results: dict[str, str]) -> Markup:
    content = message["content"] or ""
    if message["role"] == "assistant":
        return _assistant(message, content, results)
    kind = kind_of(message)
    if kind is not None:
        return folded(f"reminder {kind}", "", _pre(content))
    if message["role"] == "system" or content.startswith(_SUMMARIES):
        return folded("summary" if content.startswith(_SUMMARIES) else "system", "", _pre(content))
    return tag("article", tag("h3", "You"), tag("div", _cut(content), class_="said"), class_="user")


def _assistant(message: Message, content: str, results: dict[str, str]) -> Markup:
    parts: list[Markup] = []
    if reasoning := message.get("reasoning_content") or message.get("reasoning"):
        parts.append(folded("reasoning", "", _pre(reasoning)))
    if content:
        parts.append(tag("div", *_prose(_cut(content))))
    parts += [_call(call, results.pop(call["id"], "")) for call in message.get("tool_calls", ())]
    return tag("article", tag("h3", "Model"), *parts, class_="model")


def _prose(content: str) -> Iterator[Markup]:
    """Text with its fenced blocks of code set apart."""
    start = 0
    while (opened := _FENCE.search(content, start)) is not None:
        fence = opened[1]
        closing = re.compile(rf"^[ ]{{0,3}}{re.escape(fence)}+[ \t]*$", re.MULTILINE).search(content, opened.end())
        end = closing.start() if closing else len(content)
        yield _said(content[start : opened.start()])
        yield tag("pre", tag("code", content[opened.end() + 1 : end]))
        start = closing.end() if closing else len(content)
    yield _said(content[start:])


def _said(words: str) -> Markup:
    words = words.strip("\n")
    if not words.strip():
        return Markup()
    pieces: list[str] = []
    start = 0
    for found in _INLINE.finditer(words):
        pieces += [words[start : found.start()], tag("code", found[2])]
        start = found.end()
    return tag("div", *pieces, words[start:], class_="said")


def _call(call: ToolCall, result: str) -> Markup:
    name = call["function"]["name"]
    arguments = _parsed(call["function"]["arguments"])
    subject = next((str(arguments[key]) for key in ("command", "path", "pattern") if key in arguments), "")
    changes = list(_changes(name, arguments))
    body: list[Markup] = [tag("div", _diff(change, body=True)) for change in changes]
    if not changes:
        told = call["function"]["arguments"] if not arguments else "\n".join(_listed(arguments))
        body.append(_pre(told))
    state = Markup()
    if result:
        body.append(_diff(result) if _HUNK.search(result[:4000]) else _pre(result))
        failed = re.match(r"(?i)error|\[?exit (?:code|status):? [1-9]", result) is not None
        state = tag("span", "failed" if failed else "", class_="state failed") if failed else Markup()
    summary = join(tag("b", one_line(name, 60)), tag("code", one_line(subject, 160)) if subject else "", state)
    return tag("details", tag("summary", summary), *body, open="" if changes else None)


def _changes(name: str, arguments: dict[str, Any]) -> Iterator[str]:
    """The differences that a call of `edit` or `write` asked for."""
    path = str(arguments.get("path", ""))
    edits = arguments.get("edits")
    if name == "edit" and isinstance(edits, list):
        for edit in edits:
            if isinstance(edit, dict) and isinstance(edit.get("old"), str) and isinstance(edit.get("new"), str):
                yield _body(unified(f"{edit['old']}\n", f"{edit['new']}\n", path))
    elif name == "write" and isinstance(arguments.get("content"), str):
        yield _body(unified("", arguments["content"], path))


def _body(difference: str) -> str:
    """A difference without its headers: the call names the path, and where an edit stands is not known."""
    return difference.split("\n", 3)[-1]


def _diff(text: str, *, body: bool = False) -> Markup:
    """A unified diff, a line an element; `body` says that it has no headers."""
    kinds = {"+": "add", "-": "del", "@": "at"}
    lines = _cut(text).rstrip("\n").split("\n")
    shown: list[Markup] = []
    for line in lines:
        body = body or line.startswith("@@")
        shown.append(tag("span", line, class_=kinds.get(line[:1]) if body else "at"))
    return tag("pre", *shown, class_="diff")


def folded(name: str, note: str, *body: Markup) -> Markup:
    """A part that opens with a click; `note` stands beside its name."""
    return tag("details", tag("summary", tag("b", name), note), *body)


def _pre(content: str) -> Markup:
    return tag("pre", _cut(content))


def _cut(content: str) -> str:
    if len(content) <= _LONGEST:
        return content
    half = _LONGEST // 2
    return f"{content[:half]}\n[… {len(content) - _LONGEST:,} characters left out …]\n{content[-half:]}"


def _parsed(arguments: str) -> dict[str, Any]:
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _listed(arguments: dict[str, Any]) -> Iterator[str]:
    for key, value in arguments.items():
        yield f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
