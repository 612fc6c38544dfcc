"""Reduce tool results: head and tail, the error lines between them, and a marker that says what is missing.

Used on entry (tier 0: a result over its cap), on old results (tier 1) and on the newest ones where nothing else helps
(tier 3). Calls and ids always stay.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from codelet.compaction.calls import Deed, read_call
from codelet.compaction.content import AnyMessage, Estimate, call_arguments, calls_of
from codelet.compaction.signals import is_error_line
from codelet.tokens.estimate import text_of

ENTRY_CAP = 64_000
_ERROR_LINES = 12
_ERROR_LENGTH = 300
_SEARCHED = 500_000
_REST = 250
_LONG_ARGUMENTS = 600


def cut(text: str, cap: int, recall_id: str = "") -> str:
    """A text of at most `cap` characters: 60 % head, 40 % tail, error lines and a marker between; whole if it fits.

    The marker counts the lines left out; `recall_id` names what to ask the archive for.
    """
    if len(text) <= cap:
        return text
    hint = f"; recall id={recall_id}" if recall_id else ""
    marker = f"\n[… {text.count(chr(10)) + 1} lines, {len(text)} characters{hint} …]\n"
    room = cap - len(marker) - 12
    if room < 40:
        return text[: max(0, cap)]
    head, tail = text[: room * 6 // 10], text[len(text) - room * 4 // 10 :]
    middle = text[len(head) : len(text) - len(tail)]
    errors = _error_lines(middle, room // 3)
    if errors:
        room -= sum(len(line) + 1 for line in errors)
        head, tail = text[: room * 6 // 10], text[len(text) - room * 4 // 10 :]
    head = head[: head.rfind("\n")] if "\n" in head[len(head) // 2 :] else head
    tail = tail[tail.find("\n") + 1 :] if "\n" in tail[: len(tail) // 2] else tail
    left_out = text.count("\n") + 1 - head.count("\n") - tail.count("\n") - len(errors)
    marker = f"\n[… {max(0, left_out)} lines left out of {len(text)} characters{hint} …]\n"
    return head + marker + "".join(f"{line}\n" for line in errors) + tail


def _error_lines(text: str, room: int) -> list[str]:
    """The first error lines of a text, within `room` characters. A huge text is searched at both its ends."""
    found: list[str] = []
    if len(text) > 2 * _SEARCHED:
        text = text[:_SEARCHED] + "\n" + text[len(text) - _SEARCHED :]
    # One search of the whole text is far cheaper than one of each line, and most texts report no error.
    lines = text.split("\n") if is_error_line(text) else []
    for line in lines:
        if len(line) <= _ERROR_LENGTH and is_error_line(line) and line not in found:
            room -= len(line) + 1
            if room < 0 or len(found) == _ERROR_LINES:
                break
            found.append(line)
    return found


def on_entry(text: str, cap: int = ENTRY_CAP, recall_id: str = "") -> str:
    """Tier 0: what enters the list of a tool result of any size; at most `cap` characters."""
    return cut(text, cap, recall_id)


def shortened(message: AnyMessage, tokens: int, measure: Estimate) -> dict[str, Any]:
    """The message with its text cut so that it measures at most `tokens`, or as near above as its frame allows."""
    text = text_of(message)
    size = measure(message)
    cap = max(0, len(text) * tokens // max(1, size))
    while True:
        candidate = {**message, "content": cut(text, cap)}
        over = measure(candidate) - tokens
        if over <= 0 or cap == 0:
            return candidate
        cap = max(0, cap - max(8, cap * over // max(1, tokens), cap // 16))


@dataclass(frozen=True)
class Reduced:
    """A list with old results reduced: the same messages but for those at `changed`; `saved` in tokens."""

    messages: list[dict[str, Any]]
    changed: tuple[int, ...]
    saved: int


def old_results(
    messages: Sequence[dict[str, Any]], measure: Estimate, *, keep_last: int = 10, least: int, enough: int | None = None
) -> Reduced:
    """Tier 1: reduce results outside the last `keep_last`, oldest first, until `enough` tokens are saved.

    Nothing happens unless the batch saves at least `least`: each edit of an old message costs the provider's cache.
    A read of a file that was read or written again later becomes one line; arguments of old writes become path and
    sizes.
    """
    results = [i for i, message in enumerate(messages) if message.get("role") == "tool"]
    old = results[: max(0, len(results) - keep_last)]
    border = old[-1] + 1 if old else 0
    deeds = _deeds(messages)
    last_touch: dict[str, int] = {}
    for index, deed in deeds.items():
        if deed.subject and deed.kind in ("read", "write"):
            last_touch[deed.subject] = index
    new = list(messages)
    saved = 0
    changed: list[int] = []
    for index in range(border):
        if enough is not None and saved >= enough:
            break
        candidate = _reduced_message(messages[index], index, deeds, last_touch)
        gain = measure(messages[index]) - measure(candidate) if candidate is not None else 0
        if candidate is not None and gain > 0:
            new[index] = candidate
            saved += gain
            changed.append(index)
    if saved < least:
        return Reduced(list(messages), (), 0)
    return Reduced(new, tuple(changed), saved)


def _deeds(messages: Sequence[dict[str, Any]]) -> dict[int, Deed]:
    """For each result's index the call that it answers."""
    found: dict[int, Deed] = {}
    made: dict[str, Deed] = {}
    for index, message in enumerate(messages):
        for call in calls_of(message):
            deed = read_call(call)
            made[deed.call_id] = deed
        if message.get("role") == "tool":
            answered = made.get(str(message.get("tool_call_id")))
            if answered is not None:
                found[index] = answered
    return found


def _reduced_message(
    message: dict[str, Any], index: int, deeds: dict[int, Deed], last_touch: dict[str, int]
) -> dict[str, Any] | None:
    if message.get("role") == "tool":
        text = text_of(message)
        deed = deeds.get(index)
        if deed is not None and deed.kind == "read" and last_touch.get(deed.subject, index) > index:
            note = f"[file {deed.subject}, {text.count(chr(10)) + 1} lines; read or changed again later]"
            return {**message, "content": note} if len(note) < len(text) else None
        return {**message, "content": cut(text, 2 * _REST + 100)} if len(text) > 3 * _REST else None
    calls = calls_of(message)
    if not any(len(call_arguments(call)) > _LONG_ARGUMENTS for call in calls):
        return None
    return {**message, "tool_calls": [_reduced_call(call) for call in calls]}


def _reduced_call(call: dict[str, Any]) -> dict[str, Any]:
    """A write's call with its long arguments as sizes; still a JSON object."""
    deed = read_call(call)
    raw = call_arguments(call)
    if deed.kind != "write" or len(raw) <= _LONG_ARGUMENTS:
        return call
    try:
        parsed = json.loads(raw)
    except (ValueError, RecursionError):
        parsed = {}
    short: dict[str, Any] = {}
    for key, value in parsed.items() if isinstance(parsed, dict) else ():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        short[key] = value if len(text) <= _REST else f"[{len(text)} characters]"
    function = {**call["function"], "arguments": json.dumps(short, ensure_ascii=False)}
    return {**call, "function": function}
