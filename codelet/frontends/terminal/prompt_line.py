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
from prompt_toolkit.filters import (
    Condition,
    Filter,
    completion_is_selected,
    emacs_mode,
    has_focus,
    is_searching,
    vi_insert_mode,
    vi_mode,
)
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.key_binding.bindings.search import start_reverse_incremental_search
from prompt_toolkit.key_binding.key_processor import KeyProcessor
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth

from codelet.errors import EXIT_DONE, EXIT_INTERRUPT
from codelet.frontends.terminal.completion import ReplCompleter, wants_completion
from codelet.frontends.terminal.draft import Draft, as_prompt
from codelet.frontends.terminal.key_sequences import FLUSH_SECONDS, KeyInput, escape_seconds
from codelet.frontends.terminal.prompt_layout import STYLE, bindings_of, line_layout
from codelet.frontends.terminal.screen import TerminalScreen
from codelet.frontends.terminal.show.bottom import Bottom, SessionApplication
from codelet.settings import Settings

_LEAVE_SECONDS = 2.0
_ALT_SECONDS, _CHORD_SECONDS = 0.1, 2.0
"""The wait for a key after ESC, which terminals send with it for Alt, and after another key."""
_TWICE_SECONDS = 1.0
"""Two ESCs within this time are one command."""
Asked = Callable[[KeyPress], list[KeyPress]]
"""Handles a key while a question is open; returns keys for the line."""


