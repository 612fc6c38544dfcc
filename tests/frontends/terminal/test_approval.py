"""Questions in a terminal: what is shown, what each key does, nothing by accident."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.support.recorded import STATUS, Start, bash, step


def test_yes_runs_it(start: Start, repo: Path) -> None:
    terminal = start(step("Now.", bash("echo made > made.txt")), step("Done."))
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("? Run this")
    terminal.wait_for("echo made > made.txt")
    assert not (repo / "made.txt").exists()
    terminal.settle()
    terminal.type("y")
    terminal.wait_for("Done.")
    assert (repo / "made.txt").read_text() == "made\n"
    assert "Run this" not in terminal.settle()


@pytest.mark.parametrize("lines", [5, 90])
def test_a_change_is_printed_once(start: Start, repo: Path, lines: int) -> None:
    text = "".join(f"line_{number:03} = {number}\n" for number in range(1, lines + 1))
    terminal = start(step("Now.", ("write", {"path": "new.py", "content": text})), step("Done."))
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("? Write new.py?")
    terminal.wait_for("No, and stop")
    terminal.type("y")
    terminal.wait_for("Done.")
    assert (repo / "new.py").read_text() == text
    terminal.settle()
    assert f"✓ write new.py · +{lines}" in terminal.scrollback
    for number in range(1, lines + 1):
        assert terminal.scrollback.count(f"line_{number:03} = ") == 1


def test_no_gives_the_reason_to_the_model(start: Start, repo: Path) -> None:
    terminal = start(step("Now.", bash("echo made > made.txt")), step("I see."), rows=40)
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("No, and stop")
    terminal.settle()
    terminal.type("n")
    terminal.wait_for("Reason for")
    terminal.type("yes is not what I say\r")
    terminal.wait_for("I see.")
    assert not (repo / "made.txt").exists()
    assert re.search(r"refused .*: yes is not what I say", terminal.text)


def test_escape_goes_back_from_the_reason(start: Start, repo: Path) -> None:
    terminal = start(step("Now.", bash("echo made > made.txt")), step("Done."))
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("No, and stop")
    terminal.settle()
    terminal.type("n")
    terminal.wait_for("Reason for")
    terminal.key("esc")
    terminal.wait_for("Reason for", gone=True)
    terminal.type("y")
    terminal.wait_for("Done.")
    assert (repo / "made.txt").exists()


@pytest.mark.parametrize("key", ["esc", "ctrl-c"])
def test_escape_says_no_and_stops(start: Start, repo: Path, key: str) -> None:
    calls = (bash("echo made > made.txt"), ("write", {"path": "later.txt", "content": "x"}))
    terminal = start(step("Now.", *calls), step("Not to be seen."))
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("No, and stop")
    terminal.settle()
    terminal.key(key)
    terminal.wait_for("not started  bash echo made > made.txt")
    terminal.wait_for("not started  write later.txt")
    terminal.wait_for(STATUS)
    assert not (repo / "made.txt").exists()
    assert "Not to be seen" not in terminal.settle()
    assert "Run this" not in terminal.text


def test_always_shows_its_rule_and_holds_for_the_session(start: Start, repo: Path) -> None:
    (repo / "app.py").write_text("one = 1\n")
    (repo / "app.py").touch()
    edit = {"path": "app.py", "edits": [{"old": "one = 1", "new": "one = 2"}]}
    again = {"path": "app.py", "edits": [{"old": "one = 2", "new": "one = 3"}]}
    terminal = start(
        step("Read.", ("read", {"path": "app.py"})),
        step("Now.", ("edit", edit)),
        step("Again.", ("edit", again)),
        step("Done."),
        rows=40,
    )
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("? Edit app.py?")
    terminal.wait_for("for edit(app.py)")
    assert "- one = 1" in terminal.text
    assert "+ one = 2" in terminal.text
    terminal.type("a")
    terminal.wait_for("Done.")
    assert (repo / "app.py").read_text() == "one = 3\n"
    assert re.search(r"allowed .*: edit\(app\.py\)", terminal.text)


def test_the_whole_command_is_shown_with_nothing_hidden(start: Start) -> None:
    command = "echo safe" + " " * 200 + "; rm -rf \x1b[8mhidden\x1b[0m \u202ekcab\n" + "x" * 3000 + "THE-END"
    terminal = start(step("Now.", bash(command)), step("Fine."))
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("No, and stop")
    shown = re.sub(r"\n {4,6}", "", terminal.scrollback)
    assert "\\x1b[8mhidden\\x1b[0m" in shown
    assert "\\u202ekcab" in shown
    assert "x" * 3000 + "THE-END" in shown
    terminal.type("n\r")
    terminal.wait_for("Fine.")


def test_parallel_questions_come_one_after_the_other(start: Start, repo: Path) -> None:
    calls = [("read", {"path": f"../outside{number}.txt"}) for number in range(2)]
    terminal = start(step("Both.", *calls), step("Done."), rows=40)
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("outside0.txt")
    terminal.wait_for("No, and stop")
    assert terminal.settle().count("? Read ") == 1
    terminal.type("n\r")
    terminal.wait_for("../outside1.txt")
    terminal.wait_for("No, and stop")
    terminal.settle()
    terminal.type("n\r")
    terminal.wait_for("Done.")
    assert terminal.text.count("refused") == 2


def test_a_key_that_was_meant_for_the_line_answers_nothing(start: Start, repo: Path) -> None:
    terminal = start(step("Words that come " * 10, bash("echo made > made.txt"), pace=40), step("Done."))
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("come")
    typed = 0
    now = time.monotonic  # clock: well past the end of the text, when the question is due
    end = now() + 3
    while now() < end:
        terminal.type("y")
        typed += 1
        terminal.pump(0.05)
        time.sleep(0.05)  # clock: as a person types; a screen full of letters could not be counted
    assert "Run this" not in terminal.text, "it comes when the typing has paused"
    terminal.wait_for("No, and stop")
    assert not (repo / "made.txt").exists()
    terminal.settle()
    terminal.type("y")
    terminal.wait_for("Done.")
    terminal.wait_for(STATUS)
    assert terminal.settle().rpartition("2 steps")[2].count("y") == typed


def test_the_rule_that_always_adds_can_be_changed(start: Start, repo: Path) -> None:
    steps = (step("Now.", bash("pytest --version")), step("Again.", bash("pytest --help")), step("Done."))
    terminal = start(*steps, rows=40)
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("for bash(pytest *)")
    terminal.key("tab")
    terminal.wait_for("Rule: bash(pytest *)")
    for _ in range(2):
        terminal.key("backspace")
    terminal.type("--ver*)")
    terminal.key("enter")
    terminal.wait_for("in a command '*'")
    for _ in range(len("--ver*)")):
        terminal.key("backspace")
    terminal.type("--version)")
    terminal.settle(0.2)
    assert "Rule: bash(pytest --version)" in terminal.text
    terminal.key("enter")
    terminal.wait_for("session: bash(pytest --version)")
    terminal.wait_for("pytest --help")  # the rule was made narrower: this one is asked about
    terminal.wait_for("for bash(pytest *)")
    terminal.key("tab")
    terminal.wait_for("Rule: bash(pytest *)")
    terminal.key("esc")
    terminal.wait_for("No, and stop")
    terminal.type("n\r")
    terminal.wait_for("Done.")


def test_a_forced_push_asks_with_a_warning_and_enter_is_no(start: Start, repo: Path) -> None:
    terminal = start(step("Now.", bash("git push -f nowhere main")), step("Fine."), arguments=("--yes",), rows=40)
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("permanently overwrite")
    assert "don't ask" not in terminal.text and "▸ 2  No" in terminal.settle(0.7)
    terminal.key("enter")
    terminal.wait_for("Reason for")
    terminal.key("esc")
    terminal.wait_for("Reason for", gone=True)
    terminal.type("y")
    terminal.wait_for("Fine.")
    assert "'nowhere' does not appear to be a git repository" in terminal.scrollback
