"""A frozen terminal blocks nothing, and gets everything in order once it reads again."""

from __future__ import annotations

import io
import os
import re
import threading
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from codelet import events
from codelet.frontends.terminal.show.bottom import Bottom, FrameStream
from codelet.frontends.terminal.show.console import OutputConsole
from codelet.frontends.terminal.show.renderer import Renderer
from tests.support.recorded import STATUS, Start, step
from tests.support.waiting import until

Pair = tuple[int, io.TextIOWrapper]
LONG = "".join(f"line {number} of what the terminal has to take\n" for number in range(20_000))


@pytest.fixture
def pair() -> Iterator[Pair]:
    """The far end of a pseudo-terminal, and the near end as a stream."""
    far, near = os.openpty()
    tty.setraw(near)
    with open(near, "w", encoding="utf-8") as stream:
        yield far, stream
        os.close(far)


def read(far: int, end: bytes) -> tuple[threading.Thread, bytearray]:
    """Begin to read in a thread until this has come; the thread, and what it has found."""

    def take() -> None:
        while end not in found:
            found.extend(os.read(far, 65_536))

    found = bytearray()
    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    return thread, found


async def test_a_terminal_that_takes_nothing_holds_nobody_up(pair: Pair) -> None:
    far, stream = pair
    writer = FrameStream(stream)
    writer.write(LONG)
    writer.write("the end")
    before = writer.is_behind
    reader, found = read(far, b"the end")
    writer.finish()
    reader.join(30)
    assert re.sub(r"\x1b\[\?2026[hl]", "", bytes(found).decode()) == LONG + "the end"
    assert (before, writer.is_behind) == (True, False)
    assert os.get_blocking(stream.fileno()), "other programs share this one"


def test_what_is_no_terminal_is_written_to_as_it_is() -> None:
    file = io.StringIO()
    writer = FrameStream(file)
    writer.write("one ")
    writer.write("two")
    writer.finish()
    assert re.sub(r"\x1b\[\?2026[hl]", "", file.getvalue()) == "one two" and not writer.is_behind


async def test_rows_wait_for_a_terminal_that_is_behind(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    far, stream = pair
    monkeypatch.setenv("TERM", "xterm-256color")
    console = OutputConsole()
    console.file = stream
    renderer = Renderer(console, bottom=Bottom(stream))
    renderer.show(events.TurnStart(1, "m"))
    for number in range(500):
        renderer.show(events.Text(f"paragraph {number} {'word ' * 40}\n\n"))
        renderer.tick()
    before = renderer.has_waiting
    reader, found = read(far, b"paragraph 499")
    renderer.stop()
    reader.join(30)
    assert [n for n in range(500) if f"paragraph {n} ".encode() not in found] == []
    assert (before, renderer.has_waiting) == (True, False)


def test_many_rows_do_not_wait_for_the_next_frame() -> None:
    shown = io.StringIO()
    renderer = Renderer(OutputConsole(file=shown, width=80))
    renderer.show(events.TurnStart(1, "m"))
    renderer.show(events.Text("few rows\n\n"))
    assert "few rows" not in shown.getvalue()
    renderer.show(events.Text("many rows\n\n" * 200))
    assert "many rows" in shown.getvalue()


def test_a_turn_goes_on_while_the_terminal_reads_nothing(start: Start, tmp_path: Path) -> None:
    made = tmp_path / "made.txt"
    terminal = start(
        step(LONG[:200_000], ("bash", {"command": f"echo made > {made}"})), step("Done."), arguments=("--yes",)
    )
    terminal.wait_for(STATUS)
    terminal.line("go")
    until(made.exists, "the call behind an answer that the terminal has not taken")
    terminal.wait_for("Done.")
    assert "line4000ofwhat" in "".join(terminal.scrollback.split())
