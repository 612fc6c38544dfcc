"""The records of a conversation's calls as the export holds them, and back."""

from __future__ import annotations

from collections.abc import Iterable

from codelet.call_record import CallRecord, CommandEnd, FileFact
from codelet.export.document import CallEntry, FileEntry


class CallEntries:
    """The entries of a session's records. Each is made once, so that it is also encoded once."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[CallRecord, CallEntry]] = {}

    def of(self, records: Iterable[CallRecord]) -> tuple[CallEntry, ...]:
        """Return an entry for each record."""
        before = self._made
        self._made = {id(record): before.get(id(record)) or (record, call_entry(record)) for record in records}
        return tuple(entry for _, entry in self._made.values())


def call_entry(record: CallRecord) -> CallEntry:
    """Return a record as plain JSON; what it does not say is left out."""
    entry: CallEntry = {
        "id": record.id,
        "turn": record.turn,
        "tool": record.tool,
        "title": record.title,
        "status": record.status,
        "changes": record.changes,
        "seconds": round(record.seconds, 3),
    }
    if record.files:
        entry["files"] = list(map(_file_entry, record.files))
    if record.commands:
        entry["commands"] = list(record.commands)
    if record.confined is not None:
        entry["confined"] = record.confined
    if (ended := record.ended) is not None:
        entry["ended"] = {
            "code": ended.code,
            "pipeline": None if ended.pipeline is None else list(ended.pipeline),
        }
    return entry


def _file_entry(fact: FileFact) -> FileEntry:
    entry: FileEntry = {"effect": fact.effect, "path": fact.path}
    if fact.lines is not None:
        entry["lines"] = fact.lines
    if fact.bytes is not None:
        entry["bytes"] = fact.bytes
    return entry


def record_of(entry: CallEntry) -> CallRecord:
    """Return the record that an entry holds."""
    ended = entry.get("ended")
    pipeline = None if ended is None or ended["pipeline"] is None else tuple(ended["pipeline"])
    return CallRecord(
        id=entry["id"],
        turn=entry["turn"],
        tool=entry["tool"],
        title=entry["title"],
        status=entry["status"],
        changes=entry["changes"],
        files=tuple(
            FileFact(file["effect"], file["path"], file.get("lines"), file.get("bytes"))
            for file in entry.get("files", ())
        ),
        commands=tuple(entry.get("commands", ())),
        confined=entry.get("confined"),
        ended=None if ended is None else CommandEnd(code=ended["code"], pipeline=pipeline),
        seconds=entry["seconds"],
    )
