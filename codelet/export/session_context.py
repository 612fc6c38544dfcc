"""What stands beside a session's list, into a snapshot and back: pins, anchors, archive, switches, extensions' keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from operator import is_
from typing import TYPE_CHECKING, Any, cast

from codelet.errors import ExportError
from codelet.events import Interrupted
from codelet.export.document import FILE_NAMES, Anchor, ArchiveEntry, Interruption, check_free
from codelet.export.snapshot import Snapshot
from codelet.extensions.base import UNSAID, ExportPart
from codelet.loop.session import Session
from codelet.messages import Message

if TYPE_CHECKING:
    from codelet.context.compaction.archive import Archived

_LONGEST_PROBLEM = 200
_FIELDS = frozenset({"facts", "plan", "active_tasks", "profile"})
"""The document's fields that an extension keeps, where one is there."""


def context_of(
    session: Session, carried: Snapshot | None, archive: dict[str, ArchiveEntry] | None = None
) -> dict[str, Any]:
    """The parts of a snapshot that the session's list does not show.

    What `carried`, the snapshot that was resumed, says of a list that is still the same stays as it is. With `archive`,
    which is the caller's to keep from one save to the next, also what compaction took out.
    """
    parts: dict[str, Any] = {
        "pins": session.compactor.pins,
        "reminders_off": session.reminders.switched_off,
        "reminders_on": session.reminders.switched_on or None,
        "touched_folders": tuple(session.touched.names),
        "thinking_dropped": session.provider.drops_thinking or None,
    }
    if (report := session.compactor.report) is not None:
        parts["anchors"] = tuple(Anchor(turn=a.turn, kind=a.kind, text=a.text) for a in report.anchors)
    if (interruption := _interruption(session, carried)) is not None:
        parts["interruption"] = interruption
    if archive is not None:
        parts["archive"] = tuple(_entry(kept, archive) for kept in session.compactor.archive.entries())
    return parts


def restore_context(session: Session, snapshot: Snapshot) -> None:
    """Bring pins, archive, switches and the folders worked in back into a session that has adopted the list."""
    session.compactor.pins = snapshot.pins
    session.reminders.switch(off=snapshot.reminders_off, on=snapshot.reminders_on or ())
    session.touched.restore(snapshot.touched_folders)
    if snapshot.thinking_dropped:
        session.provider.drop_thinking()
    for entry in snapshot.archive or ():
        session.compactor.archive.restore(entry["id"], entry["turn"], entry["message"])
    for part in parts_of(session):
        if part.key in _FIELDS:
            part.restore(getattr(snapshot, part.key))
        elif part.key in snapshot.unknown:
            value = snapshot.unknown[part.key]
            _check(part, value)
            part.restore(value)


class ExtensionKeys:
    """What a session's extensions keep in the export. What cannot be saved stays as it was last saved.

    `unknown` are the keys that the document does not know, as a file held them.
    """

    def __init__(self, unknown: Mapping[str, Any]) -> None:
        self._unknown = unknown
        self._fields: dict[str, Any] = {}
        self._problems: dict[str, str] = {}
        self._notices: list[str] = []

    def now(self, session: Session) -> dict[str, Any]:
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
        self._fields |= {key: saved.pop(key) for key in _FIELDS if key in saved}
        if saved:
            self._unknown = {**self._unknown, **saved}
        return {**self._fields, "unknown": self._unknown}

    def notices(self) -> list[str]:
        """Lines for the user; each is returned once."""
        told, self._notices = self._notices, []
        return told

    def _tell(self, key: str, problem: str) -> None:
        if self._problems.get(key) != problem:
            self._problems[key] = problem
            kept = "as it was last saved" if key in self._unknown or key in self._fields else "left out"
            self._notices.append(f"the export's key {key!r}, which an extension keeps, is {kept}: {problem}")


def _saved(part: ExportPart) -> Any:
    try:
        value = part.save()
        if value is not UNSAID:
            check_free(value)
            json.dumps(value)  # what is no JSON would fail where everything else is saved
    except Exception as error:
        raise ExportError(f"{type(error).__name__}: {error}"[:_LONGEST_PROBLEM]) from error
    return value


def parts_of(session: Session) -> list[ExportPart]:
    """What the session's extensions keep in an export. Raises ExportError where a key is taken."""
    parts = [part for each in session.extensions for part in each.parts]
    taken = [name for name in FILE_NAMES.values() if name not in _FIELDS]
    keys = [*taken, *(part.key for part in parts)]
    if twice := [part.key for part in parts if keys.count(part.key) > 1]:
        raise ExportError(f"an extension cannot have the key {twice[0]!r}: it is taken")
    return parts


def _check(part: ExportPart, value: object) -> None:
    """Raises ExportError where a file's value does not fit the part's schema."""
    from jsonschema.exceptions import best_match
    from jsonschema.validators import Draft202012Validator, validator_for
    from jsonschema_specifications import REGISTRY

    form = part.form()
    kind = validator_for(form, default=Draft202012Validator)
    problem = best_match(kind(form, registry=REGISTRY).iter_errors(value))
    if problem is not None:
        raise ExportError(f"{part.key!r} in the export is not as it must be: {problem.message[:_LONGEST_PROBLEM]}")


def _same(messages: list[Message], carried: tuple[Message, ...]) -> bool:
    return len(messages) == len(carried) and all(map(is_, messages, carried))


def _interruption(session: Session, carried: Snapshot | None) -> Interruption | None:
    """Where the turn was stopped, with the list before it; None where nothing is to be said anew."""
    stopped, before = session.interruption, session.conversation.latest
    unchanged = carried is not None and _same(session.conversation.sent(), carried.messages)
    known = carried.interruption if carried is not None and unchanged else None
    if stopped is None or known is not None:
        return None
    return interruption_of(stopped, before.parts.sent() if before is not None else None)


def interruption_of(stopped: Interrupted, messages: list[Message] | None = None) -> Interruption:
    """The receipt of a stopped turn as a document holds it."""
    return {
        "done": list(stopped.done),
        "failed": list(stopped.failed),
        "half_done": list(stopped.half_done),
        "not_done": list(stopped.not_done),
        "refused": list(stopped.refused),
        "messages": messages,
    }


def receipt_of(stored: Interruption) -> Interrupted:
    """The receipt that a document holds."""
    return Interrupted(
        done=tuple(stored["done"]),
        failed=tuple(stored.get("failed", ())),
        half_done=tuple(stored["half_done"]),
        not_done=tuple(stored["not_done"]),
        refused=tuple(stored.get("refused", ())),
    )


def _entry(kept: Archived, known: dict[str, ArchiveEntry]) -> ArchiveEntry:
    """The same object each time, so that it is encoded once."""
    entry = known.get(kept.id)
    if entry is None or entry["message"] is not kept.message:
        entry = known[kept.id] = {"id": kept.id, "turn": kept.turn, "message": cast("Message", kept.message)}
    return entry
