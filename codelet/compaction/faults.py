"""What is wrong with a list, and whether a compaction's result may take the old list's place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from codelet.compaction.content import calls_of
from codelet.compaction.report import Compacted
from codelet.messages import reminder_type


def faults(messages: Sequence[Any], in_flight: bool = False) -> list[str]:
    """What is wrong with a list: broken pairs, a reminder type that stands twice. Empty means valid.

    `in_flight` allows the last calls to be open.
    """
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
    if not in_flight:
        found.extend(f"a call without a result: {call_id}" for call_id in wanted)
    return found


def is_valid(compacted: Compacted) -> bool:
    """Whether a result is within its target and obeys the rules of every list."""
    return compacted.report.after <= compacted.report.target and not faults(compacted.messages)
