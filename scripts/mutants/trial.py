"""One mutant against the tests that are near it, in a copy of the checkout."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Self

from scripts.mutants.operators import Mutant
from scripts.near import Graph, nearest

_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "*.egg-info", ".hypothesis")
_MOST_NEAR = 16
_STALL = 900
"""Seconds of wall time after which a run counts as hung; what uses the processor is ended earlier."""


class Copy:
    """A copy of a checkout in which mutants are tried. A context manager; the folder goes with it."""

    def __init__(self, root: Path, budget: float) -> None:
        self.root, self.budget = root, budget
        self._graph = Graph(root)
        self._costs: dict[str, float | None] = {}
        self._stamps = count(1)

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="mutants-")
        self.place = Path(self._folder.name, "checkout")
        shutil.copytree(self.root, self.place, ignore=_LEFT_OUT)
        return self

    def __exit__(self, *exception: object) -> None:
        self._folder.cleanup()

    def survives(self, mutant: Mutant) -> bool:
        """Whether all near tests pass with the fault in the code."""
        tests, used = self.suite(mutant.path)
        name = mutant.path.relative_to(self.root)
        before = mutant.path.read_text(encoding="utf-8")
        self._write(name, mutant.text(before))
        try:
            return self._run(tests, 3 * used + 20)[0]
        finally:
            self._write(name, before)

    def suite(self, path: Path) -> tuple[list[str], float]:
        """The near tests of a file that pass without a fault, and the processor time they use, in seconds.

        As many as the budget allows, the quickest first; the nearest is always among them.
        """
        tests: dict[str, float] = {}
        for test in nearest(self._graph, path, _MOST_NEAR):
            if sum(tests.values()) > 0.7 * self.budget:
                break
            name = str(test.relative_to(self.root))
            if name not in self._costs:
                passed, seconds = self._run([name], 10 * self.budget)
                self._costs[name] = seconds if passed else None
            cost = self._costs[name]
            if cost is not None and (not tests or sum(tests.values()) + cost <= self.budget):
                tests[name] = cost
        return sorted(tests, key=lambda name: tests[name]), sum(tests.values())

    def _write(self, name: Path, text: str) -> None:
        path = self.place / name
        path.write_text(text, encoding="utf-8")
        stamp = time.time() + 2 * next(self._stamps)  # byte code goes by the second
        os.utime(path, (stamp, stamp))

    def _run(self, tests: list[str], limit: float) -> tuple[bool, float]:
        """Whether these tests pass, and the processor time that they and their children used."""
        if not tests:
            return True, 0.0
        began = os.times()
        words = ["bash", "-c", f'ulimit -t {int(limit) + 1}; exec "$@"', "bash"]
        words += [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=1", *tests]
        child = subprocess.Popen(
            words,
            cwd=self.place,
            env={**os.environ, "PYTHONPATH": str(self.place)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            status = child.wait(_STALL)
        except subprocess.TimeoutExpired:
            status = 1
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        ended = os.times()
        used = ended.children_user + ended.children_system - began.children_user - began.children_system
        return status == 0, used
