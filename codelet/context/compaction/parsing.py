"""A list of messages put into the shape that every provider takes.

The pairing rule: right after an assistant message stand the results of its calls, one for each, in the order of the
calls. A result without a call goes; a call without a result gets one that says so; a late result moves up to its call;
of several results for one call the last that says something counts. Of each type of reminder the newest stays. Calls
in flight (those of the last assistant message, if nothing but results follows it) are left open on request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from codelet.context.compaction.segments import last_turn
from codelet.messages import AnyMessage, calls_of, kind_of, reminder_type, text_of, with_kinds

NO_RESULT = "[interrupted: no result]"
_SPEAKERS = frozenset({"system", "user", "assistant", "developer"})


class Normalised(NamedTuple):
    """The list in order, and where each message came from (-1: added here)."""

    messages: list[dict[str, Any]]
    origin: list[int]


def normalise(messages: Sequence[AnyMessage], *, in_flight: bool = False) -> Normalised:
    """Return the same messages (the same objects if nothing had to change) in a list that obeys the pairing rule.

    The kinds of messages from outside are worked out here. `in_flight` leaves the last assistant message's unanswered
    calls open. Entries that are not messages go, and results without a call.
    """
    listed = [(at, message) for at, message in enumerate(with_kinds(messages)) if isinstance(message, dict)]
    owner: dict[str, int] = {}  # the first message that makes a call
    results: dict[str, tuple[int, dict[str, Any]]] = {}  # the last one after its call, if possible with text
    newest: dict[str, int] = {}
    last_calls = -1
    for at, message in listed:
        for call in calls_of(message):
            owner.setdefault(call["id"], at)
            last_calls = at
        if (kind := reminder_type(message)) is not None:
            newest[kind] = at
        key = message.get("tool_call_id") if message.get("role") == "tool" else None
        if isinstance(key, str) and owner.get(key, at) < at and (key not in results or message.get("content")):
            results[key] = at, message
    out = Normalised([], [])
    for at, message in listed:
        kind = reminder_type(message)
        if message.get("role") not in _SPEAKERS or (kind is not None and newest[kind] != at):
            continue
        own: dict[str, dict[str, Any]] = {}
        for call in calls_of(message):
            if owner[call["id"]] == at:
                own.setdefault(call["id"], call)
        found = [(at, _with_calls(message, list(own.values())))]
        for key in own:
            missing = (-1, {"role": "tool", "tool_call_id": key, "content": NO_RESULT})
            if key in results or not (in_flight and at == last_calls):
                found.append(results.get(key, missing))
        for origin, each in found:
            out.messages.append(each)
            out.origin.append(origin)
    return out


def _with_calls(message: dict[str, Any], calls: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the message with these of its calls."""
    if "tool_calls" not in message or calls == message["tool_calls"]:
        return message
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "tool_calls": calls} if calls else {**rest, "content": message.get("content") or ""}


def turns_of(messages: Sequence[AnyMessage]) -> list[int]:
    """The turn of each message. Turns count from 1 and go on after the turns that segments stand for."""
    found: list[int] = []
    turn = 0
    for message in messages:
        kind = kind_of(message)
        if kind == "segment":
            turn = max(turn, last_turn(text_of(message)))
        elif kind == "prompt":
            turn += 1
        found.append(turn)
    return found
