"""Reminders: tagged text that codelet adds for the model, kept up to date: all for a turn, the volatile for each step.

Each type stands in the list once, the stable ones first, the volatile ones last.
Head: `environment`, `claudeMd`; put in place again each turn, but the same message object while the text is
the same, so that the prefix of the request stays as it is. Tail: `gitStatus`, `tokenStatus`, …; always the
last messages of the list, behind the conversation.

Instructions of folders that come up in the middle of a turn stand in the tail, as `nestedClaudeMd`: in the head they
would move everything behind it, and the provider's cache with it, at that very step. With the next turn they are part
of `claudeMd`, which costs the cache once, however many folders have come up.

Reminders of extensions stand behind `claudeMd` or before `nestedClaudeMd`, in the extensions' order.

With `--reminders prepend` all of them stand in front, in the order of PREPENDED; only what comes up in the middle of
a turn stands in the tail.

With `append`, the default for models whose reasoning is valid only after an unchanged prefix, nothing that was sent
moves or changes: a type is appended to the conversation when its text has changed, and the newest text is the one in
force. The head is written again only when the conversation begins or is rewritten from its beginning.

Their ledger has each type's text, its tokens, what it has cost so far, and its switch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from codelet import events, prompt
from codelet.context.tokens import estimate_message, estimate_text
from codelet.errors import CodeletError
from codelet.messages import reminder_type
from codelet.record import Record
from codelet.zones import NESTED, Zones, is_withdrawn

if TYPE_CHECKING:
    from codelet.conversation import Conversation, Parts

Zone = Literal["head", "tail"]


class Source:
    """Where one reminder's text comes from. A subclass says `name` and `text`, and what it wants otherwise.

    `name` is the reminder's type, one per session. What stands in the `head` is gathered once a turn and should be the
    same bytes while nothing has changed: it is part of the prefix that the provider caches. What stands in the `tail`
    is gathered at the turn's start and before each request; with `late` before each request only, once compaction is
    through. With `off` it is left out until the user switches it on; with `quiet` no front end says that its text was
    replaced. While it is off nothing is asked of it; what `instructs` only the user switches off, no saved session. A
    `momentary` text tells of the moment: it is another one in the next run, so a replay does not compare it. `stays` is
    set before each turn: what is sent stays in the conversation, so `momentary` figures should change rarely.
    """

    name: str
    zone: Zone = "tail"
    late: bool = False
    off: bool = False
    instructs: bool = False
    quiet: bool = False
    momentary: bool = False
    stays: bool = False

    async def text(self) -> str | None:
        """Return what the model is to be told now; None, as here, or an empty text takes the reminder out."""
        return None

    async def begin(self) -> None:
        """A turn begins: `text` is asked next."""

    def sent(self) -> None:
        """The provider has begun to answer a request that had the text as it was given last."""

    def changed(self) -> None:
        """Calls have run that may have changed files. Returns at once."""

    async def stop(self) -> None:
        """The turn is over: nothing is looked at any more."""


def zones_of(sources: Iterable[Source]) -> Zones:
    """Return the zones with the types of these sources in addition to codelet's own."""
    known, own = list(sources), Zones()
    more = [source for source in known if source.name not in own.types]
    head, tail = ([source.name for source in more if source.zone == zone] for zone in ("head", "tail"))
    return Zones(tuple(head), tuple(tail), frozenset(source.name for source in known if source.momentary))


class ReminderRow(Record):
    """One type: `text` as it stands in the list, `tokens` of it, `sent` tokens over all requests so far."""

    kind: str
    text: str
    tokens: int
    sent: int
    on: bool

    @property
    def told(self) -> bool:
        """Return whether the model has been told of it, or will be with the next request as the list stands."""
        return bool(self.text or self.sent)


