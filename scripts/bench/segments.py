"""Print three segments in full, made from made-up sessions: read them as the model that must go on.

Use: python scripts/bench/segments.py > scripts/bench/segments.md
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from codelet.context.compaction import compact
from codelet.context.tokens import estimate_message
from tests.context.compaction.stories import STORIES

PAGES = {
    "one_long_turn": "One turn of 118 messages: a setting gets another name, part by part",
    "python_service": "Seven turns on a service, with a correction and an open question",
    "handed_over": "A queue moves to another database; a model's narrative stands at the head",
}
PERCENT = 25
"""What each session is made smaller to, of its own size."""


def main() -> int:
    """Print the page."""
    print("# Three segments in full\n\nMade by `python scripts/bench/segments.py` from made-up sessions of the tests.")
    for name, title in PAGES.items():
        story = STORIES[name]()
        size = sum(map(estimate_message, story.messages))
        target = size * PERCENT // 100
        made = compact(
            story.messages, target, settings=story.settings, pinned=story.pinned, narrative=story.narrative
        ).messages
        segments = [str(m["content"]) for m in made if str(m["content"]).startswith("<compacted")]
        print(f"\n## {title}\n\nOf {size:,} tokens {target:,}.\n\n````text\n{segments[-1]}\n````")
    return 0


if __name__ == "__main__":
    sys.exit(main())
