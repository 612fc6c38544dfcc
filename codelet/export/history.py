"""The past in an export besides the list: the newest messages as history, and the long-term summary."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from codelet.context.compaction.segments import ParsedSegment, parse_segment, render
from codelet.context.tokens import estimate_message
from codelet.export.document import Document, HistoryEntry, Segment
from codelet.messages import Message, kind_of

if TYPE_CHECKING:
    from codelet.context.archive import Archive

HISTORY_ENTRIES = 50
HISTORY_CHARACTERS = 2_000
SUMMARY_CHARACTERS = 200_000
_Known = tuple[Message | None, HistoryEntry]


class History:
    """The newest messages, each with the time when it was first seen, also those that a compaction took out."""

    def __init__(self, carried: Document, clock: Callable[[], float]) -> None:
        self._clock = clock
        entries = carried.recent_history
        # The newest entries are those of the list's messages; what comes before was compacted.
        messages = [None] * len(entries) + [message for message in carried.messages if is_said(message)]
        self._known: list[_Known] = list(zip(messages[len(messages) - len(entries) :], entries, strict=True))

    def newest(self, messages: Sequence[Message], archive: Archive) -> tuple[HistoryEntry, ...]:
        """Return an entry for each of the newest messages, the oldest first."""
        now = round(self._clock(), 3)
        known = {_identity(message): (message, entry) for message, entry in self._known if message is not None}
        present: list[_Known] = []
        for message in [message for message in messages if is_said(message)][-HISTORY_ENTRIES:]:
            before, entry = known.get(_identity(message), (None, None))
            if entry is None or before is not message:
                entry = history_entry(message, now if entry is None else entry["timestamp"])
            present.append((message, entry))
        room = HISTORY_ENTRIES - len(present)
        if room and any(kind_of(message) not in ("system", "reminder") for message in messages):
            shown = {_identity(message) for message, _ in present if message is not None}
            taken_out = {id(kept.message) for kept in archive.entries()}
            older = [
                (message, entry)
                for message, entry in self._known
                if message is None or (_identity(message) not in shown and id(message) in taken_out)
            ]
            present = [*older[-room:], *present]
        self._known = present
        return tuple(entry for _, entry in present)


class LongTermSummary:
    """The summaries of all compactions: each adds the newer turns of its segment."""

    def __init__(self, carried: Document) -> None:
        self._seen = {segment["text"] for segment in carried.segments}
        last = max((segment["last"] for segment in carried.segments), default=-1)
        self._pieces = [(last, carried.long_term_summary)] if carried.long_term_summary else []

    def follow(self, segments: Iterable[Segment]) -> str:
        """Return the summary for a list with these segments, without turns that they no longer cover."""
        given = tuple(segments)
        last = max((segment["last"] for segment in given), default=-1)
        self._pieces = [piece for piece in self._pieces if piece[0] <= last]
        for segment in given:
            if segment["text"] not in self._seen:
                self._seen.add(segment["text"])
                if text := self._news(parse_segment(segment["text"])):
                    self._pieces.append((segment["last"], text))
        text = "\n".join(text for _, text in self._pieces)
        return text if len(text) <= SUMMARY_CHARACTERS else text[-SUMMARY_CHARACTERS:].partition("\n")[2]

    def _news(self, segment: ParsedSegment) -> str:
        """The handoff, and the entries that no earlier compaction told; of its last turn it may not have told all."""
        told_to = self._pieces[-1][0] if self._pieces else -1
        told = "\n".join(text for _, text in self._pieces)
        newer = [
            entry
            for entry in segment.entries
            if entry.turn > told_to or (entry.turn == told_to and "\n".join(entry.lines) not in told)
        ]
        if not newer:
            return ""
        new = ParsedSegment(segment.first, segment.last, handoff=segment.handoff, entries=newer)
        return render(new, note=False).partition("\n")[2]


def is_said(message: Message) -> bool:
    """Return whether a message is part of the conversation, not one of codelet's additions."""
    return kind_of(message) not in ("system", "reminder", "segment")


def history_entry(message: Message, at: float) -> HistoryEntry:
    """Return a message as a line of history: the start of its text, or the names of what it calls."""
    content = message["content"] or ""
    if not content:
        content = "calls " + ", ".join(call["function"]["name"] for call in message.get("tool_calls", ()))
    return {
        "timestamp": at,
        "role": message["role"],
        "content": content[:HISTORY_CHARACTERS],
        "token_count": estimate_message(message),
    }


def _identity(message: Message) -> Hashable:
    """Return what stays the same where a compaction shortens a message."""
    if message["role"] == "tool":
        return "result", message["tool_call_id"]
    calls = message.get("tool_calls")
    return ("calls", calls[0]["id"]) if calls else id(message)
