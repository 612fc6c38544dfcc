"""Turns, units and safe cuts.

A *unit* is what can only stay or go as a whole: an assistant message with the results of its calls, or one other
message. A *turn* is a user message and the units up to the next one. A turn that is too large is split at assistant
messages, so that a long run of steps is not all or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codelet.compaction.content import AnyMessage, calls_of, reminder_type
from codelet.compaction.segments import is_segment


@dataclass(frozen=True)
class Span:
    """Messages `start` (inclusive) to `stop` (exclusive)."""

    start: int
    stop: int


@dataclass(frozen=True)
class Turn:
    """One turn or a part of one. `number` counts from 1 over the session; parts share their turn's number."""

    number: int
    start: int
    stop: int
    size: int


def safe_cuts(messages: Sequence[AnyMessage]) -> list[int]:
    """Indices before which the list may be cut: no call is open there. Both ends are safe."""
    cuts = [0]
    open_ids: set[str] = set()
    for index, message in enumerate(messages):
        if message.get("role") == "tool":
            open_ids.discard(str(message.get("tool_call_id")))
        else:
            open_ids = {call["id"] for call in calls_of(message)}
        if not open_ids:
            cuts.append(index + 1)
    if cuts[-1] != len(messages):
        cuts.append(len(messages))
    return cuts


def units(messages: Sequence[AnyMessage]) -> list[Span]:
    """The list as units, in order; together they are the whole list."""
    starts = [i for i, message in enumerate(messages) if message.get("role") != "tool" or i == 0]
    return [Span(a, b) for a, b in zip(starts, [*starts[1:], len(messages)], strict=True)]


def begins_turn(message: AnyMessage) -> bool:
    """Whether a message is a user's own words: no reminder, no segment."""
    return message.get("role") == "user" and reminder_type(message) is None and not is_segment(message)


def turns(messages: Sequence[AnyMessage], sizes: Sequence[int], largest: int, first: int = 1) -> list[Turn]:
    """The turns of a normalised list; one larger than `largest` tokens is split before assistant messages.

    What stands before the first user message belongs to turn 0. `first` is the number of the first turn.
    """
    found: list[Turn] = []
    number, start, size = 0, 0, 0
    for span in units(messages):
        weight = sum(sizes[span.start : span.stop])
        opens = begins_turn(messages[span.start])
        too_large = size > 0 and size + weight > largest and messages[span.start].get("role") == "assistant"
        if opens or too_large:
            if span.start > start:
                found.append(Turn(number, start, span.start, size))
            start, size = span.start, 0
            if opens:
                number = max(number + 1, first)
        size += weight
    if len(messages) > start:
        found.append(Turn(number, start, len(messages), size))
    return found
