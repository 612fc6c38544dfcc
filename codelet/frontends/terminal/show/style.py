"""Styles: the names that rows use, and how a theme shows them.

Rows name the terminal's own colours, all that an unknown background gets. On a known background with enough colours,
prompts and changed words get a background, and light terminals get darker colours. A theme is not part of a row, so it
can change at any time. No style is the only carrier of a meaning, so NO_COLOR loses nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import IO, Literal

from codelet.record import Record
from codelet.setting_kinds import ThemeName

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

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_IN_ASCII = str.maketrans("✓✗⊘■↻·•│─›▸…→↑↓█░☐☑⟨⟩" + SPINNER, "+x-!~-*|->*.>^v#.ox<>" + "|/-\\|/-\\|/")


def writable(text: str, stream: IO[str]) -> str:
    """Replace characters that the stream cannot encode: signs by similar ones in ASCII."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_IN_ASCII).encode(encoding, "replace").decode(encoding)
    return text


THEMES: tuple[ThemeName, ...] = ("auto", "dark", "light", "colour-blind", "plain")
Ground = Literal["dark", "light", ""]
"""A terminal's background; empty if unknown."""

_ON_PAPER = {"green": "#116329", "red": "#a40e26", "yellow": "#7d4e00", "cyan": "#0b6478", "magenta": "#7a3ab8"}
_BLIND = {"green": "bright_blue", "red": "yellow"}  # blue and orange differ for everybody
_BLIND_DARK = {"green": "#58a6ff", "red": "#f0a04b"}
_BLIND_LIGHT = {**_ON_PAPER, "green": "#0a4ba8", "red": "#8f4700"}
_LOOKS: Mapping[tuple[bool, Ground], tuple[Mapping[str, str], str, str, str, str, str]] = {
    (False, ""): ({}, "", "underline", "underline", "", ""),
    (False, "dark"): ({}, "on #2d333b", "on #1c4a2a", "on #61242a", "on #12261e", "on #301b1e"),
    (False, "light"): (_ON_PAPER, "on #e6eaef", "on #b4e5c0", "on #f8c3c1", "on #e6f7ea", "on #fdeceb"),
    (True, ""): (_BLIND, "", "underline", "underline", "", ""),
    (True, "dark"): (_BLIND_DARK, "on #2d333b", "on #103d75", "on #6b3d06", "on #0c2238", "on #33230f"),
    (True, "light"): (_BLIND_LIGHT, "on #e6eaef", "on #b9d8ff", "on #ffd8a8", "on #e3f0ff", "on #fff0dd"),
}
"""For colour-blind users or not, by background: replaced colours, and the backgrounds of prompts, of added and removed
words, and of added and removed lines."""


class Look(Record):
    """A theme on a terminal: what the words of a style mean. `band`: a prompt has a background."""

    words: Mapping[str, str]
    band: bool = False
    is_plain: bool = False


def look_of(theme: str, ground: Ground, colours: int) -> Look:
    """Return a theme's look on a background, with 16, 256 or more colours; 0 for none."""
    if theme == "plain" or not colours:
        words = dict.fromkeys(("look.added_line", "look.removed_line", "look.string"), "")
        return Look(
            {**words, "look.prompt": "bold", "look.added": "underline", "look.removed": "underline"}, False, True
        )
    if theme in ("dark", "light"):
        ground = "dark" if theme == "dark" else "light"
    if colours <= 16:
        ground = ""
    replaced, prompt, added, removed, added_line, removed_line = _LOOKS[theme == "colour-blind", ground]
    words = {"look.string": "", "look.added_line": ADDED, "look.removed_line": REMOVED}
    if ground and colours > 256:  # shades for whole lines are so subtle that they need true colour
        words |= {"look.added_line": added_line, "look.removed_line": removed_line, "look.string": "green"}
    words |= {"look.prompt": f"bold {prompt}", "look.added": added, "look.removed": removed}
    return Look({**replaced, **{name: replaced.get(style, style) for name, style in words.items()}}, bool(ground))


def ground_told(environment: Mapping[str, str] = os.environ) -> Ground:
    """The background according to COLORFGBG, which some terminals set."""
    number = environment.get("COLORFGBG", "").rpartition(";")[2]
    if not (number.isascii() and number.isdigit() and int(number) < 16):
        return ""
    return "light" if int(number) in (7, *range(9, 16)) else "dark"
