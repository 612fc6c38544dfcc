"""Print three segments in full, made from made-up sessions: read them as the model that must go on.

Use: python scripts/bench/segments.py > scripts/bench/segments.md
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context import needles, rounds

from codelet.context.compaction import compact

Message = dict[str, Any]
NARRATIVE = (
    "Goal: find out why the nightly import loses rows, and mend it; never touch legacy/.",
    "State: the components are read one by one, nothing is changed yet.",
    "Next step: look at how the planner shares its buffer.",
)


def main() -> int:
    """Print the page."""
    long = rounds.long_turn()[0]
    pages: dict[str, list[Message]] = {
        "A turn of 300 steps, to 1,500 tokens": compact(long, 1_500).messages,
        "The same with a model's narrative at its head": compact(long, 1_500, narrative=NARRATIVE).messages,
        "Ninety turns over the same files, to 2,500 tokens": compact(needles.synthetic(), 2_500).messages,
    }
    print("# Three segments in full\n\nMade by `python scripts/bench/segments.py` from made-up sessions.")
    for title, messages in pages.items():
        text = next(str(m["content"]) for m in messages if str(m["content"]).startswith("<compacted"))
        print(f"\n## {title}\n\n````text\n{text}\n````")
    return 0


if __name__ == "__main__":
    sys.exit(main())
