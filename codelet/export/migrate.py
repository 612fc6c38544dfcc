"""Converts documents of other agents, in three forms, into ours.

A newer version of the same kind (1.x) is read unchanged: it has other names besides ours. Any other is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from codelet.context.compaction.segments import ParsedSegment, SegmentEntry, render
from codelet.errors import ExportError
from codelet.export.document import MOST_HISTORY, READABLE_VERSIONS, VERSION, no_usage
from codelet.prompt import IMPORTED_RESULT, escape

CONTEXT = "a persistent agent's context without a version"
SNAPSHOT = "another program's context snapshot"
PARTS = "a message list of the AI SDK"

RawDocument = dict[str, Any]
_SNAPSHOT_FIELDS = frozenset({"version", "timestamp", "tokenCount", "messages", "summary"})
_FIRST_MILLISECONDS = 10**11
"""No earlier time is in milliseconds: as seconds it is in the year 5138."""


class Migrated(NamedTuple):
    """A document that can be checked, and the form it was converted from, empty if it was ours."""

    document: RawDocument
    converted_from: str = ""


def migrated(document: object) -> Migrated:
    """Return the document in a form that can be checked. Raise ExportError for one that cannot be read."""
    if isinstance(document, list) and document and all(isinstance(each, dict) and "role" in each for each in document):
        return Migrated(_from_parts({"messages": document}), PARTS)
    if not isinstance(document, dict):
        raise ExportError("the document must be an object")
    if "version" not in document and "session_id" in document and "recent_history" in document:
        return Migrated(_from_context_data(document), CONTEXT)
    if "messages" in document and document.keys() <= _SNAPSHOT_FIELDS and document.get("version", VERSION) == VERSION:
        if _has_parts(document["messages"]):
            return Migrated(_from_parts(document), PARTS)
        if "version" in document and (new := _from_snapshot(document)) != document:
            return Migrated(new, SNAPSHOT)
    version = document.get("version")
    if not isinstance(version, str):
        raise ExportError("has no version: it is not an export")
    if not re.fullmatch(READABLE_VERSIONS, version):
        raise ExportError(_refusal(version))
    return Migrated(document)


def _refusal(version: str) -> str:
    parts = re.fullmatch(r"(\d{1,9})\.(\d{1,9})", version)
    known = tuple(map(int, VERSION.split(".")))
    if parts and (int(parts[1]), int(parts[2])) > known:
        return f"is of version {version}, newer than this codelet reads ({VERSION}): update codelet"
    return f"is of the unknown version {version[:32]!r}"


def _from_context_data(old: RawDocument) -> RawDocument:
    """Convert a persistent agent's context without a version: its history becomes the message list.

    Its tool results name no calls, so they come as text; its long-term summary comes first, as a compaction would
    have left it. Credentials in it are left behind.
    """
    history = [entry for entry in _items(old, "recent_history") if isinstance(entry, dict)]
    times = [entry["timestamp"] for entry in history if type(entry.get("timestamp")) in (int, float)]
    used = old["token_usage"] if isinstance(old.get("token_usage"), dict) else {}
    counts = [entry["token_count"] for entry in history if type(entry.get("token_count")) is int]
    new: RawDocument = {
        "version": VERSION,
        "timestamp": max(times, default=0),
        "tokenCount": sum(counts),
        "messages": [_message(entry) for entry in history],
        "recent_history": [{"token_count": None, **entry} for entry in history[-MOST_HISTORY:]],
        "token_usage": no_usage() | {name: used[name] for name in no_usage() if type(used.get(name)) is int},
    }
    for name in ("session_id", "facts", "long_term_summary", "active_tasks", "tool_stats"):
        if name in old:
            new[name] = old[name]
    if (plan := old.get("current_plan", old.get("plan"))) is not None:
        new["plan"] = _plan(plan)
    if isinstance(stats := old.get("tool_stats"), dict) and isinstance(by_tool := stats.get("by_tool"), dict):
        new["metrics"] = {"by_tool": {name: {"calls": count} for name, count in by_tool.items()}}
    if isinstance(state := old.get("system_state"), dict):
        new["system_state"] = state
    if isinstance(seen := old.get("last_known_environment"), dict):
        new["last_known_environment"] = seen
    return _with_summary(new, old.get("long_term_summary"))


def _from_snapshot(old: RawDocument) -> RawDocument:
    """Convert a snapshot that another program took: its time may be in milliseconds, its summary comes first."""
    new = dict(old)
    at = old.get("timestamp")
    if isinstance(at, int | float) and at >= _FIRST_MILLISECONDS:
        new["timestamp"] = at / 1000
    summary = old.get("summary")
    told = any(isinstance(each, dict) and str(summary) in str(each.get("content")) for each in _items(old, "messages"))
    return new if told else _with_summary(new, summary)


def _from_parts(old: RawDocument) -> RawDocument:
    """Convert a list whose contents are parts: text, tool-call (an assistant's), tool-result (a tool's)."""
    messages = [one for place, given in enumerate(_items(old, "messages")) for one in _without_parts(place, given)]
    return _from_snapshot({"version": VERSION, "timestamp": 0, "tokenCount": 0, **old, "messages": messages})


def _has_parts(messages: object) -> bool:
    contents = (
        (each.get("content") for each in messages if isinstance(each, dict)) if isinstance(messages, list) else ()
    )
    parts = (part for content in contents if isinstance(content, list) for part in content)
    return any(isinstance(part, dict) and part.get("type") in ("tool-call", "tool-result") for part in parts)


def _without_parts(place: int, message: object) -> Iterable[object]:
    """Return the messages for one whose content is a list of parts; any other unchanged."""
    if not isinstance(message, dict) or not isinstance(parts := message.get("content"), list):
        return [message]
    texts: list[str] = []
    calls: list[RawDocument] = []
    results: list[RawDocument] = []
    for number, part in enumerate(parts):
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "tool-call", "toolCallId": str(call_id), "toolName": str(name), **more}:
                function = {"name": name, "arguments": json.dumps(more.get("args", {}), ensure_ascii=False)}
                calls.append({"id": call_id, "type": "function", "function": function})
            case {"type": "tool-result", "toolCallId": str(call_id), "result": result, **more}:
                text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
                failed = {"failed": True} if more.get("isError") is True else {}
                results.append({"role": "tool", "tool_call_id": call_id, "content": text, **failed})
            case _:
                raise ExportError(f"messages[{place}].content[{number}]: not a text, tool-call, or tool-result part")
    if message.get("role") == "tool" and not texts and not calls:
        return results
    if results or (calls and message.get("role") != "assistant"):
        raise ExportError(f"messages[{place}].content: parts that a message of this role cannot have")
    return [message | {"content": "\n".join(texts)} | ({"tool_calls": calls} if calls else {})]


def _with_summary(new: RawDocument, summary: object) -> RawDocument:
    """Put a summary before the messages, as a segment, so that the model reads it."""
    if isinstance(summary, str) and summary.strip():
        lines = [line.strip() for line in escape(summary).splitlines() if line.strip()]
        text = render(ParsedSegment(0, 0, entries=[SegmentEntry(0, "", lines)] if lines else []), note=False)
        new["messages"] = [{"role": "user", "content": text}, *_items(new, "messages")]
        new["segments"] = [{"first": 0, "last": 0, "text": text}]
        new["summary"] = text
    return new


def _plan(plan: object) -> object:
    """Return the current plan with the empty fields that an agent omits."""
    if not isinstance(plan, dict) or not isinstance(plan.get("steps"), list):
        return plan
    steps = [{"result": None, **step} if isinstance(step, dict) else step for step in plan["steps"]]
    return {"current_step": 0, "status": "InProgress", **plan, "steps": steps}


def _items(old: RawDocument, name: str) -> list[object]:
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
