"""Segments: the text that stands for compacted turns, written so that it can be read back.

A segment is a user message. Its first line names its turns. Then come, each under its heading: the handoff in a
model's words, `[state]` with what was recorded, and the entries in order of time: `[t12 user] the user's words`,
`[t12] the agent's words`, `[t12 bash pytest -q]` and lines of that call and its result. A line of content that looks
like a heading begins with a backslash.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from codelet.messages import SEGMENT_OPENING

NOTE = (
    "These turns were compacted: the user's words and the agent's in order, then lines of what was read, written, and "
    "run. Their requests are done unless something later says otherwise. `recall` has the rest."
)
_HEAD = re.compile(r'<compacted turns="(\d{1,7})-(\d{1,7})">\n')
_ENTRY = re.compile(r"\[t(\d{1,7})(?:\.\d{1,7})?(?: ([^\]\n]{0,300}))?\](?: (.*))?\Z", re.DOTALL)
_STATE = "[state]"
_HANDOFF = "[model's summary, checked for names only]"
_HANDOFF_HEAD = re.compile(r"\[model's summary(?: up to t\d{1,7})?, checked for names only\]\Z")
_GUARDED = re.compile(r"\\*\[(?:t\d|state\]|model's summary)")
USER = "user"
# What older exports call the words of one user message, or of several.
_OLDER_USER = frozenset({"user, superseded", "requests", "from user"})
_OLDER_KEY = re.compile(r"([a-z]+(?: [a-z]+)?): (.*)")


@dataclass
class SegmentEntry:
    """Lines of one source in one turn: `label` is `user`, a call's name and subject, or empty for the agent's words."""

    turn: int
    label: str
    lines: list[str] = field(default_factory=list)

    @property
    def is_words(self) -> bool:
        """Whether these are the user's words."""
        return self.label == USER


@dataclass
class ParsedSegment:
    """A segment as data: the first and last turn it stands for, its handoff, its recorded state, its entries."""

    first: int
    last: int
    handoff: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    entries: list[SegmentEntry] = field(default_factory=list)


def opening(first: int, last: int) -> str:
    """Return the first line of a segment."""
    return f'{SEGMENT_OPENING}"{first}-{last}">'


def render(segment: ParsedSegment, *, note: bool) -> str:
    """Return the text of a segment."""
    lines = [opening(segment.first, segment.last)]
    if note:
        lines.append(NOTE)
    if segment.handoff:
        lines += [_HANDOFF, *map(_guarded, segment.handoff)]
    if segment.state:
        lines += [_STATE, *map(_guarded, segment.state)]
    for entry in segment.entries:
        head = f"[t{entry.turn} {entry.label}]" if entry.label else f"[t{entry.turn}]"
        if entry.label in ("", USER) and entry.lines:
            lines += [f"{head} {entry.lines[0]}", *map(_guarded, entry.lines[1:])]
        else:
            lines += [head, *map(_guarded, entry.lines)]
    return "\n".join(lines)


def _guarded(line: str) -> str:
    return "\\" + line if _GUARDED.match(line) else line


def last_turn(text: str) -> int:
    """Return the last turn that a segment stands for, 0 if it does not say."""
    head = _HEAD.match(text)
    return max(int(head[1]), int(head[2])) if head else 0


def parse_segment(text: str) -> ParsedSegment:
    """Return the segment that a text was rendered from. Never raises: what cannot be read becomes plain lines."""
    head = _HEAD.match(text)
    first = int(head[1]) if head else 0
    segment = ParsedSegment(first, max(first, last_turn(text)))
    lines = text[head.end() if head else 0 :].split("\n")
    target: list[str] | None = None
    for line in lines:
        found = _ENTRY.match(line) if line.startswith("[t") else None
        if found:
            label = found[2] or ""
            entry = SegmentEntry(int(found[1]), USER if label in _OLDER_USER else label)
            entry.lines += [found[3]] if found[3] is not None else []
            segment.entries.append(entry)
            target = entry.lines
        elif line == _STATE:
            target = segment.state
        elif _HANDOFF_HEAD.match(line):
            target = segment.handoff
        elif target is not None:
            target.append(line[1:] if line.startswith("\\") and _GUARDED.match(line) else line)
        else:
            _older_line(segment, line)
    return segment


def _older_line(segment: ParsedSegment, line: str) -> None:
    """Take a line above the first heading, as older segments have them: of their ledger a narrative is kept."""
    key = _OLDER_KEY.match(line)
    if key and key[1] == "narrative":
        segment.handoff.append(key[2])
    elif line and not key and line != NOTE and not line.startswith("What these turns left"):
        segment.entries.append(SegmentEntry(segment.first, USER, [line]))
