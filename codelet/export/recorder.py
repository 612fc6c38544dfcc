"""The rest of an export, besides the message list: collected from a session's events, and restored.

`see` takes every event; `snapshot` is cheap enough for the thread that runs the turn (it copies the list, not the
messages); `restore` brings a document into a new session. Commands, approvals and endpoints are never part of it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from operator import is_
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET

from codelet import events
from codelet.call_record import CallRecord, CommandEnd, FileFact
from codelet.context.compaction.segments import parse_segment
from codelet.conversation import Conversation
from codelet.errors import ExportError
from codelet.export.document import (
    FILE_NAMES,
    FORMS,
    MOST_COUNTED,
    NAME_LENGTH,
    Anchor,
    ArchiveEntry,
    CallEntry,
    CompactionMark,
    Document,
    EnvironmentState,
    Interruption,
    Segment,
    StepMark,
    TokenUsage,
    ToolStats,
    check_free,
    problem,
)
from codelet.export.history import History, LongTermSummary
from codelet.extensions.base import UNSAID, ExportPart
from codelet.loop.session import Session
from codelet.messages import Message, kind_of
from codelet.providers import REPLAY_PREFIX
from codelet.providers.protocol import as_count
from codelet.record import Record
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.context.archive import Archived

TIMELINE_MARKS = 5_000
_MOST_TOOLS = 10_000
_COUNTS = ("total_input", "cache_read", "cache_write", "output", "reasoning")
_OUTCOMES = ("done", "failed", "half_done", "not_done", "refused")
_MOST_KINDS, _MOST_FOLDERS = 100, 1_000
_IF_SAID = frozenset({"files", "commands", "confined", "ended", "lines", "bytes"})
"""Fields that a call's entry omits if its record has no value."""
_LONGEST_PROBLEM = 200
_EXTENSION_FIELDS = frozenset({"facts", "plan", "active_tasks", "profile"})
"""The document's fields that belong to an extension."""


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
        self._history = History(self._carried, clock)
        self._long_term = LongTermSummary(self._carried)
        self._rewrites = -1
        self._summarized: dict[str, Any] = {}
        self._turn = self._carried.token_usage["turns"]
        self._calls: dict[int, tuple[CallRecord, CallEntry]] = {}
        self.notices = notices or events.Notices()
        self._keys = ExtensionKeys(self._carried.unknown, self.notices)

    def see(self, event: events.Event) -> bool:
        """Take an event in. True if a step is complete, so that it is time to save."""
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
        messages = tuple(session.conversation.sent())
        carried = self._carried
        unchanged = len(messages) == len(carried.messages) and all(map(is_, messages, carried.messages))
        values: dict[str, Any] = {
            "timestamp": round(self._clock(), 3),
            # The reported size holds while the list is unchanged.
            "token_count": carried.token_count if unchanged else as_count(session.size, MOST_COUNTED),
            "messages": messages,
            "model": _model(session),
            "effort": session.provider.effort,
            "token_usage": _token_usage(session),
            "tool_stats": self._stats,
            "timeline": tuple(self._timeline),
            "recent_history": self._history.newest(messages, session.compactor.archive),
            "interruption": _interruption(session, carried.interruption, unchanged=unchanged),
        }
        values |= self._keys.now(session) | self._summary(session.conversation) | self._context(session)
        return carried.replace(**values)

    def _context(self, session: Session) -> dict[str, object]:
        """The parts that the session keeps outside its list."""
        reminders, before = session.reminders, self._calls
        # Made once, so that it is also encoded once.
        self._calls = {
            id(call): before.get(id(call)) or (call, call_entry(call)) for call in session.conversation.calls
        }
        parts: dict[str, Any] = {
            "pins": session.compactor.pins,
            "reminders_off": _kinds(reminders.switched_off),
            "reminders_on": _kinds(reminders.switched_on) or UNSET,
            "touched_folders": tuple(session.toolbox.touched.names)[-_MOST_FOLDERS:],
            "thinking_dropped": session.provider.drops_thinking or UNSET,
            "calls": tuple(entry for _, entry in self._calls.values()) or UNSET,
        }
        if (report := session.compactor.report) is not None:
            parts["anchors"] = tuple(Anchor(turn=a.turn, kind=a.kind, text=a.text) for a in report.anchors)
        if self._archive is not None:
            parts["archive"] = tuple(_entry(kept, self._archive) for kept in session.compactor.archive.entries())
        if self.environment is not None:
            parts["last_known_environment"] = self.environment
        return parts

    def _summary(self, conversation: Conversation) -> dict[str, object]:
        """Return the segments of the list, and their text as the summary. Only a rewrite adds segments."""
        if self._rewrites != conversation.rewrites:
            self._rewrites = conversation.rewrites
            texts = [message["content"] or "" for message in conversation.body if kind_of(message) == "segment"]
            parsed = zip(texts, map(parse_segment, texts), strict=True)
            segments = tuple(Segment(first=each.first, last=each.last, text=text) for text, each in parsed)
            self._summarized = {
                "segments": segments,
                "summary": "\n\n".join(texts) or None,
                "long_term_summary": self._long_term.follow(segments),
            }
        return self._summarized if self._summarized["segments"] or self._carried.segments else {}

    def _mark(self, kind: str, values: Mapping[str, object]) -> None:
        mark = {"kind": kind, "timestamp": round(self._clock(), 3), "turn": self._turn, **values}
        self._timeline.append(cast("StepMark | CompactionMark", mark))
        del self._timeline[:-TIMELINE_MARKS]


