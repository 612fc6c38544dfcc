"""Themes: how a row's styles look on a terminal.

Rows name the terminal's own colours (`style.py`), all that an unknown background gets. On a known background with
enough colours, prompts and changed words get a background, and light terminals get darker colours. A theme is not part
of a row, so it can change at any time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from codelet.record import Record
from codelet.setting_kinds import ThemeName

THEMES: tuple[ThemeName, ...] = ("auto", "dark", "light", "colour-blind", "plain")
Ground = Literal["dark", "light", ""]
"""A terminal's background; empty if unknown."""


class Look(Record):
    """A theme on a terminal: replaced `colours`, and the `styles` that rows name.

    `band`: a prompt has a background. `plain`: no colours.
    """

    colours: Mapping[str, str]
    styles: Mapping[str, str]
    band: bool = False
    plain: bool = False


# On the terminal's own ground the colour of a line is what tells an added from a removed one: strings would hide it.
_LINES = {
    "look.added_line": "green",
    "look.removed_line": "red",
    "look.comment": "dim italic",
    "look.string": "",
    "look.keyword": "magenta",
    "look.value": "cyan",
    "look.name": "bold",
}
_NO_CODE = dict.fromkeys(("look.comment", "look.string", "look.keyword", "look.value", "look.name"), "")
_MARKED = {**_LINES, "look.prompt": "bold", "look.added": "underline", "look.removed": "underline"}
_DARK = {**_LINES, "look.prompt": "bold on #2d333b", "look.added": "on #1c4a2a", "look.removed": "on #61242a"}
_LIGHT = {**_LINES, "look.prompt": "bold on #e6eaef", "look.added": "on #b4e5c0", "look.removed": "on #f8c3c1"}
# Shades for whole lines are so subtle that they need true colour.
_TINTS: Mapping[str, Mapping[Ground, tuple[str, str]]] = {
    "": {"dark": ("on #12261e", "on #301b1e"), "light": ("on #e6f7ea", "on #fdeceb")},
    "colour-blind": {"dark": ("on #0c2238", "on #33230f"), "light": ("on #e3f0ff", "on #fff0dd")},
}
_ON_PAPER = {"green": "#116329", "red": "#a40e26", "yellow": "#7d4e00", "cyan": "#0b6478", "magenta": "#7a3ab8"}
_SEEN: Mapping[Ground, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "": ({}, _MARKED),
    "dark": ({}, _DARK),
    "light": (_ON_PAPER, _LIGHT),
}
# Blue and orange differ for everybody; added and removed lines have their signs besides.
_BLIND: Mapping[Ground, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "": ({"green": "bright_blue", "red": "yellow"}, _MARKED),
    "dark": (
        {"green": "#58a6ff", "red": "#f0a04b"},
        {**_DARK, "look.added": "on #103d75", "look.removed": "on #6b3d06"},
    ),
    "light": (
        {**_ON_PAPER, "green": "#0a4ba8", "red": "#8f4700"},
        {**_LIGHT, "look.added": "on #b9d8ff", "look.removed": "on #ffd8a8"},
    ),
}


def look_of(theme: str, ground: Ground, colours: int) -> Look:
    """Return a theme's look on a background, with 16, 256 or more colours; 0 for none."""
    if theme == "plain" or not colours:
        return Look({}, {**_MARKED, **_NO_CODE}, plain=theme == "plain")
    if theme in ("dark", "light"):
        ground = "dark" if theme == "dark" else "light"
    if colours <= 16:
        ground = ""
    replaced, styles = _BLIND[ground] if theme == "colour-blind" else _SEEN[ground]
    if ground and colours > 256:
        added, removed = _TINTS["colour-blind" if theme == "colour-blind" else ""][ground]
        tinted = {"look.added_line": added, "look.removed_line": removed, "look.string": "green"}
        styles = {**styles, **tinted}
    return Look(replaced, styles, band=bool(ground))


def ground_told(environment: Mapping[str, str] = os.environ) -> Ground:
    """The background according to COLORFGBG, which some terminals set."""
    number = environment.get("COLORFGBG", "").rpartition(";")[2]
    if not (number.isascii() and number.isdigit() and int(number) < 16):
        return ""
    return "light" if int(number) in (7, *range(9, 16)) else "dark"
