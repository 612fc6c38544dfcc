"""The shares: what each category of the context uses of the budget, and how much it may.

core: system prompt, tools, reminders. context: what stands word for word of earlier turns: whole messages, the pinned
ones among them, and the lines that segments quote. history: what segments say beside that, the user's requests and the
ledger. working: the current turn. Each limit bites somewhere: history and context where a compaction writes segments,
context where a message is pinned, working where a result enters the list. Core cannot be made smaller here: what it
takes beyond its share is missing to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from codelet.messages import Message, kind_of, newest_prompt
from codelet.record import Record
from codelet.tokens.budget import CATEGORIES, BudgetExceeded, Shares


class Share(Record):
    """One category: tokens used, and its limit."""

    name: str
    used: int
    limit: int


def shares_of(limit: int, percent: Sequence[int]) -> Shares:
    """The split of a budget. Raises ValueError for shares that are not four positive numbers adding up to 100."""
    return Shares(limit, dict(zip(CATEGORIES, percent, strict=True)))


def category_sizes(messages: Sequence[Message], measure: Callable[[Message], int], fixed: int) -> dict[str, int]:
    """Tokens by category; `fixed` is the size of system prompt and tools."""
    used = dict.fromkeys(CATEGORIES, 0)
    used["core"] = fixed
    current = newest_prompt(messages) % (len(messages) + 1)  # behind the last where there is none
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
    """By how many tokens categories pass their shares; empty where every allocation is granted."""
    over = {}
    for category, tokens in used.items():
        try:
            shares.allocate(category, tokens)
        except BudgetExceeded:
            over[category] = tokens - shares.left(category)
    return over


def _quoted(segment: Message) -> int:
    """Characters of the lines that a segment quotes from what tools and the model said."""
    from codelet.compaction.segments import parse

    entries = parse(segment["content"] or "").entries
    return sum(len(line) + 1 for e in entries if not e.is_words for line in e.lines)
