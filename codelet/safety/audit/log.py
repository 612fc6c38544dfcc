"""The audit file: an append-only list of records, each chained to the previous one by its hash; and its verifier.

One JSON object per line: `n` counts from 1, `previous` is the hash of the record before, `hash` that of the record
itself without this field, `before` that of the session's own record before. A changed, removed, added or moved line
breaks the chain. A session whose last record is gone from the file writes a record `broken`. The next record takes the
place of a killed writer's partial line. A rewrite of the file or its end with new hashes, while no session writes,
shows only in a comparison of the last hash, which `verify` returns, with a copy elsewhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codelet.errors import EXIT_INCOMPLETE, CodeletError, UsageError
from codelet.record import Record
from codelet.safety.opener import open_named
from codelet.safety.secrets import mask

FIRST = "0" * 64
"""The first record's `previous`."""

_BEGINNING = b'{"before":"' + FIRST.encode()
_TAIL = 1 << 16
_RESERVED = frozenset(("n", "time", "session", "kind", "previous", "before", "hash"))
_LOCK_SECONDS, _LOCK_PAUSE = 10.0, 0.01
_HASH = re.compile("[0-9a-f]{64}")


def record_hash(record: dict[str, Any]) -> str:
    """The hash of a record without its own field `hash`."""
    return hashlib.sha256(canonical({key: value for key, value in record.items() if key != "hash"})).hexdigest()


def canonical(record: dict[str, Any]) -> bytes:
    """The record's line in the file, without the newline."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


class AuditError(CodeletError):
    """A record cannot be written: nothing may continue unrecorded."""

    exit_status = EXIT_INCOMPLETE


class AuditLog:
    """The writer of one session's records; other sessions may append to the same file.

    Raises UsageError if the file cannot be opened or is no audit file. Secrets are masked. Another writer may hold the
    file's lock for `patience` seconds.
    """

    def __init__(self, path: Path, *, patience: float = _LOCK_SECONDS) -> None:
        try:
            self._file = open_named(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            raise UsageError(f"cannot write the audit file {path}: {error.strerror}") from error
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            os.close(self._file)
            raise UsageError(f"cannot write the audit file {path}: it is no regular file")
        self._path, self._patience = path, patience
        self._session = os.urandom(8).hex()
        self._known: tuple[int, int, str] | None = None
        self._last = b""
        self._before = FIRST
        self._closed = False
        self.record("start")

    def record(self, kind: str, **fields: object) -> None:
        """Append one record, with the file locked. Raises AuditError if it cannot be written."""
        if _RESERVED & fields.keys():
            raise ValueError(f"an audit record names these itself: {sorted(_RESERVED & fields.keys())}")
        plain = {key: _masked(value) for key, value in fields.items()}
        self._lock()
        try:
            if os.fstat(self._file).st_nlink == 0:  # no one could ever read its records
                raise AuditError(f"the audit file {self._path} was deleted or replaced: nothing more can be recorded")
            at = self._known[0] - len(self._last) if self._known else 0
            gone = self._known is not None and os.pread(self._file, len(self._last), at) != self._last
            missing = self._before
            number, previous = self._end()
            if gone:
                number, previous = self._append(number, previous, "broken", {"missing": missing})
            number, previous = self._append(number, previous, kind, plain)
            self._known = (os.fstat(self._file).st_size, number, previous)
        except OSError as error:
            raise AuditError(f"the audit file {self._path} cannot be written: {error.strerror or error}") from error
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _lock(self) -> None:
        """Wait for other writers. Raises AuditError after `patience` seconds."""
        end = time.monotonic() + self._patience
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > end:
                    why = f"another program holds its lock for {self._patience:g} s"
                    raise AuditError(f"the audit file {self._path} cannot be written: {why}") from None
                time.sleep(_LOCK_PAUSE)

    def close(self) -> None:
        """Append the closing record: without it the end of the file counts as cut off. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        try:
            self.record("end")
        finally:
            os.close(self._file)

    def _append(self, number: int, previous: str, kind: str, fields: dict[str, object]) -> tuple[int, str]:
        record: dict[str, object] = dict(fields)
        record |= {"n": number + 1, "time": round(time.time(), 3), "session": self._session, "kind": kind}
        record["previous"], record["before"] = previous, self._before
        record["hash"] = record_hash(record)
        line = canonical(record) + b"\n"
        if os.write(self._file, line) != len(line):
            raise OSError("the disk is full")
        self._last, self._before = line, str(record["hash"])
        return number + 1, self._before

    def _end(self) -> tuple[int, str]:
        """The number and hash of the last record. A partial line after it is removed, or gets its missing newline."""
        size = os.fstat(self._file).st_size
        if size == 0:
            return 0, FIRST
        if self._known and self._known[0] == size:
            return self._known[1:]
        start = size
        tail = b""
        while start and tail.count(b"\n") < 2:
            start = max(0, size - 2 * (size - start) - _TAIL)
            tail = os.pread(self._file, size - start, start)
        *lines, torn = tail.split(b"\n")
        if torn and (whole := _number_and_hash(torn)):
            os.write(self._file, b"\n")
            return whole
        last = _number_and_hash(lines[-1]) if lines else (0, FIRST) if _BEGINNING.startswith(torn[:20]) else None
        if last is None:
            raise UsageError(f"{self._path} is no audit file; nothing was written to it")
        if torn:
            os.ftruncate(self._file, size - len(torn))
        return last


