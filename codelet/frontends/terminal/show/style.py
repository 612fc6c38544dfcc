"""Styles from the terminal's palette, and signs, in ASCII if needed.

No style sets a background or a fixed shade, so light and dark terminals stay readable. No style is the only carrier of
a meaning, so NO_COLOR loses nothing.
"""

from __future__ import annotations

from typing import IO

from codelet.record import Record

QUIET = "dim"
GOOD = "green"
BAD = "red"
WARN = "yellow"
ACCENT = "cyan"
CODE = "cyan"
HEADING = "bold"
ADDED = "green"
REMOVED = "red"

MARGIN = 2
"""The indent of details."""

TAB_COLUMNS = 4
"""Tab width in code."""

TEXT_COLUMNS = 100
"""The widest running text."""


class Signs(Record, kw_only=True):
    """Signs at the start of lines, and the spinner."""

    done: str = "✓"
    failed: str = "✗"
    caution: str = "!"
    refused: str = "⊘"
    stopped: str = "■"
    retry: str = "↻"
    note: str = "·"
    bullet: str = "•"
    quote: str = "│"
    rule: str = "─"
    prompt: str = "›"
    choice: str = "▸"
    more: str = "…"
    dot: str = "·"
    arrow: str = "→"
    full: str = "█"
    empty: str = "░"
    box: str = "☐"
    checked: str = "☑"
    spinner: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


ASCII = Signs(
    done="+",
    failed="x",
    caution="!",
    refused="-",
    stopped="!",
    retry="~",
    note="-",
    bullet="*",
    quote="|",
    rule="-",
    prompt=">",
    choice="*",
    more="...",
    arrow="->",
    dot="-",
    full="#",
    empty=".",
    box="[ ]",
    checked="[x]",
    spinner="|/-\\",
)


def writable(text: str, stream: IO[str]) -> str:
    """Replace characters that the stream cannot encode."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def signs_for(stream: IO[str]) -> Signs:
    """The signs that the stream can encode."""
    try:
        "".join(vars(Signs()).values()).encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return Signs()
