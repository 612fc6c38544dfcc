"""Streamed Markdown: the same rows however the text is cut, each given out once, at a cost that stays linear."""

from __future__ import annotations

import random

import pytest

from codelet.frontends.terminal.show.markdown import markdown_rows
from codelet.frontends.terminal.show.markdown_stream import MarkdownStream
from codelet.frontends.terminal.show.style import ASCII, Signs

ANSWER = """\
# The failing test

The test in `tests/test_app.py` fails because **`total()`** adds the *wrong* column: it reads `row[1]` where
the header says that amounts are in the third one. See [the docs](https://example.org/x), snake_case and 2 * 3.

## What I changed

1. In `src/app.py`, `total()` now finds the column by name, so that another order of columns still adds up.
2. Run this:
   ```python
   def total(rows):
       '''Sum the amounts.

       Of all rows.
       '''
       return sum(row["amount"] for row in rows)
   ```
   and look at the result.
3. Third
   - nested one
   - nested two

- [ ] open
- [x] closed

> A quote that is long enough to be wrapped over several rows when the terminal is only eighty columns wide.

| Column | Meaning |
|---|---|
| `name` | what it is called |

```
plain
```
---
The end: 你好 and <b>html</b>.
"""


def stream(source: str, size: int, width: int = 80, seed: int = 0) -> tuple[list[str], MarkdownStream]:
    dice = random.Random(seed)
    stream = MarkdownStream(width, Signs())
    rows = []
    at = 0
    while at < len(source):
        step = dice.randint(1, size)
        rows += stream.feed(source[at : at + step])
        at += step
    rows += stream.finish()
    return [row.plain.rstrip() for row in rows], stream


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("size", [1, 3, 40, 400])
def test_rows_do_not_depend_on_the_cuts(size: int, width: int) -> None:
    whole, _ = stream(ANSWER, 10**6, width)
    for seed in range(3):
        rows, _ = stream(ANSWER, size, width, seed)
        assert rows == whole


def test_every_word_is_there_and_no_row_is_too_wide() -> None:
    rows, _ = stream(ANSWER, 7, 60)
    text = "\n".join(rows)
    for word in ("total()", "https://example.org/x", "snake_case", "2 * 3", "Sum the amounts", "你好", "<b>html</b>"):
        assert word in text
    assert "**" not in text
    assert "```" not in text
    assert all(len(row) <= 60 for row in rows if "return sum" not in row)


def test_names_of_python_keep_their_signs() -> None:
    names = "Of __init__.py, __main__ and `__all__` only __post_init__() is *called by __new__*; __this one is__ bold."
    rows, _ = stream(f"{names}\n\n# __init__.py\n\n[__name__](https://a.example/)", 5, 200)
    assert rows[0] == names.replace("`", "").replace("*", "").replace("__this one is__", "this one is")
    assert rows[2:] == ["__init__.py", "", "__name__ (https://a.example/)"]


@pytest.mark.parametrize("deep", [">" * 60, "> - " * 20, "> 1. > - " * 10])
@pytest.mark.parametrize("width", [20, 80])
def test_nothing_is_lost_in_deep_places(deep: str, width: int) -> None:
    rows, _ = stream(f"{deep} deepest\n\nafter\n", 7, width)
    assert "deepest" in "".join(rows).replace("│", "").replace(" ", "")
    assert rows[-1] == "after"


def test_looks() -> None:
    rows, _ = stream("Do:\n\n- one\n- two\n\n1. a\n2. b\n\n| A | B |\n|---|---|\n| x | y |\n", 5)
    assert rows == ["Do:", "", "• one", "• two", "", "1. a", "2. b", "", "A  B", "─  ─", "x  y"]


def test_what_a_later_line_makes_of_the_one_above_it_does_not_hang_on_the_cuts() -> None:
    short = "Name | Size\n--- | ---\na | 1\n\nTitle\n=====\ntext"
    for size in (1, 4, 100):
        rows, _ = stream(short, size, 40)
        assert rows == ["Name  Size", "────  ────", "a     1", "", "Title", "text"]
    long = "A first cell that is longer than a row | Size\n--- | ---\na | 1"
    for size in (1, 4, 100):
        rows, _ = stream(long, size, 24)
        assert " ".join(rows) == "A first cell that is longer than a row | Size --- | --- a | 1"


