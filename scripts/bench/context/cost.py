"""A cost replay: what a session's requests cost under a prefix-cache price model, by reminder placement and by policy.

A token that the cache holds costs 0.1, one written to it 1.25. The cache holds the longest prefix, message by message,
of the request before. Costs are of input only and relative to the same session without volatile reminders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from codelet.context.tokens import estimate_message
from context.baselines import Message, Policy, size

READ_MILLI, WRITE_MILLI = 100, 1_250
FIXED = 6_000
STABLE = 2_000
VOLATILE = 220
Placement = Callable[[list[Message], int, int], list[Message]]


def _volatile(version: int) -> Message:
    return {"role": "user", "content": f"<system-reminder>\n<!-- type:tokenStatus -->\n{version} " + "x" * 4 * VOLATILE}


def none(messages: list[Message], turn: int, step: int) -> list[Message]:
    """No volatile reminder at all."""
    return messages


def tail(messages: list[Message], turn: int, step: int) -> list[Message]:
    """Last in the request, moved along at each step: what codelet does. It is never written to the cache."""
    return [*messages, _volatile(step)]


def prepended_each_turn(messages: list[Message], turn: int, step: int) -> list[Message]:
    """First in the request, renewed at each turn: the seed's order."""
    return [_volatile(turn), *messages]


def prepended_each_step(messages: list[Message], turn: int, step: int) -> list[Message]:
    """First in the request, renewed at each step."""
    return [_volatile(step), *messages]


PLACEMENTS: dict[str, Placement] = {
    "no volatile reminder": none,
    "last, moved along at each step (codelet)": tail,
    "prepended at each turn (seed)": prepended_each_turn,
    "prepended at each step": prepended_each_step,
}


def replay(
    messages: Sequence[Message],
    placement: Placement = none,
    policy: Policy | None = None,
    limit: int = 180_000,
    target: int = 63_000,
) -> tuple[int, int, int]:
    """Cost in milli-tokens, number of requests, number of compactions. A request leaves before each assistant message.

    With a policy the list is compacted to `target` when it passes `limit` tokens.
    """
    current: list[Message] = []
    cached: list[Message] = []
    cost = turn = step = compactions = total = 0
    for message in messages:
        if message["role"] == "user":
            turn += 1
        if message["role"] == "assistant":
            step += 1
            if policy is not None and total > limit:
                current = policy(current, target)
                total = size(current)
                compactions += 1
            request = placement(current, turn, step)
            cost += _price(request, cached, uncached_tail=placement is tail)
            cached = current if placement is tail else request
            cached = list(cached)
        current.append(message)
        total += estimate_message(message)
    return cost, step, compactions


def _price(request: Sequence[Message], cached: Sequence[Message], *, uncached_tail: bool) -> int:
    shared = 0
    for now, before in zip(request, cached, strict=False):
        if now is not before and now != before:
            break
        shared += 1
    read = FIXED + STABLE + size(list(request[:shared]))
    fresh = size(list(request[shared:]))
    plain = size([request[-1]]) if uncached_tail and request else 0
    return READ_MILLI * read + WRITE_MILLI * (fresh - plain) + 1_000 * plain
