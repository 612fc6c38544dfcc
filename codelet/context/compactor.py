"""The compactor: decides when the list is made smaller, does it on a copy, commits, archives, and can undo it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from operator import is_
from typing import TYPE_CHECKING, Any, cast

from codelet import events
from codelet.context.asked import NothingToTakeOut, Size
from codelet.context.entries import too_many
from codelet.context.gauge import Gauge, Reading
from codelet.context.making import Maker
from codelet.context.options import CompactionOptions
from codelet.context.pins import Pins, unit_at
from codelet.context.receipt import Reason, pays_after, receipt
from codelet.context.shares import Share, category_sizes, shares_of
from codelet.errors import UsageError
from codelet.loop.conversation import Conversation, Parts
from codelet.messages import Message
from codelet.record import Record
from codelet.tokens.budget import BudgetExceeded, worked

if TYPE_CHECKING:
    from codelet.compaction import Compacted, Report
    from codelet.compaction.archive import Archive, Archived
    from codelet.context.narrator import Narrator

_UNDO_STEPS = 5
_FRUITLESS = 2


class _Undo(Record):
    """The conversation before a rewrite, what it became, what the rewrite was, and what left the archive with it.

    `reading` is what the gauge knew of it.
    """

    before: list[Message]
    after: list[Message]
    what: str = "compaction"
    taken: tuple[Archived, ...] = ()
    reading: Reading | None = None


class Preview(Record):
    """What a compaction would do: its report, the next request's size before and after in tokens, and its cost.

    `pays_after` is the number of requests after which rewriting a warm cache is paid back, 0 for a cold one.
    """

    report: Report
    before: int
    after: int
    pays_after: int


class Compactor:
    """Works on the session's conversation; reminders stay out of it and where they are.

    `reform` may put another message of the same size in the place of what a compaction left of the newest prompt.
    """

    def __init__(self, conversation: Conversation, gauge: Gauge, options: CompactionOptions) -> None:
        self.options = options
        self.report: Report | None = None
        self.sizes = (0, 0)
        """The next request's size in tokens before and after the last compaction."""
        self.count = 0
        self.narrator: Narrator | None = None
        self.reform: Callable[[list[Message]], list[Message]] | None = None
        self._archive: Archive | None = None
        self._conversation = conversation
        self._gauge = gauge
        gauge.at = options.at
        self._pins = Pins()
        self.maker = Maker(gauge, options, self._pins, lambda: self._archive)
        self._undo: deque[_Undo] = deque(maxlen=_UNDO_STEPS)
        self._fruitless = 0

    def due(self) -> Reason | None:
        """Which limit asks for an automatic compaction now, if one does."""
        if not self.options.automatic or self._fruitless >= _FRUITLESS:
            return None
        budget, size = self._gauge.budget, self._gauge.size(self._conversation)
        body = self._conversation.body
        if size < budget.hard_trigger and len(body) == 1 and self.maker.held(body[0]):
            return None  # there is nothing but the prompt, and it fits
        if self.options.at is not None and 100 * size >= self.options.at * budget.limit:
            return "hard"
        if (trigger := budget.trigger(size, self._gauge.cached)) is not None:
            return trigger
        if too_many(body, self.options.entries, self.options.keep_last):
            return "entries"
        return None

    def new_turn(self) -> None:
        """A user's prompt came in: what did not help before may help now."""
        self._fruitless = 0
        if self.narrator is not None:
            self.narrator.new_turn()

    async def run(
        self, reason: Reason, instruction: str = "", size: Size | None = None
    ) -> AsyncGenerator[events.Event, None]:
        """Compact: says that it begins, works on a copy in a thread, swaps it in. Cancelling leaves the list as it was.

        `instruction` is what the user wants kept, `size` what who asked wants the next request to have.
        """
        from codelet.compaction import IrreducibleContext

        before = self._gauge.size(self._conversation)
        warm = not self._gauge.cold
        pays = pays_after(before, min(before, self._gauge.budget.target)) if warm else 0
        yield events.Compaction(phase="starting", reason=reason, before=before, after=before, pays_after=pays)
        snapshot = self._conversation.snapshot()
        try:
            made = await asyncio.to_thread(self.maker.make, snapshot, reason, instruction, size)
            if made.report.tier >= 2 and (narrative := await self._narrative(reason, instruction)):
                made = await asyncio.to_thread(
                    self.maker.summarised, snapshot, instruction, narrative, reason=reason, size=size
                )
        except (IrreducibleContext, NothingToTakeOut) as error:
            if reason != "asked":
                self._fruitless = _FRUITLESS
            yield events.Compaction(phase="stopped", reason=reason, before=before, after=before, note=str(error))
            return
        if (note := self._commit(snapshot, made)) is not None:
            self._fruitless += reason in ("hard", "cost")
            if self._fruitless >= _FRUITLESS:
                note = f"{note}; {self._what_stays()}"
            yield events.Compaction(phase="stopped", reason=reason, before=before, after=before, note=note)
            return
        after = self._gauge.size(self._conversation)
        self.sizes = before, after
        yield receipt(reason, before, after, made.report, warm=warm)
        if reason in ("hard", "cost"):
            self._fruitless = 0 if worked(before, after, self._gauge.budget) else self._fruitless + 1
        elif reason == "entries" and self.due() == reason:
            self._fruitless += 1
        if self._fruitless >= _FRUITLESS:
            yield events.Compaction(phase="stopped", reason=reason, before=after, after=after, note=self._what_stays())

    async def _narrative(self, reason: Reason, instruction: str) -> tuple[str, ...]:
        """What the model says of the list for a summary of it; it cannot read what is too long for it."""
        if self.narrator is None or reason in ("overflow", "entries"):
            return ()
        return await self.narrator.lines(self._conversation.messages, instruction)

    @property
    def archive(self) -> Archive:
        """What compaction took out of the list."""
        if self._archive is None:
            from codelet.compaction.archive import Archive

            self._archive = Archive()
        return self._archive

    @property
    def archived(self) -> bool:
        """Whether there is something to recall."""
        return self._archive is not None and len(self._archive) > 0

    def preview(self, instruction: str = "", size: Size | None = None) -> Preview:
        """What a compaction would do now. Raises IrreducibleContext and NothingToTakeOut."""
        now = self._conversation.snapshot()
        made = self.maker.make(now, "asked", instruction, size)
        before = self._gauge.size(now)
        after = self._gauge.rewritten(Parts(now.head, cast("list[Message]", made.messages), now.tail))
        return Preview(made.report, before, after, 0 if self._gauge.cold else pays_after(before, after))

    def undo(self) -> events.Compaction | None:
        """Put back what the last compaction or drop took out; what came since stays. None if that cannot be done."""
        conversation, body = self._conversation, self._conversation.body
        while self._undo:
            last = self._undo.pop()
            if len(body) >= len(last.after) and all(map(is_, last.after, body)):
                before = self._gauge.size(conversation)
                conversation.rewrite([*last.before, *body[len(last.after) :]], f"a {last.what} was taken back")
                self._pins.prune(conversation.body)
                for entry in last.taken:
                    self.archive.restore(entry.id, entry.turn, entry.message)
                if last.reading is not None and len(body) == len(last.after):
                    self._gauge.restore(last.reading)  # the very list that it knew stands again
                return events.Compaction(
                    phase="undone", reason="asked", before=before, after=self._gauge.size(conversation), note=last.what
                )
        return None

    def pin(self, number: int) -> None:
        """Keep a message, and what belongs to it, word for word.

        Raises UsageError for a number that is none, and where the pinned messages would take more than the share of
        the context.
        """
        self._pin(self._unit(number)[1])

    def _unit(self, number: int) -> tuple[int, list[Message]]:
        """Where that begins which stays or goes with the message of this number, and all of it. Raises UsageError."""
        messages = self._conversation.sent()
        places = unit_at(messages, number)
        return places[0], [messages[place] for place in places]

    def _pin(self, unit: list[Message]) -> None:
        kept = [message for message in self._conversation.body if message in self._pins and message not in unit]
        size = sum(map(self._gauge.estimate, [*kept, *unit]))
        try:
            shares_of(self._gauge.budget.limit, self.options.shares).allocate("context", size)
        except BudgetExceeded:
            room = self.share_of("context")
            raise UsageError(f"pinned messages would take {size:,} tokens; kept context may take {room:,}") from None
        self._pins.add(unit)

    def pin_lost(self) -> int:
        """Put back the lines that held what the last compaction lost, and pin them; their size in tokens.

        Raises UsageError where nothing was lost or can be had back, and where it passes the share of the context.
        """
        from codelet.context.lost import put_back

        body = list(self._conversation.body)
        made = put_back(body, self.report, self.archive) if self.report is not None else None
        if made is None:
            raise UsageError("the last compaction lost nothing that can be put back")
        new, message = made
        self._pin([message])
        self._conversation.rewrite(new, "what was lost was put back")
        self._undo.append(_Undo(body, new, "pin"))
        return self._gauge.estimate(message)

    def unpin(self, number: int) -> None:
        """Let go of a pin."""
        self._pins.remove(self._unit(number)[1])

    def drop(self, number: int) -> list[int]:
        """Take a message out, a call with its results; gives the numbers that went. `undo` puts them back.

        They do not go into the archive, and what was in there of them goes: what the user dropped the model is not to
        find again.
        """
        first, gone = self._unit(number)
        self._pins.remove(gone)
        taken = [entry for message in gone for entry in self.archive.take_out(message)] if self.archived else ()
        before, start = list(self._conversation.body), first - len(self._conversation.head)
        after = [*before[:start], *before[start + len(gone) :]]
        self._conversation.rewrite(after, "a message was dropped")
        self._undo.append(_Undo(before, after, "drop", tuple(taken)))
        return list(range(first, first + len(gone)))

    def is_pinned(self, message: Message) -> bool:
        """Whether the user pinned this message."""
        return message in self._pins

    @property
    def pins(self) -> tuple[int, ...]:
        """The numbers of the messages that are pinned."""
        return tuple(number for number, message in enumerate(self._conversation.messages) if message in self._pins)

    @pins.setter
    def pins(self, numbers: Iterable[int]) -> None:
        """Pin these messages and no other; a number that is none is left out."""
        self._pins.prune(())
        messages = self._conversation.sent()
        self._pins.add(messages[number] for number in numbers if number < len(messages))

    def forget(self) -> None:
        """The conversation was cleared."""
        self._undo.clear()
        self._pins.prune(())
        self._fruitless = 0
        if self._archive is not None:
            self._archive.clear()

    def went_back(self) -> None:
        """The list is what it was before a prompt. The archive stays: segments in the list may speak of it."""
        self._pins.prune(self._conversation.body)
        self._fruitless = 0

    def share_of(self, category: str) -> int:
        """The limit of one category, in tokens."""
        return shares_of(self._gauge.budget.limit, self.options.shares).share(category)

    def shares(self) -> list[Share]:
        """What each category uses of the budget, in tokens, and its limit."""
        used = category_sizes(self._conversation.sent(), self._gauge.estimate, self._gauge.fixed_size)
        return [Share(name, size, self.share_of(name)) for name, size in used.items()]

    def _commit(self, snapshot: Parts, made: Compacted) -> str | None:
        """Swap the result in; gives in words why not, where that is not right."""
        from codelet.compaction.faults import is_valid

        body = list(snapshot.body)
        new = cast("list[Message]", made.messages)
        reading = self._gauge.reading()
        if not self._conversation.same_body(body):
            return "the list changed meanwhile"
        if self.reform is not None:
            new = self.reform(new)
        if self._conversation.same_body(new):
            return "nothing in it can be made smaller by a summary"
        if not is_valid(made._replace(messages=cast("list[dict[str, Any]]", new))):
            return "the result was not valid"
        self._undo.append(_Undo(body, new, reading=reading))
        self._keep(body, made.report.removed)
        self.report = made.report
        self.count += 1
        reduced = made.report.tier == 1
        why = "a reduction made old results shorter" if reduced else "the list was compacted"
        self._conversation.rewrite(new, why)
        return None

    def _keep(self, body: list[Message], removed: tuple[int, ...]) -> None:
        """Put what went into the archive, without what came from there: segments and what was reduced before."""
        from codelet.compaction.reading import read

        readings = read(body)
        self.archive.put_all(
            (readings[place].turn, body[place])
            for place in removed
            if place < len(body)
            and readings[place].kind != "segment"
            and not self.maker.held(body[place])  # it has its own entry
            and self.archive.original(body[place]) is None
        )

    def _what_stays(self) -> str:
        """Why compacting again would not help: what each category has."""
        sizes = ", ".join(f"{share.name} {share.used:,}" for share in self.shares())
        pinned = f"; {len(self._pins)} messages are pinned" if len(self._pins) else ""
        return f"two compactions had little effect, no more are made in this turn. Tokens: {sizes}{pinned}"
