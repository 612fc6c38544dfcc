"""The shortener: compacts a copy of a session's conversation, in any thread."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from codelet.call_record import CallRecord
from codelet.context.allotment import (
    Size,
    category_sizes,
    conversation_targets,
    refused_limit,
)
from codelet.context.compaction.engine import compact
from codelet.context.compaction.plan import CompactionSettings, IrreducibleContext
from codelet.context.compaction.report import Compacted
from codelet.context.tokens.budget import CompactionOptions, Reason, SizeTarget
from codelet.context.window import ContextWindow
from codelet.messages import Message, kind_of

if TYPE_CHECKING:
    from codelet.context.archive import Archive
    from codelet.conversation import Parts

BESIDE = "system prompt, tools and reminders"


class Shortener(NamedTuple):
    """A stateless compaction. `archive` has the messages of earlier compactions, `records` are the session's calls.

    `votes` returns the user's votes by turn, `held` whether a message was not sent yet; it stays whole if possible.
    """

    window: ContextWindow
    options: CompactionOptions
    pins: Container[Message]
    votes: Callable[[Sequence[Message]], Mapping[int, int]]
    archive: Archive | None
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
            votes=self.votes(body),
            instruction=instruction,
            first_id=self.archive.next_number if self.archive is not None else 1,
        )
        floor: IrreducibleContext | None = None
        for places in ([*pinned, *held], pinned)[not held :]:
            for target in targets:
                try:
                    made = self._smaller(body, target, settings, places, handoff)
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

    def _smaller(
        self,
        body: Sequence[Message],
        target: SizeTarget,
        settings: CompactionSettings,
        pinned: Sequence[int],
        handoff: Sequence[str],
    ) -> Compacted:
        """Compact with the originals of cut messages, unless that saves nothing."""
        estimate, before, whole = self.window.estimate, sum(map(self.window.estimate, body)), self.originals(body)
        for given in (whole, body):
            made = compact(
                given,
                target,
                estimate=estimate,
                settings=settings,
                pinned=pinned,
                handoff=handoff,
                records=self.records,
            )
            if made.report.after < before or whole == list(body):
                break
        return made._replace(report=made.report.replace(before=before))

    def originals(self, body: Sequence[Message]) -> list[Message]:
        """Return the conversation with the originals of cut messages, except pinned ones."""
        if (archive := self.archive) is None:
            return list(body)
        return [
            message
            if message in self.pins or kind_of(message) == "segment"
            else cast("Message", archive.original(message) or message)
            for message in body
        ]
