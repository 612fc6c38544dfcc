"""The compactor: decides when to compact, works on a copy, commits, archives, and can undo it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from functools import cached_property, partial
from operator import is_
from typing import TYPE_CHECKING, Protocol, cast

from codelet import events
from codelet.context.tokens import CompactionOptions, ContextWindow, Measurement, Reason, had_effect, shares_of
from codelet.errors import UsageError
from codelet.messages import Message, kind_of, newest_messages, reminder_type, unpaired
from codelet.record import Newest, Record

if TYPE_CHECKING:
    from codelet.context.allotment import Share, Size
    from codelet.context.archive import Archive, Archived
    from codelet.context.compaction.engine import Compacted, CompactionReport
    from codelet.conversation import Conversation, Parts


_PINNED = "message {number} is pinned: /pin off {number}, then {what}"
_UNDO_STEPS = 5
_FRUITLESS = 2
_LEAST_ENTRIES = 10
# The points of a pin for its turn, and of a drop against it.
_VOTE = 5


class NarrativeWriter(Protocol):
    """A writer of handoffs: `struck` and `accepted` are the lines of the last one, the rejected with the reason."""

    struck: tuple[str, ...]
    accepted: tuple[str, ...]

    @property
    def available(self) -> bool:
        """Return whether it can write one now."""

    def new_turn(self) -> None:
        """Note a new prompt."""

    async def lines(self, messages: Sequence[Message], instruction: str, room: int) -> tuple[str, ...]:
        """Return a handoff of these messages of at most `room` tokens; `instruction` is what the user asked to keep."""


_ById = dict[int, Message]
"""Messages by their identity."""


class _Undo(Record):
    """The conversation before and after a rewrite, its kind, and the entries that a drop took from the archive.

    `against` are the messages before those that the user had dropped, `measurement` is the window's of the list before.
    """

    before: list[Message]
    after: list[Message]
    against: _ById
    what: str = "compaction"
    taken: tuple[Archived, ...] = ()
    measurement: Measurement | None = None


class CompactionPreview(Record):
    """The effect of a compaction: its report, and the next request's size before and after in tokens."""

    report: CompactionReport
    before: int
    after: int


