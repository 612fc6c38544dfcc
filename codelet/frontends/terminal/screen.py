"""What a command writes on; the terminal of the REPL. `command_prompt` has the one for no terminal."""

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
    """Rows of rich text, remarks and complaints, on whatever shows them."""

    def __init__(self) -> None:
        self.signs: Signs = signs_for(sys.stdout)

    @property
    @abstractmethod
    def width(self) -> int:
        """Columns that a row may take."""

    @abstractmethod
    def say(self, *rows: Text) -> None:
        """Print rows."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Print a quiet remark."""

    @abstractmethod
    def text(self, text: str) -> None:
        """Print a text as it stands, without what could act on a terminal."""

    @abstractmethod
    def fail(self, text: str) -> None:
        """Print what went wrong."""

    @abstractmethod
    def forget(self) -> None:
        """Keep nothing of what was shown, where that could be seen whole again."""

    def truncate(self, row: Text) -> Text:
        """The row cut to the width."""
        from codelet.frontends.terminal.show.console import truncate

        return truncate(row, self.width, self.signs.more)


class TerminalScreen(Screen):
    """The terminal, above the live area of the renderer, in a theme on a ground that may become known later."""

    def __init__(self, theme: ThemeName = "auto", *, debug: bool = False) -> None:
        super().__init__()
        self.theme = theme
        self.bottom: Bottom | None = None
        self.lent: Callable[[Callable[[], None]], AbstractAsyncContextManager[None]] = lambda resized: nullcontext()
        """The terminal for another program, which is told when the window has another size."""
        self._debug = debug
        self._ground = ground_told()

    def set_look(self, theme: ThemeName | None = None, ground: Ground = "") -> None:
        """Go on in another theme, or on what the terminal says that it stands on."""
        self.theme, self._ground = theme or self.theme, ground or self._ground
        if "renderer" in vars(self):
            self.renderer.console.set_look(self.theme, self._ground)

    @cached_property
    def renderer(self) -> Renderer:
        """Made when it is first needed: rich is not, for the first prompt."""
        from codelet.frontends.terminal.show.console import OutputConsole
        from codelet.frontends.terminal.show.renderer import Renderer

        renderer = Renderer(OutputConsole(self.theme, self._ground), hint="esc stops", bottom=self.bottom, key="ctrl-o")
        renderer.debug = self._debug
        return renderer

    def send(self, sequence: str) -> None:
        """Tell the terminal what it obeys and no one reads, behind all that was printed."""
        if "renderer" in self.__dict__:
            self.renderer.send(sequence)
        elif sys.stdout.isatty():
            sys.stdout.write(sequence)
            sys.stdout.flush()

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return self.renderer.width

    def say(self, *rows: Text) -> None:
        """Print rows above the live area."""
        self.renderer.say(rows)

    def forget(self) -> None:
        """Keep nothing for Ctrl-O."""
        if "renderer" in vars(self):
            self.renderer.forget()

    def printed(self) -> None:
        """Somebody else has printed whole rows on the terminal."""
        self.renderer.printed()

    def note(self, text: str) -> None:
        """Print a quiet remark behind its sign."""
        self.say(*self.renderer.rows.note(clean(mask(text))))

    def fail(self, text: str) -> None:
        """Print what went wrong behind its sign."""
        self.say(*self.renderer.rows.warning(clean(mask(text)), "red"))

    def text(self, text: str) -> None:
        """Print a text, its lines wrapped."""
        from rich.text import Text

        from codelet.frontends.terminal.show.console import wrap

        for line in clean(text.rstrip("\n")).split("\n"):
            self.say(*wrap(Text(line), self.width))
