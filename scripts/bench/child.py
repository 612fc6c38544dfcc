"""The common part of the benchmarks: the program as a child, a place to run in, and the printed table."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support import repo
from tests.support.program import environment

CLAUDE_MD = "# Conventions\n\n- Tests live in tests/ and run with pytest.\n- Keep functions short.\n"
_SCRIPT = Path(sys.executable).parent / "codelet"
CODELET = [str(_SCRIPT)] if _SCRIPT.exists() else [sys.executable, "-m", "codelet"]
"""The installed `codelet` of this interpreter, or the module if it is not installed."""


class Place(NamedTuple):
    """A git repository with a few files, an empty home, and variables besides those that every child gets."""

    cwd: Path
    home: Path
    more: Mapping[str, str] = {}

    def environment(self) -> dict[str, str]:
        """The variables of the child: none of the caller, and keys for the server."""
        return environment(self.home, {"OPENAI_API_KEY": "test-key", "ANTHROPIC_API_KEY": "test-key", **self.more})


@contextmanager
def place() -> Iterator[Place]:
    """A place to run in, removed afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder) / "home"
        home.mkdir()
        notes = "".join(f"line {number}: what we found out that day\n" for number in range(40))
        files = {"app.py": "print('hello')\n", "CLAUDE.md": CLAUDE_MD, "notes.txt": notes}
        yield Place(repo.plain(Path(folder) / "repo", files), home)


def spawn(command: Sequence[str], where: Place) -> subprocess.Popen[bytes]:
    """Start a child in the place, without input and output."""
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=where.cwd, env=where.environment(), stdin=quiet, stdout=quiet, stderr=quiet)


def wait(child: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Wait for the end; processor time of the child with its own children in ms, and the moment it ended."""
    _, status, used = os.wait4(child.pid, 0)
    ended = time.monotonic()
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{child.args} ended with {child.returncode}")
    return 1000 * (used.ru_utime + used.ru_stime), ended


def processor_time(command: Sequence[str], where: Place) -> float:
    """Processor time of a whole run in ms."""
    return wait(spawn(command, where))[0]


def timed(work: Callable[[], object]) -> float:
    """Wall time of one call in ms."""
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def alternate(runs: int, *measures: Callable[[], float]) -> list[list[float]]:
    """Run each measure `runs` times, in turns, after one round that does not count."""
    rounds = [[measure() for measure in measures] for _ in range(runs + 1)]
    return [list(column) for column in zip(*rounds[1:], strict=True)]


class Row(NamedTuple):
    """A line of the table. `promise` is what the ratio may be at most if there is a reference, else the median."""

    name: str
    unit: str
    values: Sequence[float]
    reference: Sequence[float] = ()
    promise: float | None = None


def show(rows: Sequence[Row]) -> int:
    """Print the table, with medians and the median of the paired ratios; 1 if a promise is broken, else 0."""
    lines, broken = [["measured", "median", "reference", "ratio", "promise", ""]], 0
    for name, unit, values, reference, promise in rows:
        judged = median = statistics.median(values)
        cells = [name, f"{median:.2f} {unit}", "", "", "", ""]
        if reference:
            judged = statistics.median(a / b for a, b in zip(values, reference, strict=True))
            cells[2:4] = f"{statistics.median(reference):.2f} {unit}", f"{judged:.2f}"
        if promise is not None:
            is_broken = judged > promise
            broken |= is_broken
            cells[4:] = f"at most {promise:g}{'' if reference else f' {unit}'}", "BROKEN" if is_broken else "kept"
        lines.append(cells)
    first, *widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for name, *cells in lines:
        print("  ".join([name.ljust(first), *map(str.rjust, cells, widths)]).rstrip())
    return broken
