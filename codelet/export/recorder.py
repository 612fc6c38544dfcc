"""What an export holds besides the message list: gathered from a session's events while it runs, and put back.

`see` takes every event; `snapshot` is cheap enough for the thread that runs the turn (it copies the list, not the
messages); `restore` brings a document into a new session. Commands, approvals and endpoints are never part of it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from operator import is_
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET

from codelet import events
from codelet.context.compaction.segments import parse_segment
from codelet.context.tokens import estimate_message
from codelet.conversation import Conversation
from codelet.export.call_entries import CallEntries, record_of
from codelet.export.document import (
    MOST_COUNTED,
    NAME_LENGTH,
    Anchor,
    ArchiveEntry,
    CompactionMark,
    Document,
    EnvironmentState,
    HistoryEntry,
    Interruption,
    Segment,
    StepMark,
    TokenUsage,
    ToolStats,
)
from codelet.export.extension_keys import ExtensionKeys, restore_keys
from codelet.loop.session import Session
from codelet.messages import Message, kind_of
from codelet.providers import REPLAY_PREFIX
from codelet.providers.answer import as_count
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.context.archive import Archived

HISTORY_ENTRIES = 50
HISTORY_CHARACTERS = 2_000
TIMELINE_MARKS = 5_000
_MOST_TOOLS = 10_000
_COUNTS = ("total_input", "cache_read", "cache_write", "output", "reasoning")
_OUTCOMES = ("done", "failed", "half_done", "not_done", "refused")
_MOST_KINDS, _MOST_FOLDERS = 100, 1_000


class Recorder:
    """Gathers what a session's list does not say; `carried` is the document that the session was resumed from.

    With `archive` it also saves what compaction took out. `environment` is the machine, once someone looked.
    """

    def __init__(
        self,
        carried: Document | None = None,
        *,
        archive: bool = False,
        clock: Callable[[], float] = time.time,
        notices: events.Notices | None = None,
    ) -> None:
        self.environment: EnvironmentState | None = None
        self._clock = clock
        self._carried = carried or Document(timestamp=0.0, token_count=0, messages=(), session_id=secrets.token_hex(8))
        self._archive: dict[str, ArchiveEntry] | None = {} if archive else None
        self._stats = self._carried.tool_stats
        self._timeline = list(self._carried.timeline)
        self._history = _known_history(self._carried)
        self._rewrites = -1
        self._summarized: dict[str, Any] = {}
        self._turn = self._carried.token_usage["turns"]
        self._calls = CallEntries()
        self.notices = notices or events.Notices()
        self._keys = ExtensionKeys(self._carried.unknown, self.notices)

    def see(self, event: events.Event) -> bool:
        """Take an event in. True where a step is complete, so that it is time to save."""
        match event:
            case events.TurnStart():
                self._turn = event.turn
            case events.Steering():
                self._turn += 1
            case events.UsageReport():
                counts = {name: getattr(event.usage, name) for name in _COUNTS[:4]}
                counts |= {"context": event.context, "window": event.window, "budget": event.budget}
                self._mark("step", _as_counts(counts))
            case events.Compaction(phase="done"):
                sizes = _as_counts({"before": event.before, "after": event.after})
                self._mark("compaction", sizes | {"reason": event.reason[:4096]})
            case events.ToolResult():
                self._stats = _counted(self._stats, event)
            case events.StepStart() | events.TurnEnd():
                return True
        return False

    def snapshot(self, session: Session) -> Document:
        """Return the session as it is now."""
        messages = tuple(session.conversation.sent())
        carried = self._carried
        unchanged = len(messages) == len(carried.messages) and all(map(is_, messages, carried.messages))
        values: dict[str, Any] = {
            "timestamp": round(self._clock(), 3),
            # As it was reported, while the list is still the one that was carried.
            "token_count": carried.token_count if unchanged else as_count(session.size, MOST_COUNTED),
            "messages": messages,
            "model": _model(session),
            "effort": session.provider.effort,
            "token_usage": _token_usage(session),
            "tool_stats": self._stats,
            "timeline": tuple(self._timeline),
            "recent_history": self._recent(messages),
            "interruption": _interruption(session, carried.interruption, unchanged=unchanged),
        }
        values |= self._keys.now(session) | self._summary(session.conversation) | self._context(session)
        return carried.replace(**values)

    def _context(self, session: Session) -> dict[str, Any]:
        """The parts that the session keeps outside its list."""
        reminders = session.reminders
        parts: dict[str, Any] = {
            "pins": session.compactor.pins,
            "reminders_off": _kinds(reminders.switched_off),
            "reminders_on": _kinds(reminders.switched_on) or UNSET,
            "touched_folders": tuple(session.toolbox.touched.names)[-_MOST_FOLDERS:],
            "thinking_dropped": session.provider.drops_thinking or UNSET,
            "calls": self._calls.of(session.conversation.calls) or UNSET,
        }
        if (report := session.compactor.report) is not None:
            parts["anchors"] = tuple(Anchor(turn=a.turn, kind=a.kind, text=a.text) for a in report.anchors)
        if self._archive is not None:
            parts["archive"] = tuple(_entry(kept, self._archive) for kept in session.compactor.archive.entries())
        if self.environment is not None:
            parts["last_known_environment"] = self.environment
        return parts

    def _summary(self, conversation: Conversation) -> dict[str, Any]:
        """The segments that stand in the list, and their text as the summary; new ones come by a rewrite only."""
        if self._rewrites != conversation.rewrites:
            self._rewrites = conversation.rewrites
            texts = [message["content"] or "" for message in conversation.body if kind_of(message) == "segment"]
            self._summarized = {"segments": tuple(map(_segment, texts)), "summary": "\n\n".join(texts) or None}
        return self._summarized if self._summarized["segments"] or self._carried.segments else {}

    def _mark(self, kind: str, values: dict[str, Any]) -> None:
        mark = {"kind": kind, "timestamp": round(self._clock(), 3), "turn": self._turn} | values
        self._timeline.append(cast("StepMark | CompactionMark", mark))
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


def restore(session: Session, document: Document) -> None:
    """Bring a document into a session in place of what it holds: the list with its pins, archive and checkpoints, the
    switches, what it used, and where it was stopped. Nothing else.
    """
    usage, stopped = document.token_usage, document.interruption
    calls = [record_of(entry) for entry in document.calls or ()]
    session.adopt(document.messages, stopped["messages"] if stopped is not None else None, calls)
    session.compactor.pins = tuple(document.pins)
    session.reminders.switch(off=document.reminders_off or (), on=document.reminders_on or ())
    session.toolbox.touched.restore(document.touched_folders)
    if document.thinking_dropped:
        session.provider.drop_thinking()
    for entry in document.archive or ():
        session.compactor.archive.restore(entry["id"], entry["turn"], entry["message"])
    restore_keys(session, document)
    session.meter.usage = Usage(**{name: cast("dict[str, Any]", usage)[name] or 0 for name in _COUNTS})
    session.meter.cost = usage["cost"]
    session.turns = usage["turns"]
    session.conversation.interruption = _receipt(stopped) if stopped is not None else None


def _kinds(names: Iterable[str]) -> tuple[str, ...]:
    """Types of reminders, as far as the document can hold them."""
    return tuple(name for name in names if len(name) <= 64)[-_MOST_KINDS:]


def _interruption(session: Session, carried: Interruption | None, *, unchanged: bool) -> Interruption | None:
    """Where the last turn was stopped, with the list before it; what was `carried` of it while the list is the same."""
    stopped, before = session.conversation.interruption, session.conversation.latest
    if stopped is None:
        return None
    if unchanged and carried is not None and _receipt(carried) == stopped:
        return carried
    lists: Any = {name: list(getattr(stopped, name)) for name in _OUTCOMES}
    return cast("Interruption", lists | {"messages": before.parts.sent() if before is not None else None})


def _receipt(stored: Interruption) -> events.Interrupted:
    lists = cast("dict[str, Any]", stored)
    return events.Interrupted(**{name: tuple(lists.get(name, ())) for name in _OUTCOMES})


def _entry(kept: Archived, known: dict[str, ArchiveEntry]) -> ArchiveEntry:
    """The same object each time, so that it is encoded once."""
    entry = known.get(kept.id)
    if entry is None or entry["message"] is not kept.message:
        entry = known[kept.id] = {"id": kept.id, "turn": kept.turn, "message": cast("Message", kept.message)}
    return entry


def _model(session: Session) -> str | None:
    """What `--model` would name, if there is one; a recording says its model's name only, its origin tells the file."""
    provider = session.provider
    model = provider.origin if provider.origin.startswith(REPLAY_PREFIX) else provider.model or None
    return model and model[:NAME_LENGTH]


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


def _known_history(carried: Document) -> dict[int, tuple[Message, HistoryEntry]]:
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
    """The statistics with one more call. Models invent names: of too many tools, the rest are only in the total."""
    by_tool = stats["by_tool"]
    if result.name in by_tool or len(by_tool) < _MOST_TOOLS:
        by_tool = by_tool | {result.name: by_tool.get(result.name, 0) + 1}
    return {
        "total_calls": stats["total_calls"] + 1,
        "by_tool": by_tool,
        "failures": stats["failures"] + (result.status == "failed"),
    }


def _token_usage(session: Session) -> TokenUsage:
    """What was used; of a session that had turns, and whose usage nobody reported, that is not known."""
    counts: dict[str, Any] = _as_counts({name: getattr(session.usage, name) for name in _COUNTS})
    if session.turns and not any(counts.values()):
        counts = dict.fromkeys(counts)
    cost = session.meter.cost
    right = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost <= MOST_COUNTED
    return cast("TokenUsage", counts | {"turns": session.turns, "cost": cost if right else None})


def _as_counts(values: dict[str, Any]) -> dict[str, int]:
    return {name: as_count(value, MOST_COUNTED) for name, value in values.items()}
