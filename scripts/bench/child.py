"""The common part of the benchmarks: the program as a child, a place to run in, and the printed table."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import repo
from tests.support.program import environment

CLAUDE_MD = "# Conventions\n\n- Tests live in tests/ and run with pytest.\n- Keep functions short.\n"


@dataclass(frozen=True)
class Place:
    """A git repository with a few files, and an empty home."""

    cwd: Path
    home: Path

    def environment(self) -> dict[str, str]:
        """The variables of the child: none of the caller, and keys for the server."""
        return environment(self.home, {"OPENAI_API_KEY": "test-key", "ANTHROPIC_API_KEY": "test-key"})


@contextmanager
def place() -> Iterator[Place]:
    """A place to run in, removed afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder) / "home"
        home.mkdir()
        notes = "".join(f"line {number}: what we found out that day\n" for number in range(40))
        files = {"app.py": "print('hello')\n", "CLAUDE.md": CLAUDE_MD, "notes.txt": notes}
        yield Place(repo.plain(Path(folder) / "repo", files), home)


def codelet_command() -> list[str]:
    """The installed `codelet` of this interpreter, or the module if it is not installed."""
    script = Path(sys.executable).parent / "codelet"
    return [str(script)] if script.exists() else [sys.executable, "-m", "codelet"]


def spawn(command: Sequence[str], where: Place, **options: int) -> subprocess.Popen[bytes]:
    """Start a child in the place, without input; its output goes nowhere unless told."""
    quiet = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    } | options
    return subprocess.Popen(command, cwd=where.cwd, env=where.environment(), **quiet)


def wait(child: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Wait for the end; processor seconds of the child with its own children, and the moment it ended."""
    _, status, used = os.wait4(child.pid, 0)
    ended = time.monotonic()
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{child.args} ended with {child.returncode}")
    return used.ru_utime + used.ru_stime, ended


@dataclass(frozen=True)
class Row:
    """A line of the table: what was measured, its median, the reference's, the ratio or value promised at most."""

    name: str
    unit: str
    values: Sequence[float]
    reference: Sequence[float] = ()
    promise: float | None = None

    @property
    def ratio(self) -> float | None:
        """The median of the paired ratios."""
        if not self.reference:
            return None
        return statistics.median(a / b for a, b in zip(self.values, self.reference, strict=True))

    @property
    def kept(self) -> bool | None:
        """Return whether the promise is kept: of the ratio if the row has a reference, else of the median."""
        if self.promise is None:
            return None
        return (self.ratio if self.reference else statistics.median(self.values)) <= self.promise


def show(rows: Sequence[Row]) -> int:
    """Print the table; 1 if a promise is broken, else 0."""
    lines = [("measured", "median", "reference", "ratio", "promise", "")]
    for row in rows:
        median = f"{statistics.median(row.values):.2f} {row.unit}"
        reference = f"{statistics.median(row.reference):.2f} {row.unit}" if row.reference else ""
        ratio = f"{row.ratio:.2f}" if row.ratio is not None else ""
        promise = "" if row.promise is None else f"at most {row.promise:g}" + ("" if row.reference else f" {row.unit}")
        lines.append((row.name, median, reference, ratio, promise, {None: "", True: "kept", False: "BROKEN"}[row.kept]))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        print("  ".join(cells).rstrip())
    return int(any(row.kept is False for row in rows))


def alternate(runs: int, *measures: Callable[[], float]) -> list[list[float]]:
    """Run each measure `runs` times, in turns, after one round that does not count."""
    rounds = [[measure() for measure in measures] for _ in range(runs + 1)]
    return [list(column) for column in zip(*rounds[1:], strict=True)]
