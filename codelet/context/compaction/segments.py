"""Segments: texts that replace compacted turns, in a form that can be parsed again.

A segment is a user message. Its first line names its turns. The parts follow, each with its heading: the model's
handoff, `[state]` with the recorded events, and the entries in order of time: `[t12 user] the user's words`,
`[t12] the agent's words`, `[t12 bash pytest -q]` with lines of that call and its result. A line of content that looks
like a heading begins with a backslash.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from codelet.messages import SEGMENT_OPENING, ForeignMessage, kind_of, text_of

_NOTE_OPENING = "These turns were compacted"
NOTE = (
    f"{_NOTE_OPENING}. What follows are the user's messages, the agent's, and lines of tool calls and results, in "
    "order; […] marks a cut. Do not repeat requests from these turns unless they are still open. `recall` has the rest."
)
_HEAD = re.compile(r'<compacted turns="(\d{1,7})-(\d{1,7})">\n')
_ENTRY = re.compile(r"\[t(\d{1,7})(?: ([^\]\n]{0,300}))?\](?: (.*))?\Z", re.DOTALL)
_STATE, _HANDOFF = "[state]", "[model's summary, checked for names only]"
_GUARDED = re.compile(r"\\*\[(?:t\d|state\]|model's summary)")
USER = "user"


@dataclass
class SegmentEntry:
    """Lines of one source in one turn: `label` is `user`, a call's name and subject, or empty for the agent's words."""

    turn: int
    label: str
    lines: list[str] = field(default_factory=list)


@dataclass
class ParsedSegment:
    """A segment as data: the first and last of its turns, its handoff, its recorded state, its entries."""

    first: int
    last: int
    handoff: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    entries: list[SegmentEntry] = field(default_factory=list)


def render(segment: ParsedSegment, *, note: bool) -> str:
    """Return the text of a segment."""
    lines = [f'{SEGMENT_OPENING}"{segment.first}-{segment.last}">', *([NOTE] if note else [])]
    for heading, part in ((_HANDOFF, segment.handoff), (_STATE, segment.state)):
        lines += [heading, *map(_guarded, part)] if part else []
    for entry in segment.entries:
        head = f"[t{entry.turn} {entry.label}]" if entry.label else f"[t{entry.turn}]"
        first = entry.lines[:1] if entry.label in ("", USER) else []
        lines += [" ".join([head, *first]), *map(_guarded, entry.lines[len(first) :])]
    return "\n".join(lines)


def _guarded(line: str) -> str:
    return "\\" + line if _GUARDED.match(line) else line


def parse_segment(text: str) -> ParsedSegment:
    """Return the segment that a text was rendered from. Never raises: lines without a heading count as the agent's."""
    head = _HEAD.match(text)
    first, last = (int(head[1]), int(head[2])) if head else (0, 0)
    segment = ParsedSegment(first, max(first, last))
    headings, target = {_STATE: segment.state, _HANDOFF: segment.handoff}, list[str]()
    unread = SegmentEntry(first, "", target)
    for line in text[head.end() if head else 0 :].split("\n"):
        if found := _ENTRY.match(line) if line.startswith("[t") else None:
            target = [found[3]] if found[3] is not None else []
            segment.entries.append(SegmentEntry(int(found[1]), found[2] or "", target))
        elif line in headings:
            target = headings[line]
        elif target is not unread.lines or not line.startswith(_NOTE_OPENING):  # older notes have other words
            target.append(line[1:] if line.startswith("\\") and _GUARDED.match(line) else line)
    segment.entries[:0] = [unread] if any(unread.lines) else []
    return segment


def turns_of(messages: Sequence[ForeignMessage]) -> list[int]:
    """Return the turn of each message, counted from 1 and with the turns in segments."""
    found: list[int] = []
    turn = 0
    for message in messages:
        kind = kind_of(message)
        if kind == "segment" and (head := _HEAD.match(text_of(message))):
            turn = max(turn, int(head[1]), int(head[2]))
        found.append(turn := turn + (kind == "prompt"))
    return found
