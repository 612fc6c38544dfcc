"""The audit file: an append-only list of records, each chained to the previous one by its hash; and its verifier.

One JSON object per line: `n` counts from 1, `previous` is the hash of the record before, `hash` that of the record
itself without this field. A changed, removed, added or moved line breaks the chain. A session whose last record is gone
from the file ends with an error. The next record takes the place of a killed writer's partial line. A rewrite of the
file or its end with new hashes, while no session writes, shows only in a comparison of the last hash, which `verify`
returns, with a copy elsewhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import time
from pathlib import Path
from typing import Any

from codelet.errors import EXIT_INCOMPLETE, CodeletError, UsageError
from codelet.record import Record
from codelet.safety.opener import open_named
from codelet.safety.secrets import mask

FIRST = "0" * 64
"""The first record's `previous`."""

_BEGINNING = b'{"hash":"'
_TAIL = 1 << 16
_LOCK_SECONDS, _LOCK_PAUSE = 10.0, 0.01


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
        self._last, self._last_at = b"", 0
        self._closed = False
        self._lost: AuditError | None = None
        self.record("start")

    def record(self, kind: str, **fields: object) -> None:
        """Append one record, with the file locked. Raises AuditError if it, or one before it, cannot be written."""
        if self._lost is not None:
            raise self._lost
        plain = {key: _masked(value) for key, value in fields.items()}
        self._lock()
        try:
            # No one could ever read further records, or they would hide that earlier ones are gone.
            if os.fstat(self._file).st_nlink == 0:
                raise AuditError(f"the audit file {self._path} was deleted or replaced: nothing more can be recorded")
            if os.pread(self._file, len(self._last), self._last_at) != self._last:
                raise AuditError(f"the audit file {self._path} was cut or rewritten: nothing more can be recorded")
            number, previous = self._end()
            record = plain | {"n": number + 1, "time": round(time.time(), 3), "session": self._session, "kind": kind}
            record["previous"] = previous
            line = canonical(record | {"hash": record_hash(record)}) + b"\n"
            at = os.fstat(self._file).st_size
            if os.write(self._file, line) != len(line):
                raise OSError("the disk is full")
            self._last, self._last_at = line, at
        except OSError as error:
            self._lost = AuditError(f"the audit file {self._path} cannot be written: {error.strerror or error}")
            raise self._lost from error
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

    def _end(self) -> tuple[int, str]:
        """The number and hash of the last record. A partial line after it is removed, or gets its missing newline."""
        size = os.fstat(self._file).st_size
        tail, length = b"", _TAIL
        while len(tail) < size and tail.count(b"\n") < 2:
            tail = os.pread(self._file, length, max(0, size - length))
            length *= 2
        *lines, torn = tail.split(b"\n")
        if torn and _parsed(torn):
            os.write(self._file, b"\n")
            lines, torn = [torn], b""
        last = _parsed(lines[-1]) if lines else None
        if last is None and (lines or torn[: len(_BEGINNING)] != _BEGINNING[: len(torn)]):
            raise UsageError(f"{self._path} is no audit file; nothing was written to it")
        if torn:
            os.ftruncate(self._file, size - len(torn))
        return (last["n"], last["hash"]) if last else (0, FIRST)


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


class AuditReport(Record):
    """The number of records, the problems, each with its line from 1 on, and the last hash, for a copy elsewhere.

    `unclosed` names the sessions without a closing record: each still runs, was killed, or had its end cut off.
    """

    records: int
    problems: tuple[tuple[int, str], ...]
    last_hash: str
    unclosed: tuple[str, ...]


def verify(path: Path) -> AuditReport:
    """Check the whole file. Raises UsageError if it cannot be read."""
    try:
        if not path.is_file() and path.exists():  # a pipe might never begin
            raise UsageError(f"cannot read the audit file {path}: it is no regular file")
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"cannot read the audit file {path}: {error.strerror}") from error
    problems: list[tuple[int, str]] = []
    records, number, previous = 0, 0, FIRST
    unclosed: dict[str, None] = {}
    for at, line in enumerate(lines[:-1], 1):
        record = _parsed(line)
        if record is None:
            problems.append((at, "changed or added: it is no audit record"))
            continue
        records += 1
        sound = record["hash"] == record_hash(record) and canonical(record) == line
        expected = number + 1
        number = record["n"] if sound else expected
        if not sound:
            problems.append((at, "changed: its content does not fit its hash"))
        elif number != expected or record["previous"] != previous:
            what = f"record {number} does not continue record {expected - 1}"
            problems.append((at, f"a line was changed, removed, added or moved: {what}"))
        previous = record["hash"]
        if not sound and (following := _parsed(lines[at])):  # so one changed line is one problem, not two
            previous = following["previous"]
        if record["kind"] == "end":
            unclosed.pop(record["session"], None)
        else:
            unclosed.setdefault(record["session"])
    if lines[-1]:
        problems.append((len(lines), "the last line is cut off"))
    return AuditReport(records, tuple(problems), previous, tuple(unclosed))


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    kinds = {"n": int, "hash": str, "previous": str, "kind": str, "session": str}
    is_record = isinstance(record, dict) and all(type(record.get(key)) is kind for key, kind in kinds.items())
    return record if is_record else None
