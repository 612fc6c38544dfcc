"""Code in a fence has the colours that pygments gives it, in each language, whole or in lines as they come.

The seed of the pieces is printed; CODELET_SEED gives one.
"""

from __future__ import annotations

import os
import random
import warnings
from pathlib import Path

import pytest
from pygments.lexer import RegexLexer
from pygments.lexers import get_lexer_by_name
from rich.style import Style
from rich.text import Text

from codelet.frontends.terminal.show.highlight import Highlighter, prepare, unprepared
from codelet.frontends.terminal.show.joined_lexer import JoinedLexer
from codelet.frontends.terminal.show.markdown_stream import MarkdownStream
from codelet.frontends.terminal.show.style import Signs
from tests.support.amount import amount

_PARTS = Path(__file__).with_name("code_samples.txt").read_text().split("======== ")[1:]
SAMPLES = dict(part.split("\n", 1) for part in _PARTS)
"""A dense sample of code in each of the most common fence languages."""
SEED = int(os.environ.get("CODELET_SEED", "0")) or random.SystemRandom().randint(1, 2**32)


def same_tokens(language: str, code: str) -> None:
    lexer = get_lexer_by_name(language, stripnl=False)
    if type(lexer).get_tokens_unprocessed is RegexLexer.get_tokens_unprocessed:
        joined = JoinedLexer(lexer).get_tokens_unprocessed(code)
        assert joined == list(lexer.get_tokens_unprocessed(code)), (SEED, language, code)


def styles(row: Text) -> list[tuple[str, Style]]:
    """The row's letters with their styles, without spaces."""
    row = row.copy()
    found = [Style.null()] * len(row)
    for start, end, style in row.spans:
        found[start:end] = [style if isinstance(style, Style) else Style.parse(style)] * (end - start)
    return [each for each in zip(row.plain, found, strict=True) if not each[0].isspace()]


@pytest.mark.parametrize("language", SAMPLES)
def test_the_tokens_are_those_of_pygments(language: str) -> None:
    print(f"CODELET_SEED={SEED}")
    sample = SAMPLES[language]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a pattern that means something else among others is warned of
        same_tokens(language, sample)
    chance = random.Random(f"{SEED} {language}")
    for _ in range(amount(8, 2_000)):
        start, length = chance.randrange(len(sample)), chance.randrange(120)
        other = chance.randrange(len(sample))
        same_tokens(language, sample[start : start + length] + sample[other : other + length])


def test_so_are_those_of_our_own_modules() -> None:
    root = Path(__file__).parents[4] / "codelet"
    files = sorted(root.rglob("*.py"))
    for file in random.Random(SEED).sample(files, amount(3, len(files))):
        same_tokens("python", file.read_text())


def test_a_language_is_prepared_once() -> None:
    text = "Look:\n\n  ```pascal\nbegin\n```\n~~~ {.ada}\n~~~\n```\nplain\n```\n```no such thing\n"
    assert unprepared(text) == ["pascal", "ada", "no"]
    for name in unprepared(text):
        prepare(name)
    assert unprepared(text) == []


def test_an_unknown_language_has_no_colours() -> None:
    assert Highlighter("no such language").lines(["def f():"])[0].spans == []


@pytest.mark.parametrize("language", ["python", "go", "rust", "css"])
def test_lines_that_come_one_by_one_have_the_colours_of_all_together(language: str) -> None:
    statement = {
        "python": ["def f(a):", '    return f"{a} and {len(a)}" + "it"', "", "@x", "class A:", "    b = 1  # c"],
        "go": ["func f(a int) string {", '\treturn "x" + g(1.5) // c', "}", "type T struct { a *int }"],
        "rust": ["fn f(a: &str) -> u8 {", '    let b = "x"; // c', "    b as u8 + 1", "}"],
        "css": ["a:hover {", "  color: #fff; /* c */", "}"],
    }[language]
    lines = statement * 12
    one_by_one = Highlighter(language)
    rows = [row for line in lines for row in one_by_one.lines([line])]
    assert [styles(row) for row in rows] == [styles(row) for row in Highlighter(language).lines(lines)]


def test_code_with_tabs_has_its_colours_and_four_columns_for_each() -> None:
    stream = MarkdownStream(40, Signs())
    rows = [*stream.feed("```go\nfunc f() {\n\treturn x\t// c\n}\n```\n"), *stream.finish()]
    assert [row.plain for row in rows] == ["  func f() {", "      return x    // c", "  }"]
    assert ("r", Style.parse("magenta")) in styles(rows[1])
    assert ("c", Style.parse("dim italic")) in styles(rows[1])
