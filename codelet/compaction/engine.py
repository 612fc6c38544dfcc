"""The entry point of compaction: `compact(messages, target)`, pure, synchronous and deterministic."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, cast

from codelet.compaction import plan
from codelet.compaction.content import AnyMessage, Estimate
from codelet.compaction.errors import IrreducibleContext
from codelet.compaction.normalise import Normalised, normalise
from codelet.compaction.plan import Plan, Subject
from codelet.compaction.reading import read
from codelet.compaction.receipt import mends, receipt
from codelet.compaction.report import Compacted, Report
from codelet.compaction.settings import Settings
from codelet.compaction.summarise import Summary, summarise
from codelet.tokens.budget import checked_tokens
from codelet.tokens.estimate import estimate_message

# Where so much of the room is left over, the newest messages get it; each pass is a whole attempt.
_UNUSED_PERCENT = 8
_PASSES = 3


def compact(
    messages: Sequence[AnyMessage],
    target: int,
    *,
    estimate: Estimate | None = None,
    settings: Settings | None = None,
    pinned: Collection[int] = (),
    dropped: Collection[int] = (),
    narrative: Sequence[str] = (),
    in_flight: bool = False,
) -> Compacted:
    """A list that says what matters of `messages` in at most `target` tokens, and the report of what was done.

    `messages` are Chat Completions messages of any shape; they are not changed. `estimate` measures one message in
    tokens (default: characters / 4, rounded up, + 4). `pinned` and `dropped` are indices of messages; a call goes
    with its results. `narrative` are lines for the ledger, checked by the caller. `in_flight` leaves the calls of
    the last assistant message open. A list that fits already is only mended. Raises IrreducibleContext, with
    the floor itemised, when the target cannot be met, and ValueError for a target that is no positive integer.
    """
    target = checked_tokens(target, "target")
    measure = estimate or estimate_message
    normal = normalise(messages, in_flight=in_flight)
    sizes = [measure(message) for message in normal.messages]
    before = sum(sizes) if len(normal.messages) == len(messages) else _size(messages, measure, normal, sizes)
    if sum(sizes) <= target:
        return Compacted(_as_given(normal.messages, normal, messages), _mended(normal, target, before, sum(sizes)))
    subject = Subject(normal.messages, read(normal.messages), sizes, measure)
    place_of = {origin: place for place, origin in enumerate(normal.origin) if origin >= 0}
    held = [place_of[i] for i in pinned if i in place_of]
    gone = [place_of[i] for i in dropped if i in place_of]

    def attempt(wanted: Settings) -> tuple[Plan, Summary]:
        made = plan.make(subject, target, wanted, held, gone)
        return made, summarise(subject, made, wanted, target, narrative)

    made, summary = _filled(attempt, settings or Settings(), target)
    return Compacted(
        _as_given(summary.messages, normal, messages), receipt(subject, made, summary, normal, target, before)
    )


def _filled(
    attempt: Callable[[Settings], tuple[Plan, Summary]], settings: Settings, target: int
) -> tuple[Plan, Summary]:
    """The first attempt, or, where its lines leave much of the target unused, one that keeps more of the newest."""
    first = made, summary = attempt(settings)
    if 100 * (target - summary.size) < _UNUSED_PERCENT * target:
        return first
    # What the segments take now is theirs, the user's words in them included; the rest is for the newest.
    share = 100 * (made.available - summary.written) // max(1, made.available) - 1
    said = summary.words.size() * 100 // max(1, summary.characters) + 1
    try:
        second = attempt(
            replace(
                settings,
                fill=True,
                newest_percent=max(settings.newest_percent, share),
                tail_percent=share,
                user_percent=max(settings.user_percent, said),
            )
        )
    except IrreducibleContext:
        return first
    better = second[1].size > summary.size and second[1].words.mode == summary.words.mode
    return second if better else first


def _as_given(made: list[dict[str, Any]], normal: Normalised, given: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """The caller's own object for each message that only differs from it by what it is known to be."""
    own = {
        id(message): cast("dict[str, Any]", given[origin])
        for message, origin in zip(normal.messages, normal.origin, strict=True)
        if origin >= 0 and message is not given[origin] and message == given[origin]
    }
    return [own.get(id(message), message) for message in made]


def _size(messages: Sequence[AnyMessage], measure: Estimate, normal: Normalised, sizes: Sequence[int]) -> int:
    """The size of the list as it was given; what normalising left as it is has been measured already."""
    known = {id(message): size for message, size in zip(normal.messages, sizes, strict=True)}
    own = [message for message in messages if isinstance(message, dict)]
    return sum([known[id(message)] if id(message) in known else measure(message) for message in own])


def _mended(normal: Normalised, target: int, before: int, after: int) -> Report:
    return Report(0, target, before, after, kept_messages=len(normal.messages), mended=mends(normal))
