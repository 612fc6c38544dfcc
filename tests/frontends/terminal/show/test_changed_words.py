"""A diff marks the words that an edit changed, where the lines still have something in common."""

from __future__ import annotations

import pytest
from rich.text import Text

from codelet.frontends.terminal.show.diff_rows import changed_words, diff_rows
from codelet.frontends.terminal.show.style import Signs
from codelet.tools.change import unified


def marked(row: Text) -> list[str]:
    return [row.plain[span.start : span.end] for span in row.spans if span.style in ("look.added", "look.removed")]


@pytest.mark.parametrize(
    ("old", "new", "removed", "added"),
    [
        ("total = price * 1\n", "total = price * count\n", ["1"], ["count"]),
        ("def add(a, b):\n", "def add(a, b, c):\n", [], [", c"]),
        ("return alpha of x\n", "return one of x\n", ["alpha"], ["one"]),
        ("wholly different\n", "x = [1, 2, 3]\n", [], []),
        ("\tindented = 1\n", "\tindented = 2\n", ["1"], ["2"]),
        ("last = 1", "last = 2", ["1"], ["2"]),
        ("word " * 400 + "\n", "word " * 399 + "\n", [], []),
    ],
)
def test_words_that_changed_are_marked(old: str, new: str, removed: list[str], added: list[str]) -> None:
    minus, plus = diff_rows(unified(old, new, "a.py"), 3_000, Signs())
    assert (minus.plain.lstrip()[2], plus.plain.lstrip()[2]) == ("-", "+")
    assert (marked(minus), marked(plus)) == (removed, added)


def test_rows_keep_their_numbers_and_order() -> None:
    old = "a\nkeep\nb = 1\nc = 1\nend\n"
    new = "a\nkeep\nb = 2\nc = 2\nd = 3\nend\n"
    rows = diff_rows(unified(old, new, "a.py"), 80, Signs())
    told = [row.plain.strip() for row in rows]
    assert told == ["1   a", "2   keep", "3 - b = 1", "4 - c = 1", "3 + b = 2", "4 + c = 2", "5 + d = 3", "6   end"]
    assert list(map(marked, rows)) == [[], [], ["1"], ["1"], ["2"], ["2"], [], []]


def test_of_unequal_numbers_the_likest_belong_together_in_their_order() -> None:
    old = "def pairs(lines):\n    return zip(a, b)\n"
    new = "def pairs(lines, most):\n    # only what fits\n    return zip(a, b, strict=True)\n"
    rows = diff_rows(unified(old, new, "a.py"), 80, Signs())
    assert list(map(marked, rows)) == [[], [], [", most"], [], [", strict=True"]]
    rows = diff_rows(unified("gone = 1\nkept = 1\n", "kept = 2\n", "a.py"), 80, Signs())
    assert list(map(marked, rows)) == [[], ["1"], ["2"]], "the first was taken away"


def test_many_lines_of_unequal_numbers_are_soon_looked_at() -> None:
    lines = [f"-{'word ' * 79}{number}" for number in range(2_000)] + ["+word"] * 1_999
    assert changed_words(lines) == {}


def test_a_row_that_is_too_wide_is_cut_with_its_marks() -> None:
    (minus, _) = diff_rows(unified("x = 1" + " y" * 60 + "\n", "x = 2" + " y" * 60 + "\n", "a.py"), 40, Signs())
    assert minus.cell_len == 40 and marked(minus) == ["1"] and minus.plain.endswith("…")


@pytest.mark.parametrize("tab", ["", "\t"])
def test_of_a_row_that_is_too_wide_the_change_is_shown(tab: str) -> None:
    old, new = f"{tab}{'word ' * 30}one end\n", f"{tab}{'word ' * 30}another one end\n"
    minus, plus = diff_rows(unified(old, new, "a.py"), 40, Signs())
    assert (minus.plain.strip(), plus.plain.strip()) == ("1 - …word word one end", "1 + …word word another one end")
    assert (marked(minus), marked(plus)) == ([], ["another "])
    shorter, longer = diff_rows(unified(old + "x\n", new.replace(" end", " e" * 40) + "x\n", "a.py"), 40, Signs())[:2]
    assert max(shorter.cell_len, longer.cell_len) <= 40 and "another" in longer.plain and longer.plain.endswith("…")


def test_a_header_with_a_number_without_end_opens_no_hunk() -> None:
    long = "9" * 5_000
    rows = diff_rows(f"@@ -1 +1 @@\n-x = 1\n+x = 2\n@@ -{long} +{long} @@\n-y = 1\n+y = 2\n", 80, Signs())
    assert [row.plain.strip() for row in rows if " = " in row.plain][:2] == ["1 - x = 1", "1 + x = 2"]