class ReminderLedger:
    """Counts what reminders cost; `off` are the types that are switched off, `at_first` those that begin so.

    `quiet` are those of which no front end says that their text was replaced, `sourced` those that have a source here.
    """

    def __init__(self, sources: Sequence[Source] = (), notices: events.Notices | None = None) -> None:
        self.notices = notices or events.Notices()
        self.zones = zones_of(sources)
        self.sourced = frozenset(source.name for source in sources)
        self.at_first = frozenset(source.name for source in sources if source.off)
        self.quiet = frozenset(source.name for source in sources if source.quiet)
        self.instructing = frozenset(source.name for source in sources if source.instructs)
        self.off = set(self.at_first)
        self._sent: dict[str, int] = {}

    @property
    def switched_off(self) -> tuple[str, ...]:
        """The types that the user switched off, in the order of the list; those that are not known here last."""
        off = self.off - self.at_first
        return (*(kind for kind in self.zones.types if kind in off), *sorted(off.difference(self.zones.types)))

    @property
    def switched_on(self) -> tuple[str, ...]:
        """The types that begin switched off and that the user switched on."""
        return tuple(kind for kind in self.zones.types if kind in self.at_first - self.off)

    def switch(self, *, off: Iterable[str], on: Iterable[str]) -> None:
        """Set the switches as a saved session has them, but for instructions, which no file switches off.

        `notices` says what became of them.
        """
        before, on = set(self.off), self.at_first.intersection(on)
        self.off = (self.off | (set(off) - self.instructing)) - on
        if kept := self.instructing.intersection(off) - before:
            self.notices.say(
                f"the saved session had {_listed(kept)} switched off: instruction files are sent all the same"
            )
        changed = self.sourced & (self.off ^ before)
        for word, names in (("off", changed & self.off), ("on", changed - self.off)):
            if names:
                back = "off" if word == "on" else "on"
                undo = f"/reminders NAME {back} undoes it"
                self.notices.say(f"the saved session switches {word} the reminders {_listed(names)}; {undo}")

    def count(self, parts: Parts) -> None:
        """A request with these reminders leaves."""
        for message in parts.reminders:
            if (kind := reminder_type(message)) is not None:
                self._sent[kind] = self._sent.get(kind, 0) + estimate_message(message)

    def rows(self, parts: Parts) -> list[ReminderRow]:
        """One row for each type that has a source, stands in the list, was sent or is off."""
        newest = {kind: message for message in parts.reminders if (kind := reminder_type(message)) is not None}
        in_force = {kind: message for kind, message in newest.items() if not is_withdrawn(message)}
        rows = []
        for kind in self.zones.types:
            message = in_force.get(kind)
            if message is None and kind not in self._sent and kind not in self.off | self.sourced:
                continue
            text = (message["content"] or "") if message else ""
            tokens = estimate_message(message) if message else 0
            rows.append(ReminderRow(kind, text, tokens, self._sent.get(kind, 0), kind not in self.off))
        return rows


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


class _SourceFailed(CodeletError):
    """What a reminder's source was to do it could not: the turn continues without it."""


class Renewal:
    """Brings the reminders of `conversation` up to date from their sources. `mask` takes secrets out of a text.

    What the user switched off is taken out, and nothing is asked of its source.
    """

    def __init__(
        self,
        conversation: Conversation,
        sources: Sequence[Source],
        ledger: ReminderLedger,
        *,
        mask: Callable[[str], str],
    ) -> None:
        self._conversation = conversation
        self._sources = sources
        self.ledger = ledger
        self._mask = mask
        self._head: dict[str, str | None] = {}

    async def for_turn(self) -> list[events.Event]:
        """Gather everything again, at the start of a turn."""
        for source in self._sources:
            source.stays = self._conversation.placement == "append"
        for source in self._on():
            await self._tried(source, source.begin)
        head, tail = {}, {}
        for source in self._sources:
            if source.zone == "head":
                head[source.name] = await self._text(source)
        for source in self._sources:
            if source.zone == "head" or source.stays or (source.late and not self._in_front(source)):
                continue  # what stays in the list is sent right before the request
            text = await self._text(source)
            if not self._in_front(source):
                tail[source.name] = text
            else:  # once a turn: it says of when it is, as the turn continues
                head[source.name] = prompt.AS_OF.format(when=prompt.TURN_START, text=text) if text else None
        self._head = head
        return self._renewed(head, tail)

    def changed(self) -> None:
        """Calls have run that may have changed files: begin at once to see what is different."""
        for source in self._on():
            if source.zone == "tail" and not self._in_front(source):
                source.changed()

    async def for_step(self) -> list[events.Event]:
        """Renew what changes within a turn, right before a request."""
        texts = {}
        for source in self._sources:
            if source.zone == "tail" and not self._in_front(source):
                texts[source.name] = await self._text(source)
        # A compaction may have taken out what was appended of the head's types: they are sent again.
        return self._renewed(self._head if self._conversation.placement == "append" else {}, texts)

    def sent(self) -> None:
        """The provider has begun to answer, so that it was sent the reminders."""
        for source in self._on():
            source.sent()

    async def stop(self) -> None:
        """The turn is over: nothing is looked at any more."""
        for source in self._sources:
            await self._tried(source, source.stop)

    def _on(self) -> Iterator[Source]:
        return (source for source in self._sources if source.name not in self.ledger.off)

    def _in_front(self, source: Source) -> bool:
        """Return whether a volatile reminder stands in front with all others."""
        return self._conversation.placement == "prepend" and source.name not in NESTED

    async def _text(self, source: Source) -> str | None:
        """The source's text, masked; None if the user switched it off, or it fails, which is told."""
        if source.name in self.ledger.off:
            return None
        text = await self._tried(source, source.text)
        return self._mask(text) if text else None

    async def _tried(self, source: Source, act: Callable[[], Awaitable[str | None]]) -> str | None:
        try:
            return await _done(source, act)
        except _SourceFailed as error:
            self.ledger.notices.say(str(error))
            return None

    def _renewed(self, head: dict[str, str | None], tail: dict[str, str | None]) -> list[events.Event]:
        changes = self._conversation.renew(head, tail)
        return [events.Reminder(each.kind, each.change, estimate_text(each.text)) for each in changes]


async def _done(source: Source, act: Callable[[], Awaitable[str | None]]) -> str | None:
    try:
        return await act()
    except Exception as error:
        raise _SourceFailed(f"the reminder {source.name} failed: {type(error).__name__}: {error}") from error
