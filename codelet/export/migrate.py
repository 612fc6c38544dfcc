"""Brings older documents up to the version in force, one listed step at a time.

A newer version of the same kind (1.x) is read as it is: it has other names beside ours. One of another kind is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from codelet.context.compaction.segments import ParsedSegment, SegmentEntry, render
from codelet.errors import ExportError
from codelet.export.document import READABLE_VERSIONS, VERSION, no_usage
from codelet.prompt import IMPORTED_RESULT, escape

"""As many lines as a compaction carries on whole; it chooses among the rest."""

RawDocument = dict[str, Any]
Step = tuple[str, Callable[[RawDocument], RawDocument]]


def migrated(document: object) -> RawDocument:
    """Return the document in a form that can be checked. Raise ExportError for a version that cannot be read."""
    if not isinstance(document, dict):
        raise ExportError("the document must be an object")
    version = _version(document)
    while not re.fullmatch(READABLE_VERSIONS, version):
        if version not in MIGRATIONS:
            raise ExportError(_refusal(version))
        version, step = MIGRATIONS[version]
        document = step(document)
    return document


def _version(document: RawDocument) -> str:
    if "version" not in document and "session_id" in document and "recent_history" in document:
        return "0"
    version = document.get("version")
    if not isinstance(version, str):
        raise ExportError("has no version: it is not an export")
    return version


def _refusal(version: str) -> str:
    parts = re.fullmatch(r"(\d{1,9})\.(\d{1,9})", version)
    known = tuple(map(int, VERSION.split(".")))
    if parts and (int(parts[1]), int(parts[2])) > known:
        return f"is of version {version}, newer than this codelet reads ({VERSION}): update codelet"
    return f"is of the unknown version {version[:32]!r}"


def _from_context_data(old: RawDocument) -> RawDocument:
    """A persistent agent's context without a version: its history becomes the message list.

    Its tool results name no calls, so they come as text; its long-term summary comes first, as a compaction would
    have left it. Credentials in it are left behind.
    """
    history = [entry for entry in _items(old, "recent_history") if isinstance(entry, dict)]
    times = [entry["timestamp"] for entry in history if type(entry.get("timestamp")) in (int, float)]
    used = old["token_usage"] if isinstance(old.get("token_usage"), dict) else {}
    counts = [entry["token_count"] for entry in history if type(entry.get("token_count")) is int]
    new: RawDocument = {
        "version": "1.0",
        "timestamp": max(times, default=0),
        "tokenCount": sum(counts),
        "messages": [_message(entry) for entry in history],
        "recent_history": [{"token_count": None, **entry} for entry in history],
        "token_usage": no_usage() | {name: used[name] for name in no_usage() if type(used.get(name)) is int},
    }
    for name in ("session_id", "facts", "long_term_summary", "active_tasks", "tool_stats"):
        if name in old:
            new[name] = old[name]
    if (plan := old.get("current_plan", old.get("plan"))) is not None:
        new["plan"] = _plan(plan)
    if isinstance(state := old.get("system_state"), dict):
        new["system_state"] = state
    if isinstance(seen := old.get("last_known_environment"), dict):
        new["last_known_environment"] = seen
    if isinstance(summary := old.get("long_term_summary"), str) and summary.strip():
        text = _told(summary)
        new["messages"].insert(0, {"role": "user", "content": text})
        new["segments"] = [{"first": 0, "last": 0, "text": text}]
        new["summary"] = text
    return new


def _plan(plan: object) -> object:
    """The plan that was in hand; what an agent leaves out where it is nothing is filled in, and checked as all else."""
    if not isinstance(plan, dict) or not isinstance(plan.get("steps"), list):
        return plan
    steps = [{"result": None, **step} if isinstance(step, dict) else step for step in plan["steps"]]
    return {"current_step": 0, "status": "InProgress", **plan, "steps": steps}


def _told(summary: str) -> str:
    """The summary of what came before the history, as a segment, so that the model reads it."""
    lines = [line.strip() for line in escape(summary).splitlines() if line.strip()]
    return render(ParsedSegment(0, 0, entries=[SegmentEntry(0, "", lines)] if lines else []), note=False)


def _items(old: RawDocument, name: str) -> list[Any]:
    value = old[name]
    if not isinstance(value, list):
        raise ExportError(f"{name} must be a list")
    return value


def _message(entry: RawDocument) -> RawDocument:
    role, content = entry.get("role"), entry.get("content")
    if role == "tool":
        return {
            "role": "user",
            "content": IMPORTED_RESULT.format(text=content) if isinstance(content, str) else content,
        }
    return {"role": role, "content": content}


MIGRATIONS: dict[str, Step] = {"0": ("1.0", _from_context_data)}
"""From each older version: the version that its step leads to, and the step."""
