"""The input line's key bindings, on top of prompt_toolkit's for Emacs or vi."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from shutil import which

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, Filter, completion_is_selected, emacs_mode, has_focus, vi_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.key_binding.bindings.search import start_reverse_incremental_search
from prompt_toolkit.keys import Keys

from codelet.frontends.terminal.draft import Pastes, is_plain_prompt
from codelet.system.process.start import supplied_by

_ALT_SECONDS, _CHORD_SECONDS = 0.1, 2.0
_Handler = Callable[[KeyPressEvent], None]
_EDITING = has_focus(DEFAULT_BUFFER)
ANSWER = "answer"
"""The name of the buffer for a written answer."""
_TWICE_SECONDS = 1.0
"""Two ESCs within this time are one command."""


class LineOrigin:
    """Follows the buffer: was its first character typed, is any of it pasted.

    Text from undo, the kill ring or the history is what it was when it was last in the buffer.
    """

    def __init__(self, pastes: Pastes) -> None:
        self._pastes = pastes
        self._typed = self._before = self._pasted = self._pasting = False
        self._text = ""
        self._left: dict[str, bool] = {}

    def follow(self, buffer: Buffer) -> None:
        buffer.on_text_changed += self._changed
        buffer.on_text_insert += self._inserted

    def begin(self, text: str) -> None:
        """Start with a text from codelet."""
        self._typed, self._pasted = bool(text), self._pastes.holds(text)
        self._text, self._left = text, {}

    def paste(self, buffer: Buffer, text: str) -> None:
        """Insert pasted text."""
        is_first = not buffer.cursor_position
        self._pasted = self._pasting = True
        try:
            buffer.insert_text(text)
        finally:
            self._pasting = False
        self._typed = self._before and not is_first

    def edited(self) -> None:
        """The line was in the user's editor, where a paste looks like typing."""
        self._pasted = True

    def entered(self) -> str:
        """Return the line for sending and the history: a prompt if its first character was pasted."""
        if self._pasted or self._pastes.holds(self._text):
            self._pastes.lines.add(self._text.strip())
        marked = f" {self._text}"
        return self._text if self._typed or not is_plain_prompt(marked) else marked

    def _changed(self, buffer: Buffer) -> None:
        self._left[self._text] = self._before = self._typed
        if buffer.text in self._left:
            self._typed = self._left[buffer.text]
        elif buffer.text in buffer.history.get_strings():
            self._typed = True
        elif buffer.text[:1] != self._text[:1]:
            self._typed = False
        self._text = buffer.text

    def _inserted(self, buffer: Buffer) -> None:
        if not self._pasting:
            self._typed = self._before or buffer.cursor_position == 1


def prompt_bindings(
    pastes: Pastes,
    origin: LineOrigin,
    actions: Mapping[str, Callable[[], None]],
    is_busy: Condition,
    can_take_back: Condition,
    own: Iterable[tuple[str, tuple[str, ...]]] = (),
) -> KeyBindings:
    """Return the bindings; `own` are the user's and override others.

    `is_busy`: no prompt is being read, as during a turn. `can_take_back`: Up takes back a waiting line.
    """
    bindings = KeyBindings()

    def does(name: str) -> _Handler:
        return lambda event: actions[name]()

    is_empty = Condition(lambda: not get_app().current_buffer.text)
    _bind_escape(bindings, actions["send"], is_empty & ~is_busy)
    _bind_pasting(bindings, pastes, origin, actions["picture"])
    send, later = _bind_sending(bindings, actions, is_busy)
    bindings.add("enter", filter=has_focus(ANSWER))(does("answer"))
    bindings.add("up", filter=_EDITING & can_take_back)(does("back"))
    bindings.add("c-d", filter=_EDITING & is_empty)(does("leave"))
    for name, key in (("stop", "c-c"), ("stop", "<sigint>"), ("suspend", "c-z")):
        bindings.add(key, filter=_EDITING | has_focus(ANSWER))(does(name))
    for name, key in (("mode", "s-tab"), ("whole", "c-o"), ("editor", "c-x c-e")):
        bindings.add(*key.split(), filter=_EDITING)(does(name))
    handlers: dict[str, _Handler] = {
        "send": send,
        "newline": _new_line,
        "later": later,
        "stop": does("stop"),
        "mode": does("mode"),
        "search": start_reverse_incremental_search.call,
        "editor": does("editor"),
    }
    for action, keys in own:
        bindings.add(*keys, filter=_EDITING, eager=len(keys) == 1)(handlers[action])
    return bindings