def restore(session: Session, document: Document) -> None:
    """Replace a session's state by a document's: the list with its pins, archive and checkpoints, the switches, its
    usage, and where it was stopped. Nothing else.
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
    """Return where the last turn was stopped, with the list before it; what was `carried` of it while the list is the
    same.
    """
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
    """Return what `--model` would name, if there is one; a recording says its model's name only, its origin tells the
    file.
    """
    provider = session.provider
    model = provider.origin if provider.origin.startswith(REPLAY_PREFIX) else provider.model or None
    return model and model[:NAME_LENGTH]


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
    """Return what was used; of a session that had turns, and whose usage no one reported, that is not known."""
    counts: dict[str, Any] = _as_counts({name: getattr(session.usage, name) for name in _COUNTS})
    if session.turns and not any(counts.values()):
        counts = dict.fromkeys(counts)
    cost = session.meter.cost
    right = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost <= MOST_COUNTED
    return cast("TokenUsage", counts | {"turns": session.turns, "cost": cost if right else None})


def _as_counts(values: Mapping[str, object]) -> dict[str, int]:
    return {name: as_count(value, MOST_COUNTED) for name, value in values.items()}


def call_entry(record: CallRecord) -> CallEntry:
    """Return a record as plain JSON."""
    return cast("CallEntry", _plain(record.replace(seconds=round(record.seconds, 3))))


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(map(_plain, value))
    if not isinstance(value, Record):
        return value
    said = ((name, getattr(value, name)) for name in value.fields)
    return {name: _plain(item) for name, item in said if name not in _IF_SAID or item not in (None, ())}


def record_of(entry: CallEntry) -> CallRecord:
    """Return the record that an entry holds."""
    known: dict[str, Any] = {name: value for name, value in entry.items() if name in CallRecord.fields}
    known["files"] = tuple(
        FileFact(file["effect"], file["path"], file.get("lines"), file.get("bytes")) for file in entry.get("files", ())
    )
    known["commands"] = tuple(entry.get("commands", ()))
    if (ended := entry.get("ended")) is not None:
        pipeline = ended["pipeline"]
        known["ended"] = CommandEnd(code=ended["code"], pipeline=None if pipeline is None else tuple(pipeline))
    return CallRecord(**known)


class ExtensionKeys:
    """The extensions' parts of the export. A value that cannot be saved keeps its last saved state.

    `unknown` are the keys that the document does not know, as a file held them.
    """

    def __init__(self, unknown: Mapping[str, object], notices: events.Notices) -> None:
        self._notices = notices
        self._unknown = unknown
        self._fields: dict[str, Any] = {}
        self._problems: dict[str, str] = {}

    def now(self, session: Session) -> dict[str, object]:
        """The document's fields that extensions keep, and `unknown`: the keys that it does not know, with theirs.

        `unknown` is the same object where none has anything to say.
        """
        saved: dict[str, Any] = {}
        for part in parts_of(session):
            try:
                if (value := _saved(part)) is not UNSAID:
                    saved[part.key] = value
                self._problems.pop(part.key, None)
            except ExportError as error:
                self._tell(part.key, session.mask(str(error)))
        self._fields |= {key: saved.pop(key) for key in _EXTENSION_FIELDS if key in saved}
        if saved:
            self._unknown = {**self._unknown, **saved}
        return {**self._fields, "unknown": self._unknown}

    def _tell(self, key: str, problem: str) -> None:
        if self._problems.get(key) != problem:
            self._problems[key] = problem
            kept = "unchanged" if key in self._unknown or key in self._fields else "left out"
            self._notices.say(f"the export's key {key!r}, which an extension keeps, is {kept}: {problem}")


def _saved(part: ExportPart) -> object:
    """Return a copy of an extension's state as plain JSON."""
    try:
        if (value := part.save()) is UNSAID:
            return UNSAID
        check_free(value)
        value = msgspec.json.decode(msgspec.json.encode(value))
        value = tuple(value) if part.key in _EXTENSION_FIELDS and isinstance(value, list) else value
        if part.key in _EXTENSION_FIELDS:
            msgspec.convert(value, FORMS[part.key])
    except Exception as error:
        raise ExportError(problem(str(error)) or type(error).__name__) from error
    return value


def restore_keys(session: Session, document: Document) -> None:
    """Bring what extensions kept back into a session. Raises ExportError for a value that does not fit."""
    for part in parts_of(session):
        if part.key in _EXTENSION_FIELDS:
            part.restore(getattr(document, part.key))
        elif part.key in document.unknown:
            value = document.unknown[part.key]
            _check(part, value)
            part.restore(value)


def parts_of(session: Session) -> list[ExportPart]:
    """Return what the session's extensions keep in an export. Raises ExportError if a key is taken."""
    parts = [part for each in session.extensions for part in each.parts]
    taken = [name for name in FILE_NAMES.values() if name not in _EXTENSION_FIELDS]
    keys = [*taken, *(part.key for part in parts)]
    if twice := [part.key for part in parts if keys.count(part.key) > 1]:
        raise ExportError(f"an extension cannot have the key {twice[0]!r}: it is taken")
    return parts


def _check(part: ExportPart, value: object) -> None:
    """Raises ExportError if a file's value does not fit the part's schema."""
    from jsonschema.exceptions import best_match
    from jsonschema.validators import Draft202012Validator, validator_for
    from jsonschema_specifications import REGISTRY

    form = part.schema()
    kind = validator_for(form, default=Draft202012Validator)
    problem = best_match(kind(form, registry=REGISTRY).iter_errors(value))
    if problem is not None:
        raise ExportError(f"{part.key!r} in the export is not as it must be: {problem.message[:_LONGEST_PROBLEM]}")
