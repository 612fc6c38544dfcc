"""Count module and function lines under codelet/: no module over 400 lines, no function over 50."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

MODULE_LINES = 400
FUNCTION_LINES = 50


def too_long(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    found = [f"{path}: {lines} lines, at most {MODULE_LINES}"] if lines > MODULE_LINES else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > FUNCTION_LINES:
                found.append(f"{path}:{node.lineno}: {node.name} has {size} lines, at most {FUNCTION_LINES}")
    return found


def main() -> int:
    root = Path(__file__).resolve().parent.parent / "codelet"
    found = [line for path in sorted(root.rglob("*.py")) for line in too_long(path)]
    print("\n".join(found) or "sizes: all modules and functions are within bounds")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
