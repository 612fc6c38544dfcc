"""The records of a conversation's calls as the export holds them, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from codelet.call_record import CallRecord, CommandEnd, FileFact
from codelet.export.document import CallEntry
from codelet.record import Record

_IF_SAID = frozenset({"files", "commands", "confined", "ended", "lines", "bytes"})
"""What an entry leaves out if its record does not say it."""


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
    """Return a record as plain JSON."""
    return cast("CallEntry", _plain(record.replace(seconds=round(record.seconds, 3))))


def _plain(value: Any) -> Any:
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
