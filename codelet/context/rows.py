"""What the next request would carry, entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from codelet import prompt
from codelet.messages import Message
from codelet.record import Record
from codelet.reminders import zones
from codelet.tokens.estimate import estimate_message


class ContextRow(Record):
    """One entry: `tokens` is an estimate, `turn` counts the user's prompts in the list from 1 (0: none yet).

    `number` is the message's index in the list; the system prompt and the tools have -1.
    """

    number: int
    role: str
    source: str
    tokens: int
    turn: int = 0
    pinned: bool = False


def context_rows(
    messages: Sequence[Message], system_tokens: int, tool_tokens: int, is_pinned: Callable[[Message], bool]
) -> list[ContextRow]:
    """The rows, the system prompt and the tools first."""
    rows = [
        ContextRow(-1, "system", "system prompt", system_tokens),
        ContextRow(-1, "system", "tools", tool_tokens),
    ]
    turn = 0
    for number, message in enumerate(messages):
        source = _source(message)
        turn += source == "user"
        in_turn = 0 if source.startswith("reminder") else turn
        rows.append(ContextRow(number, message["role"], source, estimate_message(message), in_turn, is_pinned(message)))
    return rows


def _source(message: Message) -> str:
    kind = zones.kind_of(message)
    if kind is not None:
        return f"reminder {kind}"
    if calls := message.get("tool_calls"):
        return "calls " + ", ".join(call["function"]["name"] for call in calls)
    if message["role"] == "user" and prompt.is_segment(message["content"]):
        return "compacted turns"
    return message["role"]
