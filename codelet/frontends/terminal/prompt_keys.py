"""The input line's key bindings, on top of prompt_toolkit's for Emacs or vi."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from shutil import which
from typing import Any

from prompt_toolkit.application import get_app
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import (
    Condition,
    Filter,
    completion_is_selected,
    emacs_mode,
    has_focus,
    vi_insert_mode,
    vi_mode,
)
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.bindings.search import start_reverse_incremental_search
from prompt_toolkit.keys import Keys

from codelet.errors import UsageError
from codelet.frontends.terminal.draft import Pastes, as_prompt
from codelet.settings import Settings
from codelet.system.process.start import supplied_by

_Handler = Callable[[KeyPressEvent], Any]
_EDITING = has_focus(DEFAULT_BUFFER)
ANSWER = "answer"
"""The name of the buffer for a written answer."""
_TWICE_SECONDS = 1.0
"""Two ESCs within this time are one command."""


class PromptBindings(KeyBindings):
    """The bindings; `own` are the user's and override others.

    `is_busy`: a turn runs, so no prompt is read. `can_take_back`: Up takes back a waiting line.
    """

    def __init__(
        self,
        pastes: Pastes,
        actions: Mapping[str, Callable[[], object]],
        is_busy: Condition,
        can_take_back: Filter,
        own: Iterable[tuple[str, tuple[str, ...]]] = (),
    ) -> None:
        super().__init__()
        self._pastes, self._actions, self._is_busy = pastes, actions, is_busy
        self._escaped_at = float("-inf")
        is_empty = Condition(lambda: not get_app().current_buffer.text)
        self._goes_back = is_empty & ~is_busy
        handlers: dict[str, _Handler] = {name: self._does(action) for name, action in actions.items()}
        handlers |= {
            "send": self._send, "newline": _new_line, "later": self._later,
            "search": start_reverse_incremental_search.call,
        }  # fmt: skip
        anywhere = _EDITING | has_focus(ANSWER)
        for keys, where, handler in (
            ("enter", _EDITING & ~completion_is_selected, self._send),
            ("enter", _EDITING & completion_is_selected, self._complete),
            ("enter", has_focus(ANSWER), handlers["answer"]),
            ("escape enter", _EDITING, self._later),
            ("c-j", _EDITING, _new_line),
            ("up", _EDITING & can_take_back, handlers["back"]),
            ("c-d", _EDITING & is_empty, handlers["leave"]),
            ("c-c", anywhere, handlers["stop"]),
            ("<sigint>", anywhere, handlers["stop"]),
            ("c-z", anywhere, handlers["suspend"]),
            ("s-tab", _EDITING, handlers["mode"]),
            ("c-o", _EDITING, handlers["whole"]),
            ("c-x c-e", _EDITING, handlers["editor"]),
            ("c-v", _EDITING, handlers["picture"]),
            ("<bracketed-paste>", _EDITING, self._paste),
            ("escape", _EDITING & self._goes_back & ~vi_mode, self._go_back),
            ("escape <any>", emacs_mode, self._alt),
            ("?", _EDITING & self._goes_back & (emacs_mode | vi_insert_mode), self._send_sign),
        ):
            self.add(*keys.split(), filter=where)(handler)
        for action, sequence in own:
            self.add(*sequence, filter=_EDITING, eager=len(sequence) == 1)(handlers[action])

    @staticmethod
    def _does(action: Callable[[], object]) -> _Handler:
        return lambda event: action()

    def _send(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif buffer.text.strip():
            self._actions["send"]()

    def _later(self, event: KeyPressEvent) -> None:
        """Start a new line, or during a turn send when it ends."""
        if not self._is_busy():
            event.current_buffer.insert_text("\n")
        elif event.current_buffer.text.strip():
            self._actions["later"]()

    def _complete(self, event: KeyPressEvent) -> None:
        """Accept a completion; a command is sent, too."""
        event.current_buffer.complete_state = None
        if event.current_buffer.text.startswith("/"):
            self._send(event)

    def _paste(self, event: KeyPressEvent) -> None:
        """Insert pasted text, or the path of a dropped file. A pasted sign at the start does not act."""
        from codelet.context.attachments import dropped_picture

        if not event.data:  # some terminals send this for an image
            self._actions["picture"]()
            return
        text = dropped_picture(event.data) or self._pastes.collapse(event.data)
        event.current_buffer.insert_text(text if event.current_buffer.cursor_position else as_prompt(text))

    def _go_back(self, event: KeyPressEvent) -> None:
        """Handle ESC twice on an empty line: /rewind. vi mode has its own ESC."""
        before, self._escaped_at = self._escaped_at, time.monotonic()
        if self._escaped_at - before < _TWICE_SECONDS:
            event.current_buffer.text = "/rewind"
            self._actions["send"]()

    def _send_sign(self, event: KeyPressEvent) -> None:
        """Run a command of one sign, typed on an empty line."""
        event.current_buffer.text = event.data
        self._actions["send"]()

    def _alt(self, event: KeyPressEvent) -> None:
        """Handle ESC before an unbound key: Alt, which types nothing."""
        press = event.key_sequence[-1]
        if len(press.key) > 1:  # not a character
            if press.key == Keys.Escape and self._goes_back():
                self._escaped_at = time.monotonic()
            event.key_processor.feed(press, first=True)


def _new_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")


def bindings_of(settings: Settings) -> list[tuple[str, tuple[str, ...]]]:
    """Return the user's actions and key sequences, such as `c-x c-e`, `a-enter` (Esc Enter), or `f5`.

    Raises UsageError for an unknown key.
    """
    found = []
    for action, key in ((action, key) for action, keys in settings.keys for key in keys):
        added, spelled = KeyBindings(), re.sub(r"\ba-(?=\S)", "escape ", key)
        try:
            added.add(*spelled.split())(_new_line)
        except ValueError:
            raise UsageError(
                f"keys.{action}: there is no key {key!r}; keys are written like c-s, a-enter, f5, s-tab"
            ) from None
        found.append((action, tuple(getattr(each, "value", each) for each in added.bindings[0].keys)))
    return found


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
