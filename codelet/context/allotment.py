"""How the budget is spent: the size that a compaction aims at, decided once, and the share of each category.

core: system prompt, tools, reminders. context: what stands word for word of earlier turns: whole messages, the pinned
ones among them, and the prose and evidence of segments. history: what segments say beside that, the user's words and
recorded state. working: the current turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from codelet.context.asked import Size, manual_request
from codelet.context.tokens import Estimate
from codelet.context.tokens.budget import CATEGORIES, Budget, CompactionOptions, Reason, Shares
from codelet.context.window import ContextWindow
from codelet.messages import Message, kind_of, newest_messages, newest_prompt
from codelet.record import Record

if TYPE_CHECKING:
    from codelet.conversation import Parts

# In percent of the budget, or of where the user compacts: what a compaction aims at, what it may leave at most, what
# the newest turns may take, and what there is beside them for everything else.
USUAL, MOST, TURNS, BESIDE_TURNS = 35, 80, 60, 10
_LEAST_TEXT = 5
# A compaction by hand aims at the usual size if that leaves at most so much of a conversation; else at a relative one.
_FAR_PERCENT = 85
# With a size by hand: what the newest turns may take of it.
_TURNS_OF_SIZE = 75


class SizeTarget(Record, kw_only=True):
    """A size for the conversation in tokens, and what of it the newest turns and unseen results may take whole.

    `note` says why fewer of the newest turns than asked for stay whole, if that is so.
    """

    size: int
    whole: int
    unseen: int
    note: str = ""


def refused_limit(limit: int, size: int) -> int:
    """What a provider that refused a request of that size as too long can be expected to take."""
    return min(limit, size) * 8 // 10


def conversation_targets(
    parts: Parts, window: ContextWindow, options: CompactionOptions, reason: Reason, size: Size | None = None
) -> list[SizeTarget]:
    """Return sizes for the conversation, best first; none if there is no room for one.

    The first is the larger of 35 % of the budget and the newest turns with 10 % of it, at most 80 %. Each turn of the
    newest ones stays whole if they take at most 60 % together. Raises NothingToCompact for a compaction by hand that
    would change nothing.
    """
    beside = window.beside(parts)
    usual = _usual(parts, window, options, beside, overflow=reason == "overflow")
    if reason == "entries":
        body = sum(map(window.estimate, parts.body))
        return [target.replace(size=min(target.size, body)) for target in usual]
    if reason != "asked":
        return usual
    request = manual_request(parts.body, window.size(parts), beside, options.keep_last, window.estimate)
    if size is None and usual and 100 * usual[0].size <= _FAR_PERCENT * request.body:
        return usual
    wanted = request.target(size)
    if size is not None:
        whole = wanted * _TURNS_OF_SIZE // 100
        return [SizeTarget(size=wanted, whole=whole, unseen=whole)] if wanted > 0 else []
    larger = [target for target in usual if wanted < target.size < request.body]
    wanted = min([wanted, *(target.size for target in usual[:1])])
    return [SizeTarget(size=wanted, whole=wanted * 95 // 100, unseen=wanted * 95 // 100), *larger]


def _usual(
    parts: Parts, window: ContextWindow, options: CompactionOptions, beside: int, *, overflow: bool
) -> list[SizeTarget]:
    body, budget = parts.body, window.budget
    estimated, real = beside + sum(map(window.estimate, body)), max(1, window.size(parts))
    base = refused_limit(budget.limit, real) if overflow else budget.limit
    if options.at is not None:
        base = min(base, options.at * budget.limit // 90)
    most = base * MOST // 100 if overflow else budget.hard_trigger - 1
    if real > estimated:  # the estimate is too low: aim lower by as much
        base, most = base * estimated // real, most * estimated // real
    room = base * MOST // 100 - beside
    least = base * _LEAST_TEXT // 100
    wanted = min(options.keep_last, sum(kind_of(message) == "prompt" for message in body))
    sizes = {turns: _newest_size(body, turns, window.estimate) for turns in range(wanted, 0, -1)}
    fitting = [turns for turns, size in sizes.items() if size <= min(base * TURNS // 100, room - least)]
    if (context := context_share(budget, options)) is not None:
        fitting = [turns for turns in fitting if sizes[turns] - sizes[1] <= context]
    turns = max(fitting, default=0)
    kept = sizes.get(turns, 0) if turns else min(max(0, room - least), _unseen_size(body, window.estimate))
    note = ""
    if turns < wanted:
        note = (
            f"{turns} of the newest {wanted} turns stay word for word: together they take {sizes[wanted]:,} tokens, "
            f"and there is room for {max(0, min(base * TURNS // 100, room - least)):,}"
        )
    first = min(room, max(base * USUAL // 100 - beside, kept + base * BESIDE_TURNS // 100))
    tries = [first, base * TURNS // 100 - beside, most - beside]
    sizes_tried = dict.fromkeys(size for size in tries if size >= first and size > 0)
    return [
        SizeTarget(size=size, whole=kept if turns else 0, unseen=max(0, size - least), note=note)
        for size in sizes_tried
    ]


def context_share(budget: Budget, options: CompactionOptions) -> int | None:
    """What earlier turns and their quotes may take, if the user set shares; else the newest turns go first."""
    if options.shares == tuple(CATEGORIES.values()):
        return None
    return Shares.of(budget.limit, options.shares).share("context")


def _newest_size(body: Sequence[Message], turns: int, estimate: Estimate) -> int:
    return sum(map(estimate, body[len(body) - newest_messages(body, turns) :]))


def _unseen_size(body: Sequence[Message], estimate: Estimate) -> int:
    """The size of the results that the model has not seen, with their call and the newest prompt."""
    if not body or kind_of(body[-1]) not in ("prompt", "tool"):
        return 0
    place = len(body) - 1
    while place > 0 and body[place]["role"] == "tool":
        place -= 1
    prompt = newest_prompt(body)
    return sum(map(estimate, body[place:])) + (estimate(body[prompt]) if 0 <= prompt < place else 0)


class Share(Record):
    """One category: tokens used, and its limit."""

    name: str
    used: int
    limit: int


def category_sizes(messages: Sequence[Message], measure: Estimate, fixed: int) -> dict[str, int]:
    """Return the tokens by category; `fixed` is the size of system prompt and tools."""
    used = dict.fromkeys(CATEGORIES, 0)
    used["core"] = fixed
    current = newest_prompt(messages) % (len(messages) + 1)  # after the last if there is none
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


def _quoted(segment: Message) -> int:
    """Characters of what a segment quotes of the agent, calls, and results."""
    from codelet.context.compaction.segments import parse_segment

    entries = parse_segment(segment["content"] or "").entries
    return sum(len(line) + 1 for entry in entries if not entry.is_words for line in (entry.label, *entry.lines))
