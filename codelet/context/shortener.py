"""The shortener: compacts a copy of a session's conversation, in any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, cast

from codelet.call_record import CallRecord
from codelet.context.allotment import (
    Size,
    category_sizes,
    conversation_targets,
    refused_limit,
)
from codelet.context.compaction import Compacted, CompactionSettings, IrreducibleContext, compact
from codelet.context.pins import Pins
from codelet.context.tokens.budget import CompactionOptions, Reason, SizeTarget
from codelet.context.window import ContextWindow
from codelet.messages import Message, kind_of

if TYPE_CHECKING:
    from codelet.context.archive import Archive
    from codelet.conversation import Parts

BESIDE = "system prompt, tools and reminders"


class Shortener:
    """A stateless compaction. `archive` has the messages of earlier compactions, `records` are the session's calls.

    `held` returns whether a message was not sent yet; it stays whole if possible.
    """

    def __init__(
        self,
        window: ContextWindow,
        options: CompactionOptions,
        pins: Pins,
        archive: Archive | None,
        held: Callable[[Message], bool],
        records: Iterable[CallRecord] = (),
    ) -> None:
        self._window, self._options, self._pins, self._archive, self._held = window, options, pins, archive, held
        self._records = {record.id: record for record in records}

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
        window, body = self._window, snapshot.body
        targets = conversation_targets(snapshot, window, self._options, reason, size)
        beside = window.beside(snapshot)
        if not targets:
            limit = size.of(window.size(snapshot)) if size is not None else window.budget.limit
            limit = refused_limit(limit, window.size(snapshot)) if reason == "overflow" else limit
            raise IrreducibleContext(min(limit, beside), {BESIDE: beside})
        pinned = [place for place, message in enumerate(body) if message in self._pins]
        held = [place for place, message in enumerate(body) if self._held(message) and reason != "overflow"]
        tries = [(places, target) for places in ([*pinned, *held], pinned)[not held :] for target in targets]
        settings = CompactionSettings(
            keep_last=self._options.keep_last,
            fold=reason == "entries",
            votes=self._pins.votes(body),
            instruction=instruction,
            first_id=self._archive.next_number if self._archive is not None else 1,
        )
        for number, (places, target) in enumerate(tries, 1):
            try:
                made = self._smaller(body, target, settings, places, handoff)
            except IrreducibleContext as error:
                if number == len(tries):  # sizes are those of the next request, as everywhere
                    raise IrreducibleContext(error.target + beside, {BESIDE: beside, **error.floor}) from None
            else:
                notes = [target.note] if target.note and made.report.tier else []
                notes += self._passed_shares(made, target)
                return made._replace(report=made.report.replace(warnings=(*notes, *made.report.warnings)))
        raise ValueError("there is no size to aim at")

    def _passed_shares(self, made: Compacted, target: SizeTarget) -> list[str]:
        """Name the shares set by the user that the result exceeds, as pinned messages can do."""
        if not made.report.tier or target.context is None:
            return []
        used = category_sizes(cast("list[Message]", made.messages), self._window.estimate, 0)
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
        estimate, records = self._window.estimate, self._records

        def compacted(given: Sequence[Message]) -> Compacted:
            return compact(
                given, target, estimate=estimate, settings=settings, pinned=pinned, handoff=handoff, records=records
            )

        before = sum(map(estimate, body))
        whole = self.originals(body)
        made = compacted(whole)
        if made.report.after >= before and whole != list(body):
            made = compacted(body)
        return made._replace(report=made.report.replace(before=before))

    def originals(self, body: Sequence[Message]) -> list[Message]:
        """Return the conversation with the originals of cut messages, except pinned ones."""
        archive = self._archive
        if archive is None:
            return list(body)
        found = [archive.original(message) if message not in self._pins else None for message in body]
        return [
            cast("Message", original) if original is not None and kind_of(message) != "segment" else message
            for message, original in zip(body, found, strict=True)
        ]
