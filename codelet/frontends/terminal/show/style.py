"""The look: styles from the terminal's own palette, and the few signs, in plain ASCII where need be.

No style sets a background or names a fixed shade, so that light and dark terminals both stay readable; no
style is the only carrier of a meaning, so that NO_COLOR loses nothing.
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
"""Columns by which details stand below their line."""

TAB_COLUMNS = 4
"""From one tab stop to the next in code."""

TEXT_COLUMNS = 100
"""Running text is not set wider than this: longer lines are hard to read."""


class Signs(Record, kw_only=True):
    """The signs that lines start with, and the frames of the spinner."""

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
    """The text with what the stream's encoding cannot carry replaced by question marks."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def signs_for(stream: IO[str]) -> Signs:
    """The signs that the stream's encoding can carry."""
    try:
        "".join(vars(Signs()).values()).encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return Signs()
