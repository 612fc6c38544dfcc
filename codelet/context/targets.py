"""The sizes that a compaction aims at, best first: what is tried when the first one cannot be met."""

from __future__ import annotations

from codelet.context.gauge import Gauge
from codelet.loop.conversation import Parts
from codelet.tokens.budget import Budget


def reduced_size(budget: Budget, at: int | None) -> int:
    """The size of the whole list, in tokens, at which reducing old results is enough and no summary is made.

    0.6 H, or two thirds of where the user compacts.
    """
    return budget.enough if at is None else min(budget.enough, 2 * at * budget.limit // 300)


def beside_of(parts: Parts, gauge: Gauge) -> int:
    """What stands beside the conversation in tokens: system prompt, tools and reminders."""
    return gauge.fixed_size + sum(map(gauge.estimate, [*parts.head, *parts.tail]))


def refused_limit(limit: int, size: int) -> int:
    """What a provider can be hoped to take that refused a request of that size as too long."""
    return min(limit, size) * 8 // 10


def conversation_targets(parts: Parts, gauge: Gauge, *, at: int | None = None, overflow: bool = False) -> list[int]:
    """Sizes for the conversation in estimated tokens, growing; reminders and the fixed part are beside it.

    The first leaves the list at 0.35 H, or, where what is beside the conversation is large, at as much of the rest;
    a user who compacts `at` less than nine tenths of H gets four tenths of that.
    None is larger than the budget; empty where nothing is left for a conversation.
    After an overflow the budget was wrong: the size that did not fit counts in its place.
    """
    beside = beside_of(parts, gauge)
    estimated = beside + sum(map(gauge.estimate, parts.body))
    real = max(1, gauge.size(parts))
    budget = gauge.budget
    limit = budget.limit
    least = min(35, 4 * at // 10) if at is not None else 35
    wanted = [min(budget.target, least * limit // 100), budget.enough, budget.hard_trigger - 1]
    if overflow:
        limit = refused_limit(limit, real)
        wanted = [min(budget.target // 2, 35 * limit // 100), 35 * limit // 100, 60 * limit // 100]
    if real > estimated:  # the estimate is too low: aim lower by as much
        wanted = [size * estimated // real for size in wanted]
        limit = limit * estimated // real
    room = limit - beside
    if room <= 0:
        return []
    targets = [max(size - beside, room * percent // 100) for size, percent in zip(wanted, (least, 60, 85), strict=True)]
    return [target for target in dict.fromkeys(targets) if target > 0]
