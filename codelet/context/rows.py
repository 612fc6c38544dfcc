"""The entries of the next request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from codelet.call_record import CallRecord
from codelet.context.tokens import estimate_message
from codelet.messages import Message, kind_of, reminder_type
from codelet.record import Record


class ContextRow(Record):
    """One entry: `tokens` is an estimate, `turn` counts the user's prompts from 1 as segments do (0: none yet).

    `number` is the message's index in the list; the system prompt and the tools have -1. `anchor` are the kinds and
    weights of the anchors in a prompt's turn.
    """

    number: int
    role: str
    source: str
    tokens: int
    turn: int = 0
    pinned: bool = False
    anchor: str = ""


def context_rows(
    messages: Sequence[Message],
    system_tokens: int,
    tool_tokens: int,
    is_pinned: Callable[[Message], bool],
    records: Iterable[CallRecord] = (),
) -> list[ContextRow]:
    """Return the rows, the system prompt and the tools first."""
    from codelet.context.compaction.observed import anchors_of, observations_of
    from codelet.context.compaction.reading import ReadSession

    session = ReadSession(messages, {record.id: record for record in records})
    anchors: dict[int, list[str]] = {}
    for found in anchors_of(session, observations_of(session)):
        anchors.setdefault(found.turn, []).append(f"{found.kind} {found.weight}")
    rows = [ContextRow(-1, "system", "system prompt", system_tokens), ContextRow(-1, "system", "tools", tool_tokens)]
    for number, message in enumerate(messages):
        kind, source, turn = kind_of(message), str(message["role"]), session.turns[number]
        if kind == "reminder":
            source, turn = f"reminder {reminder_type(message)}", 0
        elif calls := message.get("tool_calls"):
            source = "calls " + ", ".join(call["function"]["name"] for call in calls)
        elif kind == "segment":
            source = "compacted turns"
        anchor = ", ".join(anchors.get(turn, ())) if source == "user" else ""
        tokens = estimate_message(message)
        rows.append(ContextRow(number, message["role"], source, tokens, turn, is_pinned(message), anchor))
    return rows


def floor_of(rows: Sequence[ContextRow]) -> dict[str, int]:
    """Return the tokens that no compaction can save, by part, without empty parts."""
    floor = {
        "system prompt and tools": sum(row.tokens for row in rows if row.number < 0),
        "reminders": sum(row.tokens for row in rows if row.source.startswith("reminder")),
        "pinned": sum(row.tokens for row in rows if row.pinned),
    }
    return {part: tokens for part, tokens in floor.items() if tokens}
