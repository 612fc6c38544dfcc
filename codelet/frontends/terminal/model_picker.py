"""The picker of `/model`: the models that can be asked now, chosen with arrows and Enter, narrowed by typing."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

from rich.text import Text

from codelet.frontends.terminal.keys import Key, Keyboard
from codelet.frontends.terminal.show.console import truncate
from codelet.frontends.terminal.show.numbers import tokens
from codelet.frontends.terminal.show.renderer import Renderer
from codelet.frontends.terminal.show.style import ACCENT, QUIET
from codelet.providers.choice.known import KnownModel
from codelet.system.text import clean, one_line

_LEAST_ROWS = 3
_WIDE = 60
"""Columns from which on there is room for more than the names."""

_BESIDE = 5
"""Rows of the screen that are not the list's: the head, the hint, and what stands above."""


async def pick_model(renderer: Renderer, keyboard: Keyboard, models: Sequence[KnownModel], current: str) -> str | None:
    """The name of the model that the user picks, None for none."""
    picked = await ModelPicker(renderer, keyboard, models, current).pick() if models else None
    return None if picked is None else picked.name


class ModelPicker:
    """Shows the models and reads keys until one is chosen. `current` is the model that is marked at first."""

    def __init__(self, renderer: Renderer, keyboard: Keyboard, models: Sequence[KnownModel], current: str) -> None:
        self._renderer = renderer
        self._keyboard = keyboard
        self._models = models
        self._current = current
        self._words = ""
        self._mark = next((at for at, model in enumerate(models) if model.name == current), 0)
        self._chosen: asyncio.Future[KnownModel | None] = asyncio.get_running_loop().create_future()

    async def pick(self) -> KnownModel | None:
        """The model that the user takes, None where they leave it as it is."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGWINCH, self._show)
        try:
            with self._keyboard.listening(self._key):
                self._show()
                return await self._chosen
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)
            self._renderer.ask(())
            self._renderer.stop()

    @property
    def _matching(self) -> list[KnownModel]:
        words = self._words.lower().split()
        described = ((f"{model.name} {model.vendor.name}".lower(), model) for model in self._models)
        return [model for text, model in described if all(word in text for word in words)]

    def _key(self, key: Key) -> None:
        if self._chosen.done():
            return
        matching = self._matching
        match key.meaning:
            case "escape" | "interrupt" | "leave":
                self._chosen.set_result(None)
                return
            case "enter":
                if matching:
                    self._chosen.set_result(matching[self._mark])
                return
            case "up" | "down":
                self._mark = (self._mark + (1 if key.meaning == "down" else -1)) % max(len(matching), 1)
            case "text" | "paste":
                self._narrow(self._words + one_line(key.text, 40))
            case "backspace":
                self._narrow(self._words[:-1])
            case "line" | "word":
                self._narrow("")
        self._show()

    def _narrow(self, words: str) -> None:
        self._words, self._mark = words, 0

    def _show(self) -> None:
        renderer, matching = self._renderer, self._matching
        room = max(_LEAST_ROWS, renderer.console.height - _BESIDE)
        first = max(0, min(self._mark - room // 2, len(matching) - room))
        more, width = renderer.signs.more, renderer.width
        asked = Text.assemble(
            ("? ", f"bold {ACCENT}"), "which model should go on?", (f"  {clean(self._words)}", ACCENT)
        )
        rows = [truncate(asked, width, more)]
        room_for_name = width - 26 if width >= _WIDE else width - 2
        columns = min(max((len(model.name) for model in matching), default=0), room_for_name)
        for place, model in enumerate(matching[first : first + room], start=first):
            rows.append(truncate(self._row(model, columns, marked=place == self._mark), width, more))
        if not matching:
            rows.append(Text("  no model has these letters", QUIET))
        beyond = f"{len(matching)} models; " if len(matching) > room else ""
        keys = f"enter takes {renderer.signs.prompt}, arrows move it, letters narrow, esc leaves it"
        hint = f"  {beyond}{keys if width >= _WIDE else 'enter, arrows, letters, esc'}"
        renderer.ask([*rows, truncate(Text(hint, QUIET), width, more)])

    def _row(self, model: KnownModel, columns: int, *, marked: bool) -> Text:
        signs, facts = self._renderer.signs, model.facts
        name = one_line(model.name, columns)
        window = tokens(facts.window) if facts.known else f"~{tokens(facts.window)}"
        price = model.price if facts.free else f"${model.price}"
        now = " now" if model.name == self._current else ""
        details = f" {window:>6}  {price}{now}" if self._renderer.width >= _WIDE else ""
        return Text.assemble(
            (f"{signs.prompt if marked else ' '} ", ACCENT),
            (f"{name:<{columns}}", "bold" if marked else ""),
            (details, QUIET),
        )
