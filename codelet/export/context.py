"""What a session's compactor and checkpoints hold, into a snapshot and back: pins, anchors, archive, switches."""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any, cast

from codelet.export.document import Anchor, ArchiveEntry, Interruption
from codelet.export.snapshot import Snapshot
from codelet.messages import Message
from codelet.reminders import zones
from codelet.session import Session

if TYPE_CHECKING:
    from codelet.compaction.archive import Archived


def context_of(
    session: Session, carried: Snapshot | None, archive: dict[str, ArchiveEntry] | None = None
) -> dict[str, Any]:
    """The parts of a snapshot that the session's list does not show.

    What `carried`, the snapshot that was resumed, says of a list that is still the same stays as it is. With `archive`,
    which is the caller's to keep from one save to the next, also what compaction took out.
    """
    parts: dict[str, Any] = {
        "pins": session.compactor.pins,
        "reminders_off": tuple(kind for kind in zones.TYPES if kind in session.reminders.off),
        "touched_folders": tuple(session.touched.names),
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
    session.reminders.off |= {kind for kind in snapshot.reminders_off if kind in zones.TYPES}
    session.touched.restore(snapshot.touched_folders)
    for entry in snapshot.archive or ():
        session.compactor.archive.restore(entry["id"], entry["turn"], entry["message"])


def _same(messages: list[Message], carried: tuple[Message, ...]) -> bool:
    return len(messages) == len(carried) and all(map(is_, messages, carried))


def _interruption(session: Session, carried: Snapshot | None) -> Interruption | None:
    """Where the turn was stopped, with the list before it; None where nothing is to be said anew."""
    stopped, before = session.interruption, session.conversation.latest
    unchanged = carried is not None and _same(session.conversation.sent(), carried.messages)
    known = carried.interruption if carried is not None and unchanged else None
    if stopped is None or known is not None:
        return None
    return {
        "done": list(stopped.done),
        "half_done": list(stopped.half_done),
        "not_done": list(stopped.not_done),
        "messages": before.parts.sent() if before is not None else None,
    }


def _entry(kept: Archived, known: dict[str, ArchiveEntry]) -> ArchiveEntry:
    """The same object each time, so that it is encoded once."""
    entry = known.get(kept.id)
    if entry is None or entry["message"] is not kept.message:
        entry = known[kept.id] = {"id": kept.id, "turn": kept.turn, "message": cast("Message", kept.message)}
    return entry
