"""Globs."""

from __future__ import annotations

import re
import time
import warnings

import pytest

from codelet.errors import ToolError
from codelet.system.text import globs

CASES = [
    ("*.py", ["a.py", "x/a.py", "x/y/.py"], ["a.pyc", "a.py/x"]),
    ("/*.py", ["a.py"], ["x/a.py"]),
    ("./*.py", ["a.py"], ["x/a.py"]),
    ("src/*.py", ["src/a.py"], ["src/x/a.py", "x/src/a.py", "a.py"]),
    ("**/*.py", ["a.py", "x/a.py", "x/y/a.py"], ["a.txt"]),
    ("src/**", ["src/a", "src/x/y"], ["src", "x/src/a"]),
    ("src/**/a.py", ["src/a.py", "src/x/y/a.py"], ["src/xa.py", "a.py"]),
    ("**", ["a", "x/y"], []),
    ("**/a/**/b/c", ["a/b/c", "x/a/y/a/b/x/b/c"], ["a/c", "b/c", "a/b/x/c", "a/b/c/x"]),
    ("a/**/**/b", ["a/b", "a/x/y/b"], ["a", "b", "x/a/b"]),
    ("**/a/**", ["a/b", "x/a/b/c"], ["a", "x/b"]),
    ("a?c", ["abc", "x/abc"], ["ac", "a/c"]),
    ("[ab]x", ["ax", "bx"], ["cx"]),
    ("[!ab]x", ["cx"], ["ax", "/x"]),
    ("[]]x", ["]x"], ["ax"]),
    ("[a", ["[a"], ["a"]),
    ("*.{ts,tsx}", ["a.ts", "x/a.tsx"], ["a.js", "a.{ts,tsx}"]),
    ("{src,test}/{a,b}*.py", ["src/a1.py", "test/b.py"], ["src/c.py"]),
    ("{a,{b,c}}d", ["ad", "bd", "cd"], ["d"]),
    ("a.b+c(d)", ["a.b+c(d)"], ["aXb+c(d)"]),
    (r"\*", ["*"], ["a"]),
    ("*a*b*", ["xaxbx", "ab"], ["ba"]),
    ("test_*_*.py", ["test_a_b.py", "test__.py"], ["test_a.py"]),
    ("é*", ["éa", "x/é"], ["ea"]),
    ("[[:alpha:]_][![:digit:]]", ["ab", "_x"], ["1b", "a1", ":a"]),
    ("!*.js", ["a.ts", "x/a.jsx", "js"], ["a.js", "x/y/a.js"]),
    ("!src/**", ["a", "x/src/a"], ["src/a", "src/x/y"]),
    ("!build", ["a", "built/x"], ["build/x", "a/build/y/z"]),
    ("!*.{js,ts}", ["a.py"], ["a.js", "a.ts"]),
    (r"\!a", ["!a"], ["a", "b"]),
]


@pytest.mark.parametrize(("glob", "matching", "other"), CASES, ids=[case[0] for case in CASES])
def test_what_a_glob_matches(glob: str, matching: list[str], other: list[str]) -> None:
    pattern = re.compile(globs.to_regex(glob))
    assert [path for path in matching if not pattern.match(path)] == []
    assert [path for path in other if pattern.match(path)] == []


def test_names_are_no_narrower_than_the_glob() -> None:
    assert globs.name_globs("src/**/*.{ts,tsx}") == ["*.ts", "*.tsx"]
    assert globs.name_globs("{src/*.py,*.c}") == ["*.c", "*.py"]
    assert globs.name_globs("src/**") == ["*"]
    assert globs.name_globs("app/[id].ts") == globs.name_globs("a/*.ts")
    assert globs.name_globs("a[") == ["a*"]
    assert globs.name_globs("!*.ts") == ["*"]


@pytest.mark.parametrize(
    ("glob", "path", "literal"),
    [
        ("app/[id]/*.tsx", "app/[id]/page.tsx", True),
        ("app/[id]/*.tsx", "app/i/page.tsx", False),
        ("**/[...slug]/**", "a/[...slug]/b/c", True),
        ("**/[[...slug]]/**", "a/[[...slug]]/b/c", True),
        ("*[id]*.ts", "x/user.[id].test.ts", True),
        ("*.[jt]s", "x/[id].ts", False),
        ("{app/[id],lib}/x", "app/[id]/x", True),
        ("!**/[id]/**", "app/[id]/x", True),
    ],
)
def test_brackets_that_are_in_a_name_are_no_class(glob: str, path: str, literal: bool) -> None:
    settled = globs.with_literal_brackets(glob, ["other", path])
    assert (settled != glob) is literal
    assert (re.match(globs.to_regex(settled), path) is None) is (
        glob[0] == "!" or path == "app/i/page.tsx"
    ) or not literal


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("^[[:alpha:]]+$", "abc", "a1"),
        ("^[^[:space:]]$", "a", " "),
        (r"^\[[:alpha:]$", "[a", "[b"),
        ("^[]x[:digit:]]$", "7", "d"),
        ("^[[:nothing:]]$", ":]", "7"),
    ],
)
def test_classes_of_posix_in_an_expression(pattern: str, matching: str, other: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        expression = re.compile(globs.with_posix_classes(pattern))
    assert expression.search(matching)
    assert not expression.search(other)


def test_matching_is_quick() -> None:
    pattern = re.compile(globs.to_regex("*a*a*a*a*a*a*a*a*a*a*a*a*b"))
    begin = time.process_time()
    assert not pattern.match("a" * 250)
    assert not re.compile(globs.to_regex("**/x/**/y/**/z")).match("x/y/" * 1000)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("glob", ["{a,b}" * 10, "a\nb", "a\0"])
def test_what_is_refused(glob: str) -> None:
    with pytest.raises(ToolError):
        globs.to_regex(glob)
