"""The conversation: the one message list, in three parts, and the only owner of its order, of the reminders in it, and
of its rewrites.

The head and the tail are reminders, the body holds prompts, answers and results. Messages are appended to the body, and
a result replaces its placeholder. Every other change of the body goes through `rewrite`, which notifies the parts that
measured or cached the list.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import is_
from typing import Literal, Protocol, overload

from codelet import prompt
from codelet.call_record import CallLog, CallRecord
from codelet.events import Interrupted
from codelet.messages import Message, Picture, kind_of, reminder, reminder_type, tool_result, unpaired, with_kinds
from codelet.record import Newest, Record

_MOST_CHECKPOINTS = 50

Placement = Literal["tail", "append", "prepend"]
"""The place of changing reminders: last in each request, appended once when they change, or first with all others."""
PlacementChoice = Literal["auto", "tail", "append", "prepend"]
"""The user's choice of it; `auto` is `append` for models that need an unchanged prefix, else `tail`."""

HEAD = ("environment", "claudeMd")
RESERVED = ("plan", "facts", "tasks")
NESTED = ("nestedClaudeMd",)
VOLATILE = ("gitStatus", "tokenStatus")
PREPENDED = ("claudeMd", "environment")


class Zones(Record):
    """The types of reminders in their order. `more_head` and `more_tail` are those of extensions."""

    more_head: tuple[str, ...] = ()
    more_tail: tuple[str, ...] = ()

    @property
    def head(self) -> tuple[str, ...]:
        """The types before the conversation."""
        return (*HEAD, *self.more_head)

    @property
    def tail(self) -> tuple[str, ...]:
        """The types after the conversation."""
        return (*RESERVED, *self.more_tail, *NESTED, *VOLATILE)

    @property
    def types(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.head, *self.tail)

    @property
    def prepended(self) -> tuple[str, ...]:
        """The types before the conversation if the volatile ones are there too."""
        return (*PREPENDED, *self.more_head, *RESERVED, *self.more_tail, *VOLATILE)

    def parts_of(self, messages: Sequence[Message]) -> tuple[int, int]:
        """Return where the conversation begins and ends in a list that holds reminders: those around it are not its."""
        types, tail, last = self.types, self.tail, len(messages)
        while last > 0 and reminder_type(messages[last - 1]) in tail:
            last -= 1
        first = 0
        while first < last and reminder_type(messages[first]) in types:
            first += 1
        return first, last


class ReminderChange(Record):
    """The change of the reminder of one type; `text` is the whole message, empty if it was removed."""

    kind: str
    change: Literal["added", "replaced", "removed"]
    text: str = ""


Texts = Mapping[str, str | None]
"""Texts of reminders by type; None or an empty one takes the reminder out."""


class Watch(Protocol):
    """A part that measures or remembers something about the list."""

    def list_changed(self, *, body: bool) -> None:
        """The body was rewritten, or else the head was renewed."""
        ...


class Parts:
    """A list in three parts: the first reminders, the body, the volatile reminders."""

    __slots__ = ("body", "head", "messages", "tail")

    head: Sequence[Message]
    body: Sequence[Message]
    tail: Sequence[Message]
    messages: Messages
    """Head and body, live and read-only."""

    def __init__(
        self, head: Sequence[Message] = (), body: Sequence[Message] = (), tail: Sequence[Message] = ()
    ) -> None:
        self.head = head
        self.body = body
        self.tail = tail
        self.messages = Messages(self)

    @classmethod
    def of(cls, messages: Sequence[Message], order: Zones | None = None) -> Parts:
        """The parts of a list from outside, which may hold reminders; their kinds are worked out where need be."""
        known = with_kinds(messages)
        first, last = (order or Zones()).parts_of(known)
        return Parts(tuple(known[:first]), tuple(known[first:last]), tuple(known[last:]))

    def sent(self) -> list[Message]:
        """The list as a request carries it: the same message objects each time, the tail last."""
        return [*self.head, *self.body, *self.tail]

    def with_body(self, body: Sequence[Message]) -> Parts:
        """The same reminders around another body."""
        return Parts(self.head, body, self.tail)

    @property
    def appended(self) -> Sequence[Message]:
        """The reminders in the body, where `--reminders append` puts them; the newest of a type is in force."""
        return [message for message in self.body if reminder_type(message) is not None]

    @property
    def reminders(self) -> tuple[Message, ...]:
        """All reminders, in the order of the list."""
        return (*self.head, *self.appended, *self.tail)

    def without_appended(self) -> Parts:
        """The same without the reminders in its body."""
        if not self.appended:
            return self
        return self.with_body([message for message in self.body if reminder_type(message) is None])

    def same_body(self, body: Sequence[Message]) -> bool:
        """Return whether the body is made of these very messages."""
        return len(body) == len(self.body) and all(map(is_, body, self.body))


