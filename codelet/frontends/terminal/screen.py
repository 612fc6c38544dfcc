"""The output of commands; here the REPL's terminal. `command_prompt` has the one without a terminal."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING

from codelet.frontends.terminal.show.style import Signs, signs_for
from codelet.frontends.terminal.show.theme import Ground, ground_told
from codelet.safety.secrets import mask
from codelet.setting_kinds import ThemeName
from codelet.system.text import clean

if TYPE_CHECKING:
    from rich.text import Text

    from codelet.frontends.terminal.show.bottom import Bottom
    from codelet.frontends.terminal.show.renderer import Renderer


class Screen(ABC):
    """The output of commands."""

    def __init__(self) -> None:
        self.signs: Signs = signs_for(sys.stdout)

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

    def truncate(self, row: Text) -> Text:
        from codelet.frontends.terminal.show.console import truncate

        return truncate(row, self.width, self.signs.more)


class TerminalScreen(Screen):
    """The terminal above the renderer's live area. Its background may become known later."""

    def __init__(self, theme: ThemeName = "auto", *, debug: bool = False) -> None:
        super().__init__()
        self.theme = theme
        self.bottom: Bottom | None = None
        self.lent: Callable[[Callable[[], None]], AbstractAsyncContextManager[None]] = lambda resized: nullcontext()
        """Lends the terminal to another program; the argument is called after a resize."""
        self._debug = debug
        self._ground = ground_told()

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

        renderer = Renderer(OutputConsole(self.theme, self._ground), hint="esc stops", bottom=self.bottom, key="ctrl-o")
        renderer.debug = self._debug
        return renderer

    def send(self, sequence: str) -> None:
        """Write an invisible sequence, after everything printed."""
        if "renderer" in self.__dict__:
            self.renderer.send(sequence)
        elif sys.stdout.isatty():
            sys.stdout.write(sequence)
            sys.stdout.flush()

    @property
    def width(self) -> int:
        return self.renderer.width

    def say(self, *rows: Text) -> None:
        self.renderer.say(rows)

    def forget(self) -> None:
        if "renderer" in vars(self):
            self.renderer.forget()

    def printed(self) -> None:
        """Note that another program has printed rows."""
        self.renderer.printed()

    def note(self, text: str) -> None:
        self.say(*self.renderer.rows.note(clean(mask(text))))

    def fail(self, text: str) -> None:
        self.say(*self.renderer.rows.warning(clean(mask(text)), "red"))

    def text(self, text: str) -> None:
        from rich.text import Text

        from codelet.frontends.terminal.show.console import wrap

        for line in clean(text.rstrip("\n")).split("\n"):
            self.say(*wrap(Text(line), self.width))