def _number_and_hash(line: bytes) -> tuple[int, str] | None:
    try:
        record = json.loads(line)
        number, written = record["n"], record["hash"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    whole = type(number) is int and number > 0 and isinstance(written, str) and _HASH.fullmatch(written)
    return (number, written) if whole else None


def _masked(value: object) -> object:
    """The value as JSON, with secrets masked and lone surrogates replaced."""
    if isinstance(value, str):
        return mask(value.encode("utf-8", "replace").decode(), patterns=True)
    if isinstance(value, dict):
        return {mask(str(key)): _masked(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return _masked(str(value))


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
        self.previous = FIRST
        self.number = 0
        self.open: dict[str, int] = {}
        self._last_of: dict[str, str] = {}

    def line(self, at: int, line: bytes, following: bytes) -> Iterator[AuditProblem]:
        record = _parsed(line)
        if record is None:
            yield AuditProblem(at, "changed or added: it is no audit record")
            return
        self.records += 1
        sound = record["hash"] == record_hash(record) and canonical(record) == line
        if not sound:
            yield AuditProblem(at, "changed: its content does not fit its hash")
        expected = self.number + 1
        if record["n"] != expected and sound:
            number, last = record["n"], record["n"] - 1
            missing = f"{expected}" if last == expected else f"{expected} to {last}"
            removed = f"removed or moved: record {missing} is missing before record {number}"
            added = f"added or moved: record {number} is at the place of record {expected}"
            yield AuditProblem(at, removed if number > expected else added)
        elif record["previous"] != self.previous and sound:
            yield AuditProblem(at, "the line before it was changed, removed or added: the chain is broken here")
        elif sound:
            yield from self._own(at, record)
        self._last_of[record["session"]] = record["hash"]
        self.number = record["n"] if sound else expected
        # Else the hash that the next record names: so one changed line is reported as one problem, not as two.
        self.previous = (
            record["hash"] if sound else str((_parsed(following) or {"previous": record["hash"]})["previous"])
        )
        if record["kind"] == "end":
            self.open.pop(str(record["session"]), None)
        else:
            self.open.setdefault(str(record["session"]), at)

    def _own(self, at: int, record: dict[str, Any]) -> Iterator[AuditProblem]:
        """Check for missing records of the session before this one; older versions wrote no `before`."""
        before, known = record.get("before"), self._last_of.get(record["session"])
        if record["kind"] == "broken":
            yield AuditProblem(at, f"cut or rewritten: the session's record {record.get('missing')} was gone")
        elif known is None and (record["kind"] != "start" or before not in (None, FIRST)):
            yield AuditProblem(at, "the beginning of its session is missing: the file was cut or rewritten")
        elif known is not None and before is not None and before != known:
            yield AuditProblem(at, "a record of its session before this one is missing")


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    kinds = {"n": int, "hash": str, "previous": str, "kind": str, "session": str}
    return record if all(isinstance(record.get(key), kind) for key, kind in kinds.items()) else None
