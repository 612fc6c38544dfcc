"""What a session's compactor and checkpoints hold, into a snapshot and back: pins, segments, anchors, archive."""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any, cast

from codelet.export.snapshot import Anchor, ArchiveEntry, Interruption, Segment, Snapshot
from codelet.messages import Message
from codelet.prompt import is_segment
from codelet.session import Session

if TYPE_CHECKING:
    from codelet.compaction.archive import Archived


def context_of(session: Session, carried: Snapshot | None, *, archive: bool) -> dict[str, Any]:
    """The parts of a snapshot that the session's list does not show; `archive` adds what compaction took out.

    What `carried`, the snapshot that was resumed, says of a list that is still the same stays as it is.
    """
    parts: dict[str, Any] = {"pins": session.compactor.pins}
    if carried is None or not _same(session.messages, carried.messages):
        parts["segments"] = tuple(_segment(message) for message in session.messages if is_segment(message["content"]))
    if (report := session.compactor.report) is not None:
        parts["anchors"] = tuple(Anchor(turn=a.turn, kind=a.kind, text=a.text) for a in report.anchors)
    if (interruption := _interruption(session, carried)) is not None:
        parts["interruption"] = interruption
    if archive:
        parts["archive"] = tuple(_entry(kept) for kept in session.compactor.archive.entries())
    return parts


def restore_context(session: Session, snapshot: Snapshot) -> None:
    """Bring pins and archive back into a session that has adopted the snapshot's list."""
    session.compactor.pins = snapshot.pins
    for entry in snapshot.archive or ():
        for message in entry["messages"]:
            session.compactor.archive.restore(entry["id"], entry["turn"], message)


def _same(messages: list[Message], carried: tuple[Message, ...]) -> bool:
    return len(messages) == len(carried) and all(map(is_, messages, carried))


def _interruption(session: Session, carried: Snapshot | None) -> Interruption | None:
    """Where the turn was stopped, with the list before it; None where nothing is to be said anew."""
    stopped, before = session.interruption, session.checkpoints.latest
    known = carried.interruption if carried is not None and _same(session.messages, carried.messages) else None
    if stopped is None or known is not None:
        return None
    return {
        "done": list(stopped.done),
        "half_done": list(stopped.half_done),
        "not_done": list(stopped.not_done),
        "messages": before.messages if before is not None else None,
    }


def _segment(message: Message) -> Segment:
    from codelet.compaction.segments import parse

    text = message["content"] or ""
    segment = parse(text)
    return {"first": segment.first, "last": segment.last, "text": text}


def _entry(kept: Archived) -> ArchiveEntry:
    return {"id": kept.id, "turn": kept.turn, "messages": [cast("Message", kept.message)]}
