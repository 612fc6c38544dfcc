"""One compaction of a conversation as the session wants it: pins, an instruction, and shares that it keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from codelet.compaction import Compacted, CompactionSettings, IrreducibleContext, compact
from codelet.context.shares import beyond, category_sizes, shares_of
from codelet.messages import Message, user
from codelet.record import Record
from codelet.tokens.budget import CATEGORIES
from codelet.tokens.estimate import Estimate

_PASSES = 8
_LIMITED = ("context", "history")


class Wish(Record):
    """What a compaction is to respect. `pinned` are indices; `limit` is the budget that `shares`, in per cent, split.

    `instruction` is what the user wants kept: it counts as the newest prompt while turns are scored. The newest turns
    stay whole while they take at most `newest_percent` (None: what is usual).
    """

    limit: int
    shares: tuple[int, ...] = tuple(CATEGORIES.values())
    pinned: tuple[int, ...] = ()
    keep_last: int = 3
    minimum_score: int = 0
    instruction: str = ""
    narrative: tuple[str, ...] = ()
    newest_percent: int | None = None


def smaller(body: Sequence[Message], target: int, measure: Callable[[Message], int], wish: Wish) -> Compacted:
    """Compact a conversation to at most `target` tokens. Raises IrreducibleContext.

    Where a category passes its share, segments are written again for as much less; what is kept beside them stays as
    it is. A warning names what is too large even so, as pinned messages may be.
    """
    settings = usual = CompactionSettings(
        newest_percent=max(wish.newest_percent or 0, CompactionSettings().newest_percent)
    )
    made = _once(body, target, measure, wish, settings)
    aim = target
    for number in range(_PASSES):
        over = _over(made, measure, wish)
        if not over or made.report.tier < 2:
            break
        aim = min(aim, made.report.after) - sum(over.values())
        if "history" in over and number > 1:  # the user's words are at their least for this size
            aim = aim * (number + 4) // (number + 6)
        if aim <= 0:
            break
        settings = replace(
            settings,  # of the smaller target a larger part: the newest turns are kept as before
            newest_percent=min(95, usual.newest_percent * target // aim),
            tail_percent=min(90, CompactionSettings().tail_percent * target // aim),
            user_percent=settings.user_percent * 2 // 3 if "history" in over else settings.user_percent,
        )
        try:
            made = _once(body, aim, measure, wish, settings)
        except IrreducibleContext:
            break
    return _warned(made, measure, wish)


def _over(made: Compacted, measure: Callable[[Message], int], wish: Wish) -> dict[str, int]:
    """By how many tokens a result passes the shares of what compaction can make smaller."""
    sizes = category_sizes(cast("list[Message]", made.messages), measure, 0)
    return beyond(shares_of(wish.limit, wish.shares), {name: sizes[name] for name in _LIMITED})


def _warned(made: Compacted, measure: Callable[[Message], int], wish: Wish) -> Compacted:
    over = _over(made, measure, wish) if made.report.tier >= 2 else {}
    notes = tuple(f"The share of {name} is passed by {tokens:,} tokens." for name, tokens in over.items())
    return made._replace(report=replace(made.report, warnings=(*made.report.warnings, *notes))) if notes else made


def _once(
    body: Sequence[Message], target: int, measure: Callable[[Message], int], wish: Wish, settings: CompactionSettings
) -> Compacted:
    extra = user(wish.instruction) if wish.instruction else None
    made = compact(
        [*body, extra] if extra else body,
        target,
        estimate=cast("Estimate", measure),
        settings=replace(settings, keep_last=wish.keep_last + bool(extra), minimum_score=wish.minimum_score),
        pinned=wish.pinned,
        narrative=wish.narrative,
    )
    return _without_last(made, len(body), measure) if extra else made


def _without_last(made: Compacted, length: int, measure: Callable[[Message], int]) -> Compacted:
    """The result without the instruction, which was never part of the conversation."""
    size = measure(cast("Message", made.messages[-1]))
    report = replace(
        made.report,
        after=made.report.after - size,
        turns=made.report.turns[:-1],
        removed=tuple(place for place in made.report.removed if place < length),
        user_messages=max(0, made.report.user_messages - 1),
    )
    return Compacted(made.messages[:-1], report)
