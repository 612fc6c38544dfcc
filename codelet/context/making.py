"""What a compaction puts in the list's place: made on a copy, tier by tier, fit to run in a thread; changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from codelet.context.asked import Size, asked
from codelet.context.entries import compact_old
from codelet.context.gauge import Gauge
from codelet.context.options import CompactionOptions
from codelet.context.pins import Pins
from codelet.context.receipt import Reason
from codelet.context.targets import beside_of, conversation_targets, reduced_size, refused_limit
from codelet.loop.conversation import Parts
from codelet.messages import Message
from codelet.record import Record
from codelet.tokens.budget import saves_enough
from codelet.tokens.estimate import Estimate

if TYPE_CHECKING:
    from codelet.compaction import Compacted
    from codelet.compaction.archive import Archive
    from codelet.context.smaller import Wish


# By hand the usual size is aimed at where that makes a conversation so much smaller, in per cent; else a relative one.
_FAR_PERCENT = 85
BESIDE = "system prompt, tools and reminders"


class Aim(Record):
    """Sizes for the conversation in tokens, best first, and what the newest turns may take of them in per cent.

    `holds` says whether a prompt that the model was not sent yet stays whole where that can be.
    """

    targets: tuple[int, ...]
    newest_percent: int | None = None
    holds: bool = True


class Maker:
    """Makes the smaller conversation out of a whole list. `archive` is what earlier compactions took out, if any."""

    def __init__(
        self, gauge: Gauge, options: CompactionOptions, pins: Pins, archive: Callable[[], Archive | None]
    ) -> None:
        self._gauge = gauge
        self._options = options
        self._pins = pins
        self._archive = archive
        self.held: Callable[[Message], bool] = lambda _: False
        """Whether the model is still to be sent a message: such a one stays whole where that can be."""

    def make(self, snapshot: Parts, reason: Reason, instruction: str = "", size: Size | None = None) -> Compacted:
        """The conversation in `snapshot`, smaller. Raises IrreducibleContext, and NothingToTakeOut to who asked.

        `size` is what who asked wants the next request to have. First old results are only reduced, where that is
        enough and keeps at least what a summary would keep. A user who says what matters wants a summary; so does an
        overflow, where every token counts.
        """
        if reason == "entries":
            body = snapshot.body
            return compact_old(
                body, self._options.keep_last, cast("Estimate", self._gauge.estimate), self._pinned(body)
            )
        aim = self._aim(snapshot, reason, size)
        reduced = None if instruction or reason == "overflow" else self._reduced(snapshot, reason, aim)
        if reduced is None:
            return self._summarised(snapshot, aim, instruction)
        return self._better(snapshot, aim, reduced)

    def _aim(self, snapshot: Parts, reason: Reason, size: Size | None) -> Aim:
        """What to aim at. Raises IrreducibleContext and NothingToTakeOut."""
        from codelet.compaction import IrreducibleContext

        gauge = self._gauge
        usual = conversation_targets(snapshot, gauge, at=self._options.at, overflow=reason == "overflow")
        beside = beside_of(snapshot, gauge)
        if reason == "asked":
            body = snapshot.body
            state = asked(body, gauge.size(snapshot), beside, self._options.keep_last, gauge.estimate)
            if size is None and usual and 100 * usual[0] <= _FAR_PERCENT * state.body:
                return Aim(tuple(usual))
            wanted = state.target(size)
            if size is None:
                wanted = min([wanted, *usual[:1]])
                larger = [target for target in usual if wanted < target < state.body]
                return Aim((wanted, *larger), state.newest_percent(wanted))
            usual = [wanted] if wanted > 0 else []
        if not usual:
            limit = size.of(gauge.size(snapshot)) if size is not None else gauge.budget.limit
            if reason == "overflow":
                limit = refused_limit(limit, gauge.size(snapshot))
            raise IrreducibleContext(min(limit, beside), {BESIDE: beside})
        return Aim(tuple(usual), holds=reason != "overflow")

    def _better(self, snapshot: Parts, aim: Aim, reduced: Compacted) -> Compacted:
        """The reduced conversation, or the summary where that keeps more of what the conversation says."""
        from codelet.compaction import IrreducibleContext
        from codelet.compaction.reduction import holds_as_much

        try:
            summary = self._summarised(snapshot, aim)
        except IrreducibleContext:
            return reduced
        whole = self._originals(snapshot.body)
        return reduced if holds_as_much(reduced.messages, summary.messages, whole) else summary

    def _reduced(self, snapshot: Parts, reason: Reason, aim: Aim | None = None) -> Compacted | None:
        """Tier 1: None where it saves too little, or leaves more than is good enough; by hand `aim` says how much."""
        from codelet.compaction.reading import faults
        from codelet.compaction.reduction import reduction

        body = snapshot.body
        if faults(body):
            return None
        size = self._gauge.size(snapshot)
        by_hand = reason == "asked" and aim is not None
        if by_hand and aim is not None:
            enough = sum(map(self._gauge.estimate, body)) - aim.targets[0]
        else:
            enough = size - reduced_size(self._gauge.budget, self._options.at)
        archive = self._archive()
        spared = [*self._pinned(body), *self._earlier(body)]
        made = reduction(
            cast("list[dict[str, Any]]", body),
            cast("Estimate", self._gauge.estimate),
            keep_turns=self._options.keep_last,
            least=1 if by_hand else self._gauge.budget.least_batch,
            enough=enough,
            spared=spared,
            first_id=archive.next_number if archive is not None else 1,
        )
        if made is None:
            return None
        saved = made.report.before - made.report.after
        return made if saved >= enough and saves_enough(size, size - saved) else None

    def summarised(
        self,
        snapshot: Parts,
        instruction: str = "",
        narrative: Sequence[str] = (),
        *,
        reason: Reason = "hard",
        size: Size | None = None,
    ) -> Compacted:
        """Tiers 2 and 3, to the first target that can be met. Raises IrreducibleContext and NothingToTakeOut."""
        return self._summarised(snapshot, self._aim(snapshot, reason, size), instruction, narrative)

    def _summarised(self, snapshot: Parts, aim: Aim, instruction: str = "", narrative: Sequence[str] = ()) -> Compacted:
        """The summary for an aim that is known.

        What was reduced before is read as it was, so that a reduction takes nothing from a later summary.
        """
        from codelet.compaction import IrreducibleContext

        body = snapshot.body
        wish = self._wish(body, instruction, narrative, aim.newest_percent)
        before = sum(map(self._gauge.estimate, body))
        held = [place for place, message in enumerate(body) if self.held(message) and aim.holds]
        wishes = [wish.replace(pinned=(*wish.pinned, *held)), wish] if held else [wish]
        attempts = [(each, target) for each in wishes for target in aim.targets]
        for number, (each, target) in enumerate(attempts, 1):
            try:
                made = self._smaller(body, before, target, each)
            except IrreducibleContext as error:
                if number == len(attempts):
                    beside = beside_of(snapshot, self._gauge)  # sizes are those of the next request, as everywhere
                    raise IrreducibleContext(error.target + beside, {BESIDE: beside, **error.floor}) from None
            else:
                return made._replace(report=replace(made.report, before=before))
        raise ValueError("there is no size to aim at")

    def _smaller(self, body: Sequence[Message], before: int, target: int, wish: Wish) -> Compacted:
        from codelet.context.smaller import smaller

        whole = self._originals(body)
        made = smaller(whole, target, self._gauge.estimate, wish)
        if made.report.after < before or whole == body:
            return made
        return smaller(body, target, self._gauge.estimate, wish)  # it fits: nothing is to come back

    def _wish(
        self, body: Sequence[Message], instruction: str, narrative: Sequence[str], newest_percent: int | None
    ) -> Wish:
        from codelet.context.smaller import Wish

        return Wish(
            limit=self._gauge.budget.limit,
            shares=self._options.shares,
            pinned=tuple(self._pinned(body)),
            keep_last=self._options.keep_last,
            minimum_score=self._options.minimum_score,
            instruction=instruction,
            narrative=tuple(narrative),
            newest_percent=newest_percent,
        )

    def _pinned(self, body: Sequence[Message]) -> list[int]:
        return [place for place, message in enumerate(body) if message in self._pins]

    def _earlier(self, body: Sequence[Message]) -> dict[int, Message]:
        """The originals of what was reduced before, by its place; without what was pinned since."""
        archive = self._archive()
        if archive is None:
            return {}
        found = ((place, archive.original(message)) for place, message in enumerate(body) if message not in self._pins)
        return {place: cast("Message", original) for place, original in found if original is not None}

    def _originals(self, body: Sequence[Message]) -> list[Message]:
        """The conversation with what was reduced before as it was."""
        earlier = self._earlier(body)
        return [earlier.get(place, message) for place, message in enumerate(body)]
