"""How a line of a shell is read: its words, wrappers, variables, folders and files, and how each command ended."""

from __future__ import annotations

import pytest

from codelet.context.compaction.parsing import LONG_TURN, parse_messages
from codelet.context.compaction.shell_commands import ShellCommand, commands, endings
from codelet.context.compaction.signals import claim_of, write_failed
from tests.context.compaction.lists import says, user


def words(line: str) -> list[list[str]] | None:
    found = commands(line)
    return None if found is None else [list(command.words) for command in found]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a 'b c' d", [["a", "b c", "d"]]),
        ("a 'b'c'd'", [["a", "bcd"]]),
        ('a "b c"d e', [["a", "b cd", "e"]]),
        ('a "b\\"c" d', [["a", 'b"c', "d"]]),
        ('a "b\\\\" d', [["a", "b\\", "d"]]),
        ('a "" d', [["a", "", "d"]]),
        ("a b\\ c d", [["a", "b c", "d"]]),
        ("a b\\\nc d", [["a", "bc", "d"]]),
        ("a \\\n b", [["a", "b"]]),
        ("a $(b c) d", [["a", "$(b c)", "d"]]),
        ("a `b c` d", [["a", "`b c`", "d"]]),
        ("a $(b 'c') d", None),
        ('a "$(b "c") d" e', None),
        ('a "x `b c` y" d', [["a", "x `b c` y", "d"]]),
        ("a $(b $(c)) d", None),
        ("a $(b", None),
        ("a `b", None),
        ("a $'b' c", None),
        ("a $b c", [["a", "$b", "c"]]),
        ('a "$b" c', [["a", "$b", "c"]]),
        ("a b\\", [["a", "b"]]),
        ('a "$(b c) d" e', [["a", "$(b c) d", "e"]]),
        ("a # b 'c", [["a"]]),
        ("a # b\nc", [["a"], ["c"]]),
        ("a b#c", [["a", "b#c"]]),
        ("  a\t b  ", [["a", "b"]]),
        ("a;b\nc", [["a"], ["b"], ["c"]]),
        ("", []),
        (";;", None),
        ("a 'b", None),
        ('a "b', None),
        ("(a)", None),
        ("a < b c", [["a", "c"]]),
        ("a 2>&1 b", [["a", "b"]]),
        ("a <<< b c", [["a", "c"]]),
        ("a <<E\nb 'c\nE\nd e", [["a"], ["d", "e"]]),
        ("a <<-E\nb\n\tE\nd", [["a"], ["d"]]),
        ("a <<E", None),
        ("a <<E\nb", None),
        ("time a b", [["a", "b"]]),
        ("command a b", [["a", "b"]]),
        ("nohup a", [["a"]]),
        ("builtin a b", [["a", "b"]]),
        ("nice -n 5 a b", [["a", "b"]]),
        ("stdbuf -oL a", [["a"]]),
        ("stdbuf -o L a", [["a"]]),
        ("env -u X A=1 a b", [["a", "b"]]),
        ("env -i a", [["a"]]),
        ("timeout 5 a b", [["a", "b"]]),
        ("timeout -k 1 5 a b", [["a", "b"]]),
        ("/usr/bin/time -p a", [["a"]]),
        ("if a; then b; fi", None),
        ("a && exit 1", None),
    ],
)
def test_the_words_of_a_line(line: str, found: list[list[str]] | None):
    assert words(line) == found


def test_a_line_that_is_too_long_is_not_read():
    assert commands("a " * 10_000) is not None and commands("a " * 10_001) is None


def test_what_joins_commands_and_what_is_piped():
    found = commands("a && b | c |& d || e ; f\ng & h")
    assert found is not None
    assert [(command.name, command.link, command.piped) for command in found] == [
        ("a", "", False),
        ("b", "&&", True),
        ("c", "|", True),
        ("d", "|", False),
        ("e", "||", False),
        ("f", ";", False),
        ("g", ";", False),
        ("h", "&", False),
    ]


