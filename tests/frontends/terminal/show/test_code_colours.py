"""Code in a fence has the colours that pygments gives it, whole or in lines as they come."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pygments.lexers import get_lexer_by_name
from rich.style import Style
from rich.text import Text

from codelet.frontends.terminal.show.highlight import highlight, lexer_of_language, tokens_of
from codelet.frontends.terminal.show.markdown import MarkdownStream
from tests.support.program import ROOT

_PARTS = Path(__file__).with_name("code_samples.txt").read_text().split("======== ")[1:]
SAMPLES = dict(part.split("\n", 1) for part in _PARTS)
"""A dense sample of code in each of the most common fence languages."""


def styles(row: Text) -> list[tuple[str, Style]]:
    """The row's letters with their styles, without spaces."""
    row = row.copy()
    found = [Style.null()] * len(row)
    for start, end, style in row.spans:
        found[start:end] = [style if isinstance(style, Style) else Style.parse(style)] * (end - start)
    return [each for each in zip(row.plain, found, strict=True) if not each[0].isspace()]


@pytest.mark.parametrize("language", SAMPLES)
def test_no_letter_changes_and_each_language_has_colours(language: str) -> None:
    lines = SAMPLES[language].split("\n")
    lexer = lexer_of_language(language)
    rows, _ = highlight(lexer, lines)
    assert [row.plain for row in rows] == lines
    of_pygments = get_lexer_by_name(language, stripnl=False)
    for start in range(0, len(SAMPLES[language]), 40):  # whole and in pieces that begin and end anywhere
        code = SAMPLES[language][start : start + 300 if start else None]
        assert list(tokens_of(lexer, code)) == list(of_pygments.get_tokens_unprocessed(code))
    assert sum(len(row.spans) for row in rows) > 3


def test_the_end_of_code_inside_a_string_or_comment_is_known() -> None:
    ends = [("python", "x = 1"), ("python", "# c"), ("python", 'x = """a'), ("c", "// c"), ("css", "a { /* b")]
    assert [highlight(lexer_of_language(name), [code])[1] for name, code in ends] == [False, False, True, False, False]


def test_an_unknown_language_has_no_colours() -> None:
    assert highlight(lexer_of_language("no such language"), ["def f():"])[0][0].spans == []


@pytest.mark.parametrize("language", ["python", "go", "rust", "css"])
def test_lines_that_come_one_by_one_have_the_colours_of_all_together(language: str) -> None:
    statement = {
        "python": ["def f(a):", '    return f"{a} and {len(a)}" + "it"', "", "@x", "class A:", "    b = 1  # c"],
        "go": ["func f(a int) string {", '\treturn "x" + g(1.5) // c', "}", "type T struct { a *int }"],
        "rust": ["fn f(a: &str) -> u8 {", '    let b = "x"; // c', "    b as u8 + 1", "}"],
        "css": ["a:hover {", "  color: #fff; /* c */", "}"],
    }[language]
    lines = statement * 12
    stream = MarkdownStream(200)
    rows = [row for line in [f"```{language}", *lines, "```"] for row in stream.feed(f"{line}\n")]
    whole = [styles(row) for row in highlight(lexer_of_language(language), lines)[0]]
    assert [styles(row) for row in rows] == whole


def test_code_with_tabs_has_its_colours_and_four_columns_for_each() -> None:
    stream = MarkdownStream(40)
    rows = [*stream.feed("```go\nfunc f() {\n\treturn x\t// c\n}\n```\n"), *stream.finish()]
    assert [row.plain for row in rows] == ["  func f() {", "      return x    // c", "  }"]
    assert ("r", Style.parse("magenta")) in styles(rows[1])
    assert ("c", Style.parse("dim italic")) in styles(rows[1])


TOGETHER = """
import sys, threading
from codelet.frontends.terminal.show.highlight import highlight, lexer_of_file

def colour():
    try:
        highlight(lexer_of_file("a.py"), ["def f(a):  # b", '    return f"{a} {a!r:>{b}}"', "c = b'a' + r'd'"])
    except KeyError:
        failed.append(True)

failed = []
sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=colour) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
colour()
sys.exit(len(failed))
"""


def test_threads_that_make_the_same_lexer_do_not_disturb_each_other():
    """The REPL makes one ahead, in a thread."""
    for _ in range(6):
        subprocess.run([sys.executable, "-c", TOGETHER], cwd=ROOT, check=True)
