"""Mends a list from outside: right after each assistant message stands one result for each of its calls."""

from __future__ import annotations

from collections.abc import Sequence

from codelet.messages import Message, tool_result, unpaired

NO_RESULT = "[no result: the export has none for this call]"


def paired(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The same messages (the same objects where nothing had to change), calls and results paired.

    A result without a call goes, a call without a result gets one that says so, a late result moves up to its
    call, and of several calls or results with one id the first call and the last result count.
    """
    if not _repeated(messages) and not unpaired(messages):
        return tuple(messages)
    mended: list[Message] = []
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            continue
        calls = message.get("tool_calls")
        if not calls:
            mended.append(message)
            continue
        unique = {call["id"]: call for call in reversed(calls)}
        found = _results(messages, index + 1)
        mended.append(message if len(unique) == len(calls) else _with_calls(message, list(reversed(unique))))
        mended.extend(found.get(call_id) or tool_result(call_id, NO_RESULT) for call_id in reversed(unique))
    return tuple(mended)


def _repeated(messages: Sequence[Message]) -> bool:
    return any(len({call["id"] for call in calls}) < len(calls) for m in messages if (calls := m.get("tool_calls")))


def _results(messages: Sequence[Message], start: int) -> dict[str, Message]:
    """The results by call id from `start` up to the next assistant message that calls tools."""
    found: dict[str, Message] = {}
    for index in range(start, len(messages)):
        message = messages[index]
        if message.get("tool_calls"):
            break
        if message["role"] == "tool":
            found[message["tool_call_id"]] = message
    return found


def _with_calls(message: Message, ids: list[str]) -> Message:
    """The message with the first call of each id."""
    first = {call["id"]: call for call in reversed(message["tool_calls"])}
    changed = message.copy()
    changed["tool_calls"] = [first[call_id] for call_id in ids]
    return changed
