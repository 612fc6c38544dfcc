"""What is read of a script: its commands and redirections in the order of execution, and what is not clear in it."""

from __future__ import annotations

import json

import pytest

from codelet.safety.shell.script_parser import read_script
from codelet.safety.shell.syntax import Redirect, Script, ScriptPart, SimpleCommand, UnclearPart
from tests.support.case_workspace import lines_of

CASES: dict[str, list[str]] = {case["script"]: case["read"] for case in map(json.loads, lines_of("scripts.jsonl"))}


def told(part: ScriptPart) -> str:
    """A part in one line: `(1(2` are the subshells around it, `&&` is what it hangs on; a word known only at run time
    has a `?`, one that falls apart a `/`, one with wildcards `*` and its pattern behind it.
    """
    if isinstance(part, UnclearPart):
        return f"! {part.reason}"
    front = "".join(f"({number}" for number in part.scope) + f" {part.after}"
    if isinstance(part, Redirect):
        return f"{front} {part.access} {part.target.text!r}".strip()
    sets = [f"{name}={value and value.text!r}" for name, value in part.assignments]
    words = [
        repr(word.text) + "?" * word.dynamic + "/" * word.splits + ("" if word.glob is None else f"*{word.glob!r}")
        for word in part.words
    ]
    return " ".join([front, *sets, *words]).strip()


def told_of(script: Script) -> list[str]:
    return [told(part) for part in script.parts] + ["a fork bomb"] * script.fork_bomb


@pytest.mark.parametrize("script", CASES)
def test_the_parts_of_a_script(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert told_of(read_script(script)) == CASES[script]


def test_a_script_is_read_up_to_its_bounds() -> None:
    assert told_of(read_script("echo " + "a " * 199))[0].startswith("; 'echo' 'a' 'a'")
    many = told_of(read_script("echo " + "a " * 200))
    assert many[0] == "! it has a command of more than 200 words"
    assert many[1].count("'a'") == 199
    deep = told_of(read_script("$(" * 26 + "ls" + ")" * 26))
    assert deep[0] == "! it is nested too deep"
    assert not any("'ls'" in part for part in deep)
    rounds = "for f in {}; do :; done"
    assert told_of(read_script(rounds.format("1 " * 20))) == ["; ':'"] * 20
    assert told_of(read_script(rounds.format("1 " * 21))) == ["! it loops", "; ':'"]


def test_redirections_hang_on_what_stands_in_front_of_their_command() -> None:
    parts = read_script("ls || (cd src && id) > a && pwd < b").parts
    assert [(type(part).__name__, part.after) for part in parts if isinstance(part, SimpleCommand | Redirect)] == [
        ("SimpleCommand", ";"), ("Redirect", "||"), ("SimpleCommand", "||"), ("SimpleCommand", "&&"),
        ("Redirect", "&&"), ("SimpleCommand", "&&"),
    ]  # fmt: skip


def test_redirections_behind_what_cannot_be_parsed_are_read_once() -> None:
    """The parser hangs them all on one statement of many parts: read with each part they were n² judgements."""
    targets = [part for part in read_script("se)> 1 2" * 100).parts if isinstance(part, Redirect)]
    assert len(targets) == 200
