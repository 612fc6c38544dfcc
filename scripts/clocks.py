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
    """Print what has no reason; 1 if anything has none."""
    unexplained, explained = [], []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path == HOME:
            continue
        lines = ["", *path.read_text(encoding="utf-8").splitlines()]
        for number, what in sorted(set(_found(ast.parse("\n".join(lines[1:]))))):
            reason = REASON.search(lines[number]) or REASON.match(lines[number - 1].strip())
            place = f"{path.relative_to(ROOT)}:{number}: {what}"
            if reason:
                explained.append(f"{place} ({reason[1]})")
            else:
                unexplained.append(place)
    print("\n".join([*(explained if "--list" in sys.argv[1:] else ()), *unexplained]))
    print(f"clocks: {len(unexplained)} without a reason, {len(explained)} with one")
    return 1 if unexplained else 0


def _found(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Everything that depends on the clock, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, ops=operators, comparators=others):
                # The `seconds` of a run are those of the clock.
                sides = [ast.unparse(side) for side in (left, *others)]
                for one, operator, other in zip(sides, operators, sides[1:], strict=False):
                    if (one if isinstance(operator, ast.Lt | ast.LtE) else other) == "done.seconds":
                        yield node.lineno, f"bound on wall time: {ast.unparse(node)}"
            case ast.Call(func=function):
                name = ast.unparse(function)
                if name in CLOCKS:
                    yield node.lineno, name
                elif name in ("time.sleep", "asyncio.sleep") and ast.unparse(node.args[0]) != "0":
                    yield node.lineno, f"sleep of {ast.unparse(node.args[0])} s"
                elif (limit := _limit(node, name.rpartition(".")[2])) is not None and limit < SHORT:
                    yield node.lineno, f"waits {limit:g} s at most: {name}"
            case _:
                pass


def _limit(call: ast.Call, method: str) -> float | None:
    """The limit of a call that waits, if it is a literal number."""
    if method not in LIMITED:
        return None
    named = [word.value for word in call.keywords if word.arg == "timeout"]
    for value in named or call.args[LIMITED[method] : LIMITED[method] + 1]:
        if isinstance(value, ast.Constant) and isinstance(value.value, int | float):
            return float(value.value)
    return None


if __name__ == "__main__":
    sys.exit(main())
