"""A terminal that cannot move its cursor: lines in, lines out, questions by a line that comes after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.recorded import Start, bash, step

DUMB = {"TERM": "dumb"}
READY = "\n>"
MAKE = bash("touch made.txt; echo hi")


@pytest.mark.parametrize(("answer", "made"), [("y", True), ("n not now", False), ("what does it do", False)])
def test_a_question_is_answered_with_a_line(start: Start, repo: Path, answer: str, made: bool) -> None:
    terminal = start(step("Hello **there**.", MAKE), step("Done."), env=DUMB, ready=READY)
    terminal.line("go")
    terminal.wait_for("allow?")
    asked = "Run this command?\n  touch made.txt; echo hi\nwhy: touch may change something\nallow?"
    assert asked in terminal.text
    terminal.line(answer)
    terminal.wait_for("Done.")
    terminal.line("exit")
    assert terminal.wait_exit() == 0
    assert b"\x1b" not in terminal.raw
    assert (repo / "made.txt").exists() == made


def test_a_question_of_the_model_is_answered_with_words(start: Start) -> None:
    terminal = start(step("", ("ask_user", {"question": "Which port?"})), step("Done."), env=DUMB, ready=READY)
    terminal.line("go")
    terminal.wait_for("Which port?\nanswer:")
    terminal.line("8443")
    terminal.wait_for("Done.")
    terminal.line("/context")
    terminal.wait_for("tool      8443")


def test_what_was_typed_ahead_answers_no_question(start: Start, repo: Path) -> None:
    terminal = start(step("One moment.", MAKE, pace=200), step("Not made."), step("Next."), env=DUMB, ready=READY)
    terminal.line("go")
    terminal.wait_for("One")
    terminal.type("y\n")
    terminal.wait_for("allow?")
    terminal.line("no")
    terminal.wait_for("Next.")
    assert not (repo / "made.txt").exists()


def test_ctrl_c_stops_a_turn_and_ctrl_d_leaves(start: Start) -> None:
    terminal = start(step("", bash("sleep 60")), step("Here again."), arguments=("--yes",), env=DUMB, ready=READY)
    terminal.line("go")
    terminal.wait_for("sleep 60")
    terminal.key("ctrl-c")
    terminal.wait_for("stopped")
    terminal.line("continue")
    terminal.wait_for("Here again.")
    terminal.line("/context")
    terminal.wait_for("/context all")
    terminal.key("ctrl-d")
    assert terminal.wait_exit() == 0


def test_commands_work_or_say_where_they_do(start: Start) -> None:
    terminal = start(step("One."), env=DUMB, ready=READY)
    terminal.line("/help sessions")
    terminal.wait_for("Sessions on disk")
    terminal.line("/mode auto-edit")
    terminal.wait_for("mode auto-edit")
    terminal.line("/rewind")
    terminal.wait_for("/rewind needs")
    terminal.line("/exit")
    assert terminal.wait_exit() == 0