class Compactor:
    """Compacts the session's conversation, not its reminders.

    `announce` is awaited before a compaction, with its reason.
    """

    def __init__(self, conversation: Conversation, window: ContextWindow, options: CompactionOptions) -> None:
        self.options = options
        self.report: CompactionReport | None = None
        self.sizes = (0, 0)
        """The sizes of the next request in tokens, before and after the last compaction."""
        self.count = 0
        self.narrator: NarrativeWriter | None = None
        self.bring_narrator: Callable[[], NarrativeWriter] | None = None
        self.announce: Callable[[str], Awaitable[None]] | None = None
        self._pinned: _ById = {}
        self._against: _ById = {}
        self._conversation = conversation
        self._window = window
        window.at = options.at
        self._undo = Newest[_Undo](_UNDO_STEPS)
        self._fruitless = 0

    @cached_property
    def archive(self) -> Archive:
        """The messages that compactions removed from the list."""
        from codelet.context.archive import Archive

        return Archive()

    @property
    def can_recall(self) -> bool:
        """True if the archive has anything. It is made at its first use, which most sessions do not have."""
        return len(vars(self).get("archive", ())) > 0

    def due(self) -> Reason | None:
        """Return the reason for an automatic compaction now, if there is one."""
        if not self.options.automatic or self._fruitless >= _FRUITLESS:
            return None
        budget, size = self._window.budget, self._window.size(self._conversation)
        count = len(self._conversation.body) - len(self._conversation.appended)
        if size < budget.hard_trigger and count == 1:
            return None  # only the prompt, and it fits
        if self.options.at is not None and 100 * size >= self.options.at * budget.limit:
            return "hard"
        if (trigger := budget.trigger(size, self._window.cached)) is not None:
            return trigger
        if (most := self.options.entries) is None or count <= most:
            return None
        body = self._conversation.without_appended().body
        old = len(body) - newest_messages(body, self.options.keep_last)
        return "entries" if old >= min(_LEAST_ENTRIES, most) else None

    def new_turn(self) -> None:
        """Allow automatic compaction again at a new prompt."""
        self._fruitless = 0
        if self.narrator is not None:
            self.narrator.new_turn()

    async def run(
        self, reason: Reason, instruction: str = "", size: Size | None = None
    ) -> AsyncGenerator[events.Event, None]:
        """Compact a copy in a thread and commit the result. Cancelling leaves the list unchanged.

        `instruction` is what the user asked to keep, `size` the wanted size of the next request.
        """
        from codelet.context.allotment import NothingToCompact
        from codelet.context.compaction.engine import IrreducibleContext
        from codelet.system.machine import give_back_memory

        before = self._window.size(self._conversation)
        begun = events.Compaction(phase="starting", reason=reason, before=before, after=before)
        yield begun
        if self.announce is not None:
            await self.announce(reason)
        snapshot = self._conversation.snapshot()
        plain = snapshot.without_appended()
        try:
            made = await self._smaller(plain, reason, instruction, size)
        except (IrreducibleContext, NothingToCompact) as error:
            if reason != "asked":
                self._fruitless = _FRUITLESS
            yield begun.replace(phase="stopped", note=str(error))
            return
        await asyncio.to_thread(give_back_memory)  # reading the list takes several times its size
        # No await from here to `done`: after a cancellation there is either the old list or the receipt.
        if (note := self._commit(snapshot, plain, made)) is not None:
            self._fruitless += reason in ("hard", "cost")
            if self._fruitless >= _FRUITLESS:
                note = f"{note}; {self._what_stays()}"
            yield begun.replace(phase="stopped", note=note)
            return
        after = self._window.size(self._conversation)
        self.sizes = before, after
        yield _done(begun, after, made.report)
        if reason in ("hard", "cost"):
            self._fruitless = 0 if had_effect(before, after, self._window.budget) else self._fruitless + 1
        elif reason == "entries" and self.due() == reason:
            self._fruitless += 1
        if self._fruitless >= _FRUITLESS:
            yield begun.replace(phase="stopped", before=after, after=after, note=self._what_stays())

    async def _smaller(self, snapshot: Parts, reason: Reason, instruction: str, size: Size | None) -> Compacted:
        """Return the smaller conversation, with a handoff if a model writes one."""
        from codelet.context.narrative import LARGEST, narrative_room

        made = await asyncio.to_thread(self.compacted, snapshot, reason, instruction, size)
        if made.report.tier < 2:
            return made
        if self.narrator is None and self.bring_narrator is not None:
            self.narrator = self.bring_narrator()
        narrator = self.narrator
        if narrator is None or not narrator.available:
            return made
        if reason == "overflow" or self._window.size(self._conversation) + LARGEST > self._window.budget.window:
            return _with(made, "no handoff: the list was too long to ask a model about")
        room = narrative_room(made.report.target)
        lines = await narrator.lines(self._conversation.messages, instruction, room)
        if not lines:
            return _with(made, "no handoff: the model wrote nothing usable", struck=narrator.struck)
        made = await asyncio.to_thread(self.compacted, snapshot, reason, instruction, size, lines)
        return _with(made, struck=narrator.struck)

    def compacted(
        self,
        snapshot: Parts,
        reason: Reason,
        instruction: str = "",
        size: Size | None = None,
        handoff: Sequence[str] = (),
    ) -> Compacted:
        """Return the conversation in `snapshot`, smaller, from any thread.

        `size` is the wanted size of the next request, `instruction` what the user asked to keep. Raises
        IrreducibleContext and, by hand, NothingToCompact.
        """
        from codelet.context.allotment import BESIDE, conversation_targets, passed_shares
        from codelet.context.compaction.engine import CompactionSettings, IrreducibleContext, compact

        window, body, beside = self._window, snapshot.body, self._window.beside(snapshot)
        settings = CompactionSettings(
            keep_last=self.options.keep_last,
            fold=reason == "entries",
            votes=self._votes(body),
            instruction=instruction,
            first_id=self.archive.next_number,
        )
        pinned = [place for place, message in enumerate(body) if self.is_pinned(message)]
        records = {record.id: record for record in self._conversation.calls}
        work = partial(compact, body, estimate=window.estimate, settings=settings, handoff=handoff, records=records)
        floor: IrreducibleContext | None = None
        for target in conversation_targets(snapshot, window, self.options, reason, size):
            try:
                made = work(target, pinned=pinned)
            except IrreducibleContext as error:
                floor = error
                continue
            notes = [target.note] if target.note and made.report.tier else []
            return _with(made, *notes, *passed_shares(made, target, window.estimate))
        assert floor is not None  # there is a target
        # Sizes are those of the next request, as everywhere.
        raise IrreducibleContext(floor.target + beside, {BESIDE: beside, **floor.floor})

    def _votes(self, body: Sequence[Message]) -> dict[int, int]:
        """Return the points of pins and drops, by the number of the turn."""
        if not self._pinned and not self._against:
            return {}
        from codelet.context.compaction.segments import turns_of

        found: dict[int, int] = {}
        for turn, message in zip(turns_of(body), body, strict=True):
            if points := _VOTE * (id(message) in self._pinned) - _VOTE * (id(message) in self._against):
                found[turn] = max(-_VOTE, min(_VOTE, found.get(turn, 0) + points))
        return found

    def preview(self, instruction: str = "", size: Size | None = None) -> CompactionPreview:
        """Return the effect of a compaction now. Raises IrreducibleContext and NothingToCompact."""
        now = self._conversation.snapshot().without_appended()
        made = self.compacted(now, "asked", instruction, size)
        before = self._window.size(now)
        after = self._window.rewritten(now.with_body(cast("list[Message]", made.messages)))
        return CompactionPreview(made.report, before, after)

    def undo(self) -> events.Compaction | None:
        """Undo the last compaction or drop, and keep newer messages. Returns None if that is impossible.

        Raises UsageError if a summary that was pinned since would be removed.
        """
        conversation, body = self._conversation, self._conversation.body
        while self._undo:
            last = self._undo.pop()
            if len(body) < len(last.after) or not all(map(is_, last.after, body)):
                continue  # the list was rewritten since
            gone = _by_id(last.after).keys() - _by_id(last.before).keys()
            if last.what == "compaction" and (pinned := self._numbers(gone & self._pinned.keys())):
                self._undo.append(last)
                raise UsageError(_PINNED.format(number=pinned[0], what="/compact undo"))
            before = self._window.size(conversation)
            conversation.rewrite([*last.before, *body[len(last.after) :]])
            self._against = last.against
            self._forget_gone(conversation.body)
            for entry in last.taken:
                self.archive.restore(entry.id, entry.turn, entry.message)
            if last.measurement is not None and len(body) == len(last.after):
                self._window.restore(last.measurement)  # the list that it measured returns
            after = self._window.size(conversation)
            return events.Compaction(phase="undone", reason="asked", before=before, after=after, note=last.what)
        return None

    def pin(self, number: int) -> None:
        """Keep a message verbatim, with its call or results, and raise the score of its turn.

        Raises UsageError if the number is unknown, or if the pinned messages would exceed the context's share.
        """
        pinned = self._pinned | _by_id(self._unit(number)[1])
        size, room = sum(map(self._window.estimate, pinned.values())), self.share_of("context")
        if size > room:
            raise UsageError(f"pinned messages would take {size:,} tokens; kept context may take {room:,}")
        self._pinned = pinned

    def unpin(self, number: int) -> None:
        for message in self._unit(number)[1]:
            self._pinned.pop(id(message), None)

    def drop(self, number: int) -> list[int]:
        """Remove a message, a call with its results; return their numbers. `undo` restores them.

        The archive loses their originals too, so that the model cannot recall what the user dropped. It lowers the
        score of their turn. Raises UsageError if one of them is pinned.
        """
        first, gone = self._unit(number)
        if pinned := self._numbers(_by_id(gone).keys() & self._pinned.keys()):
            raise UsageError(_PINNED.format(number=pinned[0], what=f"/drop {number}"))
        taken = [entry for message in gone for entry in self.archive.take_out(message)]
        before, start = list(self._conversation.body), first - len(self._conversation.head)
        after = [*before[:start], *before[start + len(gone) :]]
        self._undo.append(_Undo(before, after, self._against, "drop", tuple(taken)))
        if start and kind_of(gone[0]) != "prompt":
            self._against = self._against | _by_id(before[start - 1 : start])
        self._conversation.rewrite(after)
        return list(range(first, first + len(gone)))

    def _unit(self, number: int) -> tuple[int, list[Message]]:
        """Return the first number and the messages of the unit that a message is part of. Raises UsageError."""
        messages = self._conversation.sent()
        if not 0 <= number < len(messages):
            raise UsageError(f"there is no message {number}; /context lists them")
        if (kind := reminder_type(messages[number])) is not None:
            raise UsageError(f"message {number} is the reminder {kind}; /context reminders switches it")
        while number > 0 and messages[number]["role"] == "tool":
            number -= 1
        return number, list(messages[number : number + len(messages[number].get("tool_calls", ())) + 1])

    def is_pinned(self, message: Message) -> bool:
        """Return whether the user pinned this message."""
        return id(message) in self._pinned

    def pinned_outside(self, kept: Sequence[Message]) -> list[int]:
        """Return the numbers of pinned messages that are not in `kept`."""
        return self._numbers(self._pinned.keys() - _by_id(kept).keys())

    def _numbers(self, wanted: Collection[int]) -> list[int]:
        """Return the numbers of messages by their identity."""
        return [number for number, message in enumerate(self._conversation.messages) if id(message) in wanted]

    @property
    def pins(self) -> tuple[int, ...]:
        """The numbers of the messages that are pinned."""
        return tuple(self._numbers(self._pinned))

    @pins.setter
    def pins(self, numbers: Iterable[int]) -> None:
        """Pin only these messages; unknown numbers are ignored."""
        messages = self._conversation.sent()
        self._pinned, self._against = _by_id(messages[number] for number in numbers if number < len(messages)), {}

    def forget(self) -> None:
        """Reset after the conversation was cleared."""
        self._undo.clear()
        self.report = None
        self.archive.clear()
        self.went_back()

    def went_back(self) -> None:
        """Adjust to a rewound list. The archive stays, as segments may refer to it."""
        self._forget_gone(self._conversation.body)
        self._fruitless = 0

    def _forget_gone(self, body: Sequence[Message]) -> None:
        """Forget pins and drops of messages that are no longer in the list."""
        there = _by_id(body).keys()
        self._pinned = {key: message for key, message in self._pinned.items() if key in there}
        self._against = {key: message for key, message in self._against.items() if key in there}

    def share_of(self, category: str) -> int:
        """Return the limit of one category in tokens."""
        return shares_of(self._window.budget.limit, self.options.shares)[category]

    def shares(self) -> list[Share]:
        """Return the tokens and the limit of each category."""
        from codelet.context.allotment import Share, category_sizes

        used = category_sizes(self._conversation.sent(), self._window.estimate, self._window.fixed_size)
        return [Share(name, size, self.share_of(name)) for name, size in used.items()]

    def _commit(self, snapshot: Parts, plain: Parts, made: Compacted) -> str | None:
        """Commit the result and archive what it removed, or return why that is impossible.

        `plain` is the list without the reminders in its body, which are old: the newest ones are sent again.
        """
        from codelet.context.compaction.segments import turns_of

        body, new = list(snapshot.body), cast("list[Message]", made.messages)
        if not self._conversation.same_body(body):
            return "the list changed in the meantime"
        if plain.same_body(new):
            return "a summary would make nothing in it smaller"
        if made.report.after > made.report.target or unpaired(new):
            return "the result was not valid"
        self._undo.append(_Undo(body, new, self._against, measurement=self._window.measurement()))
        turns = turns_of(plain.body)
        # Those that are cut come first, as their ids are in the list.
        for place in dict.fromkeys((*made.report.cut, *made.report.removed)):
            if kind_of(plain.body[place]) != "segment":
                self.archive.put(turns[place], plain.body[place])
        self.report = made.report
        self.count += 1
        self._conversation.rewrite(new)
        return None

    def _what_stays(self) -> str:
        """Return why another compaction would not help, with the size of each category."""
        sizes = ", ".join(f"{share.name} {share.used:,}" for share in self.shares())
        pinned = f"; {len(self._pinned)} messages are pinned" if self._pinned else ""
        return f"two compactions had little effect; this turn makes no more. Tokens: {sizes}{pinned}"


def _by_id(messages: Iterable[Message]) -> _ById:
    return {id(message): message for message in messages}


def _with(made: Compacted, *notes: str, struck: tuple[str, ...] = ()) -> Compacted:
    """Add notes, and the rejected lines of a handoff, to the report."""
    return made._replace(report=made.report.replace(warnings=(*notes, *made.report.warnings), struck=struck))


def _done(begun: events.Compaction, after: int, report: CompactionReport) -> events.Compaction:
    """Return the receipt of a compaction."""
    return begun.replace(
        phase="done",
        after=after,
        tier=report.tier,
        kept_turns=report.kept_turns,
        kept_steps=report.kept_steps,
        anchors=tuple(f"{anchor.kind}: {anchor.text}" for anchor in report.anchors),
        segments=report.segments,
        reduced=len(report.cut),
        lost=report.lost,
        note="; ".join(report.warnings),
    )
