"""Finds out from the terminal whether its background is dark or light, without waiting for its answer.

The question goes out before the first prompt; the answer comes among the keys, whenever it comes, and is taken out of
them. A terminal that never answers stays one of unknown background.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable

from prompt_toolkit.input import Input
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input

from codelet.frontends.terminal.show.theme import Ground, ground_told

_QUESTION = "\x1b]11;?\x1b\\"
_ANSWER = re.compile(r"\x1b?\]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)[^\x07\x1b]*(?:\x07|\x1b\\)")
_BEGUN = re.compile(r"\x1b\](?:1(?:1(?:;[^\x07\x1b]{0,60}\x1b?)?)?)?\Z")
_SECONDS = 2.0
"""For so long the beginning of an answer is held back until its rest has come; longer, it is somebody's keys."""


class GroundQuestion:
    """One for a terminal. `told` is called with what the terminal answers."""

    def __init__(self, source: Input, told: Callable[[Ground], None]) -> None:
        self._source = source
        self._told = told
        self._asked = False

    def ask(self, theme: str) -> None:
        """Ask, once, where the answer counts and the terminal is known to take such questions."""
        terminal = os.environ.get("TERM", "")
        silent = terminal in ("", "dumb", "linux") or terminal.startswith("vt")
        silent = silent or (terminal.startswith("screen") and "TMUX" not in os.environ)
        needless = theme not in ("auto", "colour-blind") or ground_told() or os.environ.get("NO_COLOR")
        if self._asked or silent or needless or not isinstance(self._source, Vt100Input):
            return
        self._asked = True
        self._source.stdin_reader = AnswerReader(self._source.fileno(), self._told)
        sys.stdout.write(_QUESTION)
        sys.stdout.flush()


class AnswerReader(PosixStdinReader):
    """Reads keys, and takes the terminal's answers out of them."""

    def __init__(self, number: int, told: Callable[[Ground], None]) -> None:
        super().__init__(number)
        self._answered = told
        self._held = ""
        self._until = time.monotonic() + _SECONDS

    def read(self, count: int = 1024) -> str:
        """What was typed since."""
        text, self._held = self._held + super().read(count), ""
        for found in _ANSWER.finditer(text):
            self._answered(_ground_of(found))
        text = _ANSWER.sub("", text)
        if time.monotonic() < self._until and (begun := _BEGUN.search(text)):
            text, self._held = text[: begun.start()], begun[0]
        return text


def _ground_of(answer: re.Match[str]) -> Ground:
    """Dark or light, by how bright the colour is to the eye."""
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in answer.groups())
    return "light" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5 else "dark"
