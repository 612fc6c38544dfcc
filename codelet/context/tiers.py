"""The tiers of a compaction: what is tried, in which order and to which size; made on a copy, fit to run in a thread.

First old results are only reduced (tier 1); if that is not enough, or a summary holds more, segments are written (tiers
2 and 3) that keep the categories within their shares. Of a list with too many entries the older part is halved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from operator import is_
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from codelet.context.allotment import (
    beyond,
    category_sizes,
    conversation_targets,
    reduced_size,
    refused_limit,
)
from codelet.context.asked import Size, manual_request
from codelet.context.compaction import Compacted, CompactionSettings, IrreducibleContext, compact
from codelet.context.compaction.engine import Prepared
from codelet.context.compaction.parsing import faults
from codelet.context.compaction.reduction import holds_as_much, reduction
from codelet.context.pins import Pins
from codelet.context.tokens import Estimate
from codelet.context.tokens.budget import CATEGORIES, CompactionOptions, Reason, Shares, saves_enough
from codelet.context.window import ContextWindow
from codelet.messages import Message, newest_messages, user
from codelet.record import Record

if TYPE_CHECKING:
    from codelet.context.compaction.archive import Archive
    from codelet.conversation import Parts

# A compaction by hand aims at the usual size if that leaves at most so much of a conversation; else at a relative one.
_FAR_PERCENT = 85
BESIDE = "system prompt, tools and reminders"
_PASSES = 8
_LIMITED = ("context", "history")


class Targets(Record):
    """Sizes for the conversation in tokens, best first, and what the newest turns may take of them in per cent.

    `holds` says whether a prompt that the model was not sent yet stays whole if it can.
    """

    sizes: tuple[int, ...]
    newest_percent: int | None = None
    holds: bool = True


class Constraints(Record):
    """What a summary has to respect. `pinned` are indices; `limit` is the budget that `shares`, in per cent, split.

    `instruction` is what the user wants kept: it counts as the newest prompt while turns are scored. The newest turns
    stay whole while they take at most `newest_percent` (None: what is usual). `votes` are what pins and drops say of
    turns, by number.
    """

    limit: int
    shares: tuple[int, ...] = tuple(CATEGORIES.values())
    pinned: tuple[int, ...] = ()
    keep_last: int = 3
    minimum_score: int = 0
    instruction: str = ""
    narrative: tuple[str, ...] = ()
    newest_percent: int | None = None
    votes: Mapping[int, int] = MappingProxyType({})


class Tiers:
    """Makes the smaller conversation out of a whole list; keeps nothing.

    `archive` is what earlier compactions took out, if any. `held` says whether the model is still to be sent a
    message: such a one stays whole if it can.
    """

    def __init__(
        self,
        window: ContextWindow,
        options: CompactionOptions,
        pins: Pins,
        archive: Archive | None,
        held: Callable[[Message], bool],
    ) -> None:
        self._window = window
        self._options = options
        self._pins = pins
        self._archive = archive
        self._held = held
        # The list that was read last, with the instruction behind it.
        self._read: tuple[Sequence[Message], str, Prepared] | None = None

    def compacted(self, snapshot: Parts, reason: Reason, instruction: str = "", size: Size | None = None) -> Compacted:
        """Return the conversation in `snapshot`, smaller. Raises IrreducibleContext and, by hand, NothingToCompact.

        `size` is what the user wants the next request to have. At first old results are only reduced, if that is
        enough and keeps at least what a summary would keep. A user who says what matters wants a summary; so does an
        overflow, where every token counts.
        """
        if reason == "entries":
            return _older_half(snapshot.body, self._options.keep_last, self._window.estimate, self._pinned(snapshot))
        targets = self._targets(snapshot, reason, size)
        reduced = None if instruction or reason == "overflow" else self._reduced(snapshot, reason, targets)
        if reduced is None:
            return self._summarised(snapshot, targets, instruction)
        return self._better(snapshot, targets, reduced)

    def summarised(
        self,
        snapshot: Parts,
        instruction: str = "",
        narrative: Sequence[str] = (),
        *,
        reason: Reason = "hard",
        size: Size | None = None,
    ) -> Compacted:
        """Tiers 2 and 3, to the first target that can be met. Raises IrreducibleContext and NothingToCompact."""
        return self._summarised(snapshot, self._targets(snapshot, reason, size), instruction, narrative)

    def _targets(self, snapshot: Parts, reason: Reason, size: Size | None) -> Targets:
        """What to aim at. Raises IrreducibleContext and NothingToCompact."""
        window = self._window
        usual = conversation_targets(snapshot, window, at=self._options.at, overflow=reason == "overflow")
        beside = window.beside(snapshot)
        if reason == "asked":
            request = manual_request(
                snapshot.body, window.size(snapshot), beside, self._options.keep_last, window.estimate
            )
            if size is None and usual and 100 * usual[0] <= _FAR_PERCENT * request.body:
                return Targets(tuple(usual))
            wanted = request.target(size)
            if size is None:
                wanted = min([wanted, *usual[:1]])
                larger = [target for target in usual if wanted < target < request.body]
                return Targets((wanted, *larger), request.newest_percent(wanted))
            usual = [wanted] if wanted > 0 else []
        if not usual:
            limit = size.of(window.size(snapshot)) if size is not None else window.budget.limit
            if reason == "overflow":
                limit = refused_limit(limit, window.size(snapshot))
            raise IrreducibleContext(min(limit, beside), {BESIDE: beside})
        return Targets(tuple(usual), holds=reason != "overflow")

    def _better(self, snapshot: Parts, targets: Targets, reduced: Compacted) -> Compacted:
        """The reduced conversation, or the summary if that keeps more of what the conversation says."""
        try:
            summary = self._summarised(snapshot, targets)
        except IrreducibleContext:
            return reduced
        whole = self.originals(snapshot.body)
        return reduced if holds_as_much(reduced.messages, summary.messages, whole) else summary

    def _reduced(self, snapshot: Parts, reason: Reason, targets: Targets) -> Compacted | None:
        """Tier 1; None if it saves too little, or leaves more than is good enough (by hand: more than the target)."""
        body = snapshot.body
        if faults(body):
            return None
        size, budget = self._window.size(snapshot), self._window.budget
        by_hand = reason == "asked"
        if by_hand:
            enough = sum(map(self._window.estimate, body)) - targets.sizes[0]
        else:
            enough = size - reduced_size(budget, self._options.at)
        if not by_hand and sum(map(self._window.estimate, map(_said, body))) > size - enough:
            return None  # what is said alone takes more than would be enough
        made = reduction(
            cast("list[dict[str, Any]]", body),
            self._window.estimate,
            keep_turns=self._options.keep_last,
            least=max(enough, 1 if by_hand else budget.least_batch),
            enough=enough,
            spared=[*self._pinned(snapshot), *self._earlier(body)],
            first_id=self._archive.next_number if self._archive is not None else 1,
        )
        if made is None:
            return None
        saved = made.report.before - made.report.after
        return made if saves_enough(size, size - saved) else None

    def _summarised(
        self, snapshot: Parts, targets: Targets, instruction: str = "", narrative: Sequence[str] = ()
    ) -> Compacted:
        """The summary for targets that are known.

        What was reduced before is read as it was, so that a reduction takes nothing from a later summary.
        """
        body = snapshot.body
        usual = Constraints(
            limit=self._window.budget.limit,
            shares=self._options.shares,
            pinned=tuple(self._pinned(snapshot)),
            keep_last=self._options.keep_last,
            minimum_score=self._options.minimum_score,
            instruction=instruction,
            narrative=tuple(narrative),
            newest_percent=targets.newest_percent,
            votes=self._pins.votes(body),
        )
        before = sum(map(self._window.estimate, body))
        held = [place for place, message in enumerate(body) if self._held(message) and targets.holds]
        tries = [usual.replace(pinned=(*usual.pinned, *held)), usual] if held else [usual]
        attempts = [(constraints, target) for constraints in tries for target in targets.sizes]
        for number, (constraints, target) in enumerate(attempts, 1):
            try:
                made = self._smaller(body, before, target, constraints)
            except IrreducibleContext as error:
                if number == len(attempts):
                    beside = self._window.beside(snapshot)  # sizes are those of the next request, as everywhere
                    raise IrreducibleContext(error.target + beside, {BESIDE: beside, **error.floor}) from None
            else:
                return made._replace(report=replace(made.report, before=before))
        raise ValueError("there is no size to aim at")

    def _smaller(self, body: Sequence[Message], before: int, target: int, constraints: Constraints) -> Compacted:
        whole = self.originals(body)
        made = _within_shares(self._prepared(whole, constraints.instruction), target, constraints)
        if made.report.after < before or whole == body:
            return made
        # It fits: nothing is to come back.
        return _within_shares(self._prepared(body, constraints.instruction), target, constraints)

    def _prepared(self, body: Sequence[Message], instruction: str) -> Prepared:
        """The conversation, read; an instruction counts as its newest prompt. The same one is not read twice."""
        known = self._read
        same = known is not None and known[1] == instruction and len(known[0]) == len(body)
        if known is not None and same and all(map(is_, known[0], body)):
            return known[2]
        given = [*body, user(instruction)] if instruction else body
        self._read = body, instruction, Prepared(given, self._window.estimate, of_length=self._window.estimate_length)
        return self._read[2]

    def _pinned(self, snapshot: Parts) -> list[int]:
        return [place for place, message in enumerate(snapshot.body) if message in self._pins]

    def _earlier(self, body: Sequence[Message]) -> dict[int, Message]:
        """The originals of what was reduced before, by its place; without what was pinned since."""
        archive = self._archive
        if archive is None:
            return {}
        found = ((place, archive.original(message)) for place, message in enumerate(body) if message not in self._pins)
        return {place: cast("Message", original) for place, original in found if original is not None}

    def originals(self, body: Sequence[Message]) -> list[Message]:
        """The conversation with what was reduced before as it was."""
        earlier = self._earlier(body)
        return [earlier.get(place, message) for place, message in enumerate(body)]


def _said(message: Message) -> Message:
    """A message as no reduction can make it smaller: what somebody said, and of a result nothing."""
    return {"role": message["role"], "content": message["content"] if message["role"] != "tool" else ""}


def _within_shares(prepared: Prepared, target: int, constraints: Constraints) -> Compacted:
    """Compact a conversation to at most `target` tokens. Raises IrreducibleContext.

    Each share is given once, as a limit. Where a category passes it even so, as the newest turns may, segments are
    written again for as much less; what is kept beside them stays as it is. A warning names what is too large at last,
    as pinned messages may be.
    """
    shares = Shares.of(constraints.limit, constraints.shares)
    settings = usual = CompactionSettings(
        newest_percent=max(constraints.newest_percent or 0, CompactionSettings().newest_percent),
        history=shares.share("history"),
        context=shares.share("context"),
    )
    measure = prepared.measure
    made = _once(prepared, target, constraints, settings)
    size = target
    for number in range(_PASSES):
        over = _over(made, measure, constraints)
        if not over or made.report.tier < 2:
            break
        if number == 0:  # characters told the tokens only about
            settings = replace(
                settings,
                history=max(0, shares.share("history") - 2 * over.get("history", 0)),
                context=max(0, shares.share("context") - 2 * over.get("context", 0)),
            )
        else:
            size = min(size, made.report.after) - sum(over.values())
        if "history" in over and number > 2:  # the user's words are at their least for this size
            size = size * (number + 3) // (number + 5)
        if size <= 0:
            break
        settings = replace(
            settings,  # of the smaller target a larger part: the newest turns are kept as before
            newest_percent=min(95, usual.newest_percent * target // size),
            tail_percent=min(90, CompactionSettings().tail_percent * target // size),
            user_percent=settings.user_percent * 2 // 3 if number and "history" in over else settings.user_percent,
        )
        try:
            made = _once(prepared, size, constraints, settings)
        except IrreducibleContext:
            break
    over = _over(made, measure, constraints) if made.report.tier >= 2 else {}
    notes = tuple(f"The share of {name} is passed by {tokens:,} tokens." for name, tokens in over.items())
    return made._replace(report=replace(made.report, warnings=(*made.report.warnings, *notes))) if notes else made


def _over(made: Compacted, measure: Estimate, constraints: Constraints) -> dict[str, int]:
    """By how many tokens a result passes the shares of what compaction can make smaller."""
    sizes = category_sizes(cast("list[Message]", made.messages), measure, 0)
    return beyond(Shares.of(constraints.limit, constraints.shares), {name: sizes[name] for name in _LIMITED})


def _once(prepared: Prepared, target: int, constraints: Constraints, settings: CompactionSettings) -> Compacted:
    """Compact once; the user's instruction, if there is one, counts as the newest prompt and is no part of it."""
    extra = 1 if constraints.instruction else 0
    made = prepared.compacted(
        target,
        settings=replace(
            settings,
            keep_last=constraints.keep_last + extra,
            minimum_score=constraints.minimum_score,
            feedback=constraints.votes,
        ),
        pinned=constraints.pinned,
        narrative=constraints.narrative,
    )
    if not extra:
        return made
    report = replace(
        made.report,
        after=made.report.after - prepared.measure(made.messages[-1]),
        turns=made.report.turns[:-1],
        removed=tuple(place for place in made.report.removed if place < len(prepared.given) - 1),
        user_messages=max(0, made.report.user_messages - 1),
    )
    return Compacted(made.messages[:-1], report)


def _older_half(
    conversation: Sequence[Message], keep_last: int, estimate: Estimate, pinned: Collection[int]
) -> Compacted:
    """Halve what stands before the newest turns, which stay word for word. Raises IrreducibleContext."""
    count = len(conversation) - newest_messages(conversation, keep_last)
    old = conversation[:count]
    target = max(1, sum(map(estimate, old)) // 2)
    kept = [place for place in pinned if place < count]
    made = compact(old, target, estimate=estimate, settings=CompactionSettings(keep_last=1), pinned=kept)
    made.messages.extend(cast("list[dict[str, Any]]", conversation[count:]))
    return made