def _bind_sending(
    bindings: KeyBindings, actions: Mapping[str, Callable[[], None]], is_busy: Condition
) -> tuple[_Handler, _Handler]:
    """Bind Enter: send, or accept a completion. After ESC it starts a new line, or sends when the turn ends.

    Returns the handlers for sending now and later.
    """

    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif buffer.text.strip():
            actions["send"]()

    def later(event: KeyPressEvent) -> None:
        if not is_busy():
            event.current_buffer.insert_text("\n")
        elif event.current_buffer.text.strip():
            actions["later"]()

    def complete(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None
        if event.current_buffer.text.startswith("/"):
            send(event)

    bindings.add("enter", filter=_EDITING & ~completion_is_selected)(send)
    bindings.add("enter", filter=_EDITING & completion_is_selected)(complete)
    bindings.add("escape", "enter", filter=_EDITING)(later)
    bindings.add("c-j", filter=_EDITING)(_new_line)
    return send, later


def why_no_editor(workspace: Path) -> str:
    """Return why the user's editor may not start, or "". The repository must not supply it."""
    for variable in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(os.environ.get(variable, ""))
        except ValueError as error:
            return f"{variable} cannot be read: {error}"
        if found := which(words[0]) if words else None:
            if not supplied_by(workspace, found):
                return ""
            return f"{variable} names {found}, which this folder could supply: give the path of a program outside it"
    return ""


def _bind_pasting(bindings: KeyBindings, pastes: Pastes, origin: LineOrigin, paste_picture: Callable[[], None]) -> None:
    """Bind pastes (text, or the path of a dropped file) and Ctrl-V (an image)."""

    @bindings.add(Keys.BracketedPaste, filter=_EDITING)
    def _paste(event: KeyPressEvent) -> None:
        if not event.data:  # some terminals send this for an image
            paste_picture()
            return
        from codelet.context.attachments import dropped_picture

        if dropped := dropped_picture(event.data):
            event.current_buffer.insert_text(dropped)
        else:
            origin.paste(event.current_buffer, pastes.collapse(event.data))

    @bindings.add("c-v", filter=_EDITING)
    def _picture(event: KeyPressEvent) -> None:
        paste_picture()


def _bind_escape(bindings: KeyBindings, send: Callable[[], None], goes_back: Filter) -> None:
    """Bind ESC twice on an empty line to /rewind; ESC before an unbound key is Alt and types nothing.

    vi mode has its own ESC.
    """
    pressed = [float("-inf")]

    @bindings.add("escape", filter=_EDITING & goes_back & ~vi_mode)
    def _go_back(event: KeyPressEvent) -> None:
        before, pressed[0] = pressed[0], time.monotonic()
        if pressed[0] - before < _TWICE_SECONDS:
            event.current_buffer.text = "/rewind"
            send()

    @bindings.add("escape", Keys.Any, filter=emacs_mode)
    def _alt(event: KeyPressEvent) -> None:
        press = event.key_sequence[-1]
        if len(press.key) > 1:  # not a character
            if press.key == Keys.Escape and goes_back():
                pressed[0] = time.monotonic()
            event.key_processor.feed(press, first=True)


def _new_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")


def chord_seconds(pressed: list[KeyPress]) -> float:
    """Return how long a chord waits for its next key. After ESC it is short: terminals send Alt in one piece."""
    return _ALT_SECONDS if pressed and pressed[0].key == Keys.Escape else _CHORD_SECONDS
