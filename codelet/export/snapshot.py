"""The snapshot of a session: everything that an export holds, as one immutable value, and its upkeep.

The parts are plain JSON values in the form that `document` says, so that reading and writing copy nothing. Only
`version`, `timestamp`, `tokenCount` and `messages` are required in a file; all else has a default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from codelet.export.document import (
    VERSION,
    Anchor,
    ArchiveEntry,
    CompactionMark,
    EnvironmentState,
    HistoryEntry,
    Interruption,
    Plan,
    Segment,
    StepMark,
    TaskState,
    TokenUsage,
    ToolStats,
)
from codelet.messages import Message
from codelet.providers.protocol import Effort
from codelet.record import Record

TASK_SECONDS = 24 * 3600.0


def no_stats() -> ToolStats:
    """Statistics before the first call."""
    return {"total_calls": 0, "by_tool": {}, "failures": 0}


def no_usage() -> TokenUsage:
    """Usage before the first request."""
    return {
        "total_input": 0,
        "cache_read": 0,
        "cache_write": 0,
        "output": 0,
        "reasoning": 0,
        "turns": 0,
        "cost": 0.0,
    }


class Snapshot(Record):
    """A session at one moment. Nothing in it is ever changed; `replace` makes another.

    `unknown` is what else a file held, by its name there: a newer version put it there, and it is kept as it came.
    `profile_held` says that the profile limited the session: where 0.1.0 wrote a name, it was a name only.
    """

    timestamp: float
    token_count: int
    messages: tuple[Message, ...]
    session_id: str = ""
    model: str | None = None
    profile: str | None = None
    effort: Effort | None = None
    summary: str | None = None
    long_term_summary: str = ""
    facts: tuple[str, ...] = ()
    active_tasks: tuple[TaskState, ...] = ()
    plan: Plan | None = None
    pins: tuple[int, ...] = ()
    anchors: tuple[Anchor, ...] = ()
    segments: tuple[Segment, ...] = ()
    interruption: Interruption | None = None
    token_usage: TokenUsage = no_usage()
    tool_stats: ToolStats = no_stats()
    last_known_environment: EnvironmentState | None = None
    system_state: Mapping[str, Any] = MappingProxyType({})
    timeline: tuple[StepMark | CompactionMark, ...] = ()
    recent_history: tuple[HistoryEntry, ...] = ()
    archive: tuple[ArchiveEntry, ...] | None = None
    reminders_off: tuple[str, ...] = ()
    reminders_on: tuple[str, ...] | None = None
    touched_folders: tuple[str, ...] = ()
    thinking_dropped: bool | None = None
    profile_held: bool = True
    version: str = VERSION
    unknown: Mapping[str, Any] = MappingProxyType({})


def unique_facts(facts: Iterable[str]) -> tuple[str, ...]:
    """Each fact once, in the order in which they came; blanks around and between words do not make two of one."""
    first: dict[str, str] = {}
    for fact in facts:
        words = " ".join(fact.split())
        if words:
            first.setdefault(words, words)
    return tuple(first)


def current_tasks(tasks: Iterable[TaskState], now: float) -> tuple[TaskState, ...]:
    """The tasks but those that were completed more than 24 hours before `now` (Unix seconds)."""
    return tuple(task for task in tasks if task["status"] != "Completed" or task["updated_at"] > now - TASK_SECONDS)


def pruned(snapshot: Snapshot, now: float) -> Snapshot:
    """The snapshot with each fact once and without tasks that were completed long ago."""
    return snapshot.replace(facts=unique_facts(snapshot.facts), active_tasks=current_tasks(snapshot.active_tasks, now))
