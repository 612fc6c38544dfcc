"""Messages for servers that want user and assistant to take turns, as the chat templates of many models demand.

Such a template refuses two user messages in a row, and a user message after a tool's; codelet's reminders are
messages of their own, and a turn that was stopped ends with tool results. So on the way out user messages in a
row become one, reminders after a tool's result become part of it, and where somebody's turn is missing a short
message stands in. The list itself never changes, and what has been sent stays a prefix of what is sent next:
texts are only ever added at the end of the last message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from codelet import prompt
from codelet.messages import Message, assistant, kind_of, user

SEPARATOR = "\n\n"

Place = Literal["apart", "joined", "after_user", "after_assistant"]
"""How a message follows: as one of its own, as a part of the one before, or after a message that stands in."""


def place_of(message: Message, before: str) -> Place:
    """How `message` follows one of the role `before` ("" where there is none)."""
    if message["role"] == "user":
        if before == "user" or (before == "tool" and kind_of(message) == "reminder"):
            return "joined"
        return "after_assistant" if before == "tool" else "apart"
    if message["role"] == "assistant" and before in ("", "assistant"):
        return "after_user"
    return "apart"


def stand_in(place: Place) -> Message | None:
    """The message that goes out before one with that place, where somebody's turn is missing."""
    if place == "after_user":
        return user(prompt.NO_PROMPT)
    return assistant(prompt.NO_ANSWER) if place == "after_assistant" else None


def alternating(messages: Sequence[Message]) -> list[Message]:
    """The messages as such a server takes them; new ones where texts are joined."""
    sent: list[Message] = []
    for message in messages:
        place = place_of(message, sent[-1]["role"] if sent else "")
        if place == "joined":
            sent[-1] = {**sent[-1], "content": f"{sent[-1]['content']}{SEPARATOR}{message['content']}"}
            continue
        if (missing := stand_in(place)) is not None:
            sent.append(missing)
        sent.append(message)
    return sent
