"""The cost of the REPL's start and of a long answer on the screen, and the delay of keys during it.

Use: python -m scripts.bench.screen [--runs N] [--kilobytes N] [--pause MILLISECONDS …]

The real REPL in a pseudo-terminal shows 200 KB of Markdown with code from a server on loopback. Its processor time,
from the prompt to the last row, is compared with an interpreter that imports prompt_toolkit and rich.console; its
start, to the first prompt, with one that imports prompt_toolkit and rich. The echo is the time from a key to its
letter in the output, the quiet the time from ESC to the last byte of output. On a busy machine use `chrt -r 1`.
"""

from __future__ import annotations

import argparse
import os
import select
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect

from scripts.bench.child import CODELET, Place, Row, alternate, place, processor_time, show
from tests.support.program import processor_seconds
from tests.support.script import Delivery, Reply
from tests.support.server import ModelServer

IMPORTS = "import prompt_toolkit, rich.console"
START_IMPORTS = "import prompt_toolkit, rich"
PIECE = 24
KEYS = "БГДЖЗИЙЛПФЦЧШЩЮ"
"""Not part of the answer; each is pressed once, so its first appearance is its echo."""
LAST = "the last word is zebra"
_BETWEEN_KEYS = 0.05
_SILENCE = 0.3
_PATIENCE = 60.0

_SECTION = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
"""A part of the answer; `{n}` is its number."""


def answer(size: int) -> str:
    """Markdown of about this length, more than half of it code."""
    parts: list[str] = []
    while sum(map(len, parts)) < size:
        parts.append(_SECTION.format(n=len(parts) + 1))
    return "".join(parts) + LAST


class Pty:
    """The REPL in a pseudo-terminal; its output as bytes, without a screen that would cost more than it."""

    def __init__(self, server: ModelServer, where: Place) -> None:
        program, *rest = CODELET
        words = [*rest, "--model", "openai/scripted", "--api-base", server.openai]
        # A terminal on this machine names itself; with any other, ESC waits for the rest of a slow line's sequence.
        env = where.environment() | {"TERM_PROGRAM": "bench"}
        self.child = pexpect.spawn(program, words, cwd=str(where.cwd), env=env, dimensions=(40, 120))
        self.child.delaybeforesend = None
        self.output = bytearray()
        self.last = 0.0

    def pump(self, seconds: float) -> None:
        """Read at most one piece of output within this time."""
        if select.select([self.child.child_fd], [], [], seconds)[0]:
            self.output += os.read(self.child.child_fd, 65536)
            self.last = time.monotonic()

    def wait_for(self, text: str, since: int = 0) -> None:
        """Wait for a text after an offset in the output."""
        wanted, end, begin = text.encode(), time.monotonic() + _PATIENCE, since
        while self.output.find(wanted, begin) < 0:
            begin = max(since, len(self.output) - len(wanted))
            if time.monotonic() > end:
                raise SystemExit(f"{text!r} did not come to the screen: {bytes(self.output[-400:])!r}")
            self.pump(0.05)

    def until_quiet(self) -> None:
        """Wait until nothing was written for a while."""
        self.last = time.monotonic()
        while time.monotonic() - self.last < _SILENCE:
            self.pump(0.02)

    def send(self, text: str) -> None:
        """Press keys."""
        os.write(self.child.child_fd, text.encode())

    def echo(self, key: str) -> float:
        """Press a key; the time to its letter in the output, in ms."""
        since, pressed = len(self.output), time.monotonic()
        self.send(key)
        self.wait_for(key, since)
        return (time.monotonic() - pressed) * 1000


@contextmanager
def opened(server: ModelServer, where: Place) -> Iterator[Pty]:
    """A REPL that shows its prompt."""
    terminal = Pty(server, where)
    try:
        terminal.wait_for("% of ")
        yield terminal
    finally:
        terminal.child.close(force=True)


def starts(runs: int, where: Place) -> list[Row]:
    """Measure the start relative to the bare imports, and the echo of the first key."""
    echoes: list[float] = []

    def started() -> float:
        with opened(server, where) as terminal:
            used = processor_seconds(terminal.child.pid) * 1000
            echoes.append(terminal.echo(KEYS[0]))
        return used

    with ModelServer(lambda request: Reply("ok")) as server:
        prompts, imports = alternate(runs, started, lambda: imported(START_IMPORTS, where))
    return [
        Row(f'processor time to the prompt, against python -c "{START_IMPORTS}"', "ms", prompts, imports, 1.25),
        Row("  key to echo, pressed as the prompt appears", "ms", echoes[1:], promise=30.0),
    ]


def imported(code: str, where: Place) -> float:
    """Processor time of an interpreter that runs this, in ms."""
    return processor_time([sys.executable, "-c", code], where)


def streams(runs: int, text: str, pause: float, where: Place) -> list[Row]:
    """Measure the answer at one pace of the server: without keys relative to the bare imports, and with keys."""
    costs, imports, written, echoes, quiet = ([] for _ in range(5))
    pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
    with ModelServer(lambda request: Reply(pieces, delivery=Delivery(pause=pause / 1000))) as server:
        for _ in range(runs):
            imports.append(imported(IMPORTS, where))
            with opened(server, where) as terminal:
                terminal.until_quiet()
                before, begun = processor_seconds(terminal.child.pid), len(terminal.output)
                terminal.send("go\r")
                terminal.wait_for(LAST.split()[-1], begun)
                terminal.until_quiet()
                costs.append((processor_seconds(terminal.child.pid) - before) * 1000)
                written.append((len(terminal.output) - begun) / 1000)
            with opened(server, where) as terminal:
                terminal.until_quiet()
                press_keys(terminal, echoes, quiet)
    told = f"{PIECE} characters " + (f"every {pause:g} ms" if pause else "at once")
    rows = [
        Row(f"processor time of {len(text):,} characters, {told}", "ms", costs, imports, 7.0),
        Row("  written to the terminal", "kB", written),
    ]
    if echoes:
        ninth = statistics.quantiles([*echoes, echoes[-1]], n=10)[-1]
        rows.append(Row("  key to echo, median", "ms", echoes))
        rows.append(Row("  key to echo, 90th percentile", "ms", [ninth], promise=30.0))
    return rows + ([Row("  ESC to quiet", "ms", quiet, promise=80.0)] if quiet else [])


def press_keys(terminal: Pty, echoes: list[float], quiet: list[float]) -> None:
    """Press keys while the answer streams, then ESC in the middle of it; note the delays."""
    begun = len(terminal.output)
    terminal.send("go\r")
    terminal.wait_for("Part 2:", begun)
    for key in KEYS:
        echo = terminal.echo(key)
        if LAST.encode() in terminal.output:
            return  # the answer ended before this echo
        echoes.append(echo)
        pause_end = time.monotonic() + _BETWEEN_KEYS
        while time.monotonic() < pause_end:
            terminal.pump(0.005)
    if LAST.encode() not in terminal.output:
        pressed = time.monotonic()
        terminal.send("\x1b")
        terminal.until_quiet()
        quiet.append((terminal.last - pressed) * 1000)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--kilobytes", type=int, default=200)
    parser.add_argument("--pause", type=float, nargs="*", default=[0.0, 0.5], help="between two pieces, in ms")
    options = parser.parse_args()
    text = answer(options.kilobytes * 1000)
    with place() as where:
        rows = starts(options.runs, where)
        for pause in options.pause:
            rows += streams(options.runs, text, pause, where)
    return show(rows)


if __name__ == "__main__":
    sys.exit(main())
