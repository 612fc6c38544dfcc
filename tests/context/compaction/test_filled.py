"""A summary takes what it is given: of every target nearly all is used, and less only where nothing is left to say."""

from __future__ import annotations

import pytest

from codelet.context.compaction import compact
from codelet.context.tokens import estimate_message
from tests.context.compaction.lists import calling, result, says, user
from tests.context.compaction.stories import STORIES


@pytest.mark.parametrize("name", ["python_service", "rust_crate", "go_gateway", "compacted_again", "other_tools"])
def test_a_session_fills_every_target(name: str):
    story = STORIES[name]()
    before = sum(map(estimate_message, story.messages))
    for target in range(before // 8, before // 2, before // 40):
        made = compact(story.messages, target, settings=story.settings)
        assert target * 97 // 100 <= made.report.after <= target


def test_long_lines_fill_a_target_but_for_one_of_them():
    lines = [f"row_{n}: " + f"value_{n} is kept for part_{n % 7} " * (2 + n * 5 % 7) for n in range(120)]
    messages = [user("Look at it."), calling(("c", "bash", {"command": "show"})), result("c", "\n".join(lines))]
    messages += [says("Seen."), user("And now?"), says("Now the next one."), user("Go on.")]
    for target in range(500, 2_400, 50):
        after = compact(messages, target).report.after
        assert target - max(map(len, lines)) // 4 - 2 <= after <= target
