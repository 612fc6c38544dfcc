"""The input line and the status row keep their places, whatever happens; what is printed above is there once."""

from __future__ import annotations

import itertools
import re

import pytest

from tests.support.recorded import STATUS, Start, bash, step
from tests.support.terminal import Terminal

TURNS = 40
STATUS_ROW = re.compile(r"  (?:ask|accept|auto)\S* · ")


class Places:
    """Looks at the screen of a terminal after every frame. `wrong` are screens with the line below the status row, with
    two of either, or with anything else than the line's own rows or a menu between or below them.
    """

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.wrong: list[str] = []
        self.seen = 0

    def wait_for(self, *texts: str) -> None:
        """Wait for each text in turn, looking at every screen."""
        for text in texts:
            self.terminal.until(lambda text=text: self.look() or text in self.terminal.scrollback, text)

    def idle(self) -> None:
        """Wait for the idle status row, looking at every screen."""
        self.terminal.until(lambda: self.look() or STATUS in self.terminal.text.rpartition("\n")[2], "the prompt")

    def look(self) -> None:
        """Look at a screen, if it is complete and codelet's."""
        terminal = self.terminal
        if terminal.is_full_screen or not terminal.raw.endswith(b"\x1b[?2026l"):
            return
        rows = terminal.text.split("\n")
        at = [number for number, row in enumerate(rows) if STATUS_ROW.match(row)]
        if not at:
            return  # a menu replaces it
        self.seen += 1
        last = rows[at[-1] - 1]
        is_line = last.lstrip().startswith(("›", "Reason")) or " enter confirm" in last
        if len(at) > 1 or at[-1] != len(rows) - 1 or not is_line:
            self.wrong.append(terminal.text)


@pytest.mark.long
def test_the_line_and_the_status_stay_where_they_are(start: Start) -> None:
    steps = []
    for turn in range(TURNS):
        text = "\n".join(f"- row {turn}.{number}." for number in range(9)) + "\n"
        if turn % 4 == 1:
            steps += [step(text, bash(f"touch made{turn}")), step(f"Made {turn}.")]
        else:
            steps.append(step(text + f"\nSaid {turn}.", pace=8))
    terminal = start(*steps, columns=100, rows=30)
    places = Places(terminal)
    places.wait_for(STATUS)
    for turn, kind in zip(range(TURNS), itertools.cycle(["menu", "question", "pager", "size"]), strict=False):
        terminal.line(f"prompt {turn}")
        if kind == "question":
            places.wait_for(f"row {turn}.8.", "No, and stop")
            terminal.resize(100, 20 if turn % 8 == 1 else 34)
            places.wait_for("No, and stop")
            terminal.type("n" if turn % 8 == 1 else "y")
            if turn % 8 == 1:
                places.wait_for("Reason")
                terminal.type("not now\r")
            places.wait_for(f"Made {turn}.")
            places.idle()
            continue
        places.wait_for(f"row {turn}.1.")
        if kind == "menu":
            terminal.type("/he")
            places.wait_for("/help")
            terminal.type("\x15")
        elif kind == "pager":
            terminal.type("\x0f")
            terminal.until(lambda: terminal.is_full_screen, "the pager")
            terminal.type("q")
            terminal.until(lambda: not terminal.is_full_screen, "the end of the pager")
        else:
            terminal.resize(60 + turn, 14 + turn)
            terminal.type("typed meanwhile")
            places.wait_for("› typed meanwhile")
            terminal.type("\x15")
        places.wait_for(f"Said {turn}.")
        places.idle()
        if kind == "pager":
            terminal.line("!vim -u NONE")
            terminal.until(lambda: terminal.is_full_screen, "vim")
            terminal.type(":q\r")
            terminal.until(lambda: not terminal.is_full_screen, "the end of vim")
            places.idle()
    assert places.wrong == [], f"{len(places.wrong)} of {places.seen}:\n{places.wrong[0]}"
    assert places.seen > TURNS
    rows = terminal.scrollback
    wrong = {f"row {turn}.{number}." for turn in range(TURNS) for number in range(9)}
    assert {row for row in wrong if rows.count(row) != 1} == set()


def test_the_line_stays_at_the_bottom_when_a_tall_question_is_answered(start: Start) -> None:
    made = bash("touch made; " + "; ".join(f"touch made{number}" for number in range(9)))
    terminal = start(
        step("\n".join(f"- row {number}." for number in range(30)), made), step("Then.", bash("true")), step("Done.")
    )
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("No, and stop")
    terminal.settle(0.8)
    terminal.type("y")
    rows = set[int]()

    def look() -> bool:
        if terminal.raw.endswith(b"\x1b[?2026l"):
            rows.add(terminal.text.count("\n"))
        return "in all" in terminal.text  # the idle status row

    terminal.until(look, "the end of the turn")
    assert rows == {23}
    terminal.line("!echo said")
    gone = re.compile(r"· \d.*s\n\n─+\n› !echo said\nsaid\n\n›\n")
    terminal.until(lambda: gone.search(terminal.scrollback), "the command's output, without the blank rows above")


def test_the_line_is_edited_while_a_turn_runs_as_at_the_prompt(start: Start) -> None:
    """Cursor keys, completion, the history; with vi's keys ESC leaves insert mode first."""
    words = step("Words that come " * 200, pace=40)
    terminal = start(step("Said."), words, arguments=("--edit-mode", "vi"))
    terminal.wait_for(STATUS)
    terminal.line("earlier")
    terminal.wait_for("Said.")
    terminal.line("go")
    terminal.wait_for("Words that come")
    terminal.type("bc\x1b[D\x1b[Da")
    terminal.wait_for("› abc")
    terminal.key("esc")
    terminal.settle(0.1, 0.6)
    terminal.type("$x")
    terminal.wait_for("› ab\n")
    terminal.type("0D")
    terminal.wait_for("› ab", gone=True)
    terminal.type("i/hel")
    terminal.wait_for("/help ")
    terminal.type("\t")
    terminal.wait_for("› /help")
    assert "stopping" not in terminal.text and "stopped" not in terminal.scrollback
    terminal.key("esc")
    terminal.settle(0.1, 0.6)
    terminal.key("esc")
    terminal.wait_for("stopped")
