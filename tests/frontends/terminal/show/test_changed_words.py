"""A diff marks the words that an edit changed, where the lines still have something in common."""

from __future__ import annotations

import pytest
from rich.text import Text

from codelet.frontends.terminal.show.diff_rows import diff_rows
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
    minus, plus = diff_rows(unified(old, new, "a.py"), 3_000)
    assert (minus.plain.lstrip()[2], plus.plain.lstrip()[2]) == ("-", "+")
    assert (marked(minus), marked(plus)) == (removed, added)


def test_rows_keep_their_numbers_and_order() -> None:
    old = "a\nkeep\nb = 1\nc = 1\nend\n"
    new = "a\nkeep\nb = 2\nc = 2\nd = 3\nend\n"
    rows = diff_rows(unified(old, new, "a.py"), 80)
    told = [row.plain.strip() for row in rows]
    assert told == ["1   a", "2   keep", "3 - b = 1", "4 - c = 1", "3 + b = 2", "4 + c = 2", "5 + d = 3", "6   end"]
    assert list(map(marked, rows)) == [[]] * 8
    rows = diff_rows(unified("a\nb = 1\nc = 1\nend\n", "a\nb = 2\nc = 2\nend\n", "a.py"), 80)
    assert list(map(marked, rows)) == [[], ["1"], ["1"], ["2"], ["2"], []]


def test_of_unequal_numbers_none_is_marked() -> None:
    old = "def pairs(lines):\n    return zip(a, b)\n"
    new = "def pairs(lines, most):\n    # only what fits\n    return zip(a, b, strict=True)\n"
    assert list(map(marked, diff_rows(unified(old, new, "a.py"), 80))) == [[]] * 5


def test_a_row_that_is_too_wide_goes_on_below_with_its_marks() -> None:
    rows = diff_rows(unified("x = 1" + " y" * 60 + "\n", "x = 2" + " y" * 60 + "\n", "a.py"), 40)
    assert max(row.cell_len for row in rows) <= 40 and marked(rows[0]) == ["1"]
    minus = "".join(row.plain[9:].strip() for row in rows[: len(rows) // 2])
    assert minus.replace(" ", "") == "x=1" + "y" * 60
    old, new = f"\t{'word ' * 30}one end\n", f"\t{'word ' * 30}another one end\n"
    rows = diff_rows(unified(old, new, "a.py"), 40)
    assert max(row.cell_len for row in rows) <= 40 and [word for row in rows for word in marked(row)] == ["another "]


def test_a_generated_line_is_cut() -> None:
    rows = diff_rows(unified("x = 1" + " y" * 600 + "\n", "x = 2" + " y" * 600 + "\n", "a.py"), 40)
    assert [row.cell_len for row in rows] == [40, 40] and rows[0].plain.endswith("…")


def test_a_header_with_a_number_without_end_opens_no_hunk() -> None:
    long = "9" * 5_000
    rows = diff_rows(f"@@ -1 +1 @@\n-x = 1\n+x = 2\n@@ -{long} +{long} @@\n-y = 1\n+y = 2\n", 80)
    assert [row.plain.strip() for row in rows if " = " in row.plain][:2] == ["1 - x = 1", "1 + x = 2"]
