"""Count reaches into the private names of codelet, from tests and from front ends.

Use: scripts/private.py [--list] [--most N]    (it fails if there are more than N, else than 0)

A reach is `thing._name` where codelet defines `_name` and the file does not define it itself, or an import of a
private name. What a test needs of an object belongs to its public face; the goal is 0.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WATCHED = ("tests", "codelet/frontends")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--most", type=int, default=0, metavar="N")
    options = parser.parse_args()
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in _sources("codelet", "tests")}
    own = {name for path, tree in trees.items() if path.is_relative_to(ROOT / "codelet") for name in _defined(tree)}
    found = [
        (path.relative_to(ROOT), line, what)
        for path in _sources(*WATCHED)
        for line, what in sorted(_reaches(trees[path], own))
    ]
    if options.list:
        print("\n".join(f"{path}:{line}: {what}" for path, line, what in found))
    else:
        print("\n".join(f"{path}: {count}" for path, count in sorted(Counter(str(path) for path, *_ in found).items())))
    print(f"private: {len(found)} reaches into private names")
    return 1 if len(found) > options.most else 0


def _sources(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name != "_"


def _defined(tree: ast.Module) -> Iterator[str]:
    """The private names that a file defines: its own, those of its classes and those that it gives to `self`."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                pass
            case _:
                continue
        if _is_private(name):
            yield name


def _reaches(tree: ast.Module, own: set[str]) -> Iterator[tuple[int, str]]:
    here = set(_stored_on_self(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and node.attr in own - here:
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "os")):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("codelet"):
            yield from ((node.lineno, f"import of {one.name}") for one in node.names if _is_private(one.name))


def _stored_on_self(tree: ast.Module) -> Iterator[str]:
    """The private names that the file's own classes and functions have; not what it sets on other objects."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self":
                yield node.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


if __name__ == "__main__":
    sys.exit(main())
