"""The entry point of compaction: `compact(messages, target)`, pure, synchronous and deterministic."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from codelet.compaction import plan
from codelet.compaction.content import AnyMessage, Estimate
from codelet.compaction.normalise import Normalised, normalise
from codelet.compaction.plan import Subject
from codelet.compaction.reading import read
from codelet.compaction.receipt import mends, receipt
from codelet.compaction.report import Compacted, Report
from codelet.compaction.settings import Settings
from codelet.compaction.summarise import summarise
from codelet.tokens.budget import checked_tokens
from codelet.tokens.estimate import estimate_message


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
        return Compacted(list(normal.messages), _mended(normal, target, before, sum(sizes)))
    subject = Subject(normal.messages, read(normal.messages), sizes, measure)
    place_of = {origin: place for place, origin in enumerate(normal.origin) if origin >= 0}
    made = plan.make(
        subject,
        target,
        settings or Settings(),
        [place_of[i] for i in pinned if i in place_of],
        [place_of[i] for i in dropped if i in place_of],
    )
    summary = summarise(subject, made, settings or Settings(), target, narrative)
    return Compacted(summary.messages, receipt(subject, made, summary, normal, target, before))


def _size(messages: Sequence[AnyMessage], measure: Estimate, normal: Normalised, sizes: Sequence[int]) -> int:
    """The size of the list as it was given; what normalising left as it is has been measured already."""
    known = {id(message): size for message, size in zip(normal.messages, sizes, strict=True)}
    own = [message for message in messages if isinstance(message, dict)]
    return sum([known[id(message)] if id(message) in known else measure(message) for message in own])


def _mended(normal: Normalised, target: int, before: int, after: int) -> Report:
    return Report(0, target, before, after, kept_messages=len(normal.messages), mended=mends(normal))
