"""The pipe on stdin: read to its end in bounded memory, before anything else starts."""

from __future__ import annotations

import os
import select
import sys
import time

from codelet.errors import LimitReached
from codelet.frontends.stderr import say
from codelet.record import Record
from codelet.text import valid_unicode

_HEAD = 160 << 10
_TAIL = 64 << 10
_CHUNK = 64 << 10
_PATIENCE = 2.0

_WAITING = "codelet: waiting for the pipe on stdin to end; if there is none, start codelet with </dev/null"


class Piped(Record):
    """What came through the pipe. `notes` are lines for the user about what is not as it was sent."""

    text: str
    notes: tuple[str, ...] = ()


def read_stdin(limit: float | None = None) -> Piped | None:
    """Everything on stdin if it is no terminal: at most 224 KiB, head and tail of more, to fit into a prompt.

    Raises LimitReached where it has not ended after `limit` seconds: some pipes never do (`yes |`, `</dev/zero`).
    """
    try:
        descriptor = sys.stdin.fileno()
        if sys.stdin.isatty():
            return None
        return _decoded(*_read_bounded(descriptor, limit))
    except (AttributeError, ValueError, OSError):
        return None  # closed, or not readable: there is no pipe


def _read_bounded(descriptor: int, limit: float | None) -> tuple[bytes, bytes, int]:
    head, tail, total = bytearray(), bytearray(), 0
    waiting = _Waiting(limit)
    while data := waiting.read(descriptor):
        total += len(data)
        taken = min(len(data), _HEAD - len(head))
        head += data[:taken]
        tail += data[taken:]
        if len(tail) > _TAIL + (1 << 20):
            del tail[:-_TAIL]
    dropped = max(0, len(tail) - _TAIL)
    return bytes(head), bytes(tail[dropped:]), total


class _Waiting:
    """Reads piece by piece; says once that it takes long, and stops at the limit."""

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._begun = time.monotonic()
        self._patience: float | None = _PATIENCE

    def read(self, descriptor: int) -> bytes:
        """The next piece; empty at the end. Raises LimitReached."""
        while True:
            waited = time.monotonic() - self._begun
            if self._limit is not None and waited >= self._limit:
                raise LimitReached(f"the pipe on stdin has not ended within the limit of {self._limit:g} s (--timeout)")
            if self._patience is not None and waited >= self._patience:
                self._patience = None
                say(_WAITING)
            moments = [moment for moment in (self._limit, self._patience) if moment is not None]
            if select.select([descriptor], [], [], min(moments) - waited if moments else None)[0]:
                return os.read(descriptor, _CHUNK)


def _decoded(head: bytes, tail: bytes, total: int) -> Piped:
    notes = []
    dropped = total - len(head) - len(tail)
    data = head + tail
    if dropped:
        notes.append(f"stdin has {total:,} bytes: {dropped:,} in the middle are left out")
        data = head + f"\n[… {dropped:,} bytes left out …]\n".encode() + tail
    text = data.decode("utf-8", "replace")
    if "\ufffd" in text or "\0" in text:
        notes.append("stdin is not all UTF-8 text: what is not is replaced")
        text = text.replace("\0", "\u2400")
    return Piped(valid_unicode(text), tuple(notes))
