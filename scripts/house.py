"""Draw the folders of codelet/ with their imports, and list what breaks the rules of the house.

Use: python -m scripts.house [--quiet] [--root CHECKOUT]

The drawing has a row for each folder: its files and lines with those of the folders in it, and the number of imports of
each neighbour. The rules follow; the exit status is 1 if one is broken: the contracts of import-linter in
pyproject.toml (no import upwards, no circle among files or folders), no name for two things, a test named by
each folder's docstring that holds what it says, and nothing too long to read in one go: no module over 500 lines, no
function over 50, no folder over 25 files, and no file under 40 lines whose docstring does not say why it is separate
(`because`, `so that`, `apart`, `by itself`, `of its own`). `--quiet` leaves the drawing out.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "codelet"
MODULE_LINES, SHORT_LINES, FUNCTION_LINES, FOLDER_FILES = 500, 40, 50, 25
REASON = re.compile(r"\b(because|so that|apart|by itself|of its own)\b")

HOOKS = {
    "touches": "each tool's, found by the list of tools in codelet/tools/__init__.py",
    "title": "as touches",
    "preview": "as touches",
    "main": "where a program begins: codelet, or a child that runs a file of it",
}
"""The functions that several files may define, and why: they are one thing that each of these files has."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--root", type=Path, default=ROOT)
    options = parser.parse_args()
    root = options.root.resolve()
    if not options.quiet:
        print("\n".join(drawing(root)))
    found = [*out_of_bounds(root), *shared_names(root / PACKAGE), *untested(root), *forbidden_imports(root)]
    print("\n".join(found) or "house: no import upwards, no circle, no name for two things, all within bounds")
    return 1 if found else 0


def forbidden_imports(root: Path) -> list[str]:
    """The report of import-linter, if a contract in pyproject.toml is broken."""
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return [done.stdout + done.stderr] if done.returncode else []


def out_of_bounds(root: Path) -> Iterator[str]:
    """List everything that is too long to read in one go, or too short for a file."""
    paths = sorted((root / PACKAGE).rglob("*.py"))
    for path in paths:
        text, name = path.read_text(encoding="utf-8"), path.relative_to(root)
        tree, lines = ast.parse(text), text.count("\n")
        if lines > MODULE_LINES:
            yield f"{name}: {lines} lines, at most {MODULE_LINES}"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                if size > FUNCTION_LINES:
                    yield f"{name}:{node.lineno}: {node.name} has {size} lines, at most {FUNCTION_LINES}"
        reason = REASON.search(" ".join((ast.get_docstring(tree) or "").split()))
        if lines < SHORT_LINES and path.name not in ("__init__.py", "__main__.py") and not reason:
            yield f"{name}: {lines} lines, at least {SHORT_LINES}, or a reason in its docstring"
    folders = Counter(path.parent.relative_to(root) for path in paths if path.name != "__init__.py")
    for folder, files in folders.items():
        if files > FOLDER_FILES:
            yield f"{folder}: {files} files, at most {FOLDER_FILES}"


def shared_names(package: Path) -> Iterator[str]:
    """Names of files, folders, public classes, types and functions that are defined twice, with the places."""
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        module = path.parent if path.name == "__init__.py" else path
        if path.name != "__main__.py":
            places["file", module.stem].append(str(module.relative_to(package.parent)))
        for kind, name, line in _defined(path):
            places[kind, name].append(f"{path.relative_to(package.parent)}:{line}")
    for (kind, name), where in places.items():
        if len(where) > 1 and name not in HOOKS:
            yield f"{kind} {name} stands for {len(where)} things: {', '.join(where)}"


def _defined(path: Path) -> Iterator[tuple[str, str, int]]:
    """The public classes, types and functions at the top level of a file, each once although it may have overloads."""
    seen: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.ClassDef(name=name):
                kind = "class"
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                kind = "function"
            case ast.Assign(targets=[ast.Name(id=name)]) if not name.isupper():
                kind = "class"
            case _:
                continue
        if not name.startswith("_") and name not in seen:
            seen.add(name)
            yield kind, name, node.lineno


def untested(root: Path) -> Iterator[str]:
    """The folders whose docstring names no test for what always holds in them, or a missing one."""
    for path in sorted((root / PACKAGE).glob("*/__init__.py")):
        named = re.findall(r"tests/[\w/]+\.py", ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
        for test in [test for test in named if not (root / test).is_file()] if named else ["no test"]:
            yield f"{path.relative_to(root)} names {test}" + " that is not there" * bool(named)


def drawing(root: Path) -> Iterator[str]:
    """The folders and the files next to them from the top down, each with its size and where its imports lead."""
    sys.path.insert(0, str(root))
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=False, cache_dir=None)
    leads: dict[str, Counter[str]] = defaultdict(Counter)
    for importer in sorted(graph.modules):
        for imported in sorted(graph.find_modules_directly_imported_by(importer)):
            one, other = siblings(importer, imported)
            if not other.startswith(f"{one}."):
                leads[one][other.rpartition(".")[2]] += 1
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    for layer in next(contract["layers"] for contract in contracts if contract["type"] == "layers"):
        folder = root / PACKAGE / layer
        for part in [folder, *sorted(folder.rglob("*/"))] if folder.is_dir() else [folder.with_suffix(".py")]:
            files = sorted(part.rglob("*.py")) if part.is_dir() else [part]
            if not files:
                continue
            name = part.relative_to(root)
            lines = sum(path.read_text(encoding="utf-8").count("\n") for path in files)
            counts = leads[".".join(name.with_suffix("").parts)].most_common()
            where = ", ".join(f"{to} {number}" for to, number in counts)
            label = "  " * (len(name.parts) - 2) + name.name + "/" * part.is_dir()
            yield f"{label:<18}{len(files):>4} files{lines:>7,} lines  {where and f'-> {where}'}".rstrip()


def siblings(one: str, other: str) -> tuple[str, str]:
    """The two files or folders, side by side in one folder, that hold these modules."""
    left, right = one.split("."), other.split(".")
    shared = next((at for at, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), None)
    if shared is None:  # a folder's own __init__ and a file in that folder
        return one, other
    return ".".join(left[: shared + 1]), ".".join(right[: shared + 1])


if __name__ == "__main__":
    sys.exit(main())
