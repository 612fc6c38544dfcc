"""The terminal's keys while a turn runs: raw mode, and a quick and careful reading of ESC.

prompt-toolkit's parser tells an arrow from an ESC by what follows; when nothing follows for 30 ms it was the
key itself. ESC directly before another character is an Alt combination and stops nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Literal

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import Output

from codelet.record import Record

FLUSH_SECONDS = 0.03

Meaning = Literal[
    "text", "paste", "enter", "newline", "escape", "interrupt", "backspace", "word", "line", "up", "down", "mode",
    "suspend", "leave", "later", "tab", "whole",
]  # fmt: skip


class Key(Record):
    """One key by what it means here; `text` is what was typed or pasted. `pasted` marks a character of a burst."""

    meaning: Meaning
    text: str = ""
    pasted: bool = False


class KeyInput(Vt100Input):
    """The terminal's keys. `several_lines` says whether the last read was a burst: no one types several lines at once,
    so they were pasted in a terminal that does not mark pastes.
    """

    several_lines = False

    def read_keys(self) -> list[KeyPress]:
        """The keys that were pressed since."""
        presses = super().read_keys()
        self.several_lines = _has_several_lines(presses)
        return presses


def _has_several_lines(presses: Iterable[KeyPress]) -> bool:
    """Whether there is text before a line end and after it."""
    begun = ended = False
    for press in presses:
        if press.key in (Keys.ControlM, Keys.ControlJ):
            ended = begun
        elif len(press.key) == 1:
            if ended:
                return True
            begun = True
    return False


_MEANINGS: dict[str, Meaning] = {
    Keys.ControlM: "enter",
    Keys.ControlI: "tab",
    Keys.ControlJ: "newline",
    Keys.ControlC: "interrupt",
    Keys.ControlH: "backspace",
    Keys.ControlW: "word",
    Keys.ControlU: "line",
    Keys.ControlZ: "suspend",
    Keys.ControlO: "whole",
    Keys.ControlD: "leave",
    Keys.Up: "up",
    Keys.Down: "down",
    Keys.BackTab: "mode",
}


def read_meanings(presses: Iterable[KeyPress], own: Mapping[str, Meaning] = MappingProxyType({})) -> list[Key]:
    """The meanings of one batch of key presses. Unknown keys are left out. `own` are those that the user set."""
    found: list[Key] = []
    waiting = list(presses)
    while waiting:
        press = waiting.pop(0)
        if press.key in own:
            found.append(Key(own[press.key]))
        elif press.key == Keys.Escape:
            if waiting and (meaning := own.get(f"escape {waiting[0].key}")) is not None:
                del waiting[0]
                found.append(Key(meaning))
            else:
                _read_escape(waiting, found)
        elif press.key == Keys.BracketedPaste:
            found.append(Key("paste", press.data))
        elif press.key in _MEANINGS:
            found.append(Key(_MEANINGS[press.key]))
        elif len(press.key) == 1 and press.key.isprintable():
            found.append(Key("text", press.key))
    return found


def _read_escape(following: list[KeyPress], found: list[Key]) -> None:
    """ESC alone is the key; before something else it is Alt, or a sequence that the parser does not know."""
    if not following or following[0].key == Keys.Escape:
        if not any(key.meaning == "escape" for key in found):
            found.append(Key("escape"))
        return
    after = following.pop(0)
    if after.key == Keys.ControlM:
        found.append(Key("later"))
    elif after.key == Keys.ControlJ:
        found.append(Key("newline"))
    elif after.key in ("[", "O"):
        while following and len(following[0].key) == 1:
            if "@" <= following.pop(0).key <= "~":
                break


class Keyboard:
    """Reads the keys and hands them to `handler`, which may be exchanged while it listens.

    `closed` is called when the terminal goes away. `own` are the user's keys, each with its meaning.
    """

    def __init__(
        self,
        source: Input,
        output: Output,
        closed: Callable[[], None],
        own: Mapping[str, Meaning] = MappingProxyType({}),
    ) -> None:
        self.handler: Callable[[Key], None] = lambda key: None
        self._input = source
        self._output = output
        self._closed = closed
        self._own = own
        self._flush: asyncio.TimerHandle | None = None

    @contextmanager
    def listening(self, handler: Callable[[Key], None]) -> Iterator[None]:
        """Listen in raw mode; afterwards the terminal is as it was before."""
        self.handler = handler
        try:
            with self._input.raw_mode(), self._input.attach(self._ready):
                self._output.enable_bracketed_paste()
                self._output.flush()
                self._hand_on(get_typeahead(self._input))
                self._flush_soon()  # an ESC that came together with Enter is still held back
                try:
                    yield
                finally:
                    self._output.disable_bracketed_paste()
                    self._output.flush()
        finally:
            self._cancel_flush()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Leave the keys to another program for a while; the terminal stays raw, so that none is a signal for us."""
        with self._input.detach():
            self._output.disable_bracketed_paste()
            self._output.flush()
            try:
                yield
            finally:
                self._output.enable_bracketed_paste()
                self._output.flush()

    @contextmanager
    def released(self) -> Iterator[None]:
        """Release the terminal for a while, as while the process is suspended."""
        with self.lent(), self._input.cooked_mode():
            yield

    def read_pressed(self) -> None:
        """Hand on at once all that was pressed until now: it was not meant for a handler that comes after."""
        self._cancel_flush()
        while presses := self._input.read_keys():
            self._hand_on(presses)
        if self._input.closed:
            self._closed()
            return
        self._flush_soon()

    def _ready(self) -> None:
        self._cancel_flush()
        presses = self._input.read_keys()
        if self._input.closed:
            self._closed()
            return
        self._hand_on(presses)
        self._flush_soon()

    def _flush_soon(self) -> None:
        """Take an ESC for the key itself where nothing follows it."""
        self._flush = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flushed)

    def _flushed(self) -> None:
        self._flush = None
        self._hand_on(self._input.flush_keys())

    def _hand_on(self, presses: Iterable[KeyPress]) -> None:
        burst = isinstance(self._input, KeyInput) and self._input.several_lines
        for key in read_meanings(presses, self._own):
            self.handler(key.replace(pasted=True) if burst and key.meaning == "text" else key)

    def _cancel_flush(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
