"""List the test files near a file of the product.

Use: python -m scripts.near FILE…

Near are the test files with its name, in its folder or in a folder around it (tests/ mirrors codelet/), and those that
import it, directly, by a fixture or by another module: the shorter the way, the nearer. A test file is near itself. One
that only runs the program names what it tests with `# near: FOLDER` in a line, and is near every file there.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
MOST = 12
"""Number of test files for one file."""
ENOUGH = 60
"""Number of test functions: the file that passes it is the last one."""
_FAR = 3
"""A test that is more imports away than this is not near."""
_MARK = re.compile(r"^# near: (\S+)$", re.MULTILINE)
_TEST = re.compile(r"^\s*(?:async )?def test_", re.MULTILINE)


class Graph:
    """The imports below `codelet` and `tests` of a checkout. Names are dotted."""

    def __init__(self, root: Path) -> None:
        self.root = root
        paths = [path for folder in ("codelet", "tests") for path in sorted((root / folder).rglob("*.py"))]
        self.paths = {_dotted(path.relative_to(root)): path for path in paths}
        self.tests = [name for name in self.paths if name.rpartition(".")[2].startswith("test_")]
        sys.path.insert(0, str(root))
        try:
            self._imports = grimp.build_graph("codelet", "tests", cache_dir=None)
        finally:
            sys.path.remove(str(root))

    def nearest(self, file: Path) -> list[Path]:
        """All test files near a file of the checkout, the nearest first."""
        target = _dotted(file.resolve().relative_to(self.root))
        if target in self.tests:
            return [self.paths[target]]
        ways, parts = self._ways(target), target.split(".")[1:]
        ranks: dict[str, float] = {}
        for test in self.tests:
            folders, stem = test.split(".")[1:-1], test.rpartition(".")[2].removeprefix("test_")
            akin = parts[-1] in stem.split("_") or stem in parts[-1].split("_")
            home = folders == parts[: len(folders)] and folders != []
            marks = _MARK.findall(self.paths[test].read_text(encoding="utf-8"))
            if any(self.paths[target].is_relative_to(self.root / folder) for folder in marks):
                ranks[test] = 0
            elif test in ways or home:
                ranks[test] = ways.get(test, _FAR + 1) - 2 * (stem in parts[-2:]) - akin - home
        return [self.paths[test] for test in sorted(ranks, key=lambda test: (ranks[test], test))]

    def _ways(self, target: str) -> dict[str, int]:
        """The distance of each module from the target in imports, at most `_FAR`."""
        found, edge = {target: 0}, {target}
        for step in range(1, _FAR + 1):
            edge = {name for other in edge for name in self._importers(other)} - found.keys()
            found |= dict.fromkeys(edge, step)
        return found

    def _importers(self, name: str) -> set[str]:
        """The modules that import one; a conftest is imported by every test that gets its fixtures."""
        folder, _, last = name.rpartition(".")
        if last == "conftest":
            return {test for test in self.tests if folder != "tests" and test.startswith(f"{folder}.")}
        return self._imports.find_modules_that_directly_import(name) if name in self._imports.modules else set()


def _dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def main(files: list[str]) -> int:
    """Print the files near any of several files, those of the first one first; of each no more than are enough."""
    missing = [file for file in files if not file.endswith(".py") or not Path(file).exists()]
    if missing or not files:
        print(f"near: no Python files: {', '.join(missing)}", file=sys.stderr)
        return 2
    graph, found = Graph(ROOT), dict[Path, None]()
    for file in files:
        functions = 0
        for test in graph.nearest(Path(file))[:MOST]:
            if functions > ENOUGH:
                break
            functions += len(_TEST.findall(test.read_text(encoding="utf-8")))
            found[test] = None
    print(*(path.relative_to(ROOT) for path in found), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