class Messages(Sequence[Message]):
    """A live view of the head and body of a list. Equal to any sequence of equal messages."""

    __slots__ = ("_of",)

    def __init__(self, of: Parts) -> None:
        self._of = of

    def __len__(self) -> int:
        return len(self._of.head) + len(self._of.body)

    def __iter__(self) -> Iterator[Message]:
        return chain(self._of.head, self._of.body)

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        first = len(self._of.head)
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1 and start >= first:
                return list(self._of.body[start - first : max(start, stop) - first])
            return list(self)[index]
        place = range(len(self))[index]
        return self._of.head[place] if place < first else self._of.body[place - first]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        raise TypeError("the messages of a live list have no hash")

    def __repr__(self) -> str:
        return repr(list(self))


class Checkpoint(Record):
    """The list before a prompt, and that prompt; `turn` is its number and `at` its time, 0 if they are not known.

    `calls` is the number of calls that had ended by then.
    """

    parts: Parts
    prompt: str
    turn: int = 0
    at: float = 0.0
    calls: int = 0


class Conversation(Parts):
    """The list of one session. `watches` hear of every rewrite; `placement` says where volatile reminders go, `zones`
    in which order.

    `rewrites` counts how often the body was replaced, `call_ids` are the ids of all calls ever; `interruption` is the
    record of the last turn's early end, if it had one. `calls` are the records of all calls, also of those that a
    compaction removed from the list; `turn` is the number of the current turn.
    """

    __slots__ = (
        "_appended",
        "_begun",
        "_checkpoints",
        "_watches",
        "call_ids",
        "calls",
        "interruption",
        "placement",
        "rewrites",
        "turn",
        "zones",
    )

    body: list[Message]

    def __init__(self, *watches: Watch, placement: Placement = "tail") -> None:
        super().__init__((), [], ())
        self.placement: Placement = placement
        self.zones = Zones()
        self.rewrites = 0
        self.call_ids: set[str] = set()
        self.calls = CallLog()
        self.turn = 0
        self.interruption: Interrupted | None = None
        self._watches = watches
        self._appended: list[Message] = []
        self._begun = False
        """Return whether the list has an answer since its present beginning: then its head stays as sent."""
        self._checkpoints = Newest[Checkpoint](_MOST_CHECKPOINTS)

    @property
    def appended(self) -> Sequence[Message]:
        """The reminders in the body, known without a walk through it."""
        return self._appended

    def snapshot(self) -> Parts:
        """Return the present list for work elsewhere: O(list), no copy of any message."""
        return Parts(self.head, tuple(self.body), self.tail)

    def append(self, *new: Message) -> int:
        """Put messages at the end; gives the index of the first in `messages`.

        An assistant message comes with a result, or a placeholder, for each of its calls: raises ValueError else.
        """
        if wrong := unpaired(new):
            raise ValueError(f"calls and results are to enter the list together: {', '.join(wrong)}")
        self.body.extend(new)
        self._begun = self._begun or any(message["role"] == "assistant" for message in new)
        return len(self.messages) - len(new)

    def answer(self, call_id: str, text: str, *, failed: bool, images: Sequence[Picture] = ()) -> None:
        """Put a call's result in its placeholder's place. Raises KeyError if the newest calls have none of it."""
        for place in range(len(self.body) - 1, -1, -1):
            message = self.body[place]
            if message["role"] != "tool":
                break
            if message["tool_call_id"] == call_id and message["content"] == prompt.INTERRUPTED:
                self.body[place] = tool_result(call_id, text, failed=failed, images=images)
                return
        raise KeyError(call_id)

    def record(self, call: CallRecord) -> None:
        """Keep what a call of the turn in hand did."""
        self.calls.add(call.replace(turn=self.turn))

    def replace(self, place: int, message: Message) -> int:
        """Replace a message of the body that is still to be sent; `index` counts in `messages`."""
        self.body[place] = message
        return len(self.head) + place

    def rewrite(self, body: Sequence[Message]) -> None:
        """Put another body in the old one's place: what was measured of the list is void."""
        self._begun = self._begun and bool(body) and bool(self.body) and body[0] is self.body[0]
        self.body = list(body)
        self._appended = [message for message in self.body if reminder_type(message) is not None]
        self.rewrites += 1
        for watch in self._watches:
            watch.list_changed(body=True)

    def renew(self, head: Texts, tail: Texts) -> list[ReminderChange]:
        """Bring reminders up to date and return the changes. Types that are not named stay."""
        changes: list[ReminderChange] = []
        if self.placement == "append":
            self.body += self.tail
            self._appended += self.tail
            self.tail = ()
            if self._begun:
                head, tail = {}, {**head, **tail}
            new, told = appended(tail, self.reminders, self.zones)
            self.body += new
            self._appended += new
            changes += told
            tail = {}
        before = self.head
        prepended = self.placement == "prepend"
        if head:
            front = self.zones.prepended if prepended else self.zones.head
            self.head, self.tail, told = renewed(front, head, self.head, self.tail)
            changes += told
        if tail:
            back = NESTED if prepended else self.zones.tail
            self.tail, self.head, told = renewed(back, tail, self.tail, self.head)
            changes += told
        if len(before) != len(self.head) or not all(map(is_, before, self.head)):
            for watch in self._watches:
                watch.list_changed(body=False)
        return changes

    def checkpoint(self, prompt: str, turn: int = 0) -> None:
        """Remember the list before `prompt`, which begins that turn; the newest 50 are kept."""
        self.turn = turn
        self._checkpoints.append(Checkpoint(self.snapshot(), prompt, turn, time.time(), self.calls.count))

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """All that `back` may lead to, the newest last."""
        return tuple(self._checkpoints)

    @property
    def latest(self) -> Checkpoint | None:
        """Return where `back` leads to."""
        return self._checkpoints[-1] if self._checkpoints else None

    def back(self, prompts: int = 1) -> str | None:
        """Go back to before the last `prompts` prompts; return the first of them, None if there are fewer."""
        if not 0 < prompts <= len(self._checkpoints):
            return None
        point = [self._checkpoints.pop() for _ in range(prompts)][-1]
        self.calls.go_back(point.calls)
        self._become(point.parts)
        return point.prompt

    def clear(self) -> None:
        """Forget everything."""
        self._checkpoints.clear()
        self.calls.become(())
        self._become(Parts())

    def adopt(
        self,
        messages: Sequence[Message],
        before: Sequence[Message] | None = None,
        calls: Sequence[CallRecord] = (),
    ) -> None:
        """Continue with a list from elsewhere, and the records of its `calls`.

        `before` is the list before its last prompt, if known.
        """
        self._checkpoints.clear()
        self.calls.become(calls)
        taken = Parts.of(messages, self.zones)
        self.call_ids.update(call["id"] for message in messages for call in message.get("tool_calls", ()))
        self._become(taken)
        self._begun = any(message["role"] == "assistant" for message in taken.body)
        places = [place for place, message in enumerate(taken.body) if kind_of(message) == "prompt"]
        for place in places[-_MOST_CHECKPOINTS:]:
            told = taken.body[place]["content"] or ""
            point = Checkpoint(
                Parts(taken.head, taken.body[:place]), told, calls=self._calls_before(taken.body[place:])
            )
            self._checkpoints.append(point)
        if before is not None and self._checkpoints:
            self._checkpoints.append(self._checkpoints.pop().replace(parts=Parts.of(before, self.zones)))

    def _calls_before(self, messages: Sequence[Message]) -> int:
        """Return the number of calls that had ended before the first one in these messages."""
        if not self.calls:
            return 0
        later = {call["id"] for message in messages for call in message.get("tool_calls", ())}
        return next((place for place, record in enumerate(self.calls) if record.id in later), len(self.calls))

    def drop_partial(self) -> bool:
        """Remove the text of a cut-off answer from the list's end; return False if it has none."""
        if not self.body or self.body[-1]["role"] != "assistant" or not prompt.is_cut(self.body[-1]["content"]):
            return False
        self.rewrite(self.body[:-1])
        return True

    @property
    def is_open(self) -> bool:
        """Return whether the last turn did not come to its answer, as when its process was killed."""
        last = next((message for message in reversed(self.body) if reminder_type(message) is None), None)
        return last is not None and (kind_of(last) in ("tool", "prompt") or bool(last.get("tool_calls")))

    def _become(self, parts: Parts) -> None:
        self.interruption = None
        self.head, self.tail = parts.head, parts.tail
        self.rewrite(parts.body)


