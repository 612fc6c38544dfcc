"""Asks the terminal for its background colour, without waiting.

The question goes out before the first prompt. The answer arrives among the keys and is filtered out. No answer means an
unknown background.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable

from codelet.frontends.terminal.key_sequences import KeyInput
from codelet.frontends.terminal.show.theme import Ground, ground_told

_QUESTION = "\x1b]11;?\x1b\\"
_ANSWER = re.compile(r"\x1b\]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)[^\x07\x1b]*(?:\x07|\x1b\\)")


class GroundQuestion:
    """Asks one terminal; `found` receives dark or light."""

    def __init__(self, source: KeyInput, found: Callable[[Ground], None]) -> None:
        self._source = source
        self._found = found
        self._asked = False

    def ask(self, theme: str) -> None:
        """Ask once, if the theme needs it and the terminal supports it."""
        terminal = os.environ.get("TERM", "")
        silent = terminal in ("", "dumb", "linux") or terminal.startswith("vt")
        silent = silent or (terminal.startswith("screen") and "TMUX" not in os.environ)
        needless = theme not in ("auto", "colour-blind") or ground_told() or os.environ.get("NO_COLOR")
        if self._asked or silent or needless:
            return
        self._asked = True
        self._source.answered = self._answered
        sys.stdout.write(_QUESTION)
        sys.stdout.flush()

    def _answered(self, answer: str) -> None:
        if colour := _ANSWER.fullmatch(answer):
            red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in colour.groups())
            self._found("light" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5 else "dark")
