"""`!command` on its own terminal: programs that ask, draw or change the terminal work and leave no trace."""

from __future__ import annotations

import termios
from pathlib import Path

import pytest

from codelet.system.text.printout import as_printed
from tests.support.program import descendants
from tests.support.recorded import STATUS, Start, step
from tests.support.terminal import Terminal

DRAWS = (
    r"stty -icanon -echo; printf '\033[?1049h\033[?1000h\033[?25lDrawn''here'; "
    r"key=$(dd bs=1 count=1 2>/dev/null | od -An -tx1); printf '\033[?1049l'; echo got$key"
)


def back(terminal: Terminal) -> None:
    """Wait until the prompt is there again."""
    terminal.wait_for(STATUS)
    terminal.settle(0.1)


def test_it_has_a_terminal_that_programs_can_use(start: Start, repo: Path) -> None:
    terminal = start(step("I saw it."), columns=100, rows=40, env={"EDITOR": "my-editor", "NO_COLOR": None})
    before = termios.tcgetattr(terminal.child.fileno())
    terminal.line("!tty; stty size; echo $TERM-$EDITOR")
    terminal.wait_for("40 100\nxterm-256color-my-editor")
    assert "/dev/pts/" in terminal.text
    back(terminal)
    terminal.line("!read -p 'your name? ' name; echo hi ${name}bert")
    terminal.wait_for("\nyour name?")
    terminal.line("nor")
    terminal.wait_for("hi norbert")
    back(terminal)
    terminal.line("!read -s -p 'secret? ' word; echo; echo ${#word} letters")
    terminal.wait_for("\nsecret?")
    terminal.line("open")
    terminal.wait_for("4 letters")
    assert "open" not in terminal.text.rpartition("secret? ")[2]
    back(terminal)
    terminal.line(f"!{DRAWS}")
    terminal.wait_for("Drawnhere")
    terminal.key("esc")  # the program's own: it reads keys, not lines
    terminal.wait_for("got 1b")
    back(terminal)
    assert b"\x1b[?1000l" in terminal.raw
    terminal.line(r"!printf '\033[?1049hDrawn\033[?1049l\033[?25h'")
    back(terminal)
    assert terminal.text.rpartition("25h'\n")[2].startswith("\n›"), "one blank row"
    terminal.line("!cd src")
    terminal.wait_for("no lasting effect")
    back(terminal)
    assert termios.tcgetattr(terminal.child.fileno())[3] == before[3]
    terminal.line("what happened?")
    terminal.wait_for("I saw it.")
    back(terminal)
    terminal.line("/context")
    terminal.wait_for("$ tty; stty size")


def test_what_a_program_left_of_its_own_is_taken_back(start: Start) -> None:
    terminal = start(step("I saw it."), step("And again."), rows=20)
    terminal.wait_for(STATUS)
    # Line drawing for letters, and four rows that scroll; the line's echo is not taken for its output.
    terminal.line(r"!printf 'dra\167n\033)0\016\033[3;6r\033[5;1H'; sleep 1")
    terminal.wait_for("drawn")
    back(terminal)
    for said in ("I saw it.", "And again."):
        terminal.line("well?")
        terminal.wait_for(said)
        back(terminal)
    rows = terminal.text.split("\n")
    assert rows.index("I saw it.") < rows.index("And again.") - 5, "none was drawn over another"
    assert rows.count("› well?") == 2


def test_two_signs_keep_the_output_from_the_model(start: Start) -> None:
    terminal = start(step("I see."))
    terminal.wait_for(STATUS)
    terminal.line("!!echo for-me-$((40 + 2))")
    terminal.wait_for("for-me-42")
    back(terminal)
    assert "to send" not in terminal.text
    terminal.line("!!")
    terminal.wait_for("after the !")
    terminal.line("!echo for-both")
    terminal.wait_for("1 output")
    terminal.line("and?")
    terminal.wait_for("I see.")
    back(terminal)
    terminal.line("/context")
    terminal.wait_for("$ echo for-both for-both [exit code 0] and?")
    assert "for-me" not in terminal.text.rpartition("/context")[2]


def test_what_hangs_is_stopped_with_all_that_it_started(start: Start) -> None:
    terminal = start(step("I saw it."))
    terminal.wait_for(STATUS)
    for key in ("esc", "ctrl-c"):
        terminal.line("!echo be''gun; sleep 615 & sleep 616")
        terminal.wait_for("begun")
        terminal.key(key)
        terminal.wait_for(STATUS)
        back(terminal)
        left = [Path(f"/proc/{pid}/cmdline").read_text() for pid in descendants(terminal.pid)]
        assert not any("615" in line or "616" in line for line in left)
        terminal.line("/clear")
        terminal.wait_for("conversation cleared")
        terminal.type("\x0c")
        terminal.wait_for("begun", gone=True)
    terminal.key("ctrl-d")
    assert terminal.wait_exit() == 0


@pytest.mark.parametrize(
    ("printed", "read"),
    [
        ("plain\ntext\n", "plain\ntext\n"),
        ("\x1b[31mred\x1b[0m\rover", "over"),
        ("10%\r 50%\r100%\r\ndone\r\n", "100%\ndone\n"),
        ("abc\x08\x08X", "aX"),
        ("\x1b]0;title\x07shown \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "shown link"),
        ("one\n\x1b[?1049h\x1b[Hdrawn\x1b[?1049ltwo", "one\n[a full-screen program]two"),
        ("\x1b[?1049hnever left", "[a full-screen program]"),
        ("a\x07b\x1b", "ab"),
    ],
)
def test_what_was_printed_is_text_for_the_model(printed: str, read: str) -> None:
    assert as_printed(printed) == read
