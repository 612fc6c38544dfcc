"""Mutants against the tests that run their lines: several at a time, each in a copy of the checkout."""

from __future__ import annotations

import ast
import json
import queue
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Self

from scripts.mutants.checkout import Checkout
from scripts.mutants.lines import Lines, Test
from scripts.mutants.operators import Mutant
from scripts.near import Graph, nearest

_NEAR = 12
"""Of how many files of tests the lines are found out for one file of the product."""
_ALL = 1000
_FEW = 12
_PROGRAMS = "e2e"
"""The folder of tests that start the program: what they run is not seen, so they are the last resort."""


class Trial:
    """Tries mutants of a checkout in its first state. A context manager; its copies go with it.

    `budget` is in seconds of processor time for one mutant; `kept` is the folder for the lines of the tests; with
    `among`, only tests in these folders and files are tried.
    """

    def __init__(
        self, root: Path, *, budget: float, workers: int = 1, kept: Path | None = None, among: Sequence[Path] = ()
    ) -> None:
        self.root, self.budget, self.workers = root, budget, workers
        self._kept, self._among = kept, [place.resolve().relative_to(root) for place in among]
        self._free: queue.SimpleQueue[Checkout] = queue.SimpleQueue()
        self._near = cache(self._nearest)
        self._files: dict[Path, None] = {}

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="mutants-")
        place = Path(self._folder.name).resolve()
        for number in range(self.workers):
            self._free.put(Checkout(self.root, place / str(number)))
        self._first = Checkout(self.root, place / "first").place
        self._graph = Graph(self._first)
        self._lines = Lines(self._graph, self._kept or place / "lines")
        self._tests = cache(self._lines.tests)
        self._pool = ThreadPoolExecutor(self.workers)
        return self

    def __exit__(self, *exception: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def find_lines(self, mutants: Iterable[Mutant]) -> int:
        """Find the lines that the tests near some mutants run; the number of test files that were not known before.

        Other tests serve too, if their lines are known.
        """
        self._files |= {file: None for path in dict.fromkeys(one.path for one in mutants) for file in self._near(path)}
        unknown = [file for file in self._files if not self._lines.known(file)]
        for found in as_completed([self._pool.submit(self._find_out, file) for file in unknown]):
            found.result()
        for path in sorted(self._first.glob("tests/**/test_*.py")):
            if self._lines.known(file := path.relative_to(self._first)):
                self._files.setdefault(file)
        return len(unknown)

    def tried(self, mutants: Iterable[Mutant]) -> Iterator[tuple[Mutant, bool]]:
        """Each mutant and whether it survived, in the order in which that was found out."""
        running = {self._pool.submit(self.survives, mutant): mutant for mutant in mutants}
        for done in as_completed(running):
            yield running[done], done.result()

    def survives(self, mutant: Mutant) -> bool:
        """Return whether all tests of its suite pass with the mutant, in about the time they use without it.

        The first few are tried separately: most mutants do not get past them, and it takes time to load the rest.
        Tests that were seen to pass only with an older product must pass without the mutant if they fail with it.
        """
        tests = self.suite(mutant)
        name = mutant.path.relative_to(self.root)
        before = (self._first / name).read_text(encoding="utf-8")
        with self._checkout() as checkout:
            for part in (tests[:_FEW], tests[_FEW:]):
                checkout.write(name, mutant.text(before))
                try:
                    noticed = part and not _pass(checkout, part)
                finally:
                    checkout.write(name, before)
                if noticed and (all(test.still for test in part) or _pass(checkout, part)):
                    return False
        return True

    def suite(self, mutant: Mutant) -> list[Test]:
        """The tests that run the line, of all whose lines are known: the near and quick ones first, within the budget.

        A line outside functions is run by whatever runs its file. Where no test is seen to run the file, children of
        the near ones may: then it is all of those.
        """
        product = str(mutant.path.relative_to(self.root / "codelet"))
        lines = _lines_about(mutant, (self._first / "codelet" / product).read_text(encoding="utf-8"))
        inside: list[tuple[float, Test]] = []
        outside: list[Test] = []
        near = self._near(mutant.path)
        for rank, file in enumerate([*near, *(file for file in self._files if file not in near)], 1):
            tests = self._tests(file)
            runs = [test for test in tests if product in test.lines]
            exact: list[Test] = []
            if lines is not None:
                its_own = [test for test in runs if mutant.line in lines and mutant.line in test.lines[product]]
                exact = its_own or [test for test in runs if not lines.isdisjoint(test.lines[product])]
            inside += [(test.wall * min(rank, _NEAR + 1), test) for test in (runs if lines is None else exact)]
            outside += tests if file in near and not runs else []
        return _within([test for _, test in sorted(inside, key=lambda one: one[0])] or outside, self.budget)

    def _nearest(self, path: Path) -> list[Path]:
        nearby = nearest(self._graph, self._first / path.relative_to(self.root), _ALL)
        near = [file.relative_to(self._first) for file in nearby]
        if self._among:
            return [file for file in near if any(file.is_relative_to(place) for place in self._among)]
        inner = [file for file in near if _PROGRAMS not in file.parts]
        return (inner or near)[:_NEAR]

    def _find_out(self, file: Path) -> None:
        with self._checkout() as checkout:
            self._lines.find_out(file, checkout)

    @contextmanager
    def _checkout(self) -> Iterator[Checkout]:
        checkout = self._free.get()
        try:
            yield checkout
        finally:
            self._free.put(checkout)


def _pass(checkout: Checkout, tests: list[Test]) -> bool:
    chosen = checkout.place / "chosen.json"
    chosen.write_text(json.dumps([test.name for test in tests]), encoding="utf-8")
    files = list(dict.fromkeys(test.name.partition("::")[0] for test in tests))
    processor = 3 * sum(test.processor for test in tests) + 20
    timeout = 30 + 5 * max(test.wall for test in tests)
    return checkout.passes(["-x", *files], processor, timeout, {"MUTANTS_TESTS": str(chosen)})


def _within(tests: list[Test], budget: float) -> list[Test]:
    """The first tests that together use no more than the budget; what is too slow is passed over."""
    chosen = []
    for test in tests:
        if test.processor <= budget:
            budget -= test.processor
            chosen.append(test)
    return chosen


def _lines_about(mutant: Mutant, text: str) -> set[int] | None:
    """The lines from which a mutant can be noticed: those of its innermost statement.

    Of a default those of its function, of a constant those that name it elsewhere, as its own line is run by whatever
    loads the file first; None if it is any line of the file. What runs only where the file is the program has none:
    a child alone notices it.
    """
    tree = ast.parse(text)
    found: set[int] | None = None
    inside = False
    body: list[ast.stmt] = tree.body
    while around := [node for node in body if node.lineno <= mutant.line <= (node.end_lineno or 0)]:
        node = around[0]
        blocks = [block for block in _blocks(node) if block]
        first = min((block[0].lineno for block in blocks), default=(node.end_lineno or 0) + 1)
        body = [inner for block in blocks for inner in block]
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            return set()
        if inside:
            found = set(range(node.lineno, max(node.lineno + 1, first)))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = True
            found = set(range(first, (node.end_lineno or 0) + 1))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            found = {
                one.lineno for one in ast.walk(tree) if getattr(one, "id", getattr(one, "attr", "")) in names
            }.difference(range(node.lineno, (node.end_lineno or 0) + 1)) or None
    return found


def _blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for one in [node, *getattr(node, "handlers", []), *getattr(node, "cases", [])]:
        for name in ("body", "orelse", "finalbody"):
            yield getattr(one, name, [])
