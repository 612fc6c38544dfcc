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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.compare import requests, settings

_HERE = Path(__file__).resolve().parents[2]
_SHOWN = 160
_MOST = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.compare", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("requests", "settings", "diff"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--root", type=Path, default=_HERE)
    parser.add_argument("--out", type=Path, help="where to write; needed by all but diff")
    arguments = parser.parse_intermixed_args()
    if arguments.what == "diff":
        before, after = (json.loads(Path(name).read_text("utf-8")) for name in arguments.names)
        differences = list(compare(before, after))
        print("\n".join(differences[:_MOST]) or "equal")
        if len(differences) > _MOST:
            print(f"… and {len(differences) - _MOST} more differences")
        return 1 if differences else 0
    if arguments.out is None:
        parser.error("--out FILE is needed")
    root = arguments.root.resolve()
    python = root / ".venv/bin/python"
    recorder = {"requests": requests.main, "settings": settings.main}[arguments.what]
    recorded = recorder([str(python) if python.exists() else sys.executable], root, arguments.names)
    arguments.out.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0


def compare(before: Any, after: Any) -> Iterator[str]:
    """All differences between two JSON documents, as text."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    for place in old | new:
        if place not in new:
            yield f"{place}: is gone: {_cut(old[place])}"
        elif place not in old:
            yield f"{place}: is new: {_cut(new[place])}"
        elif old[place] != new[place]:
            texts = [value if isinstance(value, str) else json.dumps(value) for value in (old[place], new[place])]
            same = next((at for at, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
            one, other = (_cut(text[max(0, same - 40) :]) for text in texts)
            yield f"{place}, character {same}: {one} is now {other}"


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that holds no other, by its place; an empty list is one."""
    inner: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        inner = [(f"{place}.{key}", each) for key, each in value.items()]
    elif isinstance(value, list):
        inner = [(f"{place}[{number}]", each) for number, each in enumerate(value)]
    for name, each in inner:
        yield from _leaves(each, name)
    if not inner:
        yield place, value


def _cut(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


if __name__ == "__main__":
    sys.exit(main())
