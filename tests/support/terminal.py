"""A real terminal around the program: pexpect holds the pty, pyte draws the screen."""

from __future__ import annotations

import itertools
import os
import signal
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any, Self

import pexpect
import pyte

from tests.support.program import CODELET, environment
from tests.support.waiting import PATIENCE, thread_states, until

_HANG_UP = 3.0
"""Seconds that a program has to end by itself once its terminal is gone."""

KEYS = {
    "enter": "\r",
    "esc": "\x1b",
    "ctrl-c": "\x03",
    "ctrl-d": "\x04",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "tab": "\t",
    "backspace": "\x7f",
}


_OWN_SCREEN = 1049


class _Screen(pyte.HistoryScreen):
    """Answers the program's questions about the cursor, and gives it a screen of its own, as a terminal does."""

    def __init__(self, columns: int, lines: int, answer: Any) -> None:
        self._answer = answer
        self.main: Any = None
        super().__init__(columns, lines, history=100_000, ratio=0.5)

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Take another size as terminals do: blank rows below go first, then rows at the top go to the scrollback."""
        if lines is not None and lines < self.lines and self.main is None:
            rows = [self.buffer[y] for y in range(self.lines)]
            gone = max(self.cursor.y + 1 - lines, 0)
            self.history.top.extend(rows[:gone])
            self.buffer.clear()
            self.buffer.update(enumerate(rows[gone : gone + lines]))
            self.cursor.y -= gone
            self.lines = lines
        super().resize(lines, columns)

    def write_process_input(self, data: str) -> None:
        self._answer(data)

    def set_mode(self, *modes: int, **options: Any) -> None:
        """Keep what is on the screen while a program has one of its own, which pyte does not know."""
        super().set_mode(*modes, **options)
        if _OWN_SCREEN in modes and self.main is None:
            self.main = deepcopy((dict(self.buffer), self.history, self.cursor.x, self.cursor.y))
            self.erase_in_display(2)

    def select_graphic_rendition(self, *attributes: int, **options: Any) -> None:
        """Leave out what only looks like it: a setting of the keys, by vim."""
        if not options.get("private"):
            super().select_graphic_rendition(*attributes)

    def reset_mode(self, *modes: int, **options: Any) -> None:
        """Bring back what was on the screen."""
        super().reset_mode(*modes, **options)
        if _OWN_SCREEN in modes and self.main is not None:
            (rows, self.history, self.cursor.x, self.cursor.y), self.main = self.main, None
            self.buffer.clear()
            self.buffer.update(rows)


class Terminal:
    """The program in a terminal of a given size. Use as a context manager: leaving it ends the program."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        home: Path | None = None,
        env: Mapping[str, str | None] | None = None,
        columns: int = 80,
        rows: int = 24,
        command: Sequence[str] = CODELET,
    ) -> None:
        program, *rest = [*command, *arguments]
        size = (rows, columns)
        with warnings.catch_warnings():
            # Newer Pythons warn of forkpty beside threads.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.child = pexpect.spawn(
                program, rest, cwd=str(cwd), env=environment(home, env), dimensions=size, timeout=20
            )
        self.child.delaybeforesend = None
        self.raw = b""
        self._screen = _Screen(columns, rows, self.child.send)
        self._stream = pyte.ByteStream(self._screen)
        self._text: str | None = None  # as it stood when it was last looked at; None once something has come since
        self._past: list[str] = []  # the rows above the screen, of which this was the first
        self._first: object = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Hang up, and wait for the end of the program; what does not mind is killed.

        pexpect's own way sleeps at least 0.1 s, and has no more time than that for the end of what it kills.
        """
        process = self.child.ptyproc
        process.flag_eof = False  # with it, `isalive` waits for the end itself, however long
        if not process.closed:
            process.fileobj.close()
            process.closed, process.fd = True, -1
        end = time.monotonic() + _HANG_UP  # clock: for what minds no hang-up
        while self.child.isalive() and time.monotonic() < end:  # clock: for what minds no hang-up
            time.sleep(0.005)  # clock: between two looks
        if self.child.isalive():
            self.signal(signal.SIGKILL)
        until(lambda: not self.child.isalive(), "the end of the program after its terminal was closed")
        self.child.closed, self.child.child_fd = True, -1

    @property
    def pid(self) -> int:
        return int(self.child.pid)

    @property
    def text(self) -> str:
        """What stands on the screen, without blanks at the line ends."""
        if self._text is None:
            self._text = "\n".join(line.rstrip() for line in self._screen.display).rstrip()
        return self._text

    @property
    def is_full_screen(self) -> bool:
        """Whether a program has a screen of its own."""
        return self._screen.main is not None

    @property
    def scrollback(self) -> str:
        """What has left the screen at the top, and what stands on it."""
        width, top = self._screen.columns, self._screen.history.top
        if not top or top[0] is not self._first:  # it was cleared, or has begun
            self._past, self._first = [], top[0] if top else None
        new = itertools.islice(top, len(self._past), None)
        self._past += ["".join(line[x].data for x in range(width)).rstrip() for line in new]
        return "\n".join([*self._past, self.text])

    def pump(self, seconds: float = 0.05) -> bool:
        """Take in what the program writes within so many seconds; False once it has closed the terminal."""
        try:
            data = self.child.read_nonblocking(65536, timeout=seconds)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self._stream.feed(data)
        self._text = None
        return True

    def drain(self) -> None:
        """Take in what the program, which stands still, has written so far."""
        size = -1
        while len(self.raw) != size:
            size = len(self.raw)
            self.pump(0.01)

    def wait_for(self, text: str, timeout: float = PATIENCE, *, gone: bool = False) -> str:
        """Wait until the text is on the screen or above it, or with `gone` no longer on the screen."""
        end = time.monotonic() + timeout  # clock: for what hangs
        while True:
            there = text in (self.text if gone else self.scrollback)
            if there != gone:
                return self.text
            if time.monotonic() > end or not self.pump():  # clock: for what hangs
                there = text in (self.text if gone else self.scrollback)
                if there != gone:
                    return self.text
                verb = "stayed on" if gone else "did not come to"
                raise AssertionError(f"{text!r} {verb} the screen within {timeout} s:\n{self.scrollback}")

    def until(self, happened: Callable[[], object], what: str = "it") -> None:
        """Wait until a condition holds, and take in meanwhile what the program writes."""

        def read_on() -> None:
            assert self.pump(), f"the program ended before {what}:\n{self.scrollback}"

        until(happened, what, read_on, lambda: f"; this is on the screen:\n{self.scrollback}")

    def settle(self, quiet: float = 0.3, timeout: float = 10.0) -> str:
        """Wait until the program has written nothing for so many seconds and waits itself; the screen's text."""
        now = time.monotonic  # clock: a pause in the output is what is waited for
        end, size, since = now() + timeout, len(self.raw), now()
        while now() - since < quiet and now() < end and self.pump():
            if len(self.raw) != size or not self._waits():
                size, since = len(self.raw), now()
        return self.text

    def _waits(self) -> bool:
        """Whether the program sleeps; one that the busy machine keeps waiting is ready to run and does not."""
        with suppress(OSError):  # it may have ended
            return all(state == "S" for state in thread_states(self.pid))
        return True

    def type(self, text: str) -> None:
        """Send characters as a person types them: at a question once it is all there."""
        self._see_question()
        self.child.send(text)

    def key(self, name: str) -> None:
        """Send one key by its name in KEYS."""
        self._see_question()
        self.child.send(KEYS[name])

    def _see_question(self) -> None:
        """Wait until a question that stands there is drawn: a key that comes meanwhile answers nothing."""
        if "enter confirm" in self.text:
            self.settle(0.05)

    def line(self, text: str) -> None:
        """Type a line and press enter."""
        self.type(text)
        self.key("enter")

    def resize(self, columns: int, rows: int) -> None:
        self._screen.resize(rows, columns)
        self._text, self._past = None, []
        self.child.setwinsize(rows, columns)

    def wait_exit(self) -> int:
        """Wait until the program ends; its exit status, negative for a signal."""
        closed = False

        def read_on() -> None:
            nonlocal closed
            closed = closed or not self.pump()

        until(lambda: closed, "the end of the program", read_on, lambda: f"; this is on the screen:\n{self.text}")
        until(lambda: not self.child.isalive(), "the end of the program after it closed its terminal")
        if self.child.signalstatus is not None:
            return -int(self.child.signalstatus)
        return int(self.child.exitstatus)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)
