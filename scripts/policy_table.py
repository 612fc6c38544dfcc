#!/usr/bin/env python3
"""Judge files of cases and print a table by class: the unsafe lines that run without asking if there is no sandbox, and
the harmless ones that ask in a sandbox and without one.

Use: scripts/policy_table.py FILE… [--verbose]    (JSON lines, see scripts/policy_cases.py, `class` optional)

Two more kinds are judged: `rule`, the verdict with the rules `allow` in force, and `suggest`, what "always" would add.
`python -m scripts.walls` runs unsafe lines in the sandbox and reports their effects.
Cases of the kind `approval` need a screen: tests/frontends/terminal/test_question.py shows them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    sys.path.insert(0, str(ROOT))
    from scripts.policy_cases import cases_of, judge_cases

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--verbose", action="store_true", help="name each case that is counted in a wrong column")
    options = parser.parse_args()
    rows: Counter[tuple[str, str, str]] = Counter()
    for file in options.files:
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
        classes = {line["id"]: line.get("class") or line["kind"] for line in lines}
        for line in lines:
            if line["kind"] in ("rule", "suggest"):
                rows[file.stem, classes[line["id"]], "unsafe"] += 1
                rows[file.stem, classes[line["id"]], "unsafe wrong"] += (wrong := _is_wide(line))
                if wrong and options.verbose:
                    print(f"{line['id']}: {line['input'][:100]!r}")
        plain = [line for line in lines if line["kind"] not in ("rule", "suggest", "approval")]
        for sandboxed in (True, False):
            for one in judge_cases(cases_of(file, plain), sandboxed=sandboxed):
                wanted = "harmless" if one.case.expected == "allow" else "unsafe"
                if wanted == "unsafe" and sandboxed and one.case.kind == "shell":
                    continue
                column = wanted if sandboxed or wanted == "unsafe" else "harmless alone"
                rows[file.stem, classes[one.case.id], column] += 1
                if (one.verdict == "allow") != (wanted == "harmless"):
                    rows[file.stem, classes[one.case.id], f"{column} wrong"] += 1
                    if options.verbose:
                        print(f"{one.case.id}: {one.verdict} ({column}): {one.case.input[:100]!r} ({one.reason})")
    print(f"{'file':<10} {'class':<22} {'unsafe allowed':>16} {'harmless asked':>16} {'without a sandbox':>18}")
    for file_name, name in dict.fromkeys((file, name) for file, name, _ in rows):
        cells = [
            f"{rows[file_name, name, f'{kind} wrong']} of {rows[file_name, name, kind]}"
            for kind in ("unsafe", "harmless", "harmless alone")
        ]
        print(f"{file_name:<10} {name:<22} {cells[0]:>16} {cells[1]:>16} {cells[2]:>18}")
    return 0


def _is_wide(line: dict[str, Any]) -> bool:
    """Return whether a case's rules allow too much, or "always" would add too much."""
    from codelet.safety import Policy
    from codelet.safety.verdict import Touch
    from scripts.policy_cases import workspace_of_cases

    with workspace_of_cases() as (workspace, _):
        verdict = Policy(workspace, allow=line.get("allow", ())).judge("bash", [Touch("run", line["input"])])
    if line["kind"] == "rule":
        return verdict.action == "allow" and line["expected"] != "allow"
    return verdict.suggestion not in (None, line["expected"])


if __name__ == "__main__":
    sys.exit(main())
