"""The input line with its keys, history, completion, search and the status row.

It is there for the whole session: text typed during a turn or a question goes to the same line.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from prompt_toolkit.application import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.cursor_shapes import ModalCursorShapeConfig
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER, EditingMode
from prompt_toolkit.filters import Condition, has_focus, is_searching, vi_insert_mode
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.key_binding.key_processor import KeyProcessor
from prompt_toolkit.keys import Keys

from codelet.errors import EXIT_DONE, EXIT_INTERRUPT
from codelet.frontends.terminal.completion import ReplCompleter, wants_completion
from codelet.frontends.terminal.draft import Draft, Pastes
from codelet.frontends.terminal.key_sequences import FLUSH_SECONDS, KeyInput, escape_seconds
from codelet.frontends.terminal.line_layout import STYLE, color_depth, line_layout
from codelet.frontends.terminal.prompt_keys import ANSWER, PromptBindings, bindings_of, why_no_editor
from codelet.frontends.terminal.show.bottom import Bottom, SessionApplication
from codelet.settings import Settings

_LEAVE_SECONDS = 2.0
_ALT_SECONDS, _CHORD_SECONDS = 0.1, 2.0
_NOT_TYPED = (Keys.ControlC, Keys.ControlO, Keys.ControlZ, Keys.BackTab)
Asked = Callable[[KeyPress], list[KeyPress]]
"""Handles a key while a question is open; returns keys for the line."""


class PromptLine:
    """Reads prompts; lines entered in between go to `draft`.

    `status` returns the row below. `stop` stops the running turn. `pausing` is called with True after ESC, and with
    False if it was part of another key. `entered`: `draft` has changed. `hung_up`: the terminal is gone. `lay_out`: the
    window was resized. `parting` returns a last hint before Ctrl-D leaves.
    """

    exit_status = EXIT_DONE
    stop: Callable[[], None] | None = None
    _reading: asyncio.Future[str] | None = None
    _running: asyncio.Task[None] | None = None
    _side: asyncio.Task[None] | None = None
    _asked: Asked | None = None
    _escape: asyncio.TimerHandle | None = None
    _stop_wanted = _remembered = False
    _warning = _question = ""
    _shown = ("", "")
    _leave_at = 0.0

    def __init__(
        self,
        source: KeyInput,
        pastes: Pastes,
        draft: Draft,
        *,
        workspace: Path,
        completer: ReplCompleter,
        status: Callable[[], str],
        cycle_mode: Callable[[], None],
        show_whole: Callable[[], Coroutine[None, None, None]],
        history: History,
        settings: Settings,
        colours: Callable[[], bool],
        fail: Callable[[str], None],
    ) -> None:
        self._colours, self._fail = colours, fail
        self._source, self._pastes, self._draft, self._workspace = source, pastes, draft, workspace
        self._status, self._cycle_mode, self._show_whole = status, cycle_mode, show_whole
        self.pausing: Callable[[bool], None] = lambda paused: None
        self.entered: Callable[[], None] = lambda: None
        self.hung_up: Callable[[], None] = lambda: None
        self.lay_out: Callable[[], None] = lambda: None
        self.parting: Callable[[], str] = str
        self.typed_at = float("-inf")
        """When a key last came for the line; long ago after Enter."""
        self.bottom = Bottom()
        self._lay_out_question: Callable[[], None] = lambda: None
        source.route = self._route
        self._buffer = Buffer(
            name=DEFAULT_BUFFER,
            multiline=True,
            completer=completer,
            complete_while_typing=Condition(lambda: wants_completion(self._buffer.document.text_before_cursor)),
            history=history,
            tempfile_suffix=".md",
        )
        self._answer = Buffer(name=ANSWER)
        self._app = self._application(settings)
        self._buffer.on_text_insert += lambda _: setattr(self, "_warning", "")  # it is read by then
        self._answer.on_text_changed += lambda _: self._lay_out_question()

    def _application(self, settings: Settings) -> SessionApplication:
        actions: dict[str, Callable[[], object]] = {
            "send": self._send,
            "later": lambda: self._send(later=True),
            "stop": self._interrupted,
            "mode": self._next_mode,
            "whole": lambda: self._beside(self._show_whole()),
            "picture": lambda: self._beside(self._insert_picture()),
            "leave": self._leave,
            "suspend": lambda: self._beside(self._suspend()),
            "back": self._take_back,
            "answer": lambda: self._asked is not None and self._asked(KeyPress(Keys.ControlM)),
            "editor": lambda: self._beside(self._edit()),
        }
        is_busy = Condition(lambda: not self._is_reading)
        can_take_back = Condition(lambda: not self._buffer.text and bool(self._draft.queued)) & is_busy
        bindings = PromptBindings(self._pastes, actions, is_busy, can_take_back, bindings_of(settings))
        hidden = Condition(lambda: self._asked is not None and not self._buffer.text)
        is_vi = settings.edit_mode == "vi"
        options: dict[str, Any] = {
            "layout": line_layout(self._buffer, self._answer, lambda: self._question, hidden, self._status_row),
            "input": self._source,
            "key_bindings": bindings,
            "editing_mode": EditingMode.VI if is_vi else EditingMode.EMACS,
            "cursor": ModalCursorShapeConfig() if is_vi else None,
            "style": STYLE,
            "include_default_pygments_style": False,
            "color_depth": lambda: color_depth(self._colours()),
            "erase_when_done": True,
            "reverse_vi_search_direction": True,
        }
        app = SessionApplication(self.bottom, **options)
        self.bottom.stream.gone = self._gone
        self.bottom.lay_out = lambda: self.lay_out() if self._asked is None else self._lay_out_question()
        app.ttimeoutlen = FLUSH_SECONDS
        app.key_processor.after_key_press += self._set_patience
        return app

    def _set_patience(self, keys: KeyProcessor) -> None:
        """Set how long a chord waits for its next key. After ESC it is short: terminals send Alt in one piece."""
        is_alt = bool(keys.key_buffer) and keys.key_buffer[0].key == Keys.Escape
        self._app.timeoutlen = _ALT_SECONDS if is_alt else _CHORD_SECONDS

    async def read(self, default: str = "") -> str:
        """Return the next prompt, with paste markers. Raises EOFError to leave, with `exit_status` set.

        `default` comes before text already in the line.
        """
        self._leave_at, self._warning, self._stop_wanted = 0.0, "", False
        if self._remembered:  # the line has read its history before
            self._remembered = False
            self._buffer.reset(self._buffer.document)
        if default:
            typed = f"\n{self._pastes.entered(self._buffer.text)}" if self._buffer.text else ""
            self._put(default + typed)
        self._reading = asyncio.get_running_loop().create_future()
        if default and self._app.is_running:
            self._app.invalidate()
        self.refresh()
        try:
            return await self._reading
        finally:
            self._reading = None

    def start(self) -> None:
        self._running = asyncio.create_task(self._app.run_async(set_exception_handler=False))
        self._running.add_done_callback(self._gone)

    async def close(self) -> None:
        """Remove the line and restore the terminal. Raises the application's error."""
        if self._side is not None:
            self._side.cancel()  # the line would wait until the user has left the pager
        self.bottom.clear()
        if self._running is None:
            return
        self._running.remove_done_callback(self._gone)
        if not self._app.is_running:
            self._running.cancel()
            return
        if not self._app.is_done:
            self._app.exit()
        try:
            await self._running
        except (EOFError, OSError):  # the terminal is gone
            return
        self.bottom.stream.finish()

    def _gone(self, _: object = None) -> None:
        self.hung_up()

    @property
    def _is_reading(self) -> bool:
        return self._reading is not None and not self._reading.done()

    @property
    def text(self) -> str:
        return self._buffer.text

    @property
    def height(self) -> int:
        """Rows of the line and the status row during a question."""
        is_hidden = not self._buffer.text and not self._app.layout.has_focus(self._answer)
        return 1 if is_hidden else max(self.bottom.height, 2)

    def refresh(self) -> None:
        """Redraw if the status row has changed."""
        if self._app.is_running and self._row() != self._shown:
            self._app.invalidate()

    def remember(self, text: str) -> None:
        """Add a line from elsewhere to the history."""
        self._buffer.history.append_string(text)
        self._remembered = True

    def take_stop(self) -> bool:
        """Return whether a stop came before the turn began."""
        wanted, self._stop_wanted = self._stop_wanted, False
        return wanted

    @contextmanager
    def asking(self, asked: Asked, lay_out: Callable[[], None]) -> Iterator[None]:
        """Send keys to a question; `lay_out` redraws it after a resize."""
        self._asked, self._lay_out_question = asked, lay_out
        with self.bottom.stream.frame():  # an empty line leaves its row to the question
            self._app.draw_now()
            lay_out()
        try:
            yield
        finally:
            self._asked = None
            self.edit_answer(None)
            self._app.draw_now()

    def edit_answer(self, question: str | None, text: str = "") -> None:
        """Edit an answer after `question` instead of the line; None restores the line."""
        if question is None:
            self._app.layout.focus(self._buffer)
        else:
            self._question = question
            self._answer.reset(Document(text))
            self._app.vi_state.reset()
            self._app.layout.focus(self._answer)
        self._app.invalidate()

    @property
    def answer(self) -> str:
        return self._answer.text

    def read_pressed(self) -> None:
        """Handle all keys pressed so far: they were not meant for the next question."""
        self.feed(self._source.read_keys())

    def feed(self, presses: list[KeyPress]) -> None:
        """Process key presses."""
        self._app.key_processor.feed_multiple(presses)
        self._app.key_processor.process_keys()
        self._app.invalidate()

    @asynccontextmanager
    async def lent(self, resized: Callable[[], None] = lambda: None, *, raw: bool = True) -> AsyncIterator[None]:
        """Lend the terminal to another program, which then reads the keys."""
        self.bottom.hold(True)
        try:
            async with in_terminal():
                self.bottom.stream.finish()
                self.bottom.resized = resized
                with self._source.raw_mode() if raw else nullcontext():
                    yield
        finally:
            self.bottom.hold(False)

    def _put(self, text: str) -> None:
        self._buffer.reset(Document(text))

    def _send(self, *, later: bool = False) -> None:
        """Handle Enter: return the line from `read`, or add it to the draft."""
        text = self._pastes.entered(self._buffer.text)
        if self._is_reading:
            self._buffer.text = text
            self._buffer.append_to_history()
        self._put("")
        self._app.vi_state.reset()
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(text)
        else:
            self._draft.enter(text, later=later)
            self.entered()

    def _take_back(self) -> None:
        self._put(self._draft.take_back())
        self.entered()

    def _leave(self) -> None:
        """Handle Ctrl-D on an empty line: leave, after a running turn."""
        if not self._is_reading:
            self._draft.leave()
            self.entered()
        elif (parting := self.parting()) and self._warning != parting:
            self._warning = parting
            self.refresh()
        elif self._reading is not None:
            self._reading.set_exception(EOFError())

    def _next_mode(self) -> None:
        if self._asked is not None:
            self._asked(KeyPress(Keys.BackTab))
            return
        self._cycle_mode()
        self.refresh()

    def _interrupted(self) -> None:
        """Handle Ctrl-C: stop a turn or clear the line; twice on an empty line, leave."""
        if self._asked is not None:
            self._asked(KeyPress(Keys.ControlC))
            return
        if not self._is_reading:
            self._escaped()
            return
        if self._buffer.text:
            self._buffer.text = self._pastes.entered(self._buffer.text)
            self._buffer.append_to_history()
            self._put("")
            return
        if (now := time.monotonic()) < self._leave_at and self._reading is not None:
            self.exit_status = EXIT_INTERRUPT
            self._reading.set_exception(EOFError())
            return
        self._leave_at = now + _LEAVE_SECONDS
        self.refresh()
        asyncio.get_running_loop().call_later(_LEAVE_SECONDS + 0.05, self.refresh)

    def _route(self, presses: list[KeyPress]) -> list[KeyPress]:
        """Return the keys for the line.

        ESC alone stops a turn after a pause: a slow terminal sends an arrow's ESC long before its `[A`. ESC right
        before another key is Alt.
        """
        if self._escape is not None and presses:
            self._escape.cancel()
            if self._source.sequences.rejoined:
                self._escape = None
                self.pausing(False)
            else:
                self._escaped()
        is_heard = not self._is_reading and not is_searching() and not vi_insert_mode()
        if presses and all(press.key == Keys.Escape for press in presses) and (self._asked is not None or is_heard):
            if self._escape is None:
                wait = escape_seconds() - FLUSH_SECONDS
                self._escape = asyncio.get_running_loop().call_later(wait, self._escaped)
                self.pausing(True)
            return []
        while presses and self._asked is not None:  # one by one: the next one's meaning may depend on it
            count = 2 if presses[0].key == Keys.Escape else 1
            pressed, presses = presses[:count], presses[count:]
            self.feed(self._typed(pressed if count > 1 else self._asked(pressed[0])))
        return self._typed(presses)

    def _typed(self, presses: list[KeyPress]) -> list[KeyPress]:
        """Note the time of keys for the line while no prompt is read."""
        for press in presses if not self._is_reading and not has_focus(self._answer)() else ():
            if press.key == Keys.ControlM:
                self.typed_at = float("-inf")
            elif press.key not in _NOT_TYPED:
                self.typed_at = time.monotonic()
        return presses

    def _escaped(self) -> None:
        self._escape = None
        if self._asked is not None:
            self._asked(KeyPress(Keys.Escape))
        elif self.stop is not None:
            self.stop()
        else:
            self._stop_wanted = not self._is_reading

    def _beside(self, work: Coroutine[None, None, None]) -> None:
        """Run one task alongside."""
        if self._side is None or self._side.done():
            self._side = asyncio.create_task(work)
        else:
            work.close()

    async def _suspend(self) -> None:
        """Handle Ctrl-Z: restore the terminal and stop this process group."""
        async with self.lent(raw=False):
            os.kill(0, signal.SIGTSTP)

    async def _edit(self) -> None:
        """Edit the line in the user's editor."""
        if refusal := why_no_editor(self._workspace):
            self._fail(refusal)
            return
        self._buffer.text = before = self._pastes.expand(self._buffer.text)
        self.bottom.hold(True)
        try:
            await self._buffer.open_in_editor()
            self._pastes.keep(self._buffer.text.removeprefix(before))  # a paste looks like typing there
        finally:
            self.bottom.hold(False)

    async def _insert_picture(self) -> None:
        """Insert the clipboard's image, or say why not."""
        from codelet.system.clipboard import copied_picture

        copied = await copied_picture(self._workspace)
        if copied.data:
            blank = "" if self._buffer.document.char_before_cursor in ("", " ", "\n") else " "
            self._buffer.insert_text(f"{blank}{self._pastes.keep_picture(copied.data)} ")
        else:
            self._warning = copied.why
        self.refresh()

    def _status_row(self) -> StyleAndTextTuples:
        self._shown = self._row()
        return [self._shown]

    def _row(self) -> tuple[str, str]:
        """The status row's style and text."""
        if time.monotonic() < self._leave_at:
            return "class:status.warn", "  Ctrl-C again leaves codelet; Ctrl-D too"
        if self._warning:
            return "class:status.warn", f"  {self._warning}"
        return "", self._status()
