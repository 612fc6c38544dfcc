"""Made-up sessions that stand for the ones that are compacted: each has a theme that no other one has."""

from __future__ import annotations

from collections.abc import Callable

from tests.context.compaction.stories import edited, long_ones, odd_ones, programs, talks
from tests.context.compaction.stories.story import Story

STORIES: dict[str, Callable[[], Story]] = {
    make.__name__: make
    for make in (
        programs.python_service,
        programs.rust_crate,
        programs.german_frontend,
        programs.go_gateway,
        talks.small_talk,
        talks.pasted_texts,
        talks.chinese_pipeline,
        talks.handed_over,
        long_ones.one_long_turn,
        long_ones.steered_turn,
        long_ones.compacted_again,
        long_ones.many_segments,
        edited.edited_everywhere,
        odd_ones.shell_work,
        odd_ones.other_tools,
        odd_ones.pictures_and_recall,
        odd_ones.broken_build,
    )
}
