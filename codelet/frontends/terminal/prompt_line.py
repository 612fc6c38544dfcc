"""The prompt: one line that may grow, with its keys, history in memory, completion, search and a status row below."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session, get_app, in_terminal
from prompt_toolkit.cursor_shapes import ModalCursorShapeConfig
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, has_completions, is_done, to_filter
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History, InMemoryHistory
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, FloatContainer, FormattedTextControl, HSplit, Window
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.plain_text import PlainTextOutput
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import is_dumb_terminal

from codelet.errors import EXIT_DONE, EXIT_INTERRUPT
from codelet.frontends.terminal.completion import ReplCompleter, wants_completion
from codelet.frontends.terminal.draft import Pastes
from codelet.frontends.terminal.keys import FLUSH_SECONDS, KeyInput
from codelet.frontends.terminal.preferences import Preferences
from codelet.frontends.terminal.prompt_keys import LineOrigin, prompt_bindings

KEYS_HELP = (
    ("Enter", "send; while a turn runs: the model reads it with its next step, Up takes it back"),
    ("Alt-Enter, Ctrl-J", "new line, as does a \\ at the end; while a turn runs Alt-Enter sends when it ends"),
    ("Tab", "complete /commands and @files"),
    ("Ctrl-V", "attach the image in the clipboard"),
    ("Ctrl-R", "search what you sent before"),
    ("Ctrl-O", "see in full what the screen shows in part: outputs, changes, reasoning, answers"),
    ("Ctrl-X Ctrl-E", "edit in $VISUAL or $EDITOR"),
    ("Shift-Tab", "next mode"),
    ("Esc, Ctrl-C", "stop the turn; continue resumes it"),
    ("Esc Esc", "on an empty line: go back to an earlier prompt, as /rewind"),
    ("Ctrl-D, Ctrl-C twice", "leave"),
)

_MENU_ROWS = 8
_LEAVE_SECONDS = 2.0
_ALT_SECONDS, _CHORD_SECONDS = 0.1, 2.0
_STYLE = Style.from_dict(
    {
        "prompt": "ansicyan bold",
        "status": "dim",
        "status.warn": "ansiyellow",
        "completion-menu": "noinherit",
        "completion-menu.completion": "noinherit",
        "completion-menu.completion.current": "noinherit reverse",
        "completion-menu.meta.completion": "noinherit dim",
        "completion-menu.meta.completion.current": "noinherit reverse",
        "scrollbar.background": "noinherit",
        "scrollbar.button": "noinherit reverse",
        "search-toolbar": "noinherit",
        "search-toolbar.text": "bold",
        "incsearch": "reverse",
        "incsearch.current": "reverse bold",
    }
)


class PromptLine:
    """Reads one prompt at a time. `status` returns the row below the line."""

    _whole: asyncio.Task[None] | None = None
    _pasting: asyncio.Task[None] | None = None
    _warning = ""
    _leave_at = 0.0
    _offered = ""

    def __init__(
        self,
        source: KeyInput,
        pastes: Pastes,
        *,
        workspace: Path,
        completer: ReplCompleter,
        status: Callable[[], str],
        cycle_mode: Callable[[], None],
        show_whole: Callable[[], Coroutine[None, None, None]],
        sign: str,
        preferences: Preferences,
        complain: Callable[[str], None],
    ) -> None:
        self._status = status
        self._sign = sign
        self._show_whole = show_whole
        self._pastes, self._workspace = pastes, workspace
        self.exit_status = EXIT_DONE
        self.output = make_output()
        own = (self._interrupted, cycle_mode, self._open_whole, self._paste_picture)
        self._origin = LineOrigin(pastes)
        bindings = prompt_bindings(pastes, self._origin, *own, workspace, preferences.keys)
        with create_app_session(input=source, output=self.output):
            self._session: PromptSession[str] = PromptSession(
                self._message,
                input=source,
                output=None if is_dumb_terminal() else self.output,
                multiline=True,
                wrap_lines=True,
                history=_history(preferences, pastes, complain),
                editing_mode=EditingMode.VI if preferences.edit_mode == "vi" else EditingMode.EMACS,
                cursor=ModalCursorShapeConfig() if preferences.edit_mode == "vi" else None,
                completer=completer,
                complete_while_typing=Condition(self._completing),
                complete_style=CompleteStyle.COLUMN,
                reserve_space_for_menu=0,  # the menu has a place of its own, below
                prompt_continuation="  ",
                key_bindings=bindings,
                enable_open_in_editor=False,
                enable_suspend=True,
                search_ignore_case=True,
                style=_STYLE,
                include_default_pygments_style=False,
                color_depth=_color_depth(preferences.theme != "plain"),
                erase_when_done=self.erases,
            )
        self._listen()
        self._add_rows_below()

    @property
    def erases(self) -> bool:
        """Whether the line is taken off the screen once it is sent: the REPL shows it in its own way."""
        return not is_dumb_terminal()

    async def read(self, default: str = "", *, offered: str = "") -> str:
        """The next prompt as typed, with its paste markers. Raises EOFError to leave, with `exit_status` set.

        The line begins with `default`, to be edited, or else with `offered`: Enter takes it, what is typed replaces it.
        """
        self._leave_at, self._warning = 0.0, ""
        self._offered = "" if default else offered
        self._origin.begin(default or offered)
        reading = asyncio.ensure_future(self._session.prompt_async(default=default or offered))
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            if self._whole is not None:  # the line editor would wait until the user has left the pager
                self._whole.cancel()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            raise

    def refresh(self) -> None:
        """Show the status row anew, where it is on the screen."""
        if self._session.app.is_running:
            self._session.app.invalidate()

    def use_colours(self, colours: bool) -> None:
        """Go on with colours, or without."""
        self._session.color_depth = _color_depth(colours)

    def remember(self, text: str) -> None:
        """Add a line that was not typed here to the history."""
        self._session.history.append_string(text)

    def _open_whole(self) -> None:
        if self._whole is None or self._whole.done():
            self._whole = self._session.app.create_background_task(self._leave_terminal())

    def _paste_picture(self) -> None:
        if self._pasting is None or self._pasting.done():
            self._pasting = self._session.app.create_background_task(self._insert_picture())

    async def _insert_picture(self) -> None:
        """Put the name of the clipboard's picture into the line, or say why there is none."""
        from codelet.system.clipboard import copied_picture

        copied = await copied_picture(self._workspace)
        buffer = self._session.default_buffer
        if copied.data:
            blank = "" if buffer.document.char_before_cursor in ("", " ", "\n") else " "
            buffer.insert_text(f"{blank}{self._pastes.keep_picture(copied.data)} ")
        else:
            self._warning = copied.why
        self.refresh()

    async def _leave_terminal(self) -> None:
        """Leave the terminal for a while to what shows the whole, and reads the keys; none is a signal for us."""
        async with in_terminal():
            with self._session.input.raw_mode():
                await self._show_whole()

    def _listen(self) -> None:
        """Take an ESC for one soon, and notice what is typed behind an offer."""
        app = self._session.app
        app.ttimeoutlen = FLUSH_SECONDS
        app.key_processor.after_key_press += lambda keys: setattr(app, "timeoutlen", _chord_seconds(keys.key_buffer))
        self._origin.follow(self._session.default_buffer)
        self._session.default_buffer.on_text_insert += lambda _: self._type_over_offer()

    def _message(self) -> StyleAndTextTuples:
        return [("class:prompt", f"{self._sign} ")]

    def _add_rows_below(self) -> None:
        # prompt-toolkit's own toolbar waits until the terminal has told where its cursor is; this one is
        # there at once, right below the line.
        row = Window(FormattedTextControl(self._status_row), height=1, style="class:status")
        # The menu takes this row's place, so that the line above stays where it is. prompt-toolkit's own one floats
        # over rows that it keeps free below the line, and the row below would jump.
        menu = CompletionsMenu(max_height=_MENU_ROWS, scroll_offset=1)
        container = self._session.layout.container
        assert isinstance(container, HSplit)
        for part in container.children:
            if isinstance(part, FloatContainer):
                part.floats[:] = [each for each in part.floats if not isinstance(each.content, CompletionsMenu)]
        self._session.layout.current_window.dont_extend_height = to_filter(True)
        below = HSplit([ConditionalContainer(row, filter=~has_completions), Window()])
        container.children += [menu, ConditionalContainer(below, filter=~is_done)]

    def _status_row(self) -> StyleAndTextTuples:
        if time.monotonic() < self._leave_at:
            return [("class:status.warn", "Ctrl-C again leaves codelet; Ctrl-D too")]
        if self._warning:
            return [("class:status.warn", self._warning)]
        return [("", self._status())]

    def _completing(self) -> bool:
        return wants_completion(self._session.default_buffer.document.text_before_cursor)

    def _type_over_offer(self) -> None:
        """Take what was offered away once something is typed behind it; a warning is read by then."""
        self._warning = ""
        offered, self._offered = self._offered, ""
        buffer = self._session.default_buffer
        if offered and buffer.text.startswith(offered) and (typed := buffer.text[len(offered) :]):
            buffer.document = Document(typed)

    def _interrupted(self) -> None:
        """Ctrl-C: clears a line; on an empty one, twice within two seconds, leaves."""
        app, buffer = self._session.app, self._session.default_buffer
        if buffer.text:
            self._origin.enter(buffer)
            buffer.append_to_history()
            buffer.reset()
            self._origin.begin("")
            return
        now = time.monotonic()
        if now < self._leave_at:
            self.exit_status = EXIT_INTERRUPT
            get_app().exit(exception=EOFError)
            return
        self._leave_at = now + _LEAVE_SECONDS
        app.invalidate()
        if app.loop is not None:
            app.loop.call_later(_LEAVE_SECONDS + 0.05, app.invalidate)


