"""A diff has its file's syntax colours, on the colours of added and removed lines."""

from __future__ import annotations

import io
import re

import pytest
from rich.text import Text

from codelet.frontends.terminal.show.console import OutputConsole
from codelet.frontends.terminal.show.diff_rows import diff_rows
from codelet.tools.change import unified

OLD = '''def total(tax=1):
    """What all of it
    costs, if known."""
    return "none"
'''
NEW = OLD.replace("1", "2").replace('"none"', "None")


def coloured(rows: list[Text]) -> list[list[tuple[str, str]]]:
    """Of each row the parts in the code's colours, each with the colour's name."""
    kinds = {"dim italic": "comment", "look.string": "string", "magenta": "keyword", "cyan": "value", "bold": "name"}
    return [
        [(row.plain[span.start : span.end], kinds[str(span.style)]) for span in row.spans if str(span.style) in kinds]
        for row in rows
    ]


def rows(old: str, new: str, name: str = "src/cart.py", *, width: int = 200) -> list[Text]:
    return diff_rows(unified(old, new, name), width, limit=100_000)


def test_each_line_has_the_colours_of_its_own_side() -> None:
    assert coloured(rows(OLD, NEW)) == [
        [("def", "keyword"), ("total", "name"), ("1", "value")],
        [("def", "keyword"), ("total", "name"), ("2", "value")],
        [('"""What all of it', "string")],
        [('    costs, if known."""', "string")],
        [("return", "keyword"), ('"none"', "string")],
        [("return", "keyword"), ("None", "value")],
    ]


def test_a_string_that_only_one_side_opens_goes_on_over_that_side_alone() -> None:
    found = coloured(rows("a = 1\nb = 2\n", 'a = """\nb = 2\nin it\n"""\nc = 3\n'))
    assert found == [
        [("1", "value")],
        [('"""', "string")],
        [("b = 2", "string")],
        [("in it", "string")],
        [('"""', "string")],
        [("3", "value")],
    ]
    found = coloured(rows('a = """\nb = 2\n"""\n', "a = 1\nb = 2\n"))
    assert found == [[('"""', "string")], [("1", "value")], [("2", "value")], [('"""', "string")]]


def test_a_hunk_that_may_begin_inside_a_string_stays_plain() -> None:
    text = '"""First.\n' + "more if any\n" * 9 + '"""\nimport os\n' + "x = 1\n" * 3
    shown = rows(text, text.replace("import os", "import re"))
    assert shown[0].plain.startswith("     9 ") and coloured(shown) == [[]] * len(shown)
    shown = rows(text + "y = 1\n" * 9, text + "y = 1\n" * 8 + "y = 2\n")
    assert coloured(shown)[-1] == [("2", "value")], "another one of the same file is coloured"


@pytest.mark.parametrize(
    ("name", "line", "kinds"),
    [
        ("web/a.ts", "const a = 1", {"keyword", "value"}),
        ("Makefile", "# all", {"comment"}),
        ("a.yml", "a: 'b'", {"keyword", "string"}),
        ("a.kt", "fun f() = 1", {"keyword", "name", "value"}),
        ("notes", "if not in", set()),
        ("python", "if 1:", set()),
        ("a.nobody-knows", "if 1:", set()),
    ],
)
def test_the_language_is_told_by_the_files_name(name: str, line: str, kinds: set[str]) -> None:
    (found,) = coloured(rows("", f"{line}\n", name))
    assert {kind for _, kind in found} == kinds


def test_only_the_first_part_of_a_huge_diff_is_coloured() -> None:
    found = coloured(rows("", "value = 1\n" * 3_000))
    assert found[0] == found[499] == [("1", "value")] and found[500] == found[-1] == []
    assert coloured(rows("", f"a = '{'x' * 2_000}'\nb = 1\n", width=5_000)) == [[], []]


def test_several_files_have_a_language_each() -> None:
    parts = [
        f"diff --git a/{name} b/{name}\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+{line}\n"
        for name, line in (("a.py", "None"), ("a.txt", "None"), ("a.js", "null"))
    ]
    found = coloured(diff_rows("".join(parts), 80, files=True))
    assert found == [[], [("None", "value")], [], [], [], [("null", "value")]]


def written(theme: str, colours: str, **environment: str) -> list[str]:
    """The output of the first two changed lines."""
    file = io.StringIO()
    environment = {"TERM": "xterm-256color", **environment}
    console = OutputConsole(theme, file=file, force_terminal=True, color_system=colours, _environ=environment)
    return [console.written(row).rstrip("\n") for row in rows(OLD, NEW)[:2]]


def test_a_theme_with_all_colours_has_shades_behind_the_lines_and_stronger_ones_behind_words() -> None:
    removed, added = written("dark", "truecolor")
    assert "\x1b[31;48;2;48;27;30m- " in removed and "\x1b[32;48;2;18;38;30m+ " in added
    assert "\x1b[35;48;2;18;38;30mdef" in added and "\x1b[36;48;2;28;74;42m2" in added


def test_without_such_shades_the_lines_own_colour_stays() -> None:
    for theme, colours in (("auto", "standard"), ("dark", "256"), ("light", "standard")):
        removed, added = written(theme, colours)
        assert "(tax=" in removed and re.search(r"\x1b\[31m[^\x1b]*\(tax=", removed), theme
        assert re.search(r"\x1b\[32m[^\x1b]*\(tax=", added) and "\x1b[35mdef" in added


def test_without_colours_only_changed_words_are_underlined() -> None:
    for lines in (written("plain", "truecolor"), written("light", "truecolor", NO_COLOR="1")):
        assert [re.sub(r"^\x1b\[2m *\d+ \x1b\[0m|^ *\x1b\[2m *\d+ \x1b\[0m", "", line) for line in lines] == [
            "- def \x1b[1mtotal\x1b[0m(tax=\x1b[4m1\x1b[0m):",
            "+ def \x1b[1mtotal\x1b[0m(tax=\x1b[4m2\x1b[0m):",
        ]
