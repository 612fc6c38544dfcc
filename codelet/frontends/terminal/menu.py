"""A short list to choose from, below what was printed: arrows move the mark, Enter takes it, ESC takes none."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence

from rich.text import Text

from codelet.frontends.terminal.keys import Key, Keyboard
from codelet.frontends.terminal.show.console import truncate, wrap
from codelet.frontends.terminal.show.renderer import Renderer
from codelet.frontends.terminal.show.style import ACCENT, QUIET

_CALM_SECONDS = 0.2
"""Enter within this time after the list came was meant for what stood there before."""
_FEWEST_ROWS = 3
_HINT = "enter takes {sign}, arrows move it, esc leaves everything as it is"


async def choose(
    renderer: Renderer, keyboard: Keyboard, head: Sequence[Text], options: Sequence[Text], mark: int = 0
) -> int | None:
    """The place of the option that the user takes, None for none. `head` is printed above and stays."""
    menu = _Menu(renderer, options, mark)
    loop = asyncio.get_running_loop()
    renderer.say([row for each in head for row in wrap(each, renderer.width)])
    with keyboard.listening(menu.key):
        loop.add_signal_handler(signal.SIGWINCH, menu.show)
        try:
            menu.show()
            return await menu.taken
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)
            renderer.ask(())
            renderer.stop()


class _Menu:
    """The list while it is on the screen; `taken` is what the user took."""

    def __init__(self, renderer: Renderer, options: Sequence[Text], mark: int) -> None:
        self.taken: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._renderer = renderer
        self._options = options
        self._mark = mark
        self._shown_at = time.monotonic()

    def show(self) -> None:
        """Draw it; of a list that is longer than the screen the part around the mark."""
        renderer, sign = self._renderer, self._renderer.signs.prompt
        room = max(renderer.console.height - 4, _FEWEST_ROWS)
        first = min(max(self._mark - room // 2, 0), max(len(self._options) - room, 0))
        rows = []
        for place, option in enumerate(self._options[first : first + room], first):
            marked = place == self._mark
            row = Text.assemble((f"{sign if marked else ' '} ", ACCENT), option)
            if marked:
                row.stylize("bold")
            rows.append(truncate(row, renderer.width, renderer.signs.more))
        more = len(self._options) - len(rows)
        hint = _HINT.format(sign=sign) + (f"; {more} more" if more else "")
        renderer.ask([*rows, truncate(Text(f"  {hint}", QUIET), renderer.width, renderer.signs.more)])

    def key(self, key: Key) -> None:
        """One key. Letters mean nothing here."""
        match key.meaning:
            case "up" | "down":
                self._mark = (self._mark + (1 if key.meaning == "down" else -1)) % len(self._options)
                self.show()
            case "enter" if time.monotonic() - self._shown_at >= _CALM_SECONDS:
                self._take(self._mark)
            case "escape" | "interrupt":
                self._take(None)

    def _take(self, choice: int | None) -> None:
        if not self.taken.done():
            self.taken.set_result(choice)
