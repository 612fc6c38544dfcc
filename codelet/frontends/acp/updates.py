"""Events of a turn, and a saved conversation, as updates of ACP, version 1."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from codelet import events
from codelet.errors import LimitReached
from codelet.frontends.acp.json_lines import Json
from codelet.messages import Message, call_arguments, call_name, calls_of, kind_of, reasoning_of, text_of
from codelet.safety.verdict import Question, Touch
from codelet.system.text import Cleaner, clean, one_line
from codelet.tools.tool import Tool

_KINDS = {"read": "read", "list": "search", "write": "edit", "run": "execute", "fetch": "fetch"}
_PLAN = {"pending": "pending", "in progress": "in_progress", "completed": "completed", "failed": "pending"}
_LIMITS = {"--max-turns": "max_turn_requests", "--max-tokens": "max_tokens", "output limit": "max_tokens"}
_ANSWER, _THOUGHT = "agent_message_chunk", "agent_thought_chunk"
_TITLE = 200
_MOST_OUTPUT = 8_000
"""Characters of a running command's output that the editor shows."""
_OUTPUT_SECONDS = 0.25
"""Time between two updates of it: each one replaces the one before."""


class Updates:
    """Makes the updates of one session. `tool_named` returns the tool that a call means."""

    def __init__(self, workspace: Path, tool_named: Callable[[str, object], Tool | None]) -> None:
        self._workspace = workspace
        self._tool_named = tool_named
        self._output: dict[str, tuple[str, float]] = {}
        self._cleaners = {_ANSWER: Cleaner(), _THOUGHT: Cleaner()}

    def of(self, event: events.Event, cost: float | None) -> Iterator[Json]:
        """Yield the updates for an event; `cost` is the session's in US dollars, None if it is unknown."""
        match event:
            case events.Text() | events.Reasoning():
                kind = _ANSWER if isinstance(event, events.Text) else _THOUGHT
                yield from _chunks(kind, self._cleaners[kind].feed(event.delta))
            case events.TurnEnd():
                for kind, cleaner in self._cleaners.items():
                    yield from _chunks(kind, cleaner.flush())
            case events.Note() | events.Retry():
                yield from _chunks(_THOUGHT, f"{event.text if isinstance(event, events.Note) else event.reason}\n")
            case events.Compaction(phase="done"):
                yield from _chunks(_THOUGHT, f"context compacted: {event.before:,} to {event.after:,} tokens\n")
            case events.ToolCallStarted():
                yield self._started(event.id, event.name, event.arguments)
            case events.ToolProgress():
                before, sent = self._output.get(event.id, ("", 0.0))
                text, now = (before + event.delta)[-_MOST_OUTPUT:], time.monotonic()
                due = now - sent >= _OUTPUT_SECONDS
                self._output[event.id] = (text, now if due else sent)
                if due:
                    yield _call_update(event.id, "in_progress", _content(text))
            case events.ToolResult():
                self._output.pop(event.id, None)
                output = event.text if event.display is None else event.display
                content = _content(output) if event.change is None else _diff(event.change)
                yield _call_update(event.id, "completed" if event.status == "done" else "failed", content)
            case events.Interrupted():
                for number in (*event.half_done, *event.not_done):
                    yield _call_update(number, "failed", _content("interrupted"))
            case events.UsageReport():
                paid = {} if cost is None else {"cost": {"amount": cost, "currency": "USD"}}
                yield {"sessionUpdate": "usage_update", "used": event.context, "size": event.budget, **paid}
            case events.PlanChanged():
                yield {"sessionUpdate": "plan", "entries": [_entry(step) for step in event.steps]}

    def replay(self, messages: Iterable[Message], mask: Callable[[str], str]) -> Iterator[Json]:
        """Yield the updates for a saved conversation."""
        for message in messages:
            text = clean(mask(text_of(message)))
            match kind_of(message):
                case "prompt":
                    yield from _chunks("user_message_chunk", text)
                case "segment":
                    yield from _chunks(_THOUGHT, text)
                case "assistant":
                    yield from _chunks(_THOUGHT, clean(mask(reasoning_of(message))))
                    yield from _chunks(_ANSWER, text)
                    for call in calls_of(message):
                        yield self._started(str(call["id"]), call_name(call), _parsed(mask(call_arguments(call))))
                case "tool":
                    status = "failed" if message.get("failed") else "completed"
                    yield _call_update(message["tool_call_id"], status, _content(text))

    def asked(self, question: Question, number: str) -> Json:
        """Return the call that a question is about, with the diff or the whole text to approve."""
        title = " ".join(touch.what for touch in question.touches) or question.asks
        content = _content(question.shown) if question.change is None else _diff(question.change)
        call = self._call(number, question.tool, title, question.touches or None)
        return {**call, "status": "pending", "content": [content], "rawInput": question.arguments}

    def _started(self, number: str, name: str, arguments: object) -> Json:
        tool = self._tool_named(name, arguments)
        title, touches = "", None
        if tool is not None and isinstance(arguments, dict):
            title, touches = tool.about(arguments), tool.touched(arguments)
        call = self._call(number, name, title, touches)
        return {"sessionUpdate": "tool_call", "status": "in_progress", **call, "rawInput": arguments}

    def _call(self, number: str, name: str, title: str, touches: Sequence[Touch] | None) -> Json:
        """Return a call's title and kind, and the files that it touches."""
        paths = [touch.what for touch in touches or () if touch.kind in ("read", "write")]
        return {
            "toolCallId": number,
            "title": one_line(f"{name} {title}".strip(), _TITLE),
            "kind": "other" if touches is None else _KINDS[touches[0].kind] if touches else "think",
            "locations": [{"path": str(self._workspace / path)} for path in paths],
        }


def stop_reason(error: Exception) -> str | None:
    """Return the protocol's name for the limit that ended a turn, None if it has none."""
    reached = str(error) if isinstance(error, LimitReached) else ""
    return next((reason for words, reason in _LIMITS.items() if words in reached), None)


def select(option: str, category: str, now: str, values: Sequence[str]) -> Json:
    """Return an option of the session with the values that it can have."""
    known = dict.fromkeys([now, *values] if now not in values else values)
    choices = [{"value": value, "name": value} for value in known]
    about = {"id": option, "name": option.capitalize(), "category": category, "type": "select"}
    return {**about, "currentValue": now, "options": choices}


def _parsed(arguments: str) -> object:
    """Return a call's arguments as an object, or as the text itself if that does not parse."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _chunks(kind: str, text: str) -> Iterator[Json]:
    if text:
        yield {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def _content(text: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": clean(text)}}


def _diff(change: events.FileChange) -> Json:
    return {"type": "diff", "path": change.path, "oldText": change.before, "newText": change.after}


def _call_update(number: str, status: str, content: Json) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": number, "status": status, "content": [content]}


def _entry(step: events.PlannedStep) -> Json:
    failed = "failed: " if step.status == "failed" else ""
    text = f"{failed}{step.description}{f': {step.result}' if step.result else ''}"
    return {"content": text, "priority": "medium", "status": _PLAN[step.status]}
