"""The shortener: compacts a copy of a session's conversation, in any thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from codelet.call_record import CallRecord
from codelet.context.allotment import Size, category_sizes, conversation_targets, refused_limit
from codelet.context.compaction.engine import compact
from codelet.context.compaction.plan import CompactionSettings, IrreducibleContext
from codelet.context.compaction.report import Compacted
from codelet.context.tokens.budget import CompactionOptions, Reason, SizeTarget
from codelet.context.window import ContextWindow
from codelet.messages import Message

if TYPE_CHECKING:
    from codelet.context.compactor import Pins
    from codelet.conversation import Parts

BESIDE = "system prompt, tools and reminders"


class Shortener(NamedTuple):
    """A stateless compaction. `next_id` is the number of the archive's next id, `records` are the session's calls.

    `held` returns whether a message was not sent yet; it stays whole if possible.
    """

    window: ContextWindow
    options: CompactionOptions
    pins: Pins
    next_id: int
    held: Callable[[Message], bool]
    records: Mapping[str, CallRecord]

    def compacted(
        self,
        snapshot: Parts,
        reason: Reason,
        instruction: str = "",
        size: Size | None = None,
        handoff: Sequence[str] = (),
    ) -> Compacted:
        """Return the conversation in `snapshot`, smaller. Raises IrreducibleContext and, by hand, NothingToCompact.

        `size` is the wanted size of the next request, `instruction` what the user asked to keep.
        """
        window, body = self.window, snapshot.body
        targets = conversation_targets(snapshot, window, self.options, reason, size)
        beside = window.beside(snapshot)
        if not targets:
            limit = size.of(window.size(snapshot)) if size is not None else window.budget.limit
            limit = refused_limit(limit, window.size(snapshot)) if reason == "overflow" else limit
            raise IrreducibleContext(min(limit, beside), {BESIDE: beside})
        pinned = [place for place, message in enumerate(body) if message in self.pins]
        held = [place for place, message in enumerate(body) if self.held(message) and reason != "overflow"]
        settings = CompactionSettings(
            keep_last=self.options.keep_last,
            fold=reason == "entries",
            votes=self.pins.votes(body),
            instruction=instruction,
            first_id=self.next_id,
        )
        floor: IrreducibleContext | None = None
        for places in ([*pinned, *held], pinned)[not held :]:
            for target in targets:
                try:
                    made = compact(
                        body,
                        target,
                        estimate=window.estimate,
                        settings=settings,
                        pinned=places,
                        handoff=handoff,
                        records=self.records,
                    )
                except IrreducibleContext as error:
                    floor = error
                    continue
                notes = [target.note] if target.note and made.report.tier else []
                notes += self._passed_shares(made, target)
                return made._replace(report=made.report.replace(warnings=(*notes, *made.report.warnings)))
        if floor is None:
            raise ValueError("there is no size to aim at")
        # Sizes are those of the next request, as everywhere.
        raise IrreducibleContext(floor.target + beside, {BESIDE: beside, **floor.floor})

    def _passed_shares(self, made: Compacted, target: SizeTarget) -> list[str]:
        """Name the shares set by the user that the result exceeds, as pinned messages can do."""
        if not made.report.tier or target.context is None:
            return []
        used = category_sizes(cast("list[Message]", made.messages), self.window.estimate, 0)
        limits = {"context": target.context, "history": target.history or 0}
        over = {name: used[name] - limit for name, limit in limits.items()}
        return [f"The share of {name} is exceeded by {tokens:,} tokens." for name, tokens in over.items() if tokens > 0]
