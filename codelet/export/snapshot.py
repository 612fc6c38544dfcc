"""The snapshot of a session: everything that an export holds, as one immutable value.

The parts are plain JSON values with names from `schema.json`, so that reading and writing copy nothing. Times are
Unix seconds. Only `version`, `timestamp`, `tokenCount` and `messages` are required in a file; all else has a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NotRequired, TypedDict

from codelet.messages import Message
from codelet.record import Record

VERSION = "1.0"


class HistoryEntry(TypedDict):
    """One line of the recent history: the start of a message's text, when it came, its estimate in tokens."""

    timestamp: float
    role: str
    content: str
    token_count: int | None


class TaskState(TypedDict):
    """A background task as it was last seen; `progress` from 0 to 1, `status` such as Running or Completed."""

    id: str
    description: str
    status: str
    progress: float
    created_at: float
    updated_at: float


class ToolStats(TypedDict):
    """How often tools ran and failed."""

    total_calls: int
    by_tool: dict[str, int]
    failures: int


class ProcessInfo(TypedDict):
    """One process of the environment."""

    pid: int
    name: str
    cpu_percent: float
    memory_mb: float


class EnvironmentState(TypedDict, total=False):
    """The machine when it was last looked at."""

    workspace: str
    platform: str
    python: str
    git_branch: str
    processes: list[ProcessInfo]
    memory_used_mb: float
    memory_total_mb: float
    disk_usage_percent: float
    battery_percent: float | None
    uptime_seconds: float


class TokenUsage(TypedDict):
    """Tokens as the provider reported them, summed, None where it reported none; `cost` in US dollars, None where it is
    not known.
    """

    total_input: int | None
    cache_read: int | None
    cache_write: int | None
    output: int | None
    reasoning: int | None
    turns: int
    cost: float | None


class Segment(TypedDict):
    """An immutable piece of summary for the turns `first` to `last`."""

    first: int
    last: int
    text: str


class ArchiveEntry(TypedDict):
    """A message that compaction took out, under the id that recalls it."""

    id: str
    turn: int
    message: Message


class Anchor(TypedDict):
    """A turn in which something was settled."""

    turn: int
    kind: str
    text: str


class PlanStep(TypedDict):
    """One step of the plan; `status` is Pending, InProgress, Completed or Failed."""

    id: int
    description: str
    status: str
    result: str | None


class Plan(TypedDict):
    """The plan in hand."""

    goal: str
    steps: list[PlanStep]
    current_step: int
    status: str


class Interruption(TypedDict):
    """A turn that was stopped: call ids by what became of them, and the list before it, if it is kept."""

    done: list[str]
    half_done: list[str]
    not_done: list[str]
    messages: list[Message] | None


class StepMark(TypedDict):
    """One model request on the timeline, in tokens; `budget` is what `context` is measured against."""

    kind: Literal["step"]
    timestamp: float
    turn: int
    total_input: int
    cache_read: int
    cache_write: int
    output: int
    context: int
    window: int
    budget: NotRequired[int]


class CompactionMark(TypedDict):
    """One compaction on the timeline; sizes in tokens."""

    kind: Literal["compaction"]
    timestamp: float
    turn: int
    before: int
    after: int
    reason: str


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
    """A session at one moment. Nothing in it is ever changed; `replace` makes another."""

    timestamp: float
    token_count: int
    messages: tuple[Message, ...]
    session_id: str = ""
    model: str | None = None
    profile: str | None = None
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
    touched_folders: tuple[str, ...] = ()
    version: str = VERSION


_NAMES = {"token_count": "tokenCount"}
_FIRST = ("version", "timestamp", "token_count", "session_id")
_LAST = ("archive", "messages")
FILE_NAMES: dict[str, str] = {
    field: _NAMES.get(field, field)
    for field in (*_FIRST, *(name for name in Snapshot.fields if name not in _FIRST + _LAST), *_LAST)
}
"""Each field's name in the file, in the file's order: what identifies it first, what is long last."""
