"""The prompt history in the file that the user named: one JSON text per line, newest last."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit.history import History

from codelet.errors import UsageError
from codelet.safety.opener import open_named
from codelet.safety.secrets import mask

_MOST_READ = 2 << 20
"""Bytes read from the file's end."""

_LONGEST_KEPT = 20_000
"""The longest entry, in characters."""


class HistoryFile(History):
    """A history file that only its owner can read. Several sessions may write to it.

    `whole` expands paste markers. `complain` reports once that saving fails. Keys and tokens are masked. Raises
    UsageError if the file cannot be read and written.
    """

    def __init__(self, path: Path, whole: Callable[[str], str], complain: Callable[[str], None]) -> None:
        super().__init__()
        self._path = path
        self._whole = whole
        self._complain = complain
        self._earlier = self._read()

    def load_history_strings(self) -> Iterable[str]:
        """Return earlier entries, newest first."""
        return reversed(self._earlier)

    def store_string(self, string: str) -> None:
        """Append an entry. A failure is reported once and ends saving."""
        text = self._whole(string)
        if len(text) > _LONGEST_KEPT:
            return
        line = json.dumps(mask(text, patterns=True), ensure_ascii=False) + "\n"
        try:
            descriptor = self._open()
            try:
                os.write(descriptor, line.encode("utf-8", "replace"))  # one write: lines of two sessions do not mix
            finally:
                os.close(descriptor)
        except OSError as error:
            complain, self._complain = self._complain, lambda text: None
            complain(f"what you type is not kept: {self._path}: {error.strerror or error}")

    def _open(self) -> int:
        return open_named(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)

    def _read(self) -> list[str]:
        try:
            descriptor = self._open()
        except OSError as error:
            raise UsageError(f"--history {self._path}: {error.strerror or error}") from None
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"--history {self._path}: this is not a file")
            file.seek(max(0, status.st_size - _MOST_READ))
            lines = file.read().split(b"\n")
        entries = [_entry(line) for line in lines[status.st_size > _MOST_READ :] if line]
        if lines and any(lines) and not any(entries):
            raise UsageError(f"--history {self._path}: not one of codelet's history files, so it is not used")
        return [entry for entry in entries if entry]


def _entry(line: bytes) -> str:
    """Return a line's entry; "" for a damaged line."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""
