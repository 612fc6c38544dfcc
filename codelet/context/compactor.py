"""The compactor: decides when the list is made smaller, does it on a copy, commits, archives, and can undo it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from operator import is_
from typing import TYPE_CHECKING, Any, Literal, cast

from codelet import events
from codelet.context.entries import compact_old, too_many
from codelet.context.gauge import Gauge
from codelet.errors import UsageError
from codelet.messages import Message, user
from codelet.record import Record
from codelet.reminders import zones
from codelet.tokens.budget import worked

if TYPE_CHECKING:
    from codelet.compaction import Compacted, Report
    from codelet.compaction.archive import Archive
    from codelet.compaction.commit import Snapshot
    from codelet.compaction.content import Estimate
    from codelet.context.narrator import Narrator

Reason = Literal["hard", "cost", "entries", "asked", "overflow"]

_UNDO_STEPS = 5
_FRUITLESS = 2


class CompactionOptions(Record):
    """The user's settings: `at` in per cent of the budget (None: the two limits alone), `keep_last` in turns.

    With `entries` a conversation of more messages is compacted too, whatever its size.
    """

    automatic: bool = True
    at: int | None = None
    entries: int | None = None
    keep_last: int = 3
    minimum_score: int = 0
    narrative: bool = False


class _Undo(Record):
    """The conversation before a compaction, and what it became."""

    before: list[Message]
    after: list[Message]


class Compactor:
    """Works on the session's own list; reminders stay out of it and where they are."""

    def __init__(self, messages: list[Message], gauge: Gauge, options: CompactionOptions) -> None:
        self.options = options
        self.report: Report | None = None
        self.count = 0
        self.narrator: Narrator | None = None
        self._archive: Archive | None = None
        self._messages = messages
        self._gauge = gauge
        self._pinned: list[Message] = []
        self._undo: deque[_Undo] = deque(maxlen=_UNDO_STEPS)
        self._fruitless = 0

    def due(self) -> Reason | None:
        """Which limit asks for an automatic compaction now, if one does."""
        if not self.options.automatic or self._fruitless >= _FRUITLESS:
            return None
        budget, size = self._gauge.budget, self._gauge.size(self._messages)
        if self.options.at is not None and 100 * size >= self.options.at * budget.limit:
            return "hard"
        if size >= budget.hard_trigger:
            return "hard"
        if 10 * self._gauge.effective(self._messages) >= 9 * budget.limit:
            return "cost"
        if too_many(self._messages, self.options.entries, self.options.keep_last):
            return "entries"
        return None

    def new_turn(self) -> None:
        """A user's prompt came in: what did not help before may help now."""
        self._fruitless = 0

    async def run(
        self, reason: Reason, on_commit: Callable[[], None], instruction: str = ""
    ) -> AsyncGenerator[events.Event, None]:
        """Compact: says that it begins, works on a copy in a thread, swaps it in. Cancelling leaves the list as it was.

        `on_commit` is called right after the swap; `instruction` is what the user wants kept.
        """
        from codelet.compaction import IrreducibleContext
        from codelet.compaction.commit import Snapshot

        before = self._gauge.size(self._messages)
        yield events.Compaction("starting", reason, before, before)
        snapshot = Snapshot.of(self._messages)
        target = self._target(halved=reason == "overflow")
        narrative = await self.narrator.lines(self._messages, instruction) if self.narrator else ()
        try:
            if reason == "entries":
                made = await asyncio.to_thread(self._compact_entries, list(snapshot.messages))
            else:
                made = await asyncio.to_thread(self._compact, list(snapshot.messages), target, instruction, narrative)
        except IrreducibleContext as error:
            self._fruitless = _FRUITLESS
            yield events.Compaction("stopped", reason, before, before, note=str(error))
            return
        if not self._commit(snapshot, made):
            yield events.Compaction("stopped", reason, before, before, note="the list changed meanwhile")
            return
        on_commit()
        after = self._gauge.size(self._messages)
        if reason in ("hard", "cost"):
            self._fruitless = 0 if worked(before, after, self._gauge.budget) else self._fruitless + 1
        elif reason == "entries" and self.due() == reason:
            self._fruitless += 1
        yield _receipt(reason, before, after, made.report)
        if self._fruitless >= _FRUITLESS:
            note = "two compactions had little effect, no more are made in this turn; see /context for what is large"
            yield events.Compaction("stopped", reason, after, after, note=note)

    @property
    def archive(self) -> Archive:
        """What compaction took out of the list."""
        if self._archive is None:
            from codelet.compaction.archive import Archive

            self._archive = Archive()
        return self._archive

    def preview(self) -> Report:
        """What a compaction would do now. Raises IrreducibleContext."""
        return self._compact(list(self._messages), self._target()).report

    def undo(self) -> events.Compaction | None:
        """Put back what the last compaction took out; what came since stays. None if that cannot be done."""
        head, body, tail = _parts(self._messages)
        if not self._undo:
            return None
        last = self._undo.pop()
        same = len(body) >= len(last.after) and all(map(is_, last.after, body))
        if not same:
            return None
        before = self._gauge.size(self._messages)
        self._messages[:] = [*head, *last.before, *body[len(last.after) :], *tail]
        self._gauge.forget()
        return events.Compaction("undone", "asked", before, self._gauge.size(self._messages))

    def pin(self, number: int) -> None:
        """Keep a message, and what belongs to it, word for word. Raises UsageError for a number that is none."""
        for place in self.unit(number):
            if not self.is_pinned(self._messages[place]):
                self._pinned.append(self._messages[place])

    def unpin(self, number: int) -> None:
        """Let go of a pin."""
        unit = [self._messages[place] for place in self.unit(number)]
        self._pinned = [kept for kept in self._pinned if not any(kept is message for message in unit)]

    def drop(self, number: int) -> list[int]:
        """Take a message out, a call with its results; gives the numbers that went."""
        unit = self.unit(number)
        self.unpin(number)
        went = self._messages[unit[0] : unit[-1] + 1]
        del self._messages[unit[0] : unit[-1] + 1]
        self.archive.put_all((0, message) for message in went)
        self._gauge.forget()
        return unit

    def is_pinned(self, message: Message) -> bool:
        """Whether the user pinned this message."""
        return any(kept is message for kept in self._pinned)

    @property
    def pins(self) -> tuple[int, ...]:
        """The numbers of the messages that are pinned."""
        pinned = set(map(id, self._pinned))
        return tuple(n for n, message in enumerate(self._messages) if id(message) in pinned) if pinned else ()

    @pins.setter
    def pins(self, numbers: Iterable[int]) -> None:
        """Pin these messages and no other; a number that is none is left out."""
        self._pinned = [self._messages[number] for number in numbers if number < len(self._messages)]

    def unit(self, number: int) -> list[int]:
        """The numbers of the messages that stay or go together with this one."""
        if not 0 <= number < len(self._messages):
            raise UsageError(f"there is no message {number}; /context lists them")
        if (kind := zones.kind_of(self._messages[number])) is not None:
            raise UsageError(f"message {number} is the reminder {kind}; /reminders switches it")
        first = number
        while first > 0 and self._messages[first]["role"] == "tool":
            first -= 1
        last = first + len(self._messages[first].get("tool_calls", ()))
        return list(range(first, last + 1))

    def forget(self) -> None:
        """The conversation was cleared or rewound."""
        self._undo.clear()
        self._pinned.clear()
        self._fruitless = 0
        if self._archive is not None:
            self._archive.clear()

    def _target(self, *, halved: bool = False) -> int:
        """The size of the conversation after a compaction, in tokens; reminders and the fixed part are beside it."""
        head, _, tail = _parts(self._messages)
        beside = self._gauge.fixed + sum(map(self._gauge.estimate, [*head, *tail]))
        target = self._gauge.budget.target // (2 if halved else 1)
        return max(1, target - beside)

    def _compact(
        self, snapshot: list[Message], target: int, instruction: str = "", narrative: tuple[str, ...] = ()
    ) -> Compacted:
        """Compact the conversation in `snapshot`; what the user wants kept counts as the newest prompt."""
        from codelet.compaction import Settings, compact

        _, body, _ = _parts(snapshot)
        pinned = [place for place, message in enumerate(body) if self.is_pinned(message)]
        keep_last = self.options.keep_last + (1 if instruction else 0)
        made = compact(
            [*body, user(instruction)] if instruction else body,
            target,
            estimate=cast("Estimate", self._gauge.estimate),
            settings=Settings(keep_last=keep_last, minimum_score=self.options.minimum_score),
            pinned=pinned,
            narrative=narrative,
        )
        if instruction:
            made.messages.pop()
        return made

    def _compact_entries(self, snapshot: list[Message]) -> Compacted:
        _, body, _ = _parts(snapshot)
        pinned = [place for place, message in enumerate(body) if self.is_pinned(message)]
        return compact_old(body, self.options.keep_last, cast("Estimate", self._gauge.estimate), pinned)

    def _commit(self, snapshot: Snapshot, made: Compacted) -> bool:
        """Swap the result in, unless the list is not what the work began with, or the result is not valid."""
        from codelet.compaction.commit import commit

        head, body, tail = _parts(self._messages)
        smaller = cast("list[Message]", made.messages)
        whole = cast("list[dict[str, Any]]", [*head, *smaller, *tail])
        if not commit(self._messages, snapshot, made._replace(messages=whole)):
            return False
        self._undo.append(_Undo(body, smaller))
        self._keep(body, made.report.removed)
        self._gauge.forget()
        self.report = made.report
        self.count += 1
        return True

    def _keep(self, body: list[Message], removed: tuple[int, ...]) -> None:
        """Put what went into the archive, segments left out: their lines came from what is there already."""
        from codelet.compaction.reading import read

        readings = read(body)
        self.archive.put_all(
            (readings[place].turn, body[place])
            for place in removed
            if place < len(body) and readings[place].kind != "segment"
        )


def _parts(messages: list[Message]) -> tuple[list[Message], list[Message], list[Message]]:
    """The head's reminders, the conversation, the tail's reminders."""
    first, last = zones.head_length(messages), len(messages) - zones.tail_length(messages)
    return messages[:first], messages[first:last], messages[last:]


def _receipt(reason: Reason, before: int, after: int, report: Report) -> events.Compaction:
    kept = sum(1 for turn in report.turns if turn.fate == "kept")
    loss = report.loss
    return events.Compaction(
        "done",
        reason,
        before,
        after,
        tier=report.tier,
        kept_turns=kept,
        anchors=tuple(f"{anchor.kind}: {anchor.text}" for anchor in report.anchors),
        segments=report.segments,
        lost=(*loss.rules, *loss.paths, *loss.names, *loss.numbers),
        pays_after=_pays_after(before, after),
        note="; ".join(report.warnings),
    )


def _pays_after(before: int, after: int) -> int:
    """After how many requests a rewrite of a warm cache is paid back: writing costs 1.25, reading 0.1."""
    return -(-125 * after // (10 * (before - after))) if before > after else 0
