"""The bottom of the screen: live rows, and below them prompt_toolkit's, repainted in one write.

One Application owns the keys, the input line, its menu and the status row for the whole session. Its layout is far too
slow for a stream of output, so `draw` paints prompt_toolkit's rows from a stored string. Only a key, or a row of
another height, causes a layout.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import select
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import _output_screen_diff

from codelet.frontends.terminal.show.style import writable

ERASE = " \x1b[J\r"
"""Erases to the end of the screen.

tmux scrolls text into its history if it is erased from the first column of the first row, like "clear" does, so a space
is written and erased with it.
"""
_MODES = re.compile(r"\x1b\[(?:\?(?:2004[hl]|1l)|\d q)")
"""prompt_toolkit's other output: bracketed paste, cursor keys, the cursor's shape."""
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"


class FrameStream(io.StringIO):
    """Output of prompt_toolkit and the live area: each frame is one write, which does not wait for the terminal.

    A terminal may be slow or frozen. So a second, non-blocking file description is opened: the standard one is shared
    with other programs. What the terminal does not take now is written later. `gone` is called when it has gone.
    """

    def __init__(self, file: IO[str]) -> None:
        super().__init__()
        self._file = file
        self.gone: Callable[[], None] = lambda: None
        self._frame: list[str] | None = None
        self._terminal: int | None = None
        self._is_watched = False
        self._rest = bytearray()
        with suppress(OSError, ValueError):  # no terminal, or one whose name is not to be had here
            name = os.ttyname(file.fileno())
            self._terminal = os.open(name, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)

    @contextmanager
    def frame(self) -> Iterator[list[str]]:
        """Collect what is written in the block; what is left in the list is one write."""
        outer, kept = self._frame, list[str]()
        self._frame = kept
        try:
            yield kept
        finally:
            self._frame = outer
        if kept:
            self.write("".join(kept))

    def write(self, text: str) -> int:
        """Write a text, or add it to the open frame."""
        if self._frame is not None:
            self._frame.append(text)
        elif text:
            framed = writable(f"{_BEGIN}{text}{_END}", self._file)
            if self._terminal is None:
                self._file.write(framed)
            else:
                self._rest += framed.encode(getattr(self._file, "encoding", None) or "utf-8")
            self._file.flush()  # what others have written comes first
            self._write_rest()
        return len(text)

    @property
    def is_behind(self) -> bool:
        """Return whether the terminal still has to take some output; write as much of it as possible."""
        self._write_rest()
        return bool(self._rest)

    def finish(self) -> None:
        """Wait until everything is written."""
        while self.is_behind and self._terminal is not None:
            select.select([], [self._terminal], [])

    def _write_rest(self) -> None:
        """Write what the terminal takes; the loop continues whenever a slow one takes more."""
        if self._terminal is None:
            return
        try:
            while self._rest:
                del self._rest[: os.write(self._terminal, self._rest)]
        except BlockingIOError:
            pass
        except OSError:
            self._rest.clear()
            self.gone()
        if self._is_watched != bool(self._rest):
            self._is_watched, loop = bool(self._rest), asyncio.get_running_loop()
            if self._is_watched:
                loop.add_writer(self._terminal, self._write_rest)
            else:
                loop.remove_writer(self._terminal)

    def __del__(self) -> None:
        if self._terminal is not None:
            os.close(self._terminal)

    def fileno(self) -> int:
        return self._file.fileno()


class _Output(Vt100_Output):
    """The terminal's output, without queries: an answer could arrive during a turn."""

    def __init__(self, stream: FrameStream, size: Callable[[], Size]) -> None:
        super().__init__(stream, size, term=os.environ.get("TERM"), enable_bell=False, enable_cpr=False)

    def erase_down(self) -> None:
        self.write_raw(ERASE)


def terminal_size() -> Size:
    """The terminal's size."""
    columns, rows = shutil.get_terminal_size()
    return Size(rows=rows, columns=columns)


