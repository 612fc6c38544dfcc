"""The keys of the line editor, on top of prompt-toolkit's own: those of Emacs, or of vi."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from shutil import which

from prompt_toolkit.application import get_app, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, completion_is_selected, has_focus, vi_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.bindings.search import start_reverse_incremental_search
from prompt_toolkit.keys import Keys

from codelet.frontends.terminal.draft import EditedLine, Pastes
from codelet.system.process.start import supplied_by
from codelet.system.text import clean

_Handler = Callable[[KeyPressEvent], None]
_EDITING = has_focus(DEFAULT_BUFFER)
_TWICE_SECONDS = 1.0
"""Two ESCs within this time are one wish."""


class LineOrigin:
    """Follows the line editor's buffer, and knows which of its characters were pasted.

    What comes neither by a key nor by a paste (undo, the kill ring, the user's editor) counts as pasted once anything
    was pasted in the session.
    """

    def __init__(self, pastes: Pastes) -> None:
        self._pastes = pastes
        self._line = self._before = EditedLine()
        self._left: dict[str, bytes] = {}
        self._pasting = False

    def follow(self, buffer: Buffer) -> None:
        """Follow this buffer from now on."""
        buffer.on_text_changed += self._changed
        buffer.on_text_insert += self._inserted

    def begin(self, text: str) -> None:
        """Begin with a text that the editor offers."""
        self._line, self._left = self._pastes.origin_of(text), {}

    def paste(self, buffer: Buffer, text: str) -> None:
        """Insert a text that was pasted."""
        self._pasting = self._pastes.any = True
        try:
            buffer.insert_text(text)
        finally:
            self._pasting = False

    def enter(self, buffer: Buffer) -> None:
        """Make the line what is to be sent, and kept in the history: a prompt if its first character was pasted."""
        entered = self._pastes.enter(self._line)
        if entered != buffer.text:
            buffer.text = entered

    def _changed(self, buffer: Buffer) -> None:
        """Take over a change whose origin is unknown."""
        before, text = self._line, buffer.text
        self._before = before
        self._left[before.text] = before.pasted
        self._line = EditedLine(before.text, before.pasted)
        if text in self._left:
            self._line = EditedLine(text, self._left[text])
        elif text in buffer.history.get_strings():
            self._line = self._pastes.origin_of(text)
        else:
            self._line.become(text, buffer.cursor_position, pasted=self._pastes.any)

    def _inserted(self, buffer: Buffer) -> None:
        """Correct what was taken over: a paste, or a character that was typed."""
        before, text = self._before, buffer.text
        grown = len(text) - len(before.text)
        if not self._pasting and grown > 1:
            return
        count, end = max(grown, 1), buffer.cursor_position
        line = EditedLine(before.text, before.pasted)
        line.insert(text[end - count : end], end - count, pasted=self._pasting, over=count - grown)
        if line.text == text:
            self._line = line


def prompt_bindings(
    pastes: Pastes,
    origin: LineOrigin,
    interrupted: Callable[[], None],
    cycle_mode: Callable[[], None],
    open_whole: Callable[[], None],
    paste_picture: Callable[[], None],
    workspace: Path,
    own: Iterable[tuple[str, tuple[str, ...]]] = (),
) -> KeyBindings:
    """The bindings; `own` are the user's keys, each with its action, and win over all others."""
    bindings = KeyBindings()

    def mode(event: KeyPressEvent) -> None:
        cycle_mode()
        event.app.invalidate()

    def interrupt(event: KeyPressEvent) -> None:
        interrupted()

    def whole(event: KeyPressEvent) -> None:
        open_whole()

    def send(event: KeyPressEvent) -> None:
        _send(event, origin)

    editor = _editor(pastes, workspace)
    _bind_going_back(bindings)
    _bind_sending(bindings, send)
    _bind_pasting(bindings, pastes, origin, paste_picture)
    bindings.add("c-c", filter=_EDITING)(interrupt)
    bindings.add("<sigint>", filter=_EDITING)(interrupt)
    bindings.add("s-tab", filter=_EDITING)(mode)
    bindings.add("c-o", filter=_EDITING)(whole)
    bindings.add("c-x", "c-e", filter=_EDITING)(editor)
    actions: dict[str, _Handler] = {
        "send": send,
        "newline": _new_line,
        "later": _new_line,
        "stop": interrupt,
        "mode": mode,
        "search": start_reverse_incremental_search.call,
        "editor": editor,
    }
    for action, keys in own:
        bindings.add(*keys, filter=_EDITING, eager=len(keys) == 1)(actions[action])
    return bindings


def _editor(pastes: Pastes, workspace: Path) -> _Handler:
    """The key that opens the line in the user's own editor."""

    def edit(event: KeyPressEvent) -> None:
        if refusal := why_no_editor(workspace):
            run_in_terminal(lambda: print(f"✗ {clean(refusal)}"))
            return
        buffer = event.current_buffer
        pastes.any = True  # what is pasted in the editor looks like what is typed there
        buffer.text = pastes.expand(buffer.text)
        buffer.open_in_editor()

    return edit


def why_no_editor(workspace: Path) -> str:
    """Why the user's editor is not started, or "": what the repository can supply does not run by a key."""
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


def _bind_sending(bindings: KeyBindings, send: _Handler) -> None:
    """Enter sends, or takes the completion that is marked; with ESC before it, and as Ctrl-J, it begins a new line."""
    bindings.add("enter", filter=_EDITING & ~completion_is_selected)(send)
    bindings.add("enter", filter=_EDITING & completion_is_selected)(_take_completion)
    bindings.add("escape", "enter", filter=_EDITING)(_new_line)
    bindings.add("c-j", filter=_EDITING)(_new_line)


def _bind_going_back(bindings: KeyBindings) -> None:
    """ESC twice on an empty line is /rewind; with vi's keys ESC has its own meaning."""
    pressed = [float("-inf")]

    @bindings.add("escape", filter=_EDITING & Condition(lambda: not get_app().current_buffer.text) & ~vi_mode)
    def _go_back(event: KeyPressEvent) -> None:
        before, pressed[0] = pressed[0], time.monotonic()
        if pressed[0] - before < _TWICE_SECONDS:
            event.current_buffer.text = "/rewind"
            event.current_buffer.validate_and_handle()


def _send(event: KeyPressEvent, origin: LineOrigin) -> None:
    buffer = event.current_buffer
    if buffer.document.text_before_cursor.endswith("\\"):
        buffer.delete_before_cursor()
        buffer.insert_text("\n")
    elif buffer.text.strip():
        origin.enter(buffer)
        buffer.validate_and_handle()


def _take_completion(event: KeyPressEvent) -> None:
    buffer = event.current_buffer
    buffer.complete_state = None
    if buffer.text.startswith("/"):
        buffer.validate_and_handle()


def _new_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")
