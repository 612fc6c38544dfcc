"""The keys of the line editor, on top of prompt-toolkit's own: those of Emacs, or of vi."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import completion_is_selected, has_focus
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.bindings.search import start_reverse_incremental_search
from prompt_toolkit.keys import Keys

from codelet.frontends.terminal.draft import Pastes

_Handler = Callable[[KeyPressEvent], None]
_EDITING = has_focus(DEFAULT_BUFFER)


def prompt_bindings(
    pastes: Pastes,
    interrupted: Callable[[], None],
    cycle_mode: Callable[[], None],
    own: Iterable[tuple[str, tuple[str, ...]]] = (),
) -> KeyBindings:
    """The bindings; `own` are the user's keys, each with its action, and win over all others."""
    bindings = KeyBindings()

    def mode(event: KeyPressEvent) -> None:
        cycle_mode()
        event.app.invalidate()

    def editor(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.text = pastes.expand(buffer.text)
        buffer.open_in_editor()

    def paste(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(pastes.collapse(event.data))

    def interrupt(event: KeyPressEvent) -> None:
        interrupted()

    bindings.add("enter", filter=_EDITING & ~completion_is_selected)(_send)
    bindings.add("enter", filter=_EDITING & completion_is_selected)(_take_completion)
    bindings.add("escape", "enter", filter=_EDITING)(_new_line)
    bindings.add("c-j", filter=_EDITING)(_new_line)
    bindings.add(Keys.BracketedPaste, filter=_EDITING)(paste)
    bindings.add("c-c", filter=_EDITING)(interrupt)
    bindings.add("<sigint>", filter=_EDITING)(interrupt)
    bindings.add("s-tab", filter=_EDITING)(mode)
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
