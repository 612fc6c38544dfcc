"""Snapshots of the screen at three widths in three themes, and README's screenshots.

`CODELET_WRITE_GOLDEN=1` rewrites the snapshots, `python -m scripts.pictures.terminal` the screenshots.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from scripts.pictures.terminal import PICTURES, picture
from tests.frontends.terminal.show.scene import screen

FOLDER = Path(__file__).with_name("screens")


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("theme", ["dark", "light", "plain"])
def test_a_screen_is_as_it_was(theme: str, columns: int) -> None:
    found = screen(theme, columns).replace("\x1b", "␛")
    file = FOLDER / f"{theme}-{columns}.txt"
    if os.environ.get("CODELET_WRITE_GOLDEN"):
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")
    rows = re.sub(r"␛\[[0-9;]*m", "", found).split("\n")
    assert max(map(cell_len, rows)) <= columns, "the terminal breaks no row"


def test_the_themes_differ_in_nothing_but_colours() -> None:
    for columns in (40, 80, 200):
        dark, light, plain = (
            [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", screen(theme, columns)).split("\n")]
            for theme in ("dark", "light", "plain")
        )
        assert dark == light == plain[1:], "only the rule above the prompt is plain's own"


@pytest.mark.parametrize("theme", PICTURES)
def test_the_pictures_are_what_a_user_sees_today(theme: str) -> None:
    assert picture(theme) == PICTURES[theme].read_text(encoding="utf-8")