def test_folders_and_variables_hold_for_what_comes_after_them():
    found = commands("A=1 a; cd src && b; cd lib; c; cd /tmp; d; cd; e; export X=1 Y; f")
    assert found is not None
    told = {command.name: (command.folder, command.assigned) for command in found if len(command.name) == 1}
    assert told == {
        "a": ("", ("A=1",)),
        "b": ("src", ()),
        "c": ("src/lib", ()),
        "d": ("/tmp", ()),
        "e": ("~", ()),
        "f": ("~", ("X=1",)),
    }
    assert ShellCommand(("a", "b c"), ("X=1",), "my src").text == "cd 'my src' && X=1 a 'b c'"
    assert ShellCommand(("/usr/bin/a",)).name == "a" and ShellCommand(()).name == ""


def test_the_files_that_a_command_writes():
    found = commands("a > x b >| y 2> z &> w >> more < in; > made")
    assert found is not None
    assert [(list(command.words), list(command.writes)) for command in found] == [
        (["a", "b"], ["x", "y", "w"]),
        ([], ["made"]),
    ]


@pytest.mark.parametrize(
    ("line", "code", "ended"),
    [
        ("a", 0, [True]),
        ("a", 1, [False]),
        ("a", 123, [False]),
        ("a", 124, [None]),
        ("a", None, [None]),
        ("a && b", 0, [True, True]),
        ("a && b", 1, [None, None]),
        ("echo x && b", 1, [None, False]),
        ("a; b", 0, [None, True]),
        ("a; b", 1, [None, False]),
        ("set -e; a; b", 0, [True, True, True]),
        ("set -eu\na\nb", 0, [True, True, True]),
        ("set -u; a; b", 0, [None, None, True]),
        ("a | b", 0, [None, True]),
        ("a | b", 1, [None, None]),
        ("set -o pipefail; a | b", 0, [None, True, True]),
        ("set -o pipefail; a | b", 1, [None, None, None]),
        ("a || b", 0, [None, None]),
        ("a & b", 0, [None, None]),
        ("a &", 0, [None]),
        ("cd x && a", 0, [True, True]),
    ],
)
def test_how_each_command_of_a_line_ended(line: str, code: int | None, ended: list[bool | None]):
    assert [passed for _, passed in endings(line, code, "out")] == ended


def test_where_a_folder_could_not_be_entered_nobody_knows_how_the_rest_ended():
    assert [passed for _, passed in endings("cd x; a", 0, "bash: cd: x: No such file")] == [None, None]
    assert endings("if a; then b; fi", 0, "") == []


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        ("updated a.py: the text 'not found' is gone", False),
        ("The file a.py has been updated. It held an error.", False),
        ("error: the old text was not found", True),
        ("the old text does not occur in a.py", True),
        ("a.py is as it was", False),
        ("x" * 600 + " not found", False),
        ("x" * 590 + " not found", True),
    ],
)
def test_whether_a_write_failed_is_told_by_the_beginning_of_its_answer(answer: str, failed: bool):
    assert write_failed(answer) is failed


def test_what_an_agent_claims_at_the_end_of_a_turn():
    assert claim_of("Fixed. It is gone.", changed=True) == "error fixed"
    assert claim_of("Done. All of it is in place.", changed=True) == "task done"
    assert claim_of("Done. All of it is in place.", changed=False) is None
    assert claim_of("Looking at it.", changed=True) is None


def test_steps_are_counted_in_long_turns_only():
    def steps(count: int) -> set[int]:
        found = parse_messages([user("a"), says("x"), user("b"), *(says("y") for _ in range(count))])
        assert all(reading.step == 0 for reading in found if reading.turn == 1 or reading.kind == "user")
        return {reading.step for reading in found if reading.turn == 2 and reading.kind == "assistant"}

    assert steps(LONG_TURN) == {0}
    assert steps(LONG_TURN + 1) == set(range(1, LONG_TURN + 2))
