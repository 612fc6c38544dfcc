"""Compaction by the number of entries: a history that got long is made shorter, however small its messages are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, cast

from codelet.messages import Message, newest_prompt
from codelet.tokens.estimate import Estimate

if TYPE_CHECKING:
    from codelet.compaction import Compacted

_WORTH_IT = 10


def too_many(conversation: Sequence[Message], most: int | None, keep_last: int) -> bool:
    """Whether a history has more than `most` entries, and enough of them before its `keep_last` newest turns."""
    if most is None or len(conversation) <= most:
        return False
    return len(conversation) - newest_entries(conversation, keep_last) >= min(_WORTH_IT, most)


def newest_entries(conversation: Sequence[Message], turns: int) -> int:
    """How many messages the newest `turns` turns of a conversation have; all of them where there are no more."""
    return len(conversation) - max(0, newest_prompt(conversation, turns))


def compact_old(
    conversation: Sequence[Message], keep_last: int, estimate: Estimate, pinned: Collection[int]
) -> Compacted:
    """Halve what stands before the newest turns, which stay word for word. Raises IrreducibleContext."""
    from codelet.compaction import CompactionSettings, compact

    count = len(conversation) - newest_entries(conversation, keep_last)
    old = conversation[:count]
    target = max(1, sum(map(estimate, old)) // 2)
    kept = [place for place in pinned if place < count]
    made = compact(old, target, estimate=estimate, settings=CompactionSettings(keep_last=1), pinned=kept)
    made.messages.extend(cast("list[dict[str, Any]]", conversation[count:]))
    return made
