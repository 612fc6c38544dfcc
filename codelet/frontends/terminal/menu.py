"""A list to choose from with arrows and Enter; a long one can be filtered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys
from rich.text import Text

from codelet.frontends.terminal.prompt_line import PromptLine
from codelet.frontends.terminal.show.console import truncate, wrap
from codelet.frontends.terminal.show.numbers import tokens
from codelet.frontends.terminal.show.renderer import Renderer
from codelet.frontends.terminal.show.style import ACCENT, QUIET
from codelet.providers.choice.known import KnownModel
from codelet.system.text import clean, one_line

HINT = "↑↓ select · enter confirm"
_CALM_SECONDS = 0.2
"""Enter within this time was meant for what was there before."""
_FEWEST_ROWS = 3
_WIDE = 60
"""From this width on, a row has details."""


async def choose(
    renderer: Renderer, line: PromptLine, head: Sequence[Text], options: Sequence[Text], mark: int = 0
) -> int | None:
    """Print `head` and return the index of the chosen option, or None."""
    for first, *more in (wrap(each, renderer.width - 2) for each in head):
        renderer.say([first, *(Text.assemble("  ", row) for row in more)])
    return await _Menu(renderer, lambda: options, mark).ask(line)


async def pick_model(renderer: Renderer, line: PromptLine, models: Sequence[KnownModel], current: str) -> str | None:
    """Return the name of the chosen model, or None. `current` is marked first."""
    if not models:
        return None
    mark = next((at for at, model in enumerate(models) if model.name == current), 0)
    searched = [f"{model.name} {model.vendor.name}".lower() for model in models]
    menu = _Menu(renderer, lambda: _model_rows(models, current, renderer.width), mark, "Choose a model", searched)
    place = await menu.ask(line)
    return None if place is None else models[place].name


def _model_rows(models: Sequence[KnownModel], current: str, width: int) -> list[Text]:
    room = width - 26 if width >= _WIDE else width - 2
    columns = min(max(len(model.name) for model in models), room)
    rows = []
    for model in models:
        facts = model.facts
        window = tokens(facts.window) if facts.known else f"~{tokens(facts.window)}"
        price = model.price if facts.free else f"${model.price}"
        details = f" {window:>6}  {price}{' now' if model.name == current else ''}" if width >= _WIDE else ""
        rows.append(Text.assemble(f"{one_line(model.name, columns):<{columns}}", (details, QUIET)))
    return rows


class _Menu:
    """The list on the screen. `options` makes its rows for the current width; typing filters by `searched`."""

    def __init__(
        self,
        renderer: Renderer,
        options: Callable[[], Sequence[Text]],
        mark: int,
        title: str = "",
        searched: Sequence[str] = (),
    ) -> None:
        self._taken: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._renderer = renderer
        self._options = options
        self._places = list(range(len(options())))
        self._mark = mark
        self._title = title
        self._searched = searched
        self._words = ""
        self._shown_at = time.monotonic()

    async def ask(self, line: PromptLine) -> int | None:
        """Show the list until an option is chosen; None for none."""
        with line.asking(self._key, self._show):
            try:
                return await self._taken
            finally:
                self._renderer.ask(())
                self._renderer.stop()

    def _show(self) -> None:
        """Draw the list, or the part around the mark."""
        renderer, options = self._renderer, self._options()
        width, more, sign = renderer.width, renderer.signs.more, renderer.signs.choice
        room = max(renderer.console.height - 5, _FEWEST_ROWS)
        first = min(max(self._mark - room // 2, 0), max(len(self._places) - room, 0))
        rows = []
        if self._title:
            title = Text.assemble(("? ", f"bold {ACCENT}"), self._title, (f"  {clean(self._words)}", ACCENT))
            rows.append(truncate(title, width, more))
        for at, place in enumerate(self._places[first : first + room], first):
            marked = at == self._mark
            row = Text.assemble((f"{sign if marked else ' '} ", ACCENT), options[place])
            if marked:
                row.stylize("bold")
            rows.append(truncate(row, width, more))
        if not self._places:
            rows.append(Text("  no match", QUIET))
        hidden = len(self._places) - min(room, len(self._places))
        hints = [HINT, *(["type to filter"] if self._searched else []), "esc cancel"]
        hints += [f"{hidden} more"] if hidden else []
        renderer.ask([*rows, truncate(Text(f"  {' · '.join(hints)}", QUIET), width, more)])

    def _key(self, press: KeyPress) -> list[KeyPress]:
        match press.key:
            case Keys.Up | Keys.Down if self._places:
                self._mark = (self._mark + (1 if press.key == Keys.Down else -1)) % len(self._places)
            case Keys.ControlM if self._places and time.monotonic() - self._shown_at >= _CALM_SECONDS:
                self._take(self._places[self._mark])
                return []
            case Keys.Escape | Keys.ControlC | Keys.ControlD:
                self._take(None)
                return []
            case Keys.ControlZ:
                return [press]
            case Keys.ControlH:
                self._narrow(self._words[:-1])
            case Keys.ControlU | Keys.ControlW:
                self._narrow("")
            case _ if len(press.key) == 1 or press.key == Keys.BracketedPaste:
                self._narrow(self._words + one_line(press.data, 40))
        self._show()
        return []

    def _narrow(self, words: str) -> None:
        if self._searched:
            self._words, self._mark = words, 0
            matches = words.lower().split()
            self._places = [at for at, text in enumerate(self._searched) if all(word in text for word in matches)]

    def _take(self, place: int | None) -> None:
        if not self._taken.done():
            self._taken.set_result(place)