def _chord_seconds(pressed: Sequence[KeyPress]) -> float:
    """How long the next key of a chord may take. ESC before it is Alt, which the terminal sends at once."""
    return _ALT_SECONDS if pressed and pressed[0].key == Keys.Escape else _CHORD_SECONDS


def _history(preferences: Preferences, pastes: Pastes, complain: Callable[[str], None]) -> History:
    """What the arrows and the search go through: this session's lines, and those of the file that the user named."""
    if preferences.history is None:
        return InMemoryHistory()
    from codelet.frontends.terminal.history_file import HistoryFile

    return HistoryFile(preferences.history, pastes.expand, complain)


class _KeptOnce(Vt100_Output):
    """tmux keeps in its scrollback what is erased from the first column of the first row on, as "clear" does it.

    After Ctrl-L the line stands there, and would be found a second time above. A blank is written and erased with it.
    """

    def erase_down(self) -> None:
        self.write_raw(" \x1b[J\b")


def make_output() -> Output:
    """The terminal's output. It asks the terminal nothing: an answer could come in the middle of a turn."""
    if is_dumb_terminal():
        return PlainTextOutput(sys.stdout)

    def size() -> Size:
        columns, rows = shutil.get_terminal_size()
        return Size(rows=rows, columns=columns)

    return _KeptOnce(sys.stdout, size, term=os.environ.get("TERM"), enable_bell=False, enable_cpr=False)


def _color_depth(colours: bool) -> ColorDepth:
    """The sixteen colours of the terminal's own palette, or none."""
    return ColorDepth.DEPTH_4_BIT if colours and not os.environ.get("NO_COLOR") else ColorDepth.DEPTH_1_BIT
