"""Streamed Markdown: the same rows however the text is cut, each given out once, at a cost that stays linear."""

from __future__ import annotations

import gc
import random
import time

import pytest

from codelet.frontends.terminal.show.markdown import MarkdownStream

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
    stream = MarkdownStream(width)
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
    assert rows == ["Do:", "", "• one", "• two", "", "1. a", "2. b", "", "A  B", "── ─", "x  y"]


def test_what_a_later_line_makes_of_the_one_above_it_does_not_hang_on_the_cuts() -> None:
    short = "Name | Size\n--- | ---\na | 1\n\nTitle\n=====\ntext"
    for size in (1, 4, 100):
        rows, _ = stream(short, size, 40)
        assert rows == ["Name  Size", "───── ────", "a     1", "", "Title ===== text"]


def test_a_fence_right_after_a_list_marker_ends_where_it_is_closed() -> None:
    rows, _ = stream("- ```python\n  x = 1\n  ```\n- two\n\n```mermaid\ngraph\n```\n", 3, 40)
    assert rows == ["•", "    x = 1", "• two", "", "mermaid", "  graph"]


def test_a_long_paragraph_is_wrapped_between_words_however_it_comes() -> None:
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


def test_the_open_block_is_plain_text_and_a_finished_one_is_set_once() -> None:
    open_stream = MarkdownStream(40)
    assert open_stream.feed("This **is bold** and goes on for quite a while") == []
    assert [row.plain for row in open_stream.tail(4)] == ["This **is bold** and goes on for quite a", "while"]
    assert [row.plain for row in open_stream.feed("\n\n- on")] == ["This is bold and goes on for quite a", "while"]
    assert [row.plain for row in open_stream.tail(4)] == ["", "- on"]
    assert [row.plain for row in open_stream.feed("e\n")] == [""]
    assert [row.plain for row in open_stream.tail(4)] == ["- one"]
    assert [row.plain for row in open_stream.feed("- two")] == []
    assert [row.plain for row in open_stream.feed("\n")] == ["• one"]
    assert [row.plain for row in open_stream.finish()] == ["• two"]


def test_long_code_comes_in_parts_and_a_string_stays_a_string() -> None:
    open_stream = MarkdownStream(80)
    assert open_stream.feed("```python\ny = '''\n") == []
    assert [row.plain for row in open_stream.tail(4)] == ["  y = '''"]
    rows = [row for number in range(100) for row in open_stream.feed(f"return if {number}\n")]
    assert rows == [], "a string may end in the next line"
    rows = open_stream.feed("'''\n```\nafter")
    assert len(rows) == 102 and {str(span.style) for row in rows[1:] for span in row.spans} == {"green"}
    assert [row.plain for row in open_stream.tail(4)] == ["", "after"]


def test_lists_whose_parts_are_not_indented_enough_stay_together() -> None:
    rows, _ = stream("1. Do:\n   ```\ncode\n   ```\n  - b\n    - c\n2. x\n", 3)
    assert rows == ["1. Do:", "     code", "  • b", "    • c", "2. x"]
    assert stream("  - a\n  - b\n", 3)[0] == ["  • a", "  • b"]


@pytest.mark.parametrize(
    ("head", "unit"),
    [
        ("", "Some words of a paragraph that has *marks* and `code` in it, as answers do.\n\n"),
        ("", "words without an end "),
        ("", "words * without _ an [ end "),
        ("", "- an item with `code`\n"),
        ("```python\n", "value = compute('text')\n"),
        ("```python\n", "    value = compute(value, 'text')\n"),
        ("```python\ntext = '''\n", "words in a string\n"),
        ("| a | b |\n|---|---|\n", "| a cell | another cell |\n"),
    ],
)
def test_work_is_linear(head: str, unit: str) -> None:
    # clock: processor time, compared with itself; without the collector, whose part grows with all other tests' objects
    def seconds(count: int) -> float:
        gc.collect()
        gc.disable()
        try:
            begun = time.process_time()
            stream(head + unit * count, 200)
            return time.process_time() - begun
        finally:
            gc.enable()

    seconds(10)
    size = 5_000 // len(unit)
    assert min(seconds(size * 8) for _ in range(3)) <= 24 * max(min(seconds(size) for _ in range(3)), 0.002)


def test_code_is_given_out_in_batches_at_its_left_edge() -> None:
    open_stream = MarkdownStream(80)
    open_stream.feed("```python\n")
    counts = [len(open_stream.feed(f"def f{number}():\n    pass\n")) for number in range(30)]
    assert [count for count in counts if count] == [12] * 4


def test_parts_of_an_item_stand_below_its_text() -> None:
    source = "1. a\n\n   more\n\n   ```\n   code\n   ```\n\n   - b\n\n     of b\n\n2. c\n\n```\nx\n```\n3. d\n\nend\n"
    rows, _ = stream(source, 4)
    inside = ["1. a", "   more", "     code", "   • b", "     of b", "2. c"]
    assert rows == [*inside, "", "  x", "", "3. d", "", "end"]
    assert stream("- a\n\n      code\n\n    text\n", 3)[0] == ["• a", "    code", "  text"]
