"""The layout of the input line: the line or an answer, search, and the menu or the status row."""

from __future__ import annotations

import os
from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_completions, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
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
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from codelet.frontends.terminal.show.bottom import terminal_size

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
    search = SearchToolbar(ignore_case=True)
    marks = [HighlightIncrementalSearchProcessor(), HighlightSelectionProcessor()]
    control = BufferControl(buffer, marks, search_buffer_control=search.control, preview_search=True)
    answering = has_focus(answer)

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


def color_depth(colours: bool) -> ColorDepth:
    """The terminal's sixteen colours, or none."""
    return ColorDepth.DEPTH_4_BIT if colours and not os.environ.get("NO_COLOR") else ColorDepth.DEPTH_1_BIT