def test_a_fence_right_after_a_list_marker_ends_where_it_is_closed() -> None:
    rows, _ = stream("- ```python\n  x = 1\n  ```\n- two\n\n```mermaid\ngraph\n```\n", 3, 40)
    assert rows == ["•", "    x = 1", "• two", "", "mermaid", "  graph"]


def test_a_long_paragraph_is_cut_between_words_however_it_comes() -> None:
    words = " ".join(f"word{number}" for number in range(2_000))
    for size in (1, 7, 100_000):
        rows, _ = stream(words, size, 80)
        assert " ".join(rows).split() == words.split()


def test_no_cell_is_lost_and_narrow_places_lose_nothing() -> None:
    rows, _ = stream("| a | b |\n|---|---|\n| 1 | 2 | 3 | 4 |\n", 5, 40)
    assert rows[-1] == "1  2  3  4"
    rows, _ = stream("> > > > > > > > > 数据库索引不要删除先检查", 2, 20)
    assert "".join("".join(rows).replace("│", "").split()) == "数据库索引不要删除先检查"


def test_running_text_is_not_wider_than_a_page() -> None:
    rows, _ = stream("word " * 200, 10, 200)
    assert 80 < max(map(len, rows)) <= 100


def test_rows_come_while_the_paragraph_is_still_open() -> None:
    open_stream = MarkdownStream(40, Signs())
    given = [row.plain for word in ["many words "] * 12 for row in open_stream.feed(word)]
    assert given[:2] == ["many words many words many words many", "words many words many words many words"]
    assert open_stream.tail(4)[-1].plain.strip()


def test_a_row_with_an_open_mark_waits() -> None:
    open_stream = MarkdownStream(40, Signs())
    assert open_stream.feed("This **is bold and goes on for quite a while") == []
    rows = open_stream.feed(" until here** and then goes on and on for a bit")
    assert "**" not in "".join(row.plain for row in rows)
    assert rows


def test_code_lines_come_one_by_one() -> None:
    open_stream = MarkdownStream(80, Signs())
    assert open_stream.feed("```python\n") == []
    assert [row.plain for row in open_stream.feed("x = 1\n")] == ["  x = 1"]
    assert [row.plain for row in open_stream.feed("y = '''\nfoo\n")] == ["  y = '''", "  foo"]
    inside = open_stream.feed("return if for\n")[0]
    assert {str(span.style) for span in inside.spans} == {"green"}, "a line inside a string is a string"


def work_of(source: str, size: int) -> float:
    _, done = stream(source, size)
    return done.work / len(source)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("paragraphs", "Some words of a paragraph that has *marks* and `code` in it, as answers do.\n\n"),
        ("one paragraph", "words without an end "),
        ("one paragraph with an open mark", "words * without _ an [ end "),
        ("list", "- an item with `code`\n"),
        ("code", None),
        ("indented code", None),
        ("a long string", None),
        ("table", "| a cell | another cell |\n"),
    ],
)
def test_work_is_linear(name: str, unit: str | None) -> None:
    """Characters given to the parsers per character of text: the same for a text ten times as long."""
    if unit is None:
        line = "    value = compute(value, 'text')\n" if name == "indented code" else "value = compute('text')\n"
        line = "words in a string\n" if name == "a long string" else line
        head = "text = '''\n" if name == "a long string" else ""
        small, large = ("```python\n" + head + line * count + "```\n" for count in (60, 600))
    else:
        head = "| a | b |\n|---|---|\n" if name == "table" else ""
        small, large = (head + unit * count for count in (100, 1000))
    few, many = work_of(small, 12), work_of(large, 12)
    assert many <= few * 1.3
    assert many <= 30


def test_ascii_signs_where_the_encoding_has_no_others() -> None:
    rows = markdown_rows("- a\n\n> b\n\n---\n", 20, ASCII)
    assert all(row.plain.isascii() for row in rows)
