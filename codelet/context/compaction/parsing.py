"""A list of messages put into the shape that every provider takes.

The pairing rule: right after an assistant message stand the results of its calls, one for each, in the order of the
calls. A result without a call goes; a call without a result gets one that says so; a late result moves up to its call;
of several results for one call the last that says something counts. Of each type of reminder the newest stays. Calls
in flight (those of the last assistant message, if nothing but results follows it) are left open on request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from codelet.context.compaction.segments import last_turn
from codelet.messages import AnyMessage, calls_of, kind_of, reminder_type, text_of, with_kinds

NO_RESULT = "[interrupted: no result]"
_SPEAKERS = frozenset({"system", "user", "assistant", "developer"})


@dataclass
class Normalised:
    """The list in order, and where each message came from (-1: added here)."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    origin: list[int] = field(default_factory=list)

    def put(self, message: AnyMessage, origin: int) -> None:
        """Append one message."""
        self.messages.append(message if isinstance(message, dict) else dict(message))
        self.origin.append(origin)


def normalise(messages: Sequence[AnyMessage], *, in_flight: bool = False) -> Normalised:
    """Return the same messages (the same objects if nothing had to change) in a list that obeys the pairing rule.

    The kinds of messages from outside are worked out here. `in_flight` leaves the last assistant message's unanswered
    calls open. Entries that are not messages go, and results without a call.
    """
    messages = with_kinds(messages)
    out = Normalised()
    wanted, last_calls = _owners(messages)
    results = _results(messages, wanted)
    newest = _newest_reminders(messages)
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in _SPEAKERS:
            continue
        kind = reminder_type(message)
        if kind is not None and newest[kind] != index:
            continue
        _put_with_results(out, message, index, wanted, results, keep_open=in_flight and index == last_calls)
    return out


def _owners(messages: Sequence[AnyMessage]) -> tuple[dict[str, int], int]:
    """Map each call id to the first message that makes it; also return the index of the last message with calls."""
    wanted: dict[str, int] = {}
    last = -1
    for index, message in enumerate(messages):
        if isinstance(message, dict):
            for call in calls_of(message):
                wanted.setdefault(call["id"], index)
                last = index
    return wanted, last


def _results(messages: Sequence[AnyMessage], wanted: dict[str, int]) -> dict[str, tuple[int, AnyMessage]]:
    """Map each call id to its result: the last one after the call that has text, or else the last one."""
    found: dict[str, tuple[int, AnyMessage]] = {}
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") != "tool":
            continue
        call_id = message.get("tool_call_id")
        if not isinstance(call_id, str) or wanted.get(call_id, index) >= index:
            continue
        if call_id not in found or message.get("content"):
            found[call_id] = (index, message)
    return found


def _newest_reminders(messages: Sequence[AnyMessage]) -> dict[str, int]:
    newest: dict[str, int] = {}
    for index, message in enumerate(messages):
        kind = reminder_type(message) if isinstance(message, dict) else None
        if kind is not None:
            newest[kind] = index
    return newest


def _put_with_results(
    out: Normalised,
    message: dict[str, Any],
    index: int,
    wanted: dict[str, int],
    results: dict[str, tuple[int, AnyMessage]],
    *,
    keep_open: bool,
) -> None:
    """Append a message and the results of its calls. Calls that an earlier message made already are left out."""
    own: list[dict[str, Any]] = []
    for call in calls_of(message):
        if wanted[call["id"]] == index and call["id"] not in {c["id"] for c in own}:
            own.append(call)
    if "tool_calls" in message and own != message["tool_calls"]:
        message = {key: value for key, value in message.items() if key != "tool_calls"}
        if own:
            message["tool_calls"] = own
        elif not message.get("content"):
            message["content"] = ""
    out.put(message, index)
    for call in own:
        origin, result = results.get(call["id"], (-1, None))
        if result is not None:
            out.put(result, origin)
        elif not keep_open:
            out.put({"role": "tool", "tool_call_id": call["id"], "content": NO_RESULT}, -1)


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


def faults(messages: Sequence[AnyMessage]) -> list[str]:
    """Return what is wrong with a list: broken pairs, a reminder type that stands twice. Empty means valid."""
    found: list[str] = []
    wanted: list[str] = []
    types: set[str] = set()
    for message in messages:
        if message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if wanted and wanted[0] == call_id:
                wanted.pop(0)
            else:
                found.append(f"a result without a call: {call_id}")
            continue
        found.extend(f"a call without a result: {call_id}" for call_id in wanted)
        wanted = [call["id"] for call in calls_of(message)]
        kind = reminder_type(message)
        if kind is not None and kind in types:
            found.append(f"a second reminder of type {kind}")
        types.add(kind or "")
    found.extend(f"a call without a result: {call_id}" for call_id in wanted)
    return found
