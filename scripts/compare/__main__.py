"""Compare two versions of codelet: record the requests or settings of each, then list the differences.

    python -m scripts.compare requests --root CHECKOUT --out before.json [WAY …]
    python -m scripts.compare settings --root CHECKOUT --out before.json
    python -m scripts.compare diff before.json after.json

CHECKOUT is a clone with its own `.venv`; without it, this one. Sessions run in the folder that CODELET_COMPARE names,
which two recordings must not share. `diff` exits with 1 where anything differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parents[2]
_SHOWN = 160
_MOST = 20


def main() -> int:
    arguments = _parsed()
    if arguments.what == "diff":
        before, after = (json.loads(Path(name).read_text("utf-8")) for name in arguments.names)
        differences = compare(before, after)
        print("\n".join(differences[:_MOST]) or "equal")
        if len(differences) > _MOST:
            print(f"… and {len(differences) - _MOST} more differences")
        return 1 if differences else 0
    root = Path(arguments.root).resolve()
    python = root / ".venv/bin/python"
    command = [str(python) if python.exists() else sys.executable]
    recorder = __import__(f"scripts.compare.{arguments.what}", fromlist=["main"])
    recorded = recorder.main(command, root, arguments.names)
    Path(arguments.out).write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0


def compare(before: Any, after: Any, place: str = "") -> list[str]:
    """All differences between two JSON documents, as text."""
    if type(before) is not type(after):
        return [f"{place}: {_cut(before)} is now {_cut(after)}"]
    if isinstance(before, dict):
        rows = [f"{place}.{key}: is gone" for key in before if key not in after]
        rows += [f"{place}.{key}: is new: {_cut(after[key])}" for key in after if key not in before]
        both = ((f"{place}.{key}", before[key], after[key]) for key in before if key in after)
    elif isinstance(before, list):
        rows = [f"{place}: {len(before)} items are now {len(after)}"] if len(before) != len(after) else []
        pairs = zip(before, after, strict=False)
        both = ((f"{place}[{number}]", one, two) for number, (one, two) in enumerate(pairs))
    elif isinstance(before, str) and before != after:
        same = (one == two for one, two in zip(before, after, strict=False))
        start = next((number for number, equal in enumerate(same) if not equal), min(len(before), len(after)))
        old, new = (_cut(text[max(0, start - 40) :]) for text in (before, after))
        return [f"{place}, character {start}: {old} is now {new}"]
    else:
        return [] if before == after else [f"{place}: {before!r} is now {after!r}"]
    return rows + [row for inner, one, two in both for row in compare(one, two, inner)]


def _cut(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.compare", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("requests", "settings", "diff"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--root", default=_HERE)
    parser.add_argument("--out", help="where to write; needed by all but diff")
    arguments = parser.parse_intermixed_args()
    if arguments.out is None and arguments.what != "diff":
        parser.error("--out FILE is needed")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