def renewed(
    zone: tuple[str, ...],
    texts: Texts,
    own: Sequence[Message],
    other: Sequence[Message],
) -> tuple[tuple[Message, ...], tuple[Message, ...], list[ReminderChange]]:
    """Return the reminders at a zone's own end of the list and at the other, brought up to date, and the changes.

    `texts` holds the reminders gathered again: an empty text or None removes a reminder, a type that is not named
    stays. Reminders that another placement left at the other end move.
    """
    here, there = _of(zone, own), _of(zone, other)
    wanted: list[Message] = []
    changes: list[ReminderChange] = []
    for kind in zone:
        old = here.get(kind, there.get(kind))
        message = _renewed(kind, old, texts[kind]) if kind in texts else old
        if message is not None:
            wanted.append(message)
        if message is not old or kind in there:
            changes.append(_change(kind, old, message))
    rest = [message for message in own if reminder_type(message) not in zone]
    kept = [message for message in other if reminder_type(message) not in zone]
    return (*wanted, *rest), tuple(kept), changes


def appended(texts: Texts, messages: Iterable[Message], zones: Zones) -> tuple[list[Message], list[ReminderChange]]:
    """Return what to append to a list so that the newest reminder of each type has the text in `texts`, and the
    changes.

    An empty text or None says that the type's last text no longer applies.
    """
    newest = {kind: message for message in messages if (kind := reminder_type(message)) is not None}
    new: list[Message] = []
    changes: list[ReminderChange] = []
    for kind in (kind for kind in zones.types if kind in texts):
        text, old = texts[kind], newest.get(kind)
        if not text and (old is None or is_withdrawn(old)):
            continue
        plain = prompt.as_reminder(kind, text or prompt.NO_LONGER)
        content = prompt.as_reminder(kind, prompt.FROM_HERE.format(text=text)) if text else plain
        if old is not None and old["content"] in (plain, content):
            continue
        new.append(reminder(kind, content))
        known = None if old is None or is_withdrawn(old) else old
        changes.append(_change(kind, known, new[-1] if text else None))
    return new, changes


def is_withdrawn(message: Message) -> bool:
    """Return whether a reminder only says that its type no longer applies."""
    kind = reminder_type(message)
    return kind is not None and message["content"] == prompt.as_reminder(kind, prompt.NO_LONGER)


def _of(zone: tuple[str, ...], messages: Sequence[Message]) -> dict[str, Message]:
    """The reminders of a zone among these messages, by type."""
    return {kind: message for message in messages if (kind := reminder_type(message)) is not None and kind in zone}


def _renewed(kind: str, old: Message | None, text: str | None) -> Message | None:
    if not text:
        return None
    content = prompt.as_reminder(kind, text)
    return old if old is not None and old["content"] == content else reminder(kind, content)


def _change(kind: str, old: Message | None, new: Message | None) -> ReminderChange:
    if new is None:
        return ReminderChange(kind, "removed")
    return ReminderChange(kind, "added" if old is None else "replaced", new["content"] or "")
