"""The output of commands; here the REPL's terminal. `command_prompt` has the one without a terminal."""

from __future__ import annotations

import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING

from codelet.frontends.terminal.show.style import Ground, ground_told
from codelet.safety.secrets import mask
from codelet.setting_kinds import ThemeName
from codelet.system.text import clean

if TYPE_CHECKING:
    from rich.text import Text

    from codelet.frontends.terminal.show.bottom import Bottom
    from codelet.frontends.terminal.show.renderer import Renderer


def styled(*parts: str | tuple[str, str]) -> Text:
    """Assemble a row of plain and styled parts."""
    from rich.text import Text

    return Text.assemble(*parts)


class Screen(ABC):
    """The output of commands."""

    @property
    @abstractmethod
    def width(self) -> int: ...

    @abstractmethod
    def say(self, *rows: Text) -> None: ...

    @abstractmethod
    def note(self, text: str) -> None: ...

    @abstractmethod
    def text(self, text: str) -> None:
        """Print a text, without control characters."""

    @abstractmethod
    def fail(self, text: str) -> None:
        """Print an error."""

    @abstractmethod
    def forget(self) -> None:
        """Drop what Ctrl-O would show."""

    def indented(self, row: Text) -> list[Text]:
        from codelet.frontends.terminal.show.console import wrap_indented

        return wrap_indented(row, self.width, "  ")

    def truncate(self, row: Text) -> Text:
        from codelet.frontends.terminal.show.console import truncate

        return truncate(row, self.width)


_GROUND = re.compile(r"\x1b\]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)[^\x07\x1b]*(?:\x07|\x1b\\)")
"""A terminal's answer: its background colour."""


_FIRST_COLUMN = re.compile(r" *\S+ {2,}(?=\S)")
"""A name or a number before a text, which continues below itself."""


class TerminalScreen(Screen):
    """The terminal above the renderer's live area. Its background may become known later."""

    def __init__(self, theme: ThemeName = "auto") -> None:
        self.theme = theme
        self.bottom: Bottom | None = None
        self.lent: Callable[[Callable[[], None]], AbstractAsyncContextManager[None]] = lambda resized: nullcontext()
        """Lends the terminal to another program; the argument is called after a resize."""
        self._ground = ground_told()

    def ask_ground(self) -> None:
        """Ask the terminal for its background, if the theme needs it; the answer comes among the keys."""
        terminal = os.environ.get("TERM", "")
        is_silent = terminal in ("", "dumb", "linux") or terminal.startswith("vt")
        is_silent = is_silent or (terminal.startswith("screen") and "TMUX" not in os.environ)
        is_known = self.theme not in ("auto", "colour-blind") or self._ground or os.environ.get("NO_COLOR")
        if not (is_silent or is_known):
            sys.stdout.write("\x1b]11;?\x1b\\")
            sys.stdout.flush()

    def answered(self, answer: str) -> None:
        """Take in the terminal's answer to a query."""
        if colour := _GROUND.fullmatch(answer):
            red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in colour.groups())
            self.set_look(ground="light" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5 else "dark")

    def set_look(self, theme: ThemeName | None = None, ground: Ground = "") -> None:
        """Change the theme or the known background."""
        self.theme, self._ground = theme or self.theme, ground or self._ground
        if "renderer" in vars(self):
            self.renderer.console.set_look(self.theme, self._ground)

    @cached_property
    def renderer(self) -> Renderer:
        """Created on first use: the first prompt does not need rich."""
        from codelet.frontends.terminal.show.console import OutputConsole
        from codelet.frontends.terminal.show.renderer import Renderer

        return Renderer(OutputConsole(self.theme, self._ground), hint="esc stops", bottom=self.bottom, key="ctrl-o")

    def send(self, sequence: str) -> None:
        """Write an invisible sequence, after everything printed."""
        if self.bottom is not None:
            self.bottom.stream.write(sequence)

    @property
    def width(self) -> int:
        return self.renderer.width

    def say(self, *rows: Text) -> None:
        self.renderer.say(rows)

    def forget(self) -> None:
        if "renderer" in vars(self):
            self.renderer.shown_parts.forget()

    def note(self, text: str) -> None:
        self.say(*self.renderer.rows.note(clean(mask(text))))

    def fail(self, text: str) -> None:
        self.say(*self.renderer.rows.warning(clean(mask(text)), "red"))

    def text(self, text: str) -> None:
        from rich.text import Text

        from codelet.frontends.terminal.show.console import wrap

        for line in clean(text.rstrip("\n")).split("\n"):
            column = found.end() if (found := _FIRST_COLUMN.match(line)) else 0
            column = column if column <= self.width // 3 else 0
            first, *more = wrap(Text(line[column:]), self.width - column)
            self.say(Text.assemble(line[:column], first), *(Text.assemble(" " * column, row) for row in more))
