"""Mends a list from outside: right after each assistant message stands one result for each of its calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from codelet.context.compaction.parsing import normalise
from codelet.messages import Message, unpaired


def paired(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The same messages (the same objects where nothing had to change), calls and results paired, each id once.

    Some servers number their calls anew in each answer: an id that was used before gets a number appended. Everything
    else that is broken, compaction's `normalise` mends.
    """
    ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    if len(set(ids)) == len(ids) and not unpaired(messages):
        return tuple(messages)
    return tuple(cast("list[Message]", normalise(_each_id_once(messages)).messages))


def _each_id_once(messages: Sequence[Message]) -> list[Message]:
    """An id that an earlier message used is renamed in the later one and in the results that follow it."""
    taken = {call["id"] for message in messages for call in message.get("tool_calls", ())}
    used: dict[str, int] = {}
    renamed: dict[str, str] = {}
    told: list[Message] = []
    for message in messages:
        changed = message
        if calls := message.get("tool_calls"):
            own = dict.fromkeys(call["id"] for call in calls)
            renamed = {call_id: _free(call_id, used, taken) for call_id in own if call_id in used}
            used |= {call_id: 1 for call_id in own if call_id not in used}
            if renamed:
                changed = message.copy()
                changed["tool_calls"] = [{**call, "id": renamed.get(call["id"], call["id"])} for call in calls]
        elif message["role"] == "tool" and message["tool_call_id"] in renamed:
            changed = message.copy()
            changed["tool_call_id"] = renamed[message["tool_call_id"]]
        told.append(changed)
    return told


def _free(call_id: str, used: dict[str, int], taken: set[str]) -> str:
    """The id with the next number behind it that makes it one of its own."""
    while True:
        used[call_id] += 1
        name = f"{call_id}~{used[call_id]}"
        if name not in taken:
            taken.add(name)
            return name
