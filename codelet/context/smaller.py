"""One compaction of a conversation as the session wants it: pins, an instruction, and a limit for the segments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from codelet.compaction import Compacted, IrreducibleContext, Settings, compact
from codelet.compaction.content import Estimate
from codelet.context.shares import is_segment
from codelet.messages import Message, user
from codelet.record import Record

_PASSES = 3


class Wish(Record):
    """What a compaction is to respect. `pinned` are indices, `history` is the most that segments may have in tokens.

    `instruction` is what the user wants kept: it counts as the newest prompt while turns are scored.
    """

    pinned: tuple[int, ...] = ()
    keep_last: int = 3
    minimum_score: int = 0
    history: int | None = None
    instruction: str = ""
    narrative: tuple[str, ...] = ()


def smaller(body: list[Message], target: int, measure: Callable[[Message], int], wish: Wish) -> Compacted:
    """Compact a conversation to at most `target` tokens. Raises IrreducibleContext.

    Segments that take more than their share are written again, smaller; what is kept beside them stays as it is.
    """
    made = _once(body, target, measure, wish, Settings())
    aim = target
    for _ in range(_PASSES):
        over = _history(made, measure) - wish.history if wish.history is not None else 0
        if over <= 0 or made.report.tier < 2:
            break
        aim = min(aim, made.report.after) - over
        if aim <= 0:
            break
        whole = Settings()
        settings = replace(
            whole,  # of the smaller target a larger part: the newest turns are kept as before
            newest_percent=min(90, whole.newest_percent * target // aim),
            tail_percent=min(90, whole.tail_percent * target // aim),
        )
        try:
            made = _once(body, aim, measure, wish, settings)
        except IrreducibleContext:
            break
    return made


def _once(
    body: list[Message], target: int, measure: Callable[[Message], int], wish: Wish, settings: Settings
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


def _history(made: Compacted, measure: Callable[[Message], int]) -> int:
    """What the segments of a result take, in tokens."""
    return sum(measure(message) for message in cast("list[Message]", made.messages) if is_segment(message))
