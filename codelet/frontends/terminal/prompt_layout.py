"""The layout of the input line: the line or an answer, search, and the menu or the status row; the user's own keys."""

from __future__ import annotations

import re
from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_completions, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import HighlightIncrementalSearchProcessor, HighlightSelectionProcessor
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from codelet.errors import UsageError
from codelet.frontends.terminal.show.bottom import terminal_size
from codelet.settings import Settings

_MENU_ROWS = 8
STYLE = Style.from_dict(
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


def line_layout(
    buffer: Buffer,
    answer: Buffer,
    question: Callable[[], str],
    hidden: Condition,
    status: Callable[[], StyleAndTextTuples],
) -> Layout:
    """Return the layout.

    While `answer` has the focus it is edited after `question`. `hidden`: a question needs no input line.
    """
    answering = has_focus(answer)
    search = SearchToolbar(ignore_case=True)
    marks = [HighlightIncrementalSearchProcessor(), HighlightSelectionProcessor()]
    control = BufferControl(buffer, marks, search_buffer_control=search.control, preview_search=True)

    def most() -> Dimension:
        return Dimension(min=1, max=max(terminal_size().rows // 2, 1))

    def prefix(row: int, wrapped: int) -> StyleAndTextTuples:
        return [("", "  ")] if row or wrapped else [("class:prompt", "› ")]

    def ask(row: int, wrapped: int) -> StyleAndTextTuples:
        return [("", "  " if row or wrapped else f"  {question()}")]

    line = Window(control, most, wrap_lines=True, dont_extend_height=True, get_line_prefix=prefix)
    written = Window(BufferControl(answer), most, wrap_lines=True, dont_extend_height=True, get_line_prefix=ask)
    below = Window(FormattedTextControl(status), height=1, style="class:status")
    rows = HSplit(
        [
            ConditionalContainer(line, ~answering & ~hidden),
            ConditionalContainer(written, answering),
            search,
            # The menu replaces the status row, so the line above does not move.
            CompletionsMenu(max_height=_MENU_ROWS, scroll_offset=1),
            ConditionalContainer(below, ~has_completions),
        ]
    )
    return Layout(rows, line)


def bindings_of(settings: Settings) -> list[tuple[str, tuple[str, ...]]]:
    """Return the user's actions and key sequences, such as `c-x c-e`, `a-enter` (Esc Enter), or `f5`.

    Raises UsageError for an unknown key.
    """
    found = []
    for action, key in ((action, key) for action, keys in settings.keys for key in keys):
        added, spelled = KeyBindings(), re.sub(r"\ba-(?=\S)", "escape ", key)
        try:
            added.add(*spelled.split())(lambda event: None)
        except ValueError:
            raise UsageError(
                f"keys.{action}: there is no key {key!r}; keys are written like c-s, a-enter, f5, s-tab"
            ) from None
        found.append((action, tuple(getattr(each, "value", each) for each in added.bindings[0].keys)))
    return found
