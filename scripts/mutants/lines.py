"""Find the lines that each test runs, once for each test file, and keep them in a folder for the next run.

What was found out holds until the file of tests, or what it imports from tests/, is changed. A change of the product
only moves lines: those of an older product are found again by a comparison of the two texts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import NamedTuple

from scripts.mutants.checkout import Checkout
from scripts.near import Graph

_SLOW = 60
"""Seconds of wall time: a test that takes longer is not used."""
_FILE = 150
"""Seconds of processor time for one file of tests: those that come later are not used."""


class Test(NamedTuple):
    """A test that passes without a mutant: its wall and processor time in seconds, and its lines, by product file.

    `still` is False if it passed with an older product: it may fail now.
    """

    name: str
    wall: float
    processor: float
    lines: dict[str, list[int]]
    still: bool = True


class Lines:
    """The tests of a checkout, which does not change, and their lines; `file` is a path in it.

    They are kept in a folder under what the file and its helpers are, next to the product that they ran with.
    """

    def __init__(self, graph: Graph, folder: Path) -> None:
        self._graph, self._root, self._folder = graph, graph.root, folder.resolve()
        self._folder.mkdir(parents=True, exist_ok=True)
        data = self._root.glob("tests/**/*.*")
        self._data = [path for path in data if path.is_file() and path.suffix not in (".py", ".pyc")]
        product = sorted(self._root.glob("codelet/**/*.py"))
        self._now = _digest(self._root, product)
        self._product = {str(path.relative_to(self._root / "codelet")): path.read_text("utf-8") for path in product}
        self._texts(self._now).write_text(json.dumps(self._product), encoding="utf-8")
        self._name = cache(self._named)
        self._mapped = cache(self._moves)

    def known(self, file: Path) -> bool:
        """Return whether the tests of a file are known."""
        return self._kept(file) is not None

    def find_out(self, file: Path, checkout: Checkout) -> None:
        """Runs the tests of a file, slower than usual, and keeps what they run."""
        kept = self._folder / f"{self._name(file)}-{self._now}.json"
        out = kept.with_suffix(".part")
        out.write_text("", encoding="utf-8")
        checkout.passes([str(file)], _FILE, _SLOW, {"MUTANTS_LINES": str(out)})
        out.rename(kept)

    def tests(self, file: Path) -> list[Test]:
        """The tests of a file that is known."""
        kept = self._kept(file)
        if kept is None:
            return []
        tests = [Test(*json.loads(line)) for line in kept.read_text(encoding="utf-8").splitlines()]
        then = kept.stem.rpartition("-")[2]
        return tests if then == self._now else [self._today(test, then) for test in tests]

    def _kept(self, file: Path) -> Path | None:
        found = list(self._folder.glob(f"{self._name(file)}-*.json"))
        return max(found, key=lambda kept: (kept.stem.endswith(self._now), kept.stat().st_mtime), default=None)

    def _texts(self, product: str) -> Path:
        return self._folder / f"product-{product}.json"

    def _named(self, file: Path) -> str:
        tests = {path: name for name, path in self._graph.paths.items() if name.startswith("tests.")}
        found = {tests[self._root / file], "tests.conftest"} & self._graph.imports.keys()
        while more := {name for one in found for name in self._graph.imports[one] if name.startswith("tests.")} - found:
            found |= more
        return f"{file.stem}-{_digest(self._root, [*self._data, *(self._graph.paths[name] for name in found)])}"

    def _today(self, test: Test, then: str) -> Test:
        """A test that ran with another product, with the lines of this one."""
        moves = self._mapped(then)
        lines = {
            name: sorted({new for old in ran for new in moves[name].get(old, ())}) if name in moves else ran
            for name, ran in test.lines.items()
        }
        return test._replace(lines=lines, still=moves.keys().isdisjoint(lines))

    def _moves(self, then: str) -> dict[str, dict[int, list[int]]]:
        """For each file that changed since an older product: its old lines, with the new lines that replace each."""
        before: dict[str, str] = json.loads(self._texts(then).read_text(encoding="utf-8"))
        after = {name: self._product.get(name, "") for name in before}
        return {name: _moved(text, after[name]) for name, text in before.items() if text != after[name]}


def _moved(before: str, after: str) -> dict[int, list[int]]:
    """Lines of a text, with those of another that replace each: a new line is run by what ran the line before it."""
    moved: dict[int, list[int]] = {}
    match = SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    for what, first, last, start, end in match.get_opcodes():
        new = list(range(start + 1, end + 1))
        if what == "equal":
            moved |= {first + 1 + number: [line] for number, line in enumerate(new)}
        else:
            for old in range(first + 1, last + 1) if last > first else [first]:
                moved[old] = [*moved.get(old, []), *new]
    return moved


def _digest(root: Path, files: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in sorted(files):
        found.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return found.hexdigest()[:16]
