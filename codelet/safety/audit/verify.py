"""Verify an audit file: find every line that was changed, removed, added or moved, and say where."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codelet.errors import UsageError
from codelet.record import Record
from codelet.safety.audit.log import FIRST, canonical, partial_line_hash, record_hash


class AuditProblem(Record):
    """A problem at a line of the file, counted from 1."""

    line: int
    what: str


class AuditReport(Record):
    """The number of records, the problems, and the last hash, for a copy elsewhere.

    `unclosed` names the sessions without a closing record: each still runs, was killed, or had its end cut off.
    """

    records: int
    problems: tuple[AuditProblem, ...]
    last_hash: str
    unclosed: tuple[str, ...]


def verify(path: Path) -> AuditReport:
    """Check the whole file. Raises UsageError if it cannot be read."""
    content = _content(path)
    check = _Check()
    lines = content.split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        check.problems += check.line(number, line, lines[number])
    if lines[-1]:
        check.problems.append(AuditProblem(len(lines), "the last line is cut off"))
    return AuditReport(check.records, tuple(check.problems), check.previous, tuple(check.open))


def _content(path: Path) -> bytes:
    try:  # without waiting: a pipe might never begin
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"cannot read the audit file {path}: it is no regular file")
            return file.read()
    except OSError as error:
        raise UsageError(f"cannot read the audit file {path}: {error.strerror}") from error


class _Check:
    def __init__(self) -> None:
        self.problems: list[AuditProblem] = []
        self.records = 0
        self.previous = self.last_whole = FIRST  # they differ after a partial line only
        self.number = 0
        self.open: dict[str, int] = {}
        self._last_of: dict[str, str] = {}

    def line(self, at: int, line: bytes, following: bytes) -> Iterator[AuditProblem]:
        record = _parsed(line)
        if record is None:
            if _recovers(following, line):
                self.previous = partial_line_hash(line)
            else:
                yield AuditProblem(at, "changed or added: it is no audit record")
            return
        self.records += 1
        sound = record["hash"] == record_hash(record) and canonical(record) == line
        if not sound:
            yield AuditProblem(at, "changed: its content does not fit its hash")
        expected = self.number + 1
        after = record.get("after", self.last_whole) if record["kind"] == "recovered" else self.last_whole
        if record["n"] != expected and sound:
            yield AuditProblem(at, _displaced(record["n"], expected))
        elif (record["previous"] != self.previous or after != self.last_whole) and sound:
            yield AuditProblem(at, "the line before it was changed, removed or added: the chain is broken here")
        elif sound:
            yield from self._own(at, record)
        self._last_of[record["session"]] = record["hash"]
        self.number = record["n"] if sound else expected
        self.previous = self.last_whole = record["hash"] if sound else _claimed(following, record)
        if record["kind"] == "end":
            self.open.pop(str(record["session"]), None)
        else:  # also without a start: the file may have been cut right after the partial line that a session found
            self.open.setdefault(str(record["session"]), at)

    def _own(self, at: int, record: dict[str, Any]) -> Iterator[AuditProblem]:
        """Check for missing records of the session before this one; older versions wrote no `before`."""
        before, known = record.get("before"), self._last_of.get(record["session"])
        if record["kind"] == "broken":
            yield AuditProblem(at, f"cut or rewritten: the session's record {record.get('missing')} was gone")
        elif known is None and (record["kind"] not in ("start", "recovered") or before not in (None, FIRST)):
            yield AuditProblem(at, "the beginning of its session is missing: the file was cut or rewritten")
        elif known is not None and before is not None and before != known:
            yield AuditProblem(at, "a record of its session before this one is missing")


def _displaced(number: int, expected: int) -> str:
    if number > expected:
        missing = f"{expected}" if number == expected + 1 else f"{expected} to {number - 1}"
        return f"removed or moved: record {missing} is missing before record {number}"
    return f"added or moved: record {number} is at the place of record {expected}"


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    kinds = {"n": int, "hash": str, "previous": str, "kind": str, "session": str}
    return record if all(isinstance(record.get(key), kind) for key, kind in kinds.items()) else None


def _recovers(following: bytes, torn: bytes) -> bool:
    """Return whether the next record bridges the partial line of a killed writer."""
    record = _parsed(following)
    return record is not None and record["kind"] == "recovered" and record["previous"] == partial_line_hash(torn)


def _claimed(following: bytes, changed: dict[str, Any]) -> str:
    # The hash that the next record names: so one changed line is reported as one problem, not as two.
    record = _parsed(following)
    return str(record["previous"]) if record else str(changed["hash"])
