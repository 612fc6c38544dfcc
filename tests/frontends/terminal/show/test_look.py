"""The look: themes, tables, headings, long lines of code, links, changed words."""

from __future__ import annotations

import io
import re

import pytest
from prompt_toolkit.data_structures import Size

from codelet import events
from codelet.frontends.terminal.show.bottom import Bottom
from codelet.frontends.terminal.show.console import OutputConsole
from codelet.frontends.terminal.show.markdown import markdown_rows
from codelet.frontends.terminal.show.renderer import Renderer
from codelet.frontends.terminal.show.style import Ground, ground_told

DIFF = "--- a/app.py\n+++ b/app.py\n@@ -1,2 +1,2 @@\n def f(a, b):\n-    return a - b\n+    return a + b\n"


def written(theme: str, ground: Ground = "", colours: str = "truecolor", **environment: str) -> str:
    """A prompt, an answer and a change as a terminal of 40 columns gets them."""
    file = io.StringIO()
    console = OutputConsole(
        theme,
        ground,
        file=file,
        force_terminal=True,
        width=40,
        color_system=colours,
        _environ={"TERM": "xterm-256color", **environment},
    )
    renderer = Renderer(console, clock=lambda: 0.0, bottom=Bottom(file, lambda: Size(rows=40, columns=40)))
    renderer.say_prompt("fix it")
    renderer.show(events.TurnStart(1, "m"))
    renderer.show(events.Text("Fixed, `a` it is.\n"))
    renderer.show(events.ToolResult(id="1", name="edit", status="done", text="", display=DIFF))
    renderer.stop()
    return re.sub(r" ?\x1b\[J|\x1b\[(\?\d+[hl]|\d*A)", "", file.getvalue())


def seen(text: str) -> str:
    """The screen's text."""
    return "\n".join(line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m|\r", "", text).split("\n"))


def test_a_known_background_gets_bands_and_the_others_a_rule() -> None:
    for theme, ground in (
        ("auto", "dark"),
        ("dark", ""),
        ("auto", "light"),
        ("light", "dark"),
        ("colour-blind", "light"),
    ):
        text = written(theme, ground)
        assert re.search(r"\x1b\[1;36;?[\d;]*48;2;|\x1b\[1;[\d;]*48;2;", text), theme
        assert "─" not in text.split("fix it")[0]
    assert written("light") == written("auto", "light") != written("dark") == written("auto", "dark")
    for text in (written("auto"), written("dark", colours="standard"), written("plain", "dark")):
        assert "48;" not in text
        assert seen(text).startswith("─" * 40 + "\n› fix it\n")


def test_no_theme_changes_a_word_and_plain_has_no_colour() -> None:
    words = seen(written("plain")).replace("─" * 40 + "\n", "")
    for theme in ("auto", "dark", "light", "colour-blind"):
        for ground in ("", "dark", "light"):
            assert seen(written(theme, ground)).replace("─" * 40 + "\n", "") == words
    for plain in (written("plain", "dark"), written("light", NO_COLOR="1")):
        codes = {code for found in re.findall(r"\x1b\[([0-9;]*)m", plain) for code in found.split(";")}
        assert codes <= {"", "0", "1", "2", "3", "4"}, codes


def test_the_colour_blind_theme_has_neither_red_nor_green() -> None:
    assert re.search(r"\x1b\[31[m;]", written("dark")) and re.search(r"\x1b\[32[m;]", written("dark"))
    for ground in ("", "dark", "light"):
        text = written("colour-blind", ground)
        assert not re.search(r"\x1b\[(1;|2;|4;)*3[12][m;]", text)
    assert "\x1b[94m" in written("colour-blind", colours="standard")


@pytest.mark.parametrize(("told", "ground"), [("15;0", "dark"), ("0;default;15", "light"), ("0;7", "light"), ("x", "")])
def test_the_background_by_the_environment(told: str, ground: str) -> None:
    assert ground_told({"COLORFGBG": told}) == ground


def rows(source: str, width: int = 60) -> list[str]:
    return [row.plain for row in markdown_rows(source, width)]


def test_columns_are_set_as_the_table_says() -> None:
    table = rows("| a | size | c |\n|:--|--:|:-:|\n| xx | 1 | yyyy |\n| x | 1,200 | y |\n")
    assert table == ["a    size   c", "─── ────── ────", "xx      1  yyyy", "x   1,200   y"]


def test_headings_differ_without_colours() -> None:
    styles = []
    for level in range(1, 6):
        row = markdown_rows("#" * level + " Title", 60)[0]
        styles.append(" ".join(sorted(str(span.style) for span in row.spans)))
    assert len(set(styles)) == 5
    assert [words for words in styles if "underline" in words] == styles[:1]


def test_a_long_line_of_code_goes_on_below_where_it_begins() -> None:
    code = rows("```\n    call(" + "argument, " * 8 + ")\n```", 40)
    assert all(len(row) <= 40 for row in code)
    assert code[0].startswith("      call(") and all(row.startswith("        ") for row in code[1:])
    assert "".join(row.strip() for row in code).replace(" ", "") == "call(" + "argument," * 8 + ")"


def test_a_link_shows_where_it_leads() -> None:
    shown = rows("[https://bank.example](https://evil.example)", 200)
    assert shown == ["https://bank.example (https://evil.example)"], "the true address is always seen"
