"""Find what is too long to be read in one go under codelet/, and what is too short for a file; `scripts.house` runs it.

No module over 500 lines, no function over 50, no folder over 25 files, and no file under 40 lines whose docstring does
not say why it is separate (`because`, `so that`, `apart`, `by itself`, `of its own`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

MODULE_LINES = 500
FUNCTION_LINES = 50
FOLDER_FILES = 25
SHORT_LINES = 40
REASON = re.compile(r"\b(because|so that|apart|by itself|of its own)\b")


def faults(root: Path) -> Iterator[str]:
    """Everything that is out of bounds in a checkout, a line each."""
    paths = sorted((root / "codelet").rglob("*.py"))
    for path in paths:
        yield from _of_file(path, path.relative_to(root))
    for folder in sorted({path.parent for path in paths}):
        files = len([path for path in folder.glob("*.py") if path.name != "__init__.py"])
        if files > FOLDER_FILES:
            yield f"{folder.relative_to(root)}: {files} files, at most {FOLDER_FILES}"


def _of_file(path: Path, name: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    lines = text.count("\n")
    if lines > MODULE_LINES:
        yield f"{name}: {lines} lines, at most {MODULE_LINES}"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > FUNCTION_LINES:
                yield f"{name}:{node.lineno}: {node.name} has {size} lines, at most {FUNCTION_LINES}"
    said = " ".join((ast.get_docstring(tree) or "").split())
    if lines < SHORT_LINES and path.name not in ("__init__.py", "__main__.py") and not REASON.search(said):
        yield f"{name}: {lines} lines, at least {SHORT_LINES}, or a reason in its docstring"
