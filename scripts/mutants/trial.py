"""One mutant against the tests that run its line, in a copy of the checkout."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple, Self

from scripts.mutants.operators import Mutant
from scripts.near import Graph, nearest

_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "*.egg-info", ".hypothesis")
_NEAREST, _MOST_NEAR = 4, 8
"""How many files of tests are tried first, and how many at most."""
_ALL = 1000
_PROGRAMS = "e2e"
"""The folder of tests that start the program: what they run is not seen, so they are the last resort."""
_STALL = 300
"""Seconds of wall time after which a run counts as hung; what uses the processor is ended earlier."""


class _Test(NamedTuple):
    """A test that passes without a fault: its processor time in seconds, and the lines it runs, by product file."""

    name: str
    seconds: float
    lines: dict[str, list[int]]


class Copy:
    """A copy of a checkout in which mutants are tried. A context manager; the folder goes with it.

    `budget` is in seconds of processor time; with `among`, only tests in these folders and files are tried.
    """

    def __init__(self, root: Path, budget: float, among: Sequence[Path] = ()) -> None:
        self.root, self.budget, self.among = root, budget, [place.resolve() for place in among]
        self._graph = Graph(root)
        self._known: dict[Path, list[_Test]] = {}
        self._stamps = count(1)

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="mutants-")
        self.place = Path(self._folder.name, "checkout")
        shutil.copytree(self.root, self.place, ignore=_LEFT_OUT)
        return self

    def __exit__(self, *exception: object) -> None:
        self._folder.cleanup()

    def survives(self, mutant: Mutant) -> bool:
        """Whether all tests of its suite pass with the fault in the code."""
        name = mutant.path.relative_to(self.root)
        before = mutant.path.read_text(encoding="utf-8")
        for tests in self.suites(mutant):
            self._write(name, mutant.text(before))
            try:
                if not self._passes(tests):
                    return False
            finally:
                self._write(name, before)
        return True

    def suites(self, mutant: Mutant) -> Iterator[list[_Test]]:
        """The tests that may notice a fault: of the nearest files, then of those that are less near.

        Tests that start the program come only where no other runs the line.
        """
        near = nearest(self._graph, mutant.path, _ALL if self.among else 2 * _MOST_NEAR)
        if self.among:
            near = [file for file in near if any(file.is_relative_to(place) for place in self.among)]
        inner = [file for file in near if _PROGRAMS not in file.parts][:_MOST_NEAR]
        found = 0
        for files in (inner[:_NEAREST], inner[_NEAREST:]):
            tests = self._suite(mutant, files)
            found += len(tests)
            yield tests
        if not found:
            yield self._suite(mutant, [file for file in near if file not in inner][:_NEAREST])

    def _suite(self, mutant: Mutant, files: list[Path]) -> list[_Test]:
        """The tests that run the line, the nearest and quickest first, then those whose children may run it.

        As many as the budget allows. A line outside functions is run by whatever runs its file.
        """
        product = str(mutant.path.relative_to(self.root / "codelet"))
        lines = _lines_about(mutant)
        inside: list[tuple[float, _Test]] = []
        outside: list[_Test] = []
        for rank, file in enumerate(files, 1):
            tests = self._tests(file)
            runs = [test for test in tests if product in test.lines]
            exact = [test for test in runs if mutant.line in test.lines[product]]
            if lines is not None and not exact:
                exact = [test for test in runs if not lines.isdisjoint(test.lines[product])]
            inside += [(test.seconds * rank, test) for test in (runs if lines is None else exact)]
            outside += [] if runs else tests
        chosen = _within([test for _, test in sorted(inside, key=lambda one: one[0])], self.budget)
        return chosen + _within(outside, self.budget / 2)

    def _tests(self, file: Path) -> list[_Test]:
        if file not in self._known:
            out = self.place / "lines.json"
            name = str(file.relative_to(self.root))
            self._run([name], 2 * self.budget, {"MUTANTS_LINES": str(out)})
            found = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
            self._known[file] = [_Test(*json.loads(line)) for line in found]
            out.unlink(missing_ok=True)
        return self._known[file]

    def _write(self, name: Path, text: str) -> None:
        path = self.place / name
        path.write_text(text, encoding="utf-8")
        stamp = time.time() + 2 * next(self._stamps)  # byte code goes by the second
        os.utime(path, (stamp, stamp))

    def _passes(self, tests: list[_Test]) -> bool:
        """Whether these tests pass in this order, in about the time they use without a fault."""
        if not tests:
            return True
        chosen = self.place / "chosen.json"
        chosen.write_text(json.dumps([test.name for test in tests]), encoding="utf-8")
        files = list(dict.fromkeys(test.name.partition("::")[0] for test in tests))
        used = sum(test.seconds for test in tests)
        return self._run(["-x", *files], 3 * used + 20, {"MUTANTS_TESTS": str(chosen)})

    def _run(self, arguments: list[str], limit: float, variables: dict[str, str]) -> bool:
        """Whether pytest passes within a limit of processor time, in seconds."""
        words = ["bash", "-c", f'ulimit -t {int(limit) + 1}; exec "$@"', "bash"]
        words += [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "scripts.mutants.plugin"]
        child = subprocess.Popen(
            [*words, "--hypothesis-seed=1", "--timeout=100", *arguments],
            cwd=self.place,
            env={**os.environ, "PYTHONPATH": str(self.place), **variables},
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
        return status == 0


def _within(tests: list[_Test], budget: float) -> list[_Test]:
    """The first tests that together use no more than the budget; what is too slow is passed over."""
    chosen = []
    for test in tests:
        if test.seconds <= budget:
            budget -= test.seconds
            chosen.append(test)
    return chosen


def _lines_about(mutant: Mutant) -> set[int] | None:
    """The lines of the innermost statement of a fault; None where it stands outside all functions."""
    found: set[int] | None = None
    nodes: list[tuple[ast.AST, bool]] = [(ast.parse(mutant.path.read_text(encoding="utf-8")), False)]
    while nodes:
        node, inside = nodes.pop()
        body = getattr(node, "body", None)
        if isinstance(node, ast.stmt):
            if not node.lineno <= mutant.line <= (node.end_lineno or 0):
                continue
            last = max(node.lineno, body[0].lineno - 1) if isinstance(body, list) else node.end_lineno or 0
            found = set(range(node.lineno, last + 1)) if inside else None
        for child in ast.iter_child_nodes(node):
            function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and child in node.body
            nodes.append((child, inside or function))
    return found
