"""The terminal's keys while a turn runs: raw mode, and a quick and careful reading of ESC.

ESC is the key itself when nothing follows for 30 ms, and the screen stands still from then on. It takes effect once no
rest of a sequence has come for `escape_seconds`: a slow line may send an arrow's ESC long before its `[A`.
ESC directly before another character is an Alt combination and stops nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Literal, TextIO

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import Output

from codelet.frontends.terminal.key_sequences import KeySequences, Paste
from codelet.record import Record

FLUSH_SECONDS = 0.03
_LOCAL = ("VTE_VERSION", "KITTY_WINDOW_ID", "ALACRITTY_WINDOW_ID", "KONSOLE_VERSION", "XTERM_VERSION", "WT_SESSION",
          "TERM_PROGRAM", "WEZTERM_PANE", "GHOSTTY_RESOURCES_DIR", "WINDOWID")  # fmt: skip
_REMOTE = ("SSH_CONNECTION", "SSH_TTY", "TMUX", "STY", "MOSH_CONNECTION")
_ESCAPE_SECONDS, _LOCAL_ESCAPE_SECONDS = 0.3, 0.035
_MOST_AT_ONCE = 65_536
"""Characters that are read in one go."""


def escape_seconds() -> float:
    """How long the rest of a sequence may take, in seconds: a terminal on this machine sends it with its ESC."""
    is_local = any(os.environ.get(name) for name in _LOCAL) and not any(os.environ.get(name) for name in _REMOTE)
    return _LOCAL_ESCAPE_SECONDS if is_local else _ESCAPE_SECONDS


Meaning = Literal[
    "text", "paste", "enter", "newline", "escape", "interrupt", "backspace", "word", "line", "up", "down", "mode",
    "suspend", "leave", "later", "tab", "whole",
]  # fmt: skip


class Key(Record):
    """One key by what it means here; `text` is what was typed or pasted."""

    meaning: Meaning
    text: str = ""


class KeyInput(Vt100Input):
    """The terminal's keys. `answered` receives what the terminal answers to a question of codelet's."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.answered: Callable[[str], None] = lambda answer: None
        self._sequences = KeySequences(self._answer)

    @property
    def rejoined(self) -> bool:
        """Whether the last read began with the rest of a key whose ESC had been taken for the key itself."""
        return self._sequences.rejoined

    def read_keys(self) -> list[KeyPress]:
        """The keys that were pressed since."""
        data = ""
        while len(data) < _MOST_AT_ONCE and (more := self.stdin_reader.read()):
            data += more
        for part in self._sequences.feed(data):
            if isinstance(part, Paste):
                self._buffer.append(KeyPress(Keys.BracketedPaste, part))
            else:
                self.vt100_parser.feed(part)
        return self._taken()

    def flush_keys(self) -> list[KeyPress]:
        """ESC, if it was pressed and nothing followed."""
        self.vt100_parser.feed(self._sequences.flush())
        self.vt100_parser.flush()
        return self._taken()

    def _answer(self, answer: str) -> None:
        self.answered(answer)

    def _taken(self) -> list[KeyPress]:
        taken, self._buffer = self._buffer, []
        return taken


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

    `closed` is called when the terminal goes away. `own` are the user's keys, each with its meaning. `pausing` is
    called with True when ESC seems to have been pressed, and with False when it was part of another key.
    """

    def __init__(
        self,
        source: Input,
        output: Output,
        closed: Callable[[], None],
        own: Mapping[str, Meaning] = MappingProxyType({}),
    ) -> None:
        self.handler: Callable[[Key], None] = lambda key: None
        self.pausing: Callable[[bool], None] = lambda paused: None
        self._input = source
        self._output = output
        self._closed = closed
        self._own = own
        self._flush: asyncio.TimerHandle | None = None
        self._escape: asyncio.TimerHandle | None = None
        self._escape_after = escape_seconds() - FLUSH_SECONDS

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
            if self._escape is not None:
                self._escape.cancel()
                self._escape = None

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
        keys = read_meanings(self._input.flush_keys(), self._own)
        if keys == [Key("escape")] and self._escape is None:
            self._escape = asyncio.get_running_loop().call_later(self._escape_after, self._escaped)
            self.pausing(True)
            return
        for key in keys:
            self.handler(key)

    def _escaped(self) -> None:
        self._escape = None
        self.handler(Key("escape"))

    def _hand_on(self, presses: Sequence[KeyPress]) -> None:
        if self._escape is not None and presses:
            self._escape.cancel()
            if isinstance(self._input, KeyInput) and self._input.rejoined:
                self._escape = None
                self.pausing(False)
            else:
                self._escaped()
        for key in read_meanings(presses, self._own):
            self.handler(key)

    def _cancel_flush(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
