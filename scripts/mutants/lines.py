"""Which lines each test runs: found out once for each file of tests, and kept in a folder as long as they are true."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from scripts.mutants.checkout import Checkout

_SLOW = 60
"""Seconds of wall time: a test that takes longer is not used."""
_FILE = 150
"""Seconds of processor time for one file of tests: those that come later are not used."""


class Test(NamedTuple):
    """A test that passes without a fault: its wall and processor time in seconds, and its lines, by product file."""

    name: str
    wall: float
    processor: float
    lines: dict[str, list[int]]


class Lines:
    """The tests of a checkout, which does not change, and their lines; `file` is a path in it.

    They are kept in a folder under what the product, the helpers and data of all tests, and the file are.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self._root, self._folder = root, folder.resolve()
        self._folder.mkdir(parents=True, exist_ok=True)
        helpers = {path for path in root.glob("tests/**/*.*") if path.is_file() and not path.match("test_*.py")}
        self._tree = _digest(root, {*root.glob("codelet/**/*.py"), *helpers})

    def known(self, file: Path) -> bool:
        """Whether the tests of a file are known."""
        return self._kept(file).exists()

    def find_out(self, file: Path, checkout: Checkout) -> None:
        """Runs the tests of a file, slower than usual, and keeps what they run."""
        kept = self._kept(file)
        out = kept.with_suffix(".part")
        out.write_text("", encoding="utf-8")
        checkout.passes([str(file)], _FILE, _SLOW, {"MUTANTS_LINES": str(out)})
        out.rename(kept)

    def tests(self, file: Path) -> list[Test]:
        """The tests of a file that is known."""
        return [Test(*json.loads(line)) for line in self._kept(file).read_text(encoding="utf-8").splitlines()]

    def _kept(self, file: Path) -> Path:
        own = _digest(self._root, [self._root / file])
        return self._folder / f"{file.stem}-{self._tree[:12]}-{own[:12]}.json"


def _digest(root: Path, files: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in sorted(files):
        found.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return found.hexdigest()
