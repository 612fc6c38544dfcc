"""List the test files near a file of the product.

Use: python -m scripts.near [--most N] FILE…

Near are the test files with its name, in its folder or in a folder around it (tests/ mirrors codelet/), and those that
import it, directly, by a fixture or by another module of the product: the shorter the way, the nearer; then the more of
its names a test mentions, and the closer to it is what else the test imports. All is read from the sources, nothing is
loaded. A test file is near itself. One that only runs the program names what it tests with `# near: FOLDER` in a line,
and is near every file there.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 12
"""Number of test files for one file."""
ENOUGH = 60
"""Number of test functions: the file that passes it is the last one."""
_FAR = 3
"""A test that is more imports away than this is not near."""
_WORD = re.compile(r"\w+")
_MARK = re.compile(r"^# near: (\S+)$", re.MULTILINE)
_OF_PROGRAMS = ("test_one_shot", "test_command_line", "test_start")
"""These run a module that only the program itself reaches."""


class Graph:
    """The modules below `codelet` and `tests` of a checkout, and who imports whom. Names are dotted."""

    def __init__(self, root: Path) -> None:
        self.root = root
        paths = [path for folder in ("codelet", "tests") for path in sorted((root / folder).rglob("*.py"))]
        self.paths = {_dotted(path.relative_to(root)): path for path in paths}
        self._trees: dict[str, ast.Module] = {}
        self.imports = {name: set(self._imported(name)) - {name} for name in self.paths}

    def mentions(self, test: str, target: str) -> int:
        """Number of public names of a module that a test file contains."""
        made = {getattr(node, "name", "_") for node in self._tree(target).body} | {target.rpartition(".")[2]}
        words = set(_WORD.findall(self.paths[test].read_text(encoding="utf-8")))
        return len({name for name in made if not name.startswith("_")} & words)

    def tests(self) -> list[str]:
        """All test files."""
        return [name for name in self.paths if name.rpartition(".")[2].startswith("test_")]

    def is_marked(self, test: str, target: str) -> bool:
        """Return whether a test file says that it is near a module."""
        named = _MARK.findall(self.paths[test].read_text(encoding="utf-8"))
        return any(self.paths[target].is_relative_to(self.root / folder) for folder in named)

    def ways(self, target: str) -> dict[str, int]:
        """The distance of each module from the target in imports, at most `_FAR`."""
        importers: dict[str, set[str]] = {}
        for name, imported in self.imports.items():
            for other in imported:
                importers.setdefault(other, set()).add(name)
        found, edge = {target: 0}, {target}
        for step in range(1, _FAR + 1):
            edge = {name for other in edge for name in importers.get(other, ())} - found.keys()
            found |= dict.fromkeys(edge, step)
        return found

    def _tree(self, name: str) -> ast.Module:
        if name not in self._trees:
            try:
                self._trees[name] = ast.parse(self.paths[name].read_text(encoding="utf-8"))
            except SyntaxError as error:
                raise SystemExit(f"near: {self.paths[name]}:{error.lineno}: {error.msg}: mend it first") from None
        return self._trees[name]

    def _imported(self, name: str) -> Iterator[str]:
        path = self.paths[name]
        if path.name != "conftest.py" and name.startswith("tests."):
            for fixtures in _conftests(path, self.root):  # as if the test itself imported them
                yield from self._imported(_dotted(fixtures.relative_to(self.root)))
        for node in ast.walk(self._tree(name)):
            if isinstance(node, ast.Import):
                yield from (one.name for one in node.names if one.name in self.paths)
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                for one in node.names:
                    yield from self._source(node.module, one.name)

    def _source(self, module: str, name: str) -> Iterator[str]:
        """The origin of a name that is imported from a module: a module below it, or where it gets the name."""
        if f"{module}.{name}" in self.paths:
            yield f"{module}.{name}"
        elif module in self.paths:
            yield module
            if self.paths[module].name == "__init__.py" and (origin := self._handed_on(module).get(name)):
                yield origin

    def _handed_on(self, package: str) -> dict[str, str]:
        lists = [node for node in ast.walk(self._tree(package)) if isinstance(node, ast.ImportFrom) and node.module]
        return {one.asname or one.name: str(node.module) for node in lists for one in node.names}


def nearest(graph: Graph, file: Path, most: int = MOST) -> list[Path]:
    """The test files near a file of the checkout, the nearest first."""
    target = _dotted(file.resolve().relative_to(graph.root))
    if target.startswith("tests.") and target.rpartition(".")[2].startswith("test_"):
        return [graph.paths[target]]
    ways = graph.ways(target)
    parts = target.split(".")[1:]
    package = graph.paths[target].name == "__init__.py"
    homes = [parts[:depth] for depth in range(1, len(parts) + package)]
    ranks: dict[str, tuple[float, ...]] = {}
    for test in graph.tests():
        folders, stem = test.split(".")[1:-1], test.rpartition(".")[2].removeprefix("test_")
        named = stem == parts[-1] or (len(parts) > 1 and stem == parts[-2])
        akin = parts[-1] in stem.split("_") or stem in parts[-1].split("_")
        home = folders in homes
        way = ways.get(test)
        if graph.is_marked(test, target):
            ranks[test] = (0, 0, 0)
            continue
        if way is None and not home:
            continue
        distance = (way or _FAR + 1) - 2 * named - akin - home
        about = [ways.get(name, _FAR + 1) for name in graph.imports[test] if name.startswith("codelet.")]
        ranks[test] = (distance, -graph.mentions(test, target), sum(about) / max(len(about), 1))
    chosen = sorted(ranks, key=lambda test: ranks[test])
    if len([test for test in chosen if ranks[test][0] <= 1]) < 2:
        chosen += [test for test in graph.tests() if test.rpartition(".")[2] in _OF_PROGRAMS and test not in chosen]
    return [graph.paths[test] for test in chosen[:most]]


def near_all(files: Iterable[Path], most: int = MOST, root: Path = ROOT) -> list[Path]:
    """The test files near any of several files, those of the first one first; of each no more than are enough."""
    graph = Graph(root)
    found: dict[Path, None] = {}
    for file in files:
        functions = 0
        for test in nearest(graph, file, most):
            if functions > ENOUGH:
                break
            functions += len(re.findall(r"^\s*(?:async )?def test_", test.read_text(encoding="utf-8"), re.MULTILINE))
            found[test] = None
    return list(found)


def _dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _conftests(path: Path, root: Path) -> Iterator[Path]:
    """The fixtures that a test file has from the folders on the way to it; those of all tests are left out."""
    for folder in path.parents:
        if folder in (root / "tests", root):
            return
        if (folder / "conftest.py").exists():
            yield folder / "conftest.py"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--most", type=int, default=MOST, metavar="N")
    options = parser.parse_args()
    missing = [str(file) for file in options.files if file.suffix != ".py" or not file.exists()]
    if missing:
        print(f"near: no Python files: {', '.join(missing)}", file=sys.stderr)
        return 2
    print("\n".join(str(path.relative_to(ROOT)) for path in near_all(options.files, options.most)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