class PromptLine:
    """Reads prompts; lines entered in between go to `draft`.

    `status` returns the row below. `stop` stops the running turn. `pausing` is called with True after ESC, and with
    False if it was part of another key. `changed`: `draft` has changed, or the window's size. `hung_up`: the terminal
    is gone. `parting` returns a last hint before Ctrl-D leaves.
    """

    exit_status = EXIT_DONE
    stop: Callable[[], None] | None = None
    typed_at = float("-inf")
    """When a key last came for the line; long ago after Enter."""
    _reading: asyncio.Future[str | None] | None = None
    _running: asyncio.Task[None] | None = None
    _side: asyncio.Task[None] | None = None
    _asked: Asked | None = None
    _escape: asyncio.TimerHandle | None = None
    _escaped_at = float("-inf")
    stop_wanted = False
    """A stop came before the turn began."""
    _remembered = False
    _warning = _question = ""
    _shown = ("", "")
    _leave_at = 0.0

    def __init__(
        self,
        source: KeyInput,
        draft: Draft,
        screen: TerminalScreen,
        *,
        workspace: Path,
        completer: ReplCompleter,
        status: Callable[[], str],
        cycle_mode: Callable[[], object],
        history: History,
        settings: Settings,
    ) -> None:
        self._source, self.draft, self._screen, self._workspace = source, draft, screen, workspace
        self._pastes, self._status, self._cycle_mode = draft.pastes, status, cycle_mode
        self.pausing: Callable[[bool], None] = lambda paused: None
        self.changed: Callable[[], None] = lambda: None
        self.hung_up: Callable[[], None] = lambda: None
        self.parting: Callable[[], str] = str
        self.bottom = Bottom()
        screen.bottom, screen.lent = self.bottom, self.lent
        self._lay_out_question: Callable[[], None] = lambda: None
        source.route = self._route
        self.buffer = Buffer(
            name=DEFAULT_BUFFER,
            multiline=True,
            completer=completer,
            complete_while_typing=Condition(lambda: wants_completion(self.buffer.document.text_before_cursor)),
            history=history,
            tempfile_suffix=".md",
        )
        self.answer = Buffer()
        self._app = self._application(settings)
        self.buffer.on_text_insert += lambda _: setattr(self, "_warning", "")  # it is read by then
        self.answer.on_text_changed += lambda _: self._lay_out_question()

    def _application(self, settings: Settings) -> SessionApplication:
        hidden = Condition(lambda: self._asked is not None and not self.buffer.text)
        is_vi = settings.edit_mode == "vi"
        app = SessionApplication(
            self.bottom,
            layout=line_layout(self.buffer, self.answer, lambda: self._question, hidden, self._status_row),
            input=self._source,
            key_bindings=self._bindings(settings),
            editing_mode=EditingMode.VI if is_vi else EditingMode.EMACS,
            cursor=ModalCursorShapeConfig() if is_vi else None,
            style=STYLE,
            include_default_pygments_style=False,
            color_depth=self._color_depth,
            erase_when_done=True,
            reverse_vi_search_direction=True,
        )
        self.bottom.stream.gone = self._gone
        self.bottom.lay_out = lambda: self.changed() if self._asked is None else self._lay_out_question()
        app.ttimeoutlen = FLUSH_SECONDS
        app.key_processor.after_key_press += self._set_patience
        return app

    def _bindings(self, settings: Settings) -> KeyBindings:
        """Return the keys, on top of prompt_toolkit's for Emacs or vi; the user's own override others."""
        line, answer = has_focus(self.buffer), has_focus(self.answer)
        is_reading = Condition(lambda: self._reading is not None)
        is_empty = Condition(lambda: not self._app.current_buffer.text)
        is_first, anywhere = line & is_reading & is_empty, line | answer
        can_take_back = Condition(lambda: not self.buffer.text and bool(self.draft.queued)) & ~is_reading
        named: dict[str, Callable[[KeyPressEvent], Any]] = {
            "send": lambda _: self._enter(),
            "later": lambda _: self._enter(later=True),
            "newline": lambda _: self.buffer.insert_text("\n"),
            "stop": lambda _: self._interrupted(),
            "mode": lambda _: self._cycle_mode() if self._asked is None else self._asked(KeyPress(Keys.BackTab)),
            "search": start_reverse_incremental_search.call,
            "editor": lambda _: self._beside(self._edit()),
        }
        keys: list[tuple[str, Filter, Callable[[KeyPressEvent], Any]]] = [
            ("enter", line & ~completion_is_selected, named["send"]),
            ("enter", line & completion_is_selected, lambda _: self._complete()),
            ("enter", answer, lambda _: self._asked is not None and self._asked(KeyPress(Keys.ControlM))),
            ("escape enter", line, named["later"]),
            ("c-j", line, named["newline"]),
            ("up", line & can_take_back, lambda _: self._take_back()),
            ("c-d", line & is_empty, lambda _: self._leave()),
            ("c-c", anywhere, named["stop"]),
            ("<sigint>", anywhere, named["stop"]),
            ("c-z", anywhere, lambda _: self._beside(self._suspend())),
            ("s-tab", line, named["mode"]),
            ("c-o", line, lambda _: self._beside(self._show_whole())),
            ("c-x c-e", line, named["editor"]),
            ("c-v", line, lambda _: self._beside(self._insert_picture())),
            ("<bracketed-paste>", line, lambda event: self._paste(event.data)),
            ("escape", is_first & ~vi_mode, lambda _: self._rewind()),
            ("escape <any>", emacs_mode, self._alt),
            ("?", is_first & (emacs_mode | vi_insert_mode), lambda _: self._send("?")),
        ]
        bindings = KeyBindings()
        for sequence, where, action in keys:
            bindings.add(*sequence.split(), filter=where)(action)
        for name, own in bindings_of(settings):
            bindings.add(*own, filter=line, eager=len(own) == 1)(named[name])
        return bindings

    def _color_depth(self) -> ColorDepth:
        """Return the terminal's sixteen colours, or none."""
        is_plain = self._screen.theme == "plain" or os.environ.get("NO_COLOR")
        return ColorDepth.DEPTH_1_BIT if is_plain else ColorDepth.DEPTH_4_BIT

    def _set_patience(self, keys: KeyProcessor) -> None:
        is_alt = bool(keys.key_buffer) and keys.key_buffer[0].key == Keys.Escape
        self._app.timeoutlen = _ALT_SECONDS if is_alt else _CHORD_SECONDS

    async def read(self, default: str = "") -> str | None:
        """Return the next prompt, with paste markers; None to leave, with `exit_status`.

        `default` comes before text already in the line.
        """
        self._leave_at, self._warning, self.stop_wanted = 0.0, "", False
        if self._remembered:  # the line has read its history before
            self._remembered = False
            self.buffer.reset(self.buffer.document)
        if default:
            typed = f"\n{self._pastes.entered(self.buffer.text)}" if self.buffer.text else ""
            self.buffer.reset(Document(default + typed))
        reading: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._reading = reading
        if self._app.is_running:
            self._app.invalidate()
        try:
            return await reading
        finally:
            self._reading = None

    def _finish(self, line: str | None) -> None:
        """End `read`."""
        reading, self._reading = self._reading, None
        if reading is not None and not reading.done():
            reading.set_result(line)

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
    def height(self) -> int:
        """Rows of the line and the status row during a question."""
        is_hidden = not self.buffer.text and not self._app.layout.has_focus(self.answer)
        return 1 if is_hidden else max(self.bottom.height, 2)

    def refresh(self) -> None:
        """Redraw if the status row has changed."""
        if self._app.is_running and self._row() != self._shown:
            self._app.invalidate()

    def remember(self, text: str) -> None:
        """Add a line from elsewhere to the history."""
        self.buffer.history.append_string(text)
        self._remembered = True

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
            self._app.layout.focus(self.buffer)
        else:
            self._question = question
            self.answer.reset(Document(text))
            self._app.vi_state.reset()
            self._app.layout.focus(self.answer)
        self._app.invalidate()

    def read_pressed(self) -> None:
        """Handle all keys pressed so far: they were not meant for the next question."""
        self._feed(self._source.read_keys())

    def _feed(self, presses: list[KeyPress]) -> None:
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

    def _enter(self, *, later: bool = False) -> None:
        """Handle Enter and Alt-Enter: send the line, now or `later`, when the turn ends; or start a new line."""
        is_continued = not later and self.buffer.document.text_before_cursor.endswith("\\")
        if is_continued or (later and self._reading is not None):
            self.buffer.delete_before_cursor(int(is_continued))
            self.buffer.insert_text("\n")
        elif self.buffer.text.strip():
            self._send(self.buffer.text, later=later)

    def _send(self, line: str, *, later: bool = False) -> None:
        """Return the line from `read`, or add it to the draft."""
        text = self._pastes.entered(line)
        self._app.vi_state.reset()
        if self._reading is not None:
            self._clear(text)
            self._finish(text)
        else:
            self.buffer.reset()
            self.draft.enter(text, later=later)
            self.changed()

    def _clear(self, text: str) -> None:
        """Empty the line; its text goes to the history."""
        self.buffer.text = text
        self.buffer.append_to_history()
        self.buffer.reset()

    def _complete(self) -> None:
        """Accept a completion; a command is sent, too."""
        self.buffer.complete_state = None
        if self.buffer.text.startswith("/"):
            self._enter()

    def _paste(self, pasted: str) -> None:
        """Insert pasted text, or the path of a dropped file. A pasted sign at the start does not act."""
        from codelet.context.attachments import dropped_picture

        if not pasted:  # some terminals send this for an image
            self._beside(self._insert_picture())
            return
        text = dropped_picture(pasted) or self._pastes.collapse(pasted)
        self.buffer.insert_text(text if self.buffer.cursor_position else as_prompt(text))

    def _rewind(self) -> None:
        """Handle ESC on an empty line: the second one means /rewind. vi mode has its own ESC."""
        before, self._escaped_at = self._escaped_at, time.monotonic()
        if self._escaped_at - before < _TWICE_SECONDS:
            self._send("/rewind")

    def _alt(self, event: KeyPressEvent) -> None:
        """Handle ESC before an unbound key: Alt, which types nothing."""
        press = event.key_sequence[-1]
        if press.key == Keys.Escape and self._reading is not None and not self._app.current_buffer.text:
            self._escaped_at = time.monotonic()
        if len(press.key) > 1:  # not a character
            event.key_processor.feed(press, first=True)

    def _take_back(self) -> None:
        self.buffer.reset(Document(self.draft.queued.pop()[0]))
        self.changed()

    def _leave(self) -> None:
        """Handle Ctrl-D on an empty line: leave, after a running turn."""
        if self._reading is None:
            self.draft.leave()
            self.changed()
        elif (parting := self.parting()) and self._warning != parting:
            self._warning = parting
            self.refresh()
        else:
            self._finish(None)

    def _interrupted(self) -> None:
        """Handle Ctrl-C: stop a turn or clear the line; twice on an empty line, leave."""
        if self._asked is not None or self._reading is None:
            self._escaped(Keys.ControlC)
        elif self.buffer.text:
            self._clear(self._pastes.entered(self.buffer.text))
        elif (now := time.monotonic()) < self._leave_at:
            self.exit_status = EXIT_INTERRUPT
            self._finish(None)
        else:
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
        is_heard = self._reading is None and not is_searching() and not vi_insert_mode()
        if presses and all(press.key == Keys.Escape for press in presses) and (self._asked is not None or is_heard):
            if self._escape is None:
                wait = escape_seconds() - FLUSH_SECONDS
                self._escape = asyncio.get_running_loop().call_later(wait, self._escaped)
                self.pausing(True)
            return []
        while presses and self._asked is not None:  # one by one: the next one's meaning may depend on it
            count = 2 if presses[0].key == Keys.Escape else 1
            pressed, presses = presses[:count], presses[count:]
            self._feed(self._typed(pressed if count > 1 else self._asked(pressed[0])))
        return self._typed(presses)

    def _typed(self, presses: list[KeyPress]) -> list[KeyPress]:
        """Note the time of keys for the line while no prompt is read."""
        for press in presses if self._reading is None and not has_focus(self.answer)() else ():
            if press.key == Keys.ControlM:
                self.typed_at = float("-inf")
            elif len(press.key) == 1 or press.key in (Keys.ControlH, Keys.BracketedPaste):
                self.typed_at = time.monotonic()
        return presses

    def _escaped(self, key: Keys = Keys.Escape) -> None:
        self._escape = None
        if self._asked is not None:
            self._asked(KeyPress(key))
        elif self.stop is not None:
            self.stop()
        else:
            self.stop_wanted = self._reading is None

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

    async def _show_whole(self) -> None:
        from codelet.frontends.terminal.terminal_programs import show_last

        await show_last(self._screen)

    async def _edit(self) -> None:
        """Edit the line in the user's editor."""
        from codelet.frontends.terminal.terminal_programs import why_no_editor

        if refusal := why_no_editor(self._workspace):
            self._screen.fail(refusal)
            return
        self.buffer.text = before = self._pastes.expand(self.buffer.text)
        self.bottom.hold(True)
        try:
            await self.buffer.open_in_editor()
            self._pastes.keep(self.buffer.text.removeprefix(before))  # a paste looks like typing there
        finally:
            self.bottom.hold(False)

    async def _insert_picture(self) -> None:
        """Insert the clipboard's image, or say why not."""
        from codelet.system.clipboard import copied_picture

        copied = await copied_picture(self._workspace)
        if copied.data:
            blank = "" if self.buffer.document.char_before_cursor in ("", " ", "\n") else " "
            self.buffer.insert_text(f"{blank}{self._pastes.keep_picture(copied.data)} ")
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
