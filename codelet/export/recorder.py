"""What an export holds beside the message list: gathered from a session's events while it runs, and put back.

`see` takes every event; `snapshot` is cheap enough for the thread that runs the turn (it copies the list, not the
messages); `restore` brings a snapshot into a new session. Commands, approvals and endpoints are never part of it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from operator import is_
from typing import Any

from codelet import events
from codelet.context.compaction.segments import parse_segment
from codelet.context.tokens import estimate_message
from codelet.conversation import Conversation
from codelet.export.document import (
    CompactionMark,
    HistoryEntry,
    Interruption,
    Segment,
    StepMark,
    TokenUsage,
    ToolStats,
)
from codelet.export.session_context import ExtensionKeys, interruption_of, receipt_of, restore_context
from codelet.export.snapshot import Snapshot, no_stats
from codelet.loop.session import Session
from codelet.messages import Message, kind_of
from codelet.providers import REPLAY_PREFIX
from codelet.providers.answer import as_count
from codelet.usage import Usage

HISTORY_ENTRIES = 50
HISTORY_CHARACTERS = 2_000
TIMELINE_MARKS = 5_000
_MOST_COUNTED = 10**15


class Recorder:
    """Gathers what a session's list does not say; `carried` is the snapshot that the session was resumed from."""

    def __init__(self, carried: Snapshot | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._carried = carried or Snapshot(0.0, 0, (), session_id=secrets.token_hex(8))
        self._stats = carried.tool_stats if carried else no_stats()
        self._timeline = list(self._carried.timeline)
        self._history = _known_history(self._carried)
        self._rewrites = -1
        self._told: dict[str, Any] = {}
        self._turn = self._carried.token_usage["turns"]
        self._keys = ExtensionKeys(self._carried.unknown)

    def see(self, event: events.Event) -> bool:
        """Take an event in. True where a step is complete, so that it is time to save."""
        match event:
            case events.TurnStart():
                self._turn = event.turn
            case events.Steering():
                self._turn += 1
            case events.UsageReport():
                self._mark(self._step(event))
            case events.Compaction(phase="done"):
                self._mark(self._compaction(event))
            case events.ToolResult():
                self._stats = _counted(self._stats, event)
            case events.StepStart() | events.TurnEnd():
                return True
        return False

    def snapshot(self, session: Session, **beside: Any) -> Snapshot:
        """The session as it is now. `beside` names parts that others keep, such as facts or the plan."""
        messages = tuple(session.conversation.sent())
        values: dict[str, Any] = {
            "timestamp": round(self._clock(), 3),
            "token_count": self._size(session, messages),
            "messages": messages,
            "model": _model(session),
            "effort": session.provider.effort,
            "token_usage": _token_usage(session),
            "tool_stats": self._stats,
            "timeline": tuple(self._timeline),
            "recent_history": self._recent(messages),
            "interruption": self._interruption(session),
        }
        values |= self._keys.now(session) | self._summary(session.conversation)
        return self._carried.replace(**(values | beside))

    def notices(self) -> list[str]:
        """Lines for the user on what could not be taken into a snapshot; each is returned once."""
        return self._keys.notices()

    def _summary(self, conversation: Conversation) -> dict[str, Any]:
        """The segments that stand in the list, and their text as the summary; new ones come by a rewrite only."""
        if self._rewrites != conversation.rewrites:
            self._rewrites = conversation.rewrites
            texts = [message["content"] or "" for message in conversation.body if kind_of(message) == "segment"]
            self._told = {"segments": tuple(map(_segment, texts)), "summary": "\n\n".join(texts) or None}
        return self._told if self._told["segments"] or self._carried.segments else {}

    def _size(self, session: Session, messages: tuple[Message, ...]) -> int:
        """The list's size; as it was reported, while the list is still the one that was carried."""
        carried = self._carried
        unchanged = len(messages) == len(carried.messages) and all(map(is_, messages, carried.messages))
        return carried.token_count if unchanged else session.size

    def _interruption(self, session: Session) -> Interruption | None:
        """Where the last turn was stopped; `beside` may add the list before it."""
        stopped = session.interruption
        if stopped is None:
            return None
        carried = self._carried.interruption
        if carried is not None and receipt_of(carried) == stopped:
            return carried
        return interruption_of(stopped)

    def _step(self, event: events.UsageReport) -> StepMark:
        usage = event.usage
        return {
            "kind": "step",
            "timestamp": round(self._clock(), 3),
            "turn": self._turn,
            "total_input": usage.total_input,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
            "output": usage.output,
            "context": event.context,
            "window": event.window,
            "budget": event.budget,
        }

    def _compaction(self, event: events.Compaction) -> CompactionMark:
        return {
            "kind": "compaction",
            "timestamp": round(self._clock(), 3),
            "turn": self._turn,
            "before": event.before,
            "after": event.after,
            "reason": event.reason[:4096],
        }

    def _mark(self, mark: StepMark | CompactionMark) -> None:
        self._timeline.append(mark)
        del self._timeline[:-TIMELINE_MARKS]

    def _recent(self, messages: tuple[Message, ...]) -> tuple[HistoryEntry, ...]:
        """The last messages of the conversation as history, each with the time when it was first seen."""
        now = round(self._clock(), 3)
        recent: dict[int, tuple[Message, HistoryEntry]] = {}
        for message in reversed(messages):
            if len(recent) == HISTORY_ENTRIES:
                break
            known = self._history.get(id(message))
            if known is not None and known[0] is message:
                recent[id(message)] = known
            elif _is_said(message):
                recent[id(message)] = (message, history_entry(message, now))
        self._history = recent
        return tuple(entry for _, entry in reversed(recent.values()))


def restore(session: Session, snapshot: Snapshot) -> None:
    """Bring a snapshot into a session in place of what it holds: the list with its pins, archive and checkpoints, what
    it used, and where it was stopped. Nothing else.
    """
    usage, stopped = snapshot.token_usage, snapshot.interruption
    session.adopt(snapshot.messages, stopped["messages"] if stopped is not None else None)
    restore_context(session, snapshot)
    session.meter.usage = Usage(
        total_input=usage["total_input"] or 0,
        cache_read=usage["cache_read"] or 0,
        cache_write=usage["cache_write"] or 0,
        output=usage["output"] or 0,
        reasoning=usage["reasoning"] or 0,
    )
    session.meter.cost = usage["cost"]
    session.turns = usage["turns"]
    session.interruption = None
    if stopped is not None:
        session.interruption = receipt_of(stopped)


def _model(session: Session) -> str | None:
    """What `--model` would name, if there is one; a recording says its model's name only, its origin tells the file."""
    provider = session.provider
    return provider.origin if provider.origin.startswith(REPLAY_PREFIX) else provider.model or None


def _segment(text: str) -> Segment:
    parsed = parse_segment(text)
    return {"first": parsed.first, "last": parsed.last, "text": text}


def _is_said(message: Message) -> bool:
    """Whether a message is part of the conversation, not what codelet put beside it."""
    return kind_of(message) not in ("system", "reminder", "segment")


def history_entry(message: Message, now: float) -> HistoryEntry:
    """A message as a line of history: the start of its text, or the names of what it calls."""
    content = message["content"] or ""
    if not content:
        content = "calls " + ", ".join(call["function"]["name"] for call in message.get("tool_calls", ()))
    return {
        "timestamp": now,
        "role": message["role"],
        "content": content[:HISTORY_CHARACTERS],
        "token_count": estimate_message(message),
    }


def _known_history(carried: Snapshot) -> dict[int, tuple[Message, HistoryEntry]]:
    """The carried history by the messages that it tells of, as far as they match from the end backwards."""
    known: dict[int, tuple[Message, HistoryEntry]] = {}
    entries = list(carried.recent_history)
    for message in reversed(carried.messages):
        if not entries:
            break
        if not _is_said(message):
            continue
        entry = entries.pop()
        expected = history_entry(message, 0.0)
        if (entry["role"], entry["content"]) != (expected["role"], expected["content"]):
            break
        known[id(message)] = (message, entry)
    return known


def _counted(stats: ToolStats, result: events.ToolResult) -> ToolStats:
    return {
        "total_calls": stats["total_calls"] + 1,
        "by_tool": stats["by_tool"] | {result.name: stats["by_tool"].get(result.name, 0) + 1},
        "failures": stats["failures"] + (result.status == "failed"),
    }


def _token_usage(session: Session) -> TokenUsage:
    """What was used; of a session that had turns, and whose usage nobody reported, that is not known."""
    used = session.usage
    counts = (used.total_input, used.cache_read, used.cache_write, used.output, used.reasoning)
    total_input, cache_read, cache_write, output, reasoning = (as_count(count, _MOST_COUNTED) for count in counts)
    known = total_input or output or cache_read or cache_write or reasoning or not session.turns
    return {
        "total_input": total_input if known else None,
        "cache_read": cache_read if known else None,
        "cache_write": cache_write if known else None,
        "output": output if known else None,
        "reasoning": reasoning if known else None,
        "turns": session.turns,
        "cost": session.cost,
    }
