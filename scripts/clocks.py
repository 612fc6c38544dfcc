"""Count what in the tests depends on the clock: bounds on wall time, fixed sleeps and short limits of waits.

Use: scripts/clocks.py [--list]

A test must not fail because the machine is busy. So tests/support/waiting.py holds the only clock: `until`, `happens`
and `at_rest` wait for what happens, `Neighbour` and `Work` bound how long something takes. What is left has to say
why, after `# clock:` on its line or on the line above; `--list` prints these reasons. Shell commands
and programs that are text in a test are not looked into.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "tests" / "support" / "waiting.py"
CLOCKS = {"time.monotonic", "time.perf_counter", "time.time"}
LIMITED = {"wait": 0, "join": 0, "communicate": 1, "wait_for": 1, "wait_exit": 0}
"""Calls that wait up to a limit, and the place of the limit; or it is called `timeout`."""
SHORT = 10.0
"""Seconds below which a limit of a wait is too short for a busy machine."""
REASON = re.compile(r"#\s*clock:\s*(.+)")


def main() -> int:
    listing = "--list" in sys.argv[1:]
    open_, permitted = [], []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path == HOME:
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        for line, what in sorted(set(_found(ast.parse("\n".join(lines))))):
            reason = _reason(lines, line)
            place = f"{path.relative_to(ROOT)}:{line}"
            (permitted if reason else open_).append(f"{place}: {what}" + (f" ({reason})" if reason else ""))
    print("\n".join([*(permitted if listing else ()), *open_]))
    print(f"clocks: {len(open_)} without a reason, {len(permitted)} with one")
    return 1 if open_ else 0


def _reason(lines: list[str], line: int) -> str | None:
    above = lines[line - 2].strip() if line > 1 else ""
    for text in (lines[line - 1], above if above.startswith("#") else ""):
        if found := REASON.search(text):
            return found.group(1)
    return None


def _found(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and _bounds_seconds(node):
            yield node.lineno, f"bound on wall time: {ast.unparse(node)}"
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in CLOCKS:
            yield node.lineno, name
        elif name in ("time.sleep", "asyncio.sleep") and not _is_zero(node.args[0]):
            yield node.lineno, f"sleep of {ast.unparse(node.args[0])} s"
        elif (limit := _limit(node)) is not None and limit < SHORT:
            yield node.lineno, f"waits {limit:g} s at most: {ast.unparse(node.func)}"


def _bounds_seconds(node: ast.Compare) -> bool:
    """Return whether the `seconds` of a run, which are those of the clock, must be less than something."""
    sides = [node.left, *node.comparators]
    for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
        small = left if isinstance(operator, ast.Lt | ast.LtE) else right
        if isinstance(small, ast.Attribute) and small.attr == "seconds" and ast.unparse(small.value) == "done":
            return True
    return False


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _limit(node: ast.Call) -> float | None:
    """The limit of a call that waits, if it is a literal number."""
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    given = [word.value for word in node.keywords if word.arg == "timeout"]
    if not given and method in LIMITED:
        given = list(node.args[LIMITED[method] : LIMITED[method] + 1])
    known = method in LIMITED
    if known and given and isinstance(given[0], ast.Constant) and isinstance(given[0].value, int | float):
        return float(given[0].value)
    return None


if __name__ == "__main__":
    sys.exit(main())
