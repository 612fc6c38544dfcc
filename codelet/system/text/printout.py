"""A program's output as plain text: its lines as a screen shows them in the end."""

from __future__ import annotations

import re

FULL_SCREEN = re.compile(r"\x1b\[\?(?:1049|1047|47)h")
"""The sequence with which a program takes over the whole screen."""

_PLACED = re.compile(r"\x1b\[\d{1,4};\d{1,4}H")
_PLACES = 8
"""With this many texts at screen positions in one piece, lines are not just overwritten."""
_SAYS_SO = re.compile(r"^Vim: Warning: (?:Output is not to|Input is not from) a terminal", re.MULTILINE)

SCREENFUL = "[a full-screen program]"
"""Its name in place of what it drew."""
_SCREENFUL = re.compile(rf"{FULL_SCREEN.pattern}.*?(?:\x1b\[\?(?:1049|1047|47)l|\Z)", re.DOTALL)
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]{0,100000}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,8}[0-~]"
    r"|\x1b"
)
_OTHER = re.compile(r"[\x00-\x07\x0b-\x1f\x7f]")
_BACK = re.compile(r"[^\n\x08]\x08")


def draws_on_screen(text: str) -> bool:
    """Return whether a program that printed this draws on a whole screen, or wants to."""
    return bool(FULL_SCREEN.search(text) or _SAYS_SO.search(text)) or len(_PLACED.findall(text)) >= _PLACES


def as_printed(text: str) -> str:
    """Return the text without escape sequences, with overwritten and deleted characters resolved.

    The drawing of a full-screen program is left out and named.
    """
    if not any(sign in text for sign in "\x1b\r\x08\x07"):
        return text
    text = _SCREENFUL.sub(SCREENFUL, text)
    text = _SEQUENCE.sub("", text).replace("\r\n", "\n")
    while (shorter := _BACK.sub("", text)) != text:
        text = shorter
    if "\r" in text:
        text = "\n".join(_overwritten(line) for line in text.split("\n"))
    return _OTHER.sub("", text.replace("\x08", ""))


def _overwritten(line: str) -> str:
    """A line in which a carriage return took the writer back to its beginning."""
    written = ""
    for part in line.split("\r"):
        written = part + written[len(part) :]
    return written
