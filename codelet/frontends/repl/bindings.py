"""The keys of the prompt."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import completion_is_selected, has_focus
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from codelet.frontends.repl.pastes import Pastes

KEYS_HELP = (
    ("Enter", "send; while a turn runs: send when it ends"),
    ("Alt-Enter, Ctrl-J", "new line; a \\ at the end of the line and Enter too"),
    ("Tab", "complete /commands and @files"),
    ("Ctrl-R", "search what you sent before"),
    ("Ctrl-X Ctrl-E", "edit in $VISUAL or $EDITOR"),
    ("Shift-Tab", "next mode"),
    ("Esc, Ctrl-C", "stop the turn; continue takes it up again"),
    ("Ctrl-D, Ctrl-C twice", "leave"),
)


def prompt_bindings(pastes: Pastes, interrupted: Callable[[], None], cycle_mode: Callable[[], None]) -> KeyBindings:
    """Bindings on top of prompt-toolkit's Emacs ones."""
    bindings = KeyBindings()
    editing = has_focus(DEFAULT_BUFFER)

    @bindings.add("enter", filter=editing & ~completion_is_selected)
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif buffer.text.strip():
            buffer.validate_and_handle()

    @bindings.add("enter", filter=editing & completion_is_selected)
    def _take_completion(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.complete_state = None
        if buffer.text.startswith("/"):
            buffer.validate_and_handle()

    @bindings.add("escape", "enter", filter=editing)
    @bindings.add("c-j", filter=editing)
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add(Keys.BracketedPaste, filter=editing)
    def _paste(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(pastes.collapse(event.data))

    @bindings.add("c-c", filter=editing)
    @bindings.add("<sigint>", filter=editing)
    def _interrupt(event: KeyPressEvent) -> None:
        interrupted()

    @bindings.add("s-tab", filter=editing)
    def _mode(event: KeyPressEvent) -> None:
        cycle_mode()
        event.app.invalidate()

    @bindings.add("c-x", "c-e", filter=editing)
    def _editor(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.text = pastes.expand(buffer.text)
        buffer.open_in_editor()

    return bindings
