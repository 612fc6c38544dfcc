"""The keys of the line editor, on top of prompt-toolkit's own: those of Emacs, or of vi."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from shutil import which

from prompt_toolkit.application import get_app, run_in_terminal
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, completion_is_selected, has_focus, vi_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.bindings.search import start_reverse_incremental_search
from prompt_toolkit.keys import Keys

from codelet.frontends.terminal.draft import Pastes
from codelet.system.process.start import supplied_by
from codelet.system.text import clean

_Handler = Callable[[KeyPressEvent], None]
_EDITING = has_focus(DEFAULT_BUFFER)
_TWICE_SECONDS = 1.0
"""Two ESCs within this time are one wish."""


def prompt_bindings(
    pastes: Pastes,
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

    editor = _editor(pastes, workspace)
    _bind_going_back(bindings)
    _bind_sending(bindings)
    _bind_pasting(bindings, pastes, paste_picture)
    bindings.add("c-c", filter=_EDITING)(interrupt)
    bindings.add("<sigint>", filter=_EDITING)(interrupt)
    bindings.add("s-tab", filter=_EDITING)(mode)
    bindings.add("c-o", filter=_EDITING)(whole)
    bindings.add("c-x", "c-e", filter=_EDITING)(editor)
    actions: dict[str, _Handler] = {
        "send": _send,
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


def _bind_pasting(bindings: KeyBindings, pastes: Pastes, paste_picture: Callable[[], None]) -> None:
    """What a terminal pastes is a text, or the path of a file that was dropped on it; Ctrl-V asks for a picture."""

    @bindings.add(Keys.BracketedPaste, filter=_EDITING)
    def _paste(event: KeyPressEvent) -> None:
        if not event.data:  # some terminals do this where a picture is in the clipboard
            paste_picture()
            return
        from codelet.context.attachments import dropped_picture

        event.current_buffer.insert_text(dropped_picture(event.data) or pastes.collapse(event.data))

    @bindings.add("c-v", filter=_EDITING)
    def _picture(event: KeyPressEvent) -> None:
        paste_picture()


def _bind_sending(bindings: KeyBindings) -> None:
    """Enter sends, or takes the completion that is marked; with ESC before it, and as Ctrl-J, it begins a new line."""
    bindings.add("enter", filter=_EDITING & ~completion_is_selected)(_send)
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


def _send(event: KeyPressEvent) -> None:
    buffer = event.current_buffer
    if buffer.document.text_before_cursor.endswith("\\"):
        buffer.delete_before_cursor()
        buffer.insert_text("\n")
    elif buffer.text.strip():
        buffer.validate_and_handle()


def _take_completion(event: KeyPressEvent) -> None:
    buffer = event.current_buffer
    buffer.complete_state = None
    if buffer.text.startswith("/"):
        buffer.validate_and_handle()


def _new_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")
