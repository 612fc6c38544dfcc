"""A command's output: a bounded part of it to keep, and the pieces to show while it runs. Imported with a command."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable

_STREAM_INTERVAL = 0.05
_STREAM_PIECE = 4096


class HeadAndTail:
    """The first and the last half of `limit` bytes of a stream, and a count of what lay between them."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._bytes = 0
        self._lines = 0

    def feed(self, data: bytes) -> bool:
        """Take the next bytes; always False: there is no end to what may come."""
        self._bytes += len(data)
        self._lines += data.count(b"\n")
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._half :]
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]
        return False

    def text(self) -> tuple[str, int]:
        """Return the text, with a line for the part that was left out, and that part's bytes.

        Both cuts are at line ends if there are any, else anywhere.
        """
        head, tail = bytes(self._head), bytes(self._tail[-self._half :])
        if len(head) + len(tail) == self._bytes:
            return (head + tail).decode(errors="replace"), 0
        head = head[: head.rfind(b"\n") + 1] or head
        tail = tail[tail.find(b"\n") + 1 :] or tail
        dropped = self._bytes - len(head) - len(tail)
        lines = self._lines - head.count(b"\n") - tail.count(b"\n")
        text = head.decode(errors="replace")
        gap = "" if text.endswith("\n") else "\n"
        marker = f"{gap}[… {lines} lines, {dropped} bytes left out …]\n"
        return text + marker + tail.decode(errors="replace"), dropped


class Stream:
    """Passes output on while it comes: each 50 ms at most 4 KiB, the newest of what there was."""

    def __init__(self, receive: Callable[[str], None]) -> None:
        self._receive = receive
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting = ""
        self._skipped = False
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes; after a pause they are passed on immediately."""
        self._waiting += self._decoder.decode(data)
        if len(self._waiting) > _STREAM_PIECE:
            self._waiting = self._waiting[-_STREAM_PIECE:]
            self._skipped = True
        if self._timer is None:
            self._pass_on()

    def close(self) -> None:
        """Pass the rest on."""
        self._waiting += self._decoder.decode(b"", final=True)
        self._pass_on()
        if self._timer is not None:
            self._timer.cancel()

    def _pass_on(self) -> None:
        if not self._waiting:
            self._timer = None
            return
        piece = ("[…]" if self._skipped else "") + self._waiting
        self._waiting, self._skipped = "", False
        self._timer = asyncio.get_running_loop().call_later(_STREAM_INTERVAL, self._pass_on)
        self._receive(piece)
