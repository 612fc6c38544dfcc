"""The themes: what the styles that rows are made with become on a terminal.

Rows name the terminal's own colours (`style.py`), which is all that a terminal of unknown background gets. Where it is
known to be dark or light, and has shades enough, prompts and changed words get a background, and on light paper the
colours that would be too pale get darker. A theme is no part of a row, so it may change while rows are being made.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from codelet.record import Record
from codelet.setting_kinds import ThemeName

THEMES: tuple[ThemeName, ...] = ("auto", "dark", "light", "colour-blind", "plain")
Ground = Literal["dark", "light", ""]
"""What a terminal's text stands on; empty where that is not known."""


class Look(Record):
    """One theme on one terminal: `colours` replace the terminal's own, `styles` are those that rows name.

    `band` says that a prompt has a background; `plain` that there is no colour at all.
    """

    colours: Mapping[str, str]
    styles: Mapping[str, str]
    band: bool = False
    plain: bool = False


_MARKED = {"look.prompt": "bold", "look.added": "underline", "look.removed": "underline"}
_DARK = {"look.prompt": "bold on #2d333b", "look.added": "on #1c4a2a", "look.removed": "on #61242a"}
_LIGHT = {"look.prompt": "bold on #e6eaef", "look.added": "on #b4e5c0", "look.removed": "on #f8c3c1"}
_ON_PAPER = {"green": "#116329", "red": "#a40e26", "yellow": "#7d4e00", "cyan": "#0b6478", "magenta": "#7a3ab8"}
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


def look_of(theme: str, ground: Ground, shades: bool) -> Look:
    """What a theme looks like on that ground; `shades` says that the terminal has more than its sixteen colours."""
    if theme == "plain":
        return Look({}, _MARKED, plain=True)
    if theme in ("dark", "light"):
        ground = "dark" if theme == "dark" else "light"
    if not shades:
        ground = ""
    if theme == "colour-blind":
        colours, styles = _BLIND[ground]
        return Look(colours, styles, band=bool(ground))
    if ground == "light":
        return Look(_ON_PAPER, _LIGHT, band=True)
    return Look({}, _DARK, band=True) if ground == "dark" else Look({}, _MARKED)


def ground_told(environment: Mapping[str, str] = os.environ) -> Ground:
    """What COLORFGBG says of the background, which some terminals set; nothing where it says nothing."""
    number = environment.get("COLORFGBG", "").rpartition(";")[2]
    if not (number.isascii() and number.isdigit() and int(number) < 16):
        return ""
    return "light" if int(number) in (7, *range(9, 16)) else "dark"
