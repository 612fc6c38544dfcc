"""Who gets how much room: the sizes that a compaction aims at, and the share of the budget of each category.

core: system prompt, tools, reminders. context: what stands word for word of earlier turns: whole messages, the pinned
ones among them, and the lines that segments quote. history: what segments say beside that, the user's requests and the
ledger. working: the current turn. Where the limits apply: history and context where a compaction writes segments,
context where a message is pinned, working where a result enters the list. Core cannot be made smaller here: what it
takes beyond its share, the others lack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from codelet.context.tokens import Estimate
from codelet.context.tokens.budget import CATEGORIES, Budget, BudgetExceeded, Shares
from codelet.context.window import ContextWindow
from codelet.messages import Message, kind_of, newest_prompt
from codelet.record import Record

if TYPE_CHECKING:
    from codelet.conversation import Parts


def reduced_size(budget: Budget, at: int | None) -> int:
    """The size of the whole list, in tokens, at which reducing old results is enough and no summary is made.

    0.6 H, or two thirds of where the user compacts.
    """
    return budget.enough if at is None else min(budget.enough, 2 * at * budget.limit // 300)


def refused_limit(limit: int, size: int) -> int:
    """What a provider that refused a request of that size as too long can be expected to take."""
    return min(limit, size) * 8 // 10


def conversation_targets(
    parts: Parts, window: ContextWindow, *, at: int | None = None, overflow: bool = False
) -> list[int]:
    """Sizes for the conversation in estimated tokens, growing; reminders and the fixed part are beside it.

    The first is 0.35 of what H leaves for the conversation; a user who compacts `at` less than nine tenths of H gets
    four tenths of that share. None is larger than the budget; there are none if nothing is left for a conversation.
    After an overflow the budget was wrong: the size that did not fit counts in its place.
    """
    beside = window.beside(parts)
    estimated = beside + sum(map(window.estimate, parts.body))
    real = max(1, window.size(parts))
    least = min(35, 4 * at // 10) if at is not None else 35
    budget = window.budget
    limit, first, last = budget.limit, 0, budget.hard_trigger - 1
    if overflow:
        limit = refused_limit(limit, real)
        first, last = min(budget.target // 2, 35 * limit // 100), 0
    if real > estimated:  # the estimate is too low: aim lower by as much
        limit, first, last = (size * estimated // real for size in (limit, first, last))
    room = limit - beside
    if room <= 0:
        return []
    targets = [max(first - beside, room * least // 100), room * 60 // 100, max(last - beside, room * 85 // 100)]
    return [target for target in dict.fromkeys(targets) if target > 0]


class Share(Record):
    """One category: tokens used, and its limit."""

    name: str
    used: int
    limit: int


def category_sizes(messages: Sequence[Message], measure: Estimate, fixed: int) -> dict[str, int]:
    """Tokens by category; `fixed` is the size of system prompt and tools."""
    used = dict.fromkeys(CATEGORIES, 0)
    used["core"] = fixed
    current = newest_prompt(messages) % (len(messages) + 1)  # behind the last if there is none
    for place, message in enumerate(messages):
        size = measure(message)
        kind = kind_of(message)
        if kind == "reminder":
            used["core"] += size
        elif kind == "segment":
            quoted = size * _quoted(message) // max(1, len(message["content"] or ""))
            used["context"] += quoted
            used["history"] += size - quoted
        else:
            used["working" if place >= current else "context"] += size
    return used


def beyond(shares: Shares, used: Mapping[str, int]) -> dict[str, int]:
    """By how many tokens categories exceed their shares; empty if every allocation is granted."""
    over = {}
    for category, tokens in used.items():
        try:
            shares.allocate(category, tokens)
        except BudgetExceeded:
            over[category] = tokens - shares.left(category)
    return over


def _quoted(segment: Message) -> int:
    """Characters of the lines that a segment quotes from what tools and the model said, with the headings of these."""
    from codelet.context.compaction.segments import WrittenOut, heading, parse_segment

    written = WrittenOut()  # a heading takes what stands there of it, not all that it says
    entries = parse_segment(segment["content"] or "").entries
    heads = [heading(entry.turn, written.short(entry.label), entry.step) for entry in entries]
    said = [(head, *entry.lines) for head, entry in zip(heads, entries, strict=True) if not entry.is_words]
    return sum(len(line) + 1 for lines in said for line in lines)
