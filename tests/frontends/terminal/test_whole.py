"""Ctrl-O: what the screen shows in part is seen whole, at the prompt, at a question, in a turn, and without a pager."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

from tests.support.program import descendants, lives
from tests.support.recorded import STATUS, Start, bash, step
from tests.support.terminal import Terminal
from tests.support.waiting import until

CTRL_O = "\x0f"
NUMBERS = bash("seq 1 60")
WORDS = [f"word{number}" for number in range(40)]
SLOW = step(" ".join(WORDS), pace=50)


def pager(terminal: Terminal, shown: str) -> None:
    """Open the pager, which is to show a line that the screen did not."""
    assert shown not in terminal.scrollback
    terminal.type(CTRL_O)
    terminal.wait_for(shown)


def test_at_the_prompt_and_while_a_turn_runs(start: Start) -> None:
    thinking = {"reasoning": "First I count.\nThen I look at the twelfth."}
    terminal = start(step("I count.", NUMBERS, **thinking), step("Counted."), SLOW, arguments=("--yes",))
    terminal.wait_for(STATUS)
    terminal.line("count")
    terminal.wait_for("… 57 lines above (ctrl-o)")
    terminal.wait_for("First I count. (ctrl-o)")
    terminal.wait_for("Counted.")
    terminal.wait_for(STATUS)
    terminal.type("half a line")
    terminal.wait_for("half a line")

    pager(terminal, "  12\n")
    terminal.type("g")  # to the top: the prompt, the reasoning
    terminal.wait_for("Then I look at the twelfth.")
    assert "count" in terminal.text.split("\n")[1]
    terminal.type("q")
    terminal.wait_for("› half a line")

    terminal.type("\x15")
    terminal.line("tell me more")
    terminal.wait_for("word3")
    terminal.raw = b""
    terminal.type(CTRL_O)
    terminal.until(lambda: b"  12" in terminal.raw, "the pager shows the numbers again")
    terminal.type("\x03")  # a key for the pager: it neither stops the turn nor ends codelet
    terminal.type("q")
    terminal.wait_for("esc stops")
    terminal.wait_for("1 step")
    assert "stopped" not in terminal.scrollback
    assert WORDS[-1].encode() in terminal.raw, "pyte has no second screen, so rows may be overwritten on it"


def test_at_a_question_it_shows_what_is_asked(start: Start, repo: Path) -> None:
    lines = "".join(f"line {number}\n" for number in range(1, 91))
    terminal = start(step("Now.", ("write", {"path": "new.py", "content": lines})), step("Done."), SLOW)
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("No, and stop")
    assert "+ line 2\n" not in terminal.text
    terminal.type(CTRL_O)
    terminal.until(lambda: terminal.text.startswith("? Write new.py?\n"), "the question's first row on top")
    assert "+ line 2\n" in terminal.settle()
    terminal.type("q")
    terminal.wait_for("No, and stop")
    terminal.settle(0.8)  # a letter right after typing answers nothing
    terminal.type("y")
    terminal.wait_for("Done.")
    assert (repo / "new.py").read_text() == lines
    terminal.wait_for(STATUS)
    terminal.type(CTRL_O)
    terminal.wait_for("write new.py")
    assert "? Write" not in terminal.text, "it is answered"


def test_an_end_while_the_pager_is_open(start: Start) -> None:
    terminal = start(step("", NUMBERS), step("Counted."), arguments=("--yes",), env={"PAGER": "less"})
    terminal.wait_for(STATUS)
    terminal.line("count")
    terminal.wait_for("Counted.")
    terminal.wait_for("1 step", gone=True)
    pager(terminal, "  12\n")
    children = descendants(terminal.pid)
    assert children
    terminal.signal(signal.SIGTERM)
    assert terminal.wait_exit() == 143
    until(lambda: not any(map(lives, children)), "the end of the pager")


def test_without_a_pager_it_comes_inline(start: Start, tmp_path: Path) -> None:
    for name in ("bash", "git", "seq"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    terminal = start(
        step("", NUMBERS), step("Counted."), arguments=("--yes",), env={"PAGER": "", "PATH": str(tmp_path)}, rows=30
    )
    terminal.wait_for(STATUS)
    terminal.type(CTRL_O)
    terminal.wait_for("nothing was shown")
    terminal.line("count")
    terminal.wait_for("2 steps")
    terminal.wait_for(STATUS)
    pager(terminal, "  12\n")


def test_clear_forgets_what_was_shown(start: Start) -> None:
    thinking = {"reasoning": "First I count.\nThen I look at the twelfth."}
    terminal = start(step("", NUMBERS, **thinking), step("Counted."), arguments=("--yes",))
    terminal.wait_for(STATUS)
    terminal.line("count")
    terminal.wait_for("Counted.")
    terminal.wait_for(STATUS)
    terminal.line("/clear")
    terminal.wait_for("conversation cleared")
    terminal.wait_for(STATUS)
    terminal.type(CTRL_O)
    terminal.wait_for("since /clear")
