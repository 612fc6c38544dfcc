"""What wildcards stand for: never less than bash gives, and nothing open where it matters."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codelet.safety import Policy
from codelet.safety.shell.program_arguments import (
    Program,
    RefusedError,
    WildcardMatch,
    parse_arguments,
    refuse_uncertain_order,
)
from codelet.safety.verdict import Touch


def verdict(workspace: Path, command: str) -> str:
    return Policy(workspace, "read-only").judge("bash", [Touch("run", command)]).action


def plant(workspace: Path, name: str | bytes, text: str = "1\n") -> None:
    with open(os.path.join(os.fsencode(workspace), os.fsencode(name)), "w", encoding="utf-8") as file:
        file.write(text)


BRACKETS = ("[[:punct:]]", "[!x]", "[^x]", "[]-]", "[[.-.]]", "[[=-=]]", '["-"]', "[\\-]", "[+--]", "[-]", "?", "*")


@pytest.mark.parametrize("bracket", BRACKETS)
def test_a_bracket_that_may_stand_for_a_dash_asks(workspace: Path, bracket: str) -> None:
    for name in ("--pre=sh", "-delete", "-oPWN", "--output=PWN"):
        plant(workspace, name, "touch PWN\n")
    assert verdict(workspace, f"rg x {bracket}-pre=sh a.txt") == "ask"
    assert verdict(workspace, f"find . {bracket}delete") == "ask"
    assert verdict(workspace, f"sort a.txt {bracket}oPWN") == "ask"
    assert verdict(workspace, f"git log {bracket}-output=PWN") == "ask"


@pytest.mark.parametrize(
    "bracket", ["[[:alpha:]]", "[^x]", "[!x]", "[]e]", "[[=e=]]", "[[.e.]]", "[a-z]", "[e]", "[ef]"]
)
def test_a_bracket_that_may_stand_for_a_secret_asks(workspace: Path, bracket: str) -> None:
    assert verdict(workspace, f"cat .{bracket}nv") == "ask"
    assert verdict(workspace, f"cat .{bracket}*") == "ask"
    assert verdict(workspace, f"cat d{bracket}ploy/id_ed25519") == "ask"
    assert verdict(workspace, f"git diff -- .{bracket}nv") == "ask"


def test_a_link_out_behind_a_bracket_asks(places: tuple[Path, Path]) -> None:
    workspace, outside = places
    (workspace / "k").symlink_to(outside / "secret.txt")
    for pattern in ("[k]", "[[:alpha:]]", "[a-z]", "[!x]", "[]k]", "?"):
        assert verdict(workspace, f"cat {pattern}") == "ask"
    (workspace / "way").symlink_to(outside)
    for pattern in ("w*/*", "[w]ay/*.txt", "[[:alpha:]]*/s*"):
        assert verdict(workspace, f"echo {pattern}") == "ask"


def test_brackets_over_harmless_files_are_allowed(workspace: Path) -> None:
    for command in ("cat src/[a-z]*.py", "ls [a-c]*.txt", "wc -l src/[!_]*.py", "grep main src/[[:alpha:]]*.py"):
        assert verdict(workspace, command) == "allow"
    assert verdict(workspace, "cat [xyz]*.txt") == "allow"  # nothing matches: it stays as it is
    (workspace / "src" / "token").write_text("1\n")
    assert verdict(workspace, "cat src/[a-z]*.py") == "allow"
    assert verdict(workspace, "cat src/[a-z]*") == "ask"


@pytest.mark.parametrize("name", ["é", b"\xff\xc3\xa9", "日", b"\xc3"])
def test_a_name_that_is_not_ascii_counts_as_any_number_of_letters(places: tuple[Path, Path], name: str | bytes) -> None:
    workspace, outside = places
    os.symlink(os.fsencode(outside / "secret.txt"), os.fsencode(workspace) + b"/" + os.fsencode(name))
    for pattern in ("?", "??", "???", "????", "*", "[!x]", "?*"):
        assert verdict(workspace, f"cat {pattern}") == "ask"
    assert verdict(workspace, "cat a*.txt") == "allow"


@pytest.mark.parametrize(
    ("kinds", "arguments", "permitted"),
    [
        ("read*", (WildcardMatch("a"), WildcardMatch("b")), True),
        ("text read*", ("a", WildcardMatch("b"), "c"), True),
        ("text read*", ("a", "b"), True),
        ("read*", ("-e", WildcardMatch("a"), "b"), False),  # an option's value
        ("read*", ("-e", WildcardMatch("a"), WildcardMatch("b")), False),  # one of them an option's value
        ("read*", (WildcardMatch("-c"), "a", "b"), False),  # an option
        ("text read*", (WildcardMatch("a"), "b"), False),  # what comes behind is of another kind
    ],
)
def test_words_of_a_wildcard_are_operands_of_one_kind(kinds: str, arguments: tuple[str, ...], permitted: bool) -> None:
    parsed = parse_arguments("grep", Program("-c -e:text", kinds), arguments)
    if permitted:
        refuse_uncertain_order("grep", arguments, parsed)
    else:
        with pytest.raises(RefusedError, match="by what a wildcard stands for"):
            refuse_uncertain_order("grep", arguments, parsed)


def test_where_the_order_or_number_of_files_matters_it_asks(workspace: Path) -> None:
    for name in ("src/w PWN", "src/x.py", "src/expire"):
        plant(workspace, name)
    assert verdict(workspace, "cat src/[a-z]*.py") == "allow"
    assert verdict(workspace, "sed src/[!x]* a.txt") == "ask"
    assert verdict(workspace, "uniq src/[a-x]*.py") == "ask"
    assert verdict(workspace, "xxd src/[a-x]*.py") == "ask"
    assert verdict(workspace, "head -n src/[a-x]*.py") == "ask"
    assert verdict(workspace, "grep -e src/[a-x]*.py") == "ask"
    assert verdict(workspace, "grep src/*.py") == "ask"
    assert verdict(workspace, "awk src/[a-x]*.py") == "ask"
    assert verdict(workspace, "printf src/[a-x]*.py") == "ask"
    assert verdict(workspace, "cd src && git reflog [e]xpire --all") == "ask"
    assert verdict(workspace, "test -f src/*.py") == "ask"
    assert verdict(workspace, "printf '%s\\n' src/[a-x]*.py") == "allow"
    assert verdict(workspace, "grep -n main src/[a-x]*.py") == "allow"
    assert verdict(workspace, "find src/[a-x]*.py -type f") == "allow"
    assert verdict(workspace, "git log -- src/*.py") == "allow"


def test_a_pattern_for_the_folder_above_asks(workspace: Path) -> None:
    for pattern in (".*", ".?", "..*", ".[.]", ".[!x]*", ".[[:punct:]]", "src/.*"):
        assert verdict(workspace, f"ls {pattern}") == "ask"


def test_a_folder_is_looked_through_up_to_twenty_thousand_entries(workspace: Path) -> None:
    (workspace / "full").mkdir()
    first = workspace / "full" / "0"
    first.touch()
    for number in range(1, 20_000):
        os.link(first, f"{first.parent}/{number}")
    searches = ("grep -r main full", "rg --hidden main full", "cat full/1999?", "ls -d full/x*")
    assert {command: verdict(workspace, command) for command in searches} == dict.fromkeys(searches, "allow")
    (workspace / "full" / "last").touch()
    assert {command: verdict(workspace, command) for command in searches} == dict.fromkeys(searches, "ask")
