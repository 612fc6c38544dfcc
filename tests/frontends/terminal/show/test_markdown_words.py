"""No word of a streamed answer is lost, shown twice or moved, however it is cut and however wide the screen is.

`scripts/test --full -s tests/frontends/terminal/show/test_markdown_words.py` is the full size;
`CODELET_SEED` repeats a run.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from itertools import accumulate, cycle, islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codelet.frontends.terminal.show.markdown import BLOCK_LIMIT, MarkdownStream
from tests.frontends.terminal.show.paragraphs import Answers
from tests.support.amount import amount

PARAGRAPHS = amount(100, 20_000)
ADDED = re.compile(r"[\s•─│☐☑]")
"""Spaces, and the signs that rows are set with."""


def streamed(source: str, width: int, cuts: list[int]) -> list[str]:
    stream = MarkdownStream(width)
    rows = []
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(source)], strict=True)):
        rows += stream.feed(source[start:end])
        if number % 16 == 0:
            stream.tail(4)
    return [row.plain.rstrip() for row in rows + stream.finish()]


def difference(found: str, expected: str) -> str:
    """The first difference; "" for none."""
    if found == expected:
        return ""
    at = next((n for n, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), len(expected))
    return f"{found[at - 30 : at + 40]!r} instead of {expected[at - 30 : at + 40]!r}"


def test_generated_answers() -> None:
    seed = int(os.environ.get("CODELET_SEED", "0")) or random.SystemRandom().randint(1, 2**32)
    dice = random.Random(seed)
    answers = Answers(dice)
    done = 0
    while done < PARAGRAPHS:
        blocks = min(dice.randint(1, 5), PARAGRAPHS - done)
        done += blocks
        source, shown, cells = answers.answer(blocks)
        width = dice.randint(20, 200)
        largest = dice.choice([1, 3, 4, 12, 40, 300])
        cuts, at = [], dice.randint(1, largest)
        while at < len(source):
            cuts.append(at)
            at += dice.randint(1, largest)
        rows = streamed(source, width, cuts)
        told = f"CODELET_SEED={seed}, width {width}, pieces of up to {largest}"
        assert rows == streamed(source, width, []), told
        # The marks around the place where an overlong paragraph was cut are shown as they were written; where that is
        # inside of code, what stands up to the next mark is taken for code too, the names of characters in it as well.
        added = re.compile(r"&(?:amp|lt);|[\W_]") if max(map(len, source.split("\n\n"))) > BLOCK_LIMIT else ADDED
        text = added.sub("", "".join(rows))
        assert difference(re.sub("[A-Z]", "", text), added.sub("", shown)) == "", told
        assert difference("".join(sorted(re.sub("[^A-Z]", "", text))), cells) == "", told
    print(f"seed {seed}: {done} paragraphs, none lost, repeated or moved a word")


LETTERS = ["zulxq", "qwzx", "never", "好", "drop the", "é", "👍🏽", "❤️"]
MARKS = '* ** _ __ ` `` ~~ ~ [ ]( ] ) ![ < > ! \\ & &#60; # ## | |- -|- --- === - + 1. 12. > ``` ~~~ : = " @ ( ,'
SPACES = [" ", " ", " ", "  ", "\n", "\n", "\n\n", "    ", "\t", "\n  ", "\n    ", "\n> ", "\n- ", "\n| "]
MARKED = ["**never drop the zulxq** ", "[never drop the zulxq](qwzx) ", "`never drop` ", "*qwzx zulxq* ", "~~never~~ "]
MARKED += ["__zulxq__ ", "__never__(", "**__qwzx__** "]
WORDS = [f"{word} " for word in LETTERS]
PARTS = st.sampled_from([*MARKED * 6, *WORDS * 10, *LETTERS, *MARKS.split(), *SPACES])
TEXT = st.lists(PARTS, min_size=30, max_size=120).map("".join)
"""Mostly words and closed marks, so that rows are full and given out while a mark is open."""
EXAMPLES = max(150, PARAGRAPHS // 10)


@settings(max_examples=EXAMPLES, deadline=None)
@given(source=TEXT, width=st.sampled_from([20, 21, 24, 33, 80]), sizes=st.lists(st.integers(1, 20), min_size=1))
def test_any_text_in_any_pieces_is_set_as_the_whole(source: str, width: int, sizes: list[int]) -> None:
    cuts = [end for end in accumulate(islice(cycle(sizes), len(source))) if end < len(source)]
    assert streamed(source, width, cuts) == streamed(source, width, [])


@settings(max_examples=EXAMPLES, deadline=None)
@given(source=TEXT, width=st.integers(20, 200))
def test_no_letter_of_any_text_is_lost(source: str, width: int) -> None:
    shown = "".join(streamed(source, width, []))
    assert Counter(re.findall("[a-z]", shown)) == Counter(re.findall("[a-z]", source))
    if "─" not in shown:  # the cells of a table are side by side
        assert re.findall("[a-z]", shown) == re.findall("[a-z]", source)


@pytest.mark.parametrize("size", range(1, 25))
@pytest.mark.parametrize(
    ("width", "word", "source"),
    [
        (
            80,
            "never",
            "Do it on staging first; the production database must whatever the log says "
            "[never drop the index](https://docs.example.org/db/index.html) before the copy is done.",
        ),
        (
            60,
            "not",
            "Before a deploy to the branch that is built on main you must as before "
            "[not call flush()](https://docs.example.org/api/flush.html) in a handler.",
        ),
        (40, "never", "the tables are big and so you must never **never drop an index** while they are read"),
        (24, "twenty", "Title of one paragraph\n# A heading that is longer than twenty columns\nand text"),
        (40, "three", "| one | two |\n|---|---|\n| `a|three` | four | five |"),
        (20, "never", "*one zulxq and three never drop 1.**never drop the zulxq** and more words"),
        (40, "never", "| one |\r\n|---|\r\n| two | never |\r\n"),
        (40, "never", "```\r\nnever drop it\r\n```\r\n\r\n- x\r\n- y\r\n"),
        (80, "never", "see ![the \\*new\\* plan, \\never &amp; so on](plan.png) there"),
        (80, "never", "[note]: never\n\ndrop it"),
        (80, "never", "```never drop it\ncode\n```"),
    ],
    ids=[
        "link",
        "link_60",
        "bold",
        "heading",
        "table",
        "run",
        "returns",
        "fence_returns",
        "image",
        "definition",
        "fence",
    ],
)
def test_a_word_before_or_inside_a_mark_stays(width: int, word: str, source: str, size: int) -> None:
    rows = streamed(source, width, list(range(size, len(source), size)))
    assert rows == streamed(source, width, [])
    assert "".join(rows).count(word) == source.count(word)
