"""Where reminders stand in the list: each type once, the stable ones first, the volatile ones last.

Head: `environment`, `claudeMd`; put in place anew each turn, but the same message object while the text is
the same, so that the prefix of the request stays as it is. Tail: `gitStatus`, `tokenStatus`, …; always the
last messages of the list. Everything else is inserted before the tail.

Instructions of folders that come up in the middle of a turn stand in the tail, as `nestedClaudeMd`: in the head they
would move everything behind it, and the provider's cache with it, at that very step. With the next turn they are part
of `claudeMd`, which costs the cache once, however many folders have come up.

With `--reminders prepend` all of them stand in front, in the order of PREPENDED; only what comes up in the middle of
a turn stands in the tail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from codelet import events, prompt
from codelet.messages import Message, user
from codelet.tokens.estimate import estimate_text

Placement = Literal["tail", "prepend"]
"""Where the volatile reminders stand: last, or with all others in front."""

HEAD = ("environment", "claudeMd")
NESTED = ("nestedClaudeMd",)
TAIL = ("plan", "facts", "tasks", *NESTED, "gitStatus", "tokenStatus")
PREPENDED = ("claudeMd", "environment", "plan", "facts", "tasks", "gitStatus", "tokenStatus")
TYPES = (*HEAD, *TAIL)


def kind_of(message: Message) -> str | None:
    """The type of the reminder that a message is, or None."""
    return prompt.reminder_kind(message["content"]) if message["role"] == "user" else None


def tail_length(messages: Sequence[Message]) -> int:
    """How many messages at the end are volatile reminders."""
    count = 0
    while count < len(messages) and kind_of(messages[-1 - count]) in TAIL:
        count += 1
    return count


def head_length(messages: Sequence[Message]) -> int:
    """How many messages at the beginning are reminders, those of the tail left out."""
    last = len(messages) - tail_length(messages)
    count = 0
    while count < last and kind_of(messages[count]) in TYPES:
        count += 1
    return count


def insert(messages: list[Message], new: Iterable[Message]) -> int:
    """Put messages at the end of the conversation, before the tail; gives the index of the first."""
    place = len(messages) - tail_length(messages)
    messages[place:place] = new
    return place


def renew(messages: list[Message], texts: Mapping[str, str | None], zone: tuple[str, ...]) -> list[events.Event]:
    """Bring one zone up to date in place; gives an event for each change.

    `texts` holds the reminders gathered anew: an empty text or None takes a reminder out, a type that is not
    named stays as it is. What stands at the other end of the list, as another placement left it, moves.
    """
    front = slice(0, head_length(messages))
    back = slice(len(messages) - tail_length(messages), None)
    own, other = (front, back) if zone in (HEAD, PREPENDED) else (back, front)
    here, there = _of(zone, messages[own]), _of(zone, messages[other])
    wanted: list[Message] = []
    changes: list[events.Event] = []
    for kind in zone:
        old = here.get(kind, there.get(kind))
        message = _renewed(kind, old, texts[kind]) if kind in texts else old
        if message is not None:
            wanted.append(message)
        if message is not old or kind in there:
            changes.append(_change(kind, old, message))
    rest = [message for message in messages[own] if kind_of(message) not in zone]
    kept = [message for message in messages[other] if kind_of(message) not in zone]
    if own is front:
        if there:
            messages[back] = kept
        messages[front] = [*wanted, *rest]
    else:
        messages[back] = [*rest, *wanted]
        if there:
            messages[front] = kept
    return changes


def _of(zone: tuple[str, ...], messages: Sequence[Message]) -> dict[str, Message]:
    """The reminders of a zone among these messages, by type."""
    return {kind: message for message in messages if (kind := kind_of(message)) is not None and kind in zone}


def _renewed(kind: str, old: Message | None, text: str | None) -> Message | None:
    if not text:
        return None
    content = prompt.reminder(kind, text)
    return old if old is not None and old["content"] == content else user(content)


def _change(kind: str, old: Message | None, new: Message | None) -> events.Event:
    if new is None:
        return events.Reminder(kind, "removed", 0)
    return events.Reminder(kind, "added" if old is None else "replaced", estimate_text(new["content"] or ""))
