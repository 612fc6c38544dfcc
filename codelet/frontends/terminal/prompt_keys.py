"""The keys of the line editor, on top of prompt-toolkit's own: those of Emacs, or of vi."""

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
"""The buffer of what is written behind a question."""
_TWICE_SECONDS = 1.0
"""Two ESCs within this time are one wish."""


class LineOrigin:
    """Follows the line editor's buffer, and knows whether its first character was typed, and anything in it pasted.

    What comes neither by a key nor by a paste (undo, the kill ring, the history) is what it was when it was last there.
    """

    def __init__(self, pastes: Pastes) -> None:
        self._pastes = pastes
        self._typed = self._before = self._pasted = self._pasting = False
        self._text = ""
        self._left: dict[str, bool] = {}

    def follow(self, buffer: Buffer) -> None:
        """Follow this buffer from now on."""
        buffer.on_text_changed += self._changed
        buffer.on_text_insert += self._inserted

    def begin(self, text: str) -> None:
        """Begin with a text that the editor offers."""
        self._typed, self._pasted = bool(text), self._pastes.holds(text)
        self._text, self._left = text, {}

    def paste(self, buffer: Buffer, text: str) -> None:
        """Insert a text that was pasted."""
        is_first = not buffer.cursor_position
        self._pasted = self._pasting = True
        try:
            buffer.insert_text(text)
        finally:
            self._pasting = False
        self._typed = self._before and not is_first

    def edited(self) -> None:
        """The line was in the user's editor: what is pasted there looks like what is typed there."""
        self._pasted = True

    def entered(self) -> str:
        """The line as it is to be sent, and kept in the history: a prompt if its first character was pasted."""
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
    """The bindings; `own` are the user's keys, each with its action, and win over all others. `is_busy` says that no
    prompt is read now, as while a turn runs, `can_take_back` that Up undoes a line that waits.
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
    """Enter sends, or takes the completion that is marked; with ESC before it, and as Ctrl-J, it begins a new line, or
    while a turn runs sends when that has ended. Gives what sends now, and later.
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
    """Return why the user's editor is not started, or "": what the repository can supply does not run by a key."""
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
    """What a terminal pastes is a text, or the path of a file that was dropped on it; Ctrl-V asks for a picture."""

    @bindings.add(Keys.BracketedPaste, filter=_EDITING)
    def _paste(event: KeyPressEvent) -> None:
        if not event.data:  # some terminals do this where a picture is in the clipboard
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
    """ESC twice on an empty line is /rewind; before a key that it makes no other of it is Alt, which types nothing.

    With vi's keys ESC has its own meaning.
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
        if len(press.key) > 1:  # a key of its own
            if press.key == Keys.Escape and goes_back():
                pressed[0] = time.monotonic()
            event.key_processor.feed(press, first=True)


def _new_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")


def chord_seconds(pressed: list[KeyPress]) -> float:
    """Return how long the next key of a chord may take. ESC before it is Alt, which the terminal sends at once."""
    return _ALT_SECONDS if pressed and pressed[0].key == Keys.Escape else _CHORD_SECONDS
