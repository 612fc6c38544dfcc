"""The commit rule: compact a copy, check it, and swap it in only if the list has not changed meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from codelet.compaction.content import calls_of, reminder_type
from codelet.compaction.report import Compacted


@dataclass(frozen=True)
class Snapshot:
    """A list as it was when a compaction began: the messages themselves, by identity."""

    messages: tuple[Any, ...]

    @classmethod
    def of(cls, messages: Sequence[Any]) -> Snapshot:
        """Take one: O(list), no copy of any message."""
        return cls(tuple(messages))

    def still_holds(self, messages: Sequence[Any]) -> bool:
        """Whether the list holds the very same messages in the same order."""
        if len(messages) != len(self.messages):
            return False
        return all(now is then for now, then in zip(messages, self.messages, strict=True))


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


def commit(messages: list[Any], snapshot: Snapshot, compacted: Compacted, *, in_flight: bool = False) -> bool:
    """Put the compacted list in the place of `messages`, in place; False, and nothing changed, where that is not right.

    Not right is: the list has changed since the snapshot, the result is larger than its target, or it is not valid.
    """
    if not snapshot.still_holds(messages):
        return False
    if compacted.report.after > compacted.report.target or faults(compacted.messages, in_flight):
        return False
    messages[:] = compacted.messages
    return True
