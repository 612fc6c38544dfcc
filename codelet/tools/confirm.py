"""Confirms ripgrep's hits: a line is shown only if it is in a file that was opened without following links.

ripgrep walks by path. If a folder is swapped for a link in the middle of its walk, it leads elsewhere, and no option
prevents that. So each hit that is to be shown is looked up once more, in the file opened component by component; a hit
that is not there, or has changed since, is dropped.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from codelet.record import Record
from codelet.safety.opener import open_file, status_of

# Of a line at most 300 characters are shown, which are no more bytes than this.
_COMPARED = 1_200
_WIDE_MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_MARK = b"\xef\xbb\xbf"
_MOST_DECODED = 32 << 20


class FoundLine(Record):
    """A line that a search found: a match, or with `match` False one of context. A file that was found has line 0.

    `offset` is where the line begins in the file, in bytes behind its byte order mark.
    """

    path: str
    line: int = 0
    match: bool = True
    text: bytes = b""
    offset: int = 0


def confirmed(hits: Iterable[FoundLine], shown: int) -> Iterator[FoundLine]:
    """The hits that are really there, in order. After `shown` matches the rest only count, and pass unchecked."""
    file = _File("")
    unseen = False
    try:
        for hit in hits:
            unseen = unseen or (hit.match and shown <= 0)
            if unseen:
                yield hit
                continue
            if hit.path != file.path:
                file.close()
                file = _File(hit.path)
            if file.holds(hit):
                shown -= hit.match
                yield hit
    finally:
        file.close()


class _File:
    """One file that was found, opened at its first line. An empty path names none."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._failed = False
        self._start = 0
        self._decoded: list[bytes] | None = None

    def holds(self, hit: FoundLine) -> bool:
        """Return whether the file is there, and the hit's line in it."""
        try:
            if not hit.line:
                return stat.S_ISREG(status_of(Path(self.path)).st_mode)
            if self._descriptor is None and not self._failed:
                self._open()
            return not self._failed and self._has_line(hit)
        except OSError:
            self._failed = True
            return False

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> None:
        self._failed = True
        self._descriptor = open_file(Path(self.path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            return
        self._failed = False
        sample = os.pread(self._descriptor, 3, 0)
        self._start = len(_MARK) if sample == _MARK else 0
        for mark, codec in _WIDE_MARKS:
            if sample.startswith(mark):
                text = os.pread(self._descriptor, _MOST_DECODED, len(mark)).decode(codec, "replace")
                self._decoded = text.encode("utf-8", "replace").split(b"\n")

    def _has_line(self, hit: FoundLine) -> bool:
        wanted = hit.text[:_COMPARED]
        if self._decoded is not None:
            return hit.line <= len(self._decoded) and self._decoded[hit.line - 1].startswith(wanted)
        assert self._descriptor is not None
        return os.pread(self._descriptor, len(wanted), self._start + hit.offset) == wanted
