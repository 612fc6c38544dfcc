"""Mutants against the tests that run their lines: several at a time, each in a copy of the checkout."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Self

import coverage

from scripts.mutants.operators import Mutant
from scripts.near import MOST, Graph

_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "*.egg-info", ".hypothesis")
_STALL = 600.0
"""Seconds after which the run of one test file without a mutant is given up."""
_PROGRAMS = "e2e"
"""The folder of tests that start codelet as a program: what a child runs is not seen, so they are the last resort."""


class Trial:
    """Tries mutants of a checkout in its present state. A context manager: its copies go with it.

    `budget` is the time of the tests for one mutant, in seconds as they took without it.
    """

    def __init__(self, root: Path, *, budget: float, workers: int) -> None:
        self.root, self.budget = root, budget
        self._tests: dict[str, dict[int, set[str]]] = {}
        """The tests that run each line, by file of the product."""
        self._seconds: dict[str, float] = {}
        self._near: dict[Path, list[Path]] = {}
        self._stamps = count(1)
        self._folder = tempfile.TemporaryDirectory(prefix="mutants-")
        self._own = threading.local()
        self._pool = ThreadPoolExecutor(workers, initializer=self._copy)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def _copy(self) -> None:
        """Make the copy of one of the pool's threads."""
        self._own.place = Path(self._folder.name).resolve() / str(threading.get_ident())
        shutil.copytree(self.root, self._own.place, ignore=_LEFT_OUT)

    def find_lines(self, mutants: Iterable[Mutant]) -> int:
        """Run the tests near some mutants, to see which lines each of them runs; return the number of test files."""
        graph = Graph(self.root)
        for path in {mutant.path for mutant in mutants}:
            near = [file.relative_to(self.root) for file in graph.nearest(path)]
            inner = [file for file in near if _PROGRAMS not in file.parts]
            self._near[path] = (inner or near)[:MOST]
        files = {file for near in self._near.values() for file in near}
        list(self._pool.map(self._find, sorted(files)))
        return len(files)

    def tried(self, mutants: Iterable[Mutant]) -> Iterator[tuple[Mutant, bool]]:
        """Each mutant and whether it survived, in the order in which that was found out."""
        running = {self._pool.submit(self._survives, mutant): mutant for mutant in mutants}
        for done in as_completed(running):
            yield running[done], done.result()

    def suite(self, mutant: Mutant) -> list[str]:
        """The ids of the tests that run the mutant, the quickest first, within the budget; of near files if none does.

        Code outside functions runs when the file is loaded: there it is all tests that run any function of the file.
        """
        ran = self._tests.get(str(mutant.path.relative_to(self.root)), {})
        tests = {test for line in (mutant.about or ran) for test in ran.get(line, ())}
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
        place: Path = self._own.place
        data, passed = (place.parent / f"{'-'.join(file.parts)}.{kind}" for kind in ("data", "passed"))
        watched = ["-m", "coverage", "run", f"--data-file={data}", "--source=codelet"]
        _ends_well(place, [*watched, "-m", "pytest", "-p", "scripts.mutants.plugin", str(file)], _STALL, passed)
        if not passed.exists():
            return
        self._seconds |= json.loads(passed.read_bytes())
        found = coverage.CoverageData(str(data))
        found.read()
        for name in found.measured_files():
            ran = self._tests.setdefault(str(Path(name).relative_to(place)), {})
            for line, tests in found.contexts_by_lineno(name).items():
                ran.setdefault(line, set()).update(filter(None, tests))

    def _survives(self, mutant: Mutant) -> bool:
        """Return whether all tests of its suite pass with the mutant, in about the time they take without it."""
        if not (tests := self.suite(mutant)):
            return True
        place: Path = self._own.place
        path, before = place / mutant.path.relative_to(self.root), mutant.path.read_text(encoding="utf-8")
        self._write(path, mutant.text(before))
        seconds = 60 + 4 * sum(self._seconds.get(test, 60.0) for test in tests)
        survived = _ends_well(place, ["-m", "pytest", "-x", *tests], seconds)
        self._write(path, before)
        return survived

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
    status = None
    with suppress(subprocess.TimeoutExpired):
        status = child.wait(seconds)
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    return status == 0
