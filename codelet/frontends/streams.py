"""What the process is connected to: a pipe on stdin, read in bounded memory, lines on stderr, and signals."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from codelet.errors import SIGNALS, LimitReached
from codelet.system.text import one_line

if TYPE_CHECKING:
    from codelet.context import Piped
    from codelet.loop.session import Session
    from codelet.settings import Settings

KEPT = 15_000_000
"""Bytes of a pipe to keep in memory. Of a longer one, three quarters are its beginning and one quarter is its end."""
_CHUNK = 64 << 10
_SLACK = 1 << 20
_PATIENCE = 2.0
_LAST_WRITE_SECONDS = 2.0

_WAITING = "codelet: waiting for the pipe on stdin to end; without a pipe, start codelet with </dev/null"


def in_ci() -> bool:
    """Return whether a CI runner reads the output: some execute commands that they find in it."""
    return any(os.environ.get(name) for name in ("CI", "GITHUB_ACTIONS", "TF_BUILD"))


def say(line: str) -> None:
    """Write one line to stderr, without secrets. Where stderr is closed, full or broken, the line is lost."""
    from codelet.safety.secrets import mask  # not before there is something to say: --help has no use for it

    with suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.write(f"{mask(line)}\n")
            sys.stderr.flush()


def unknown_settings(settings: Settings) -> list[str]:
    """Return a notice for each variable that looks like a setting; a near miss was an error before."""
    return [f"{name} is no setting of codelet's: it changes nothing" for name in settings.unknown_variables]


def say_ending(session: Session) -> None:
    """Report on stderr what ends with the session, such as a background task."""
    for each in session.extensions:
        for line in each.ending():
            say(f"codelet: {one_line(line, 1_000)}")


def read_stdin(limit: float | None = None, kept: int = KEPT) -> tuple[Piped, list[str]] | None:
    """Read stdin to its end unless it is a terminal; return at most `kept` bytes, and remarks for the user about them.

    Raises LimitReached if it has not ended after `limit` seconds: some pipes never do (`yes |`, `</dev/zero`).
    """
    try:
        descriptor = sys.stdin.fileno()
        if sys.stdin.isatty():
            return None
        pipe = _Pipe(kept)
        waiting = _Waiting(limit)
        while data := waiting.read(descriptor):
            pipe.feed(data)
    except (AttributeError, ValueError, OSError):
        return None  # closed, or not readable: there is no pipe
    return pipe.piped()


def stdin_pieces(limit: float | None = None) -> Iterator[bytes]:
    """Yield the bytes of stdin. Raises LimitReached as `read_stdin` does."""
    waiting = _Waiting(limit)
    while data := waiting.read(sys.stdin.fileno()):
        yield data


class _Pipe:
    """Collects the beginning and the end of the input, and counts all of it."""

    def __init__(self, kept: int) -> None:
        self._head, self._tail = bytearray(), bytearray()
        self._head_room, self._tail_room = kept * 3 // 4, kept - kept * 3 // 4
        self._bytes = self._line_ends = 0
        self._ended = True

    def feed(self, data: bytes) -> None:
        self._bytes += len(data)
        self._line_ends += data.count(b"\n")
        self._ended = data.endswith(b"\n")
        taken = min(len(data), self._head_room - len(self._head))
        self._head += data[:taken]
        self._tail += data[taken:]
        if len(self._tail) > self._tail_room + _SLACK:
            del self._tail[: -self._tail_room]

    def piped(self) -> tuple[Piped, list[str]]:
        """Return the input as text. If some of it was not kept, both parts are cut at a line's end if possible."""
        from codelet.context import Piped  # the command line, which only says things, has no use for it
        from codelet.prompt import NOT_IN_MEMORY

        missing = self._bytes - len(self._head) - self._tail_room
        if missing > 0:
            del self._tail[: -self._tail_room]
            _cut_at_lines(self._head, self._tail)
        else:
            self._head += self._tail
            self._tail.clear()
        tail = self._tail.decode("utf-8", "replace")
        self._tail.clear()
        text = self._head.decode("utf-8", "replace")
        self._head.clear()
        notes = []
        if any(mark in each for each in (text, tail) for mark in "\ufffd\0"):
            notes.append("stdin is not all UTF-8 text: the other bytes are replaced")
            text, tail = text.replace("\0", "\u2400"), tail.replace("\0", "\u2400")
        gap = (len(text), len(text) + len(NOT_IN_MEMORY)) if tail else None
        if tail:  # as `both_ends` does, but Python grows a text with no other name in its place
            text += NOT_IN_MEMORY
            text += tail
        return Piped(text, self._bytes, self._line_ends + (not self._ended), gap), notes


def _cut_at_lines(head: bytearray, tail: bytearray) -> None:
    """Remove the incomplete line at the inner end of each part, or at least the incomplete character."""
    last, first = head.rfind(b"\n"), tail.find(b"\n")
    if last > len(head) // 2:
        del head[last + 1 :]
    if 0 <= first < len(tail) // 2:
        del tail[: first + 1]
    while tail and tail[0] & 0xC0 == 0x80:
        del tail[0]
    for back in range(1, min(4, len(head)) + 1):
        if head[-back] & 0xC0 != 0x80:
            if head[-back] >= 0xC0:
                del head[-back:]
            break


class _Waiting:
    """Reads piece by piece; says once that it is waiting, and stops at the limit in seconds."""

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


class Stopper:
    """A signal cancels the task of the `with` block. `stopped` is the newest signal's exit status and word."""

    def __init__(self) -> None:
        self.stopped: tuple[int, str] | None = None
        self._task: asyncio.Task[object] | None = None
        self._writing = False

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        signal.signal(signal.SIGALRM, self._end_write)
        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._stop, number)
            # The loop does not run while a write to a full pipe waits for a reader: that write ends with an error.
            signal.signal(number, self._end_write)
            signal.siginterrupt(number, True)
        return self

    def __exit__(self, *_: object) -> None:
        for number in SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    def take_back(self) -> tuple[int, str]:
        """Return `stopped` and undo the cancel. Without a signal it raises CancelledError again."""
        if self.stopped is None or self._task is None:
            raise asyncio.CancelledError
        while self._task.uncancel():
            pass
        return self.stopped

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a signal end a write inside, which raises OSError; after a signal, a slow reader gets a short time."""
        self._writing = True
        if self.stopped is not None:
            signal.setitimer(signal.ITIMER_REAL, _LAST_WRITE_SECONDS)
        try:
            yield
        finally:
            self._writing = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _stop(self, number: signal.Signals) -> None:
        self.stopped = SIGNALS[number]
        if self._task is not None:
            self._task.cancel()

    def _end_write(self, number: int, _: object) -> None:
        self.stopped = SIGNALS.get(signal.Signals(number), self.stopped)
        if self._writing:
            self._writing = False
            raise OSError(errno.ECANCELED, "the reader does not read")  # a write that EINTR ends is begun again