class Bottom:
    """Live rows, each with its line end and its width in cells, and the rows of one Application below.

    `lay_out` is called after a resize, before drawing; while another program has the terminal, `resized` is called
    instead.
    """

    def __init__(self, file: IO[str] | None = None, size: Callable[[], Size] = terminal_size) -> None:
        self._size = size
        self.stream = FrameStream(file or sys.stdout)
        self.output = _Output(self.stream, size)
        self.app: Application[None] | None = None
        self.lay_out: Callable[[], None] = lambda: None
        self.resized: Callable[[], None] = lambda: None
        self._painted = ""
        self._live: Sequence[tuple[str, int]] = ()
        self._drawn: list[int] = []  # the cells of each live row on the screen
        self._kept = ""
        self._held = False
        self._total = 0  # rows that are no longer printed, of the last frame
        self.fills = False
        """Blank rows keep the line in place, after the turn too, until printed rows replace them."""

    @property
    def room(self) -> int:
        """The number of live rows that fit."""
        return max(self._size().rows - 1 - self.height, 1)

    def draw(self, printed: str, live: Sequence[tuple[str, int]]) -> None:
        """Print whole rows and draw the live ones, which are cut to the width."""
        if printed or live or self._drawn or self._kept:
            self._kept += printed
            self._live = live
            if not self._held:
                self._again(self._top())

    def hold(self, held: bool) -> None:
        """Hide the live rows for another program and collect output; then draw again."""
        live = self._live
        if held:
            self.clear()
            self.stream.finish()
        self._held, self._live = held, live
        if not held and not self.is_lent:
            self._again(self._top())

    def clear(self) -> None:
        """Remove the live and the empty rows."""
        self.fills = False
        self.draw("", ())

    def _again(self, top: str) -> None:
        """Draw everything; `top` moves the cursor below the previous live rows."""
        above = self._erased()
        if not self._held:
            missing = self._total - len(self._live) - self.height - self._kept.count("\n") if self.fills else 0
            self.fills = missing > 0
            empty = [("\n", 0)] * min(missing, self.room - len(self._live))
            live = [*empty, *self._live[-self.room :]]
            above += self._kept + "".join(text for text, _ in live)
            self._kept, self._drawn = "", [cells for _, cells in live]
            self._total = len(live) + self.height
        self.stream.write(f"{top}{above}{self._painting()}")

    def _erased(self) -> str:
        """Move to the start of the live rows and erase. A narrower window has wrapped some of them."""
        width = max(self._size().columns, 1)
        height = sum(max(1, -(-cells // width)) for cells in self._drawn)
        self._drawn = []
        return (f"\r\x1b[{height}A" if height else "") + ERASE

    @property
    def height(self) -> int:
        """The rows that prompt_toolkit has drawn."""
        screen = None if self.app is None else self.app.renderer.last_rendered_screen
        return 0 if screen is None else min(screen.height, self._size().rows)

    @property
    def is_lent(self) -> bool:
        return self.app is not None and self.app._running_in_terminal

    def _top(self) -> str:
        """Move to prompt_toolkit's first row. A narrower window has wrapped rows."""
        if self.app is None or (screen := self.app.renderer.last_rendered_screen) is None:
            return "\r"
        width = max(self._size().columns, 1)
        cursor = self.app.renderer._cursor_pos
        rows = cursor.x // width
        for y in range(cursor.y):
            used = max((x for x, cell in screen.data_buffer[y].items() if cell.char.strip()), default=0) + 1
            rows += -(-used // width)
        return f"\r\x1b[{rows}A" if rows else "\r"

    def _painting(self) -> str:
        """prompt_toolkit's rows as text, ending at the cursor's place."""
        if not self._painted and self.app is not None:
            renderer, size = self.app.renderer, self._size()
            attributes, has_style = renderer._attrs_for_style, renderer._style_string_has_style
            if renderer.last_rendered_screen is None or attributes is None or has_style is None:
                return ""
            with self.stream.frame() as kept:
                _output_screen_diff(
                    self.app, self.output, renderer.last_rendered_screen, Point(0, 0), self.app.color_depth, None,
                    None, False, False, attributes, has_style, size, size.columns,
                )  # fmt: skip
                self.output.flush()
                self._painted = "".join(kept)
                kept.clear()
        return self._painted

    def redraw(self, paint: Callable[[], None]) -> None:
        """Let prompt_toolkit paint; if its height changes, draw the live rows again."""
        assert self.app is not None
        if self.is_lent:
            return
        top, last = self._top(), self.app.renderer.last_rendered_screen
        before = -1
        if last is not None:
            before, last.height = last.height, 0  # else it would never become less
        with self.stream.frame() as kept:
            paint()
            now = self.app.renderer.last_rendered_screen
            self._painted = ""
            if now is not None and now.height != before:
                text = "".join(kept)
                kept.clear()
                kept.append("".join(_MODES.findall(text)))
                self._again(top)

    def resize(self) -> None:
        """Lay out all rows for the window's new size."""
        if self.app is None or self.is_lent:
            self.resized()
            return
        with self.stream.frame() as kept:
            kept.append(self._top() + self._erased())
            self.app.renderer.reset()
            self._painted, self.fills = "", False
            self.lay_out()
            self.app._redraw()


class SessionApplication(Application[None]):
    """prompt_toolkit's Application at the bottom of the screen.

    A key's effect is drawn immediately: a deferred redraw would come after more output.
    """

    _in_key = _is_stale = False

    def __init__(self, bottom: Bottom, **options: Any) -> None:
        super().__init__(output=bottom.output, terminal_size_polling_interval=None, **options)
        self.max_render_postpone_time = None  # a stream never leaves the loop idle
        self._bottom = bottom
        bottom.app = self
        self.key_processor.before_key_press += self._begin_key
        self.key_processor.after_key_press += self._end_key

    def invalidate(self) -> None:
        """Redraw soon, or after the current key."""
        if self._in_key:
            self._is_stale = True
        else:
            super().invalidate()

    def draw_now(self) -> None:
        self._redraw()

    def _begin_key(self, _: object) -> None:
        self._in_key = True
        asyncio.get_running_loop().call_soon(self._end_key)  # also if a handler raises

    def _end_key(self, _: object = None) -> None:
        self._in_key = False
        if self._is_stale and not self.key_processor.input_queue:
            self._is_stale = False
            self._redraw()

    def _redraw(self, render_as_done: bool = False) -> None:
        self._bottom.redraw(lambda: super(SessionApplication, self)._redraw(render_as_done))

    def _on_resize(self) -> None:
        self._bottom.resize()
