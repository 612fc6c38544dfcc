"""Where reminders stand in the list: each type once, the stable ones first, the volatile ones last.

Head: `environment`, `claudeMd`; put in place anew each turn, but the same message object while the text is
the same, so that the prefix of the request stays as it is. Tail: `gitStatus`, `tokenStatus`, …; always the
last messages of the list. Everything else is inserted before the tail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from codelet import events, prompt
from codelet.messages import Message, user
from codelet.tokens.estimate import estimate_text

HEAD = ("environment", "claudeMd")
TAIL = ("plan", "facts", "tasks", "gitStatus", "tokenStatus")


def kind_of(message: Message) -> str | None:
    """The type of the reminder that a message is, or None."""
    return prompt.reminder_kind(message["content"]) if message["role"] == "user" else None


def tail_length(messages: Sequence[Message]) -> int:
    """How many messages at the end are volatile reminders."""
    count = 0
    while count < len(messages) and kind_of(messages[-1 - count]) in TAIL:
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
    named stays as it is.
    """
    length = tail_length(messages) if zone is TAIL else head_length(messages)
    span = slice(len(messages) - length, None) if zone is TAIL else slice(0, length)
    standing = {kind_of(message): message for message in messages[span]}
    wanted: list[Message] = []
    changes: list[events.Event] = []
    for kind in zone:
        old = standing.get(kind)
        message = _renewed(kind, old, texts[kind]) if kind in texts else old
        if message is not None:
            wanted.append(message)
        if message is not old:
            changes.append(_change(kind, old, message))
    messages[span] = wanted
    return changes


def _renewed(kind: str, old: Message | None, text: str | None) -> Message | None:
    if not text:
        return None
    content = prompt.reminder(kind, text)
    return old if old is not None and old["content"] == content else user(content)


def _change(kind: str, old: Message | None, new: Message | None) -> events.Event:
    if new is None:
        return events.Reminder(kind, "removed", 0)
    return events.Reminder(kind, "added" if old is None else "replaced", estimate_text(new["content"] or ""))


def head_length(messages: Sequence[Message]) -> int:
    """How many messages at the beginning are stable reminders."""
    count = 0
    while count < len(messages) and kind_of(messages[count]) in HEAD:
        count += 1
    return count
