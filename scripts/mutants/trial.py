"""Mutants against the tests that run their lines: several at a time, each in a copy of the checkout."""

from __future__ import annotations

import ast
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Self

import coverage

from scripts.mutants.operators import Mutant
from scripts.near import Graph, nearest

_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "*.egg-info", ".hypothesis")
_NEAR = 12
"""Number of test files that may be tried for one file of the product."""
_STALL = 600.0
"""Seconds after which the run of one test file without a mutant is given up."""
_PROGRAMS = "e2e"
"""The folder of tests that start codelet as a program: what a child runs is not seen, so they are the last resort."""


class Trial:
    """Tries mutants of a checkout in its present state. A context manager: its copies go with it.

    `budget` is the time of the tests for one mutant, in seconds as they took without it.
    """

    def __init__(self, root: Path, *, budget: float, workers: int = 1) -> None:
        self.root, self.budget, self.workers = root, budget, workers
        self._tests: dict[str, dict[int, set[str]]] = {}
        """Which tests run which lines, by file of the product."""
        self._seconds: dict[str, float] = {}
        self._near: dict[Path, list[Path]] = {}
        self._free: queue.SimpleQueue[Path] = queue.SimpleQueue()
        self._stamps = count(1)

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="mutants-")
        for number in range(self.workers):
            place = Path(self._folder.name).resolve() / str(number)
            shutil.copytree(self.root, place, ignore=_LEFT_OUT)
            self._free.put(place)
        self._pool = ThreadPoolExecutor(self.workers)
        return self

    def __exit__(self, *exception: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def find_lines(self, mutants: Iterable[Mutant]) -> int:
        """Run the tests near some mutants, to see which lines each of them runs; return the number of test files."""
        graph = Graph(self.root)
        for path in {mutant.path for mutant in mutants}:
            near = [file.relative_to(self.root) for file in nearest(graph, path, 1000)]
            inner = [file for file in near if _PROGRAMS not in file.parts]
            self._near[path] = (inner or near)[:_NEAR]
        files = {file for near in self._near.values() for file in near}
        for done in as_completed([self._pool.submit(self._find, file) for file in sorted(files)]):
            done.result()
        return len(files)

    def tried(self, mutants: Iterable[Mutant]) -> Iterator[tuple[Mutant, bool]]:
        """Each mutant and whether it survived, in the order in which that was found out."""
        running = {self._pool.submit(self._survives, mutant): mutant for mutant in mutants}
        for done in as_completed(running):
            yield running[done], done.result()

    def suite(self, mutant: Mutant) -> list[str]:
        """The ids of the tests that run the mutant, the quickest first, within the budget; of near files if none does.

        What is outside functions is run by whatever loads the file: there it is all tests that run any function of it.
        """
        ran = self._tests.get(str(mutant.path.relative_to(self.root)), {})
        lines = _lines_about(mutant)
        tests = {test for line in (ran if lines is None else lines) for test in ran.get(line, ())}
        if not tests and not ran:
            return [str(file) for file in self._near[mutant.path]]
        chosen, left = [], self.budget
        for test in sorted(tests & self._seconds.keys(), key=lambda test: (self._seconds[test], test)):
            left -= self._seconds[test]
            if left < 0 and chosen:
                break
            chosen.append(test)
        return chosen

    def _find(self, file: Path) -> None:
        place = self._free.get()
        try:
            data, passed = (place.parent / f"{'-'.join(file.parts)}.{kind}" for kind in ("data", "passed"))
            watched = ["-m", "coverage", "run", f"--data-file={data}", "--source=codelet"]
            _ends_well(place, [*watched, "-m", "pytest", "-p", "scripts.mutants.plugin", str(file)], _STALL, passed)
            if not passed.exists():
                return
            self._seconds |= dict(json.loads(row) for row in passed.read_text(encoding="utf-8").splitlines())
            found = coverage.CoverageData(str(data))
            found.read()
            for name in found.measured_files():
                ran = self._tests.setdefault(str(Path(name).relative_to(place)), {})
                for line, tests in found.contexts_by_lineno(name).items():
                    ran.setdefault(line, set()).update(filter(None, tests))
        finally:
            self._free.put(place)

    def _survives(self, mutant: Mutant) -> bool:
        """Return whether all tests of its suite pass with the mutant, in about the time they take without it."""
        if not (tests := self.suite(mutant)):
            return True
        place = self._free.get()
        path = place / mutant.path.relative_to(self.root)
        before = mutant.path.read_text(encoding="utf-8")
        try:
            self._write(path, mutant.text(before))
            seconds = 60 + 4 * sum(self._seconds.get(test, 60.0) for test in tests)
            return _ends_well(place, ["-m", "pytest", "-x", *tests], seconds)
        finally:
            self._write(path, before)
            self._free.put(place)

    def _write(self, path: Path, text: str) -> None:
        """Give a file another text, and a later time: byte code goes by the second."""
        path.write_text(text, encoding="utf-8")
        stamp = time.time() + 2 * next(self._stamps)
        os.utime(path, (stamp, stamp))


def _ends_well(place: Path, words: Sequence[str], seconds: float, passed: Path | None = None) -> bool:
    """Return whether pytest in a copy of the checkout passes in that time."""
    words = [sys.executable, *words, "-q", "-p", "no:cacheprovider", f"--basetemp={place}-made", "--hypothesis-seed=1"]
    environment = {**os.environ, "PYTHONPATH": str(place), "MUTANTS_PASSED": str(passed or os.devnull)}
    quiet = subprocess.DEVNULL
    child = subprocess.Popen(
        words, cwd=place, env=environment, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )
    try:
        status = child.wait(seconds)
    except subprocess.TimeoutExpired:
        status = 1
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    return status == 0


def _lines_about(mutant: Mutant) -> range | None:
    """The lines of the innermost statement, or of the function whose head it is in; None if it is outside functions."""
    tree = ast.parse(mutant.path.read_text(encoding="utf-8"))
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= (node.end_lineno or 0)
    ]
    around.sort(key=lambda node: node.lineno)
    if not any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in around):
        return None
    last = around[-1]
    body: list[ast.stmt] = getattr(last, "body", [])
    if isinstance(last, ast.FunctionDef | ast.AsyncFunctionDef):
        return range(body[0].lineno, (last.end_lineno or 0) + 1)
    return range(last.lineno, body[0].lineno if body else (last.end_lineno or 0) + 1)
