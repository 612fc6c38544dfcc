"""Count lines and files under codelet/: what is too long to be read at once, and what is too short to be worth a file.

Use: scripts/sizes.py [--strict]

No module over 400 lines, no function over 50. With --strict also: no folder over 25 files, and no file under 40 lines
whose docstring does not say why it stands by itself (`because`, `so that`, `apart`, `by itself`, `of its own`).
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULE_LINES = 400
FUNCTION_LINES = 50
FOLDER_FILES = 25
SHORT_LINES = 40
REASON = re.compile(r"\b(because|so that|apart|by itself|of its own)\b")


def too_long(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    name = path.relative_to(ROOT)
    found = [f"{name}: {lines} lines, at most {MODULE_LINES}"] if lines > MODULE_LINES else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > FUNCTION_LINES:
                found.append(f"{name}:{node.lineno}: {node.name} has {size} lines, at most {FUNCTION_LINES}")
    return found


def too_full(folder: Path) -> list[str]:
    files = len([path for path in folder.glob("*.py") if path.name != "__init__.py"])
    return [f"{folder.relative_to(ROOT)}: {files} files, at most {FOLDER_FILES}"] if files > FOLDER_FILES else []


def too_short(path: Path) -> list[str]:
    if path.name in ("__init__.py", "__main__.py"):
        return []
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    if lines >= SHORT_LINES or REASON.search(" ".join((ast.get_docstring(ast.parse(text)) or "").split())):
        return []
    return [f"{path.relative_to(ROOT)}: {lines} lines, at least {SHORT_LINES}, or a reason in its docstring"]


def main() -> int:
    paths = sorted((ROOT / "codelet").rglob("*.py"))
    found = [line for path in paths for line in too_long(path)]
    if "--strict" in sys.argv[1:]:
        found += [line for folder in sorted({path.parent for path in paths}) for line in too_full(folder)]
        found += [line for path in paths for line in too_short(path)]
    print("\n".join(found) or f"sizes: {len(paths)} files, all within bounds")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
