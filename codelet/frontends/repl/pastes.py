"""Long pastes: a short marker stands for them while the user edits, the full text is sent."""

from __future__ import annotations

import re

_LONG_LINES = 10
_LONG_CHARACTERS = 1_000
_MARKER = re.compile(r"\[pasted #(\d+), [^\]\n]{1,40}\]")


class Pastes:
    """The pastes of one session, in memory."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def collapse(self, text: str) -> str:
        """The text with one kind of line end, or, if it is long, a marker for it."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.rstrip("\n").count("\n") + 1
        if lines <= _LONG_LINES and len(text) <= _LONG_CHARACTERS:
            return text
        self._texts.append(text)
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        return f"[pasted #{len(self._texts)}, {size}]"

    def expand(self, text: str) -> str:
        """The text with every marker replaced by what it stands for."""

        def full(found: re.Match[str]) -> str:
            number = int(found[1])
            return self._texts[number - 1] if 0 < number <= len(self._texts) else found[0]

        return _MARKER.sub(full, text)
