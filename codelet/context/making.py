"""What a compaction puts in the list's place: made on a copy, tier by tier, fit to run in a thread; changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from codelet.context.entries import compact_old
from codelet.context.gauge import Gauge
from codelet.context.options import CompactionOptions
from codelet.context.pins import Pins
from codelet.context.receipt import Reason
from codelet.context.shares import category_sizes
from codelet.context.targets import conversation_targets, parts, reduced_size
from codelet.messages import Message
from codelet.tokens.budget import saves_enough

if TYPE_CHECKING:
    from codelet.compaction import Compacted
    from codelet.compaction.archive import Archive
    from codelet.compaction.content import Estimate
    from codelet.context.smaller import Wish


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

    def make(self, snapshot: list[Message], reason: Reason, instruction: str = "") -> Compacted:
        """The conversation in `snapshot`, smaller. Raises IrreducibleContext.

        First old results are only reduced, where that is enough and keeps at least what a summary would keep. A user
        who says what matters wants a summary; so does an overflow, where every token counts.
        """
        if reason == "entries":
            body = parts(snapshot)[1]
            return compact_old(
                body, self._options.keep_last, cast("Estimate", self._gauge.estimate), self._pinned(body)
            )
        reduced = None if instruction or reason == "overflow" else self._reduced(snapshot, reason)
        if reduced is None:
            return self.summarised(snapshot, instruction, overflow=reason == "overflow")
        return self._better(snapshot, reduced)

    def _better(self, snapshot: list[Message], reduced: Compacted) -> Compacted:
        """The reduced conversation, or the summary where that keeps more of what the conversation says."""
        from codelet.compaction import IrreducibleContext
        from codelet.compaction.reduction import holds_as_much

        try:
            summary = self.summarised(snapshot)
        except IrreducibleContext:
            return reduced
        whole = self._originals(parts(snapshot)[1])
        return reduced if holds_as_much(reduced.messages, summary.messages, whole) else summary

    def _reduced(self, snapshot: list[Message], reason: Reason) -> Compacted | None:
        """Tier 1: None where it saves too little, or leaves more than is good enough."""
        from codelet.compaction.commit import faults
        from codelet.compaction.reduction import reduction

        _, body, _ = parts(snapshot)
        if faults(body):
            return None
        size = self._gauge.size(snapshot)
        enough = size - reduced_size(self._gauge.budget, self._options.at, asked=reason == "asked")
        archive = self._archive()
        spared = [*self._pinned(body), *self._earlier(body)]
        made = reduction(
            cast("list[dict[str, Any]]", body),
            cast("Estimate", self._gauge.estimate),
            keep_turns=self._options.keep_last,
            least=self._gauge.budget.least_batch,
            enough=enough,
            spared=spared,
            first_id=archive.next_number if archive is not None else 1,
        )
        if made is None:
            return None
        saved = made.report.before - made.report.after
        return made if saved >= enough and saves_enough(size, size - saved) else None

    def summarised(
        self, snapshot: list[Message], instruction: str = "", narrative: Sequence[str] = (), *, overflow: bool = False
    ) -> Compacted:
        """Tiers 2 and 3, to the first target that can be met. Raises IrreducibleContext.

        What was reduced before is read as it was, so that a reduction takes nothing from a later summary.
        """
        from codelet.compaction import IrreducibleContext

        body = parts(snapshot)[1]
        targets = conversation_targets(snapshot, self._gauge, at=self._options.at, overflow=overflow)
        wish = self._wish(body, instruction, narrative)
        before = sum(map(self._gauge.estimate, body))
        held = [place for place, message in enumerate(body) if self.held(message) and not overflow]
        wishes = [wish.replace(pinned=(*wish.pinned, *held)), wish] if held else [wish]
        attempts = [(each, target) for each in wishes for target in targets]
        for attempt in attempts:
            try:
                made = self._smaller(body, before, attempt[1], attempt[0])
            except IrreducibleContext:
                if attempt is attempts[-1]:
                    raise
            else:
                return made._replace(report=replace(made.report, before=before))
        used = category_sizes(snapshot, self._gauge.estimate, self._gauge.fixed_size)
        raise IrreducibleContext(self._gauge.budget.limit, {"system prompt, tools and reminders": used["core"]})

    def _smaller(self, body: list[Message], before: int, target: int, wish: Wish) -> Compacted:
        from codelet.context.smaller import smaller

        whole = self._originals(body)
        made = smaller(whole, target, self._gauge.estimate, wish)
        if made.report.after < before or whole == body:
            return made
        return smaller(body, target, self._gauge.estimate, wish)  # it fits: nothing is to come back

    def _wish(self, body: Sequence[Message], instruction: str, narrative: Sequence[str]) -> Wish:
        from codelet.context.smaller import Wish

        return Wish(
            limit=self._gauge.budget.limit,
            shares=self._options.shares,
            pinned=tuple(self._pinned(body)),
            keep_last=self._options.keep_last,
            minimum_score=self._options.minimum_score,
            instruction=instruction,
            narrative=tuple(narrative),
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
