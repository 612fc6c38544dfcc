"""Segments: the text that stands for a span of turns, written so that it can be read back.

A segment is a user message. Its first line names the turns it stands for. Below stand ledger lines (`key: …`) and
then entries in the order of time: `[t12 user] the user's words`, `[t12 read src/a.py]` and the lines chosen from that
call, `[t12]` and lines of the assistant's text; in a long turn `[t12.37]` is its step 37. A segment never changes once
written; merging two means choosing again among their lines, never summarising a summary.

A file's path and a command's folder are written out once a segment: in real sessions a third of what the evidence takes
at a small target are headings, and most of these are the same folder over and over. `[t9 read …/session.py]` is the
file of that name whose path stands in a heading above, and `[t9 bash cd …; make]` ran in the folder of the last `cd`
above that is written out. What reads a segment back puts the whole paths in again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from codelet.messages import SEGMENT_OPENING

NOTE = (
    "What these turns left: what was said, turn by turn, then lines of what was read, written and run. Requests in it "
    "are already handled unless open. More of it: `recall`."
)
# As segments in older exports begin.
_OLD_NOTE = (
    "What these turns left, in their own lines; requests in them are already handled unless open. More of it: `recall`."
)
_HEAD = re.compile(r'<compacted turns="(\d{1,7})-(\d{1,7})">\n')
_ENTRY = re.compile(r"\[t(\d{1,7})(?:\.(\d{1,7}))?(?: ([^\]\n]{0,300}))?\](?: (.*))?\Z", re.DOTALL)
USER = "user"
# An older form of the same label, which segments in exports may have.
_OLD_USER = "user, superseded"
REQUESTS = "requests"
FROM_USER = "from user"
# The labels of what somebody said; the agent's own text has none.
SAID = frozenset({USER, _OLD_USER, REQUESTS, FROM_USER})
LEDGER_KEYS = (
    "goal",
    "standing order",
    "change",
    "settled error",
    "changed",
    "read",
    "deleted",
    "open error",
    "status",
    "ran",
    "anchor",
    "narrative",
    "left out",
    "steps",
    "pictures",
)

_LEFT_OUT = "…"
# Shorter paths are written out: it saves little, and they are easier to read.
_SHORTEST_PATH, _SHORTEST_FOLDER = 28, 12
_FOLDER = re.compile(r"(\S+) cd ([^\s;&|\"'$`]+)(; | && )(?=\S)")


@dataclass
class SegmentEntry:
    """Lines of one source in one turn; `step` counts within a long turn, 0 where nobody counts.

    `label` is `user` for one user message, `requests` for several, one per line, and "" for the assistant's text.
    """

    turn: int
    label: str
    lines: list[str] = field(default_factory=list)
    step: int = 0

    @property
    def is_user(self) -> bool:
        """Whether these are the words of one user message."""
        return self.label in (USER, _OLD_USER)

    @property
    def is_words(self) -> bool:
        """Whether these are the user's words, from one message or several."""
        return self.is_user or self.label == REQUESTS


@dataclass
class ParsedSegment:
    """A segment as data: the turns it stands for, ledger lines as (key, text), entries in order."""

    first: int
    last: int
    ledger: list[tuple[str, str]] = field(default_factory=list)
    entries: list[SegmentEntry] = field(default_factory=list)


def last_step(segment: ParsedSegment) -> int:
    """How many steps of its last turn a segment stands for, as far as it says."""
    told = [text for key, text in segment.ledger if key == "steps" and text.startswith(f"t{segment.last}.")]
    known = [int(text.partition(".")[2]) for text in told if text.partition(".")[2].isdecimal()]
    return max([*known, *(entry.step for entry in segment.entries if entry.turn == segment.last)], default=0)


def opening(first: int, last: int) -> str:
    """The first line of a segment."""
    return f'{SEGMENT_OPENING}"{first}-{last}">'


def heading(turn: int, label: str, step: int = 0) -> str:
    """The line that opens an entry; a user's words follow it on the same line."""
    place = f"t{turn}.{step}" if step else f"t{turn}"
    return f"[{place} {label}]" if label else f"[{place}]"


def guarded(line: str) -> str:
    """Indent a line of content by a blank if it could be taken for a heading."""
    return " " + line if line.startswith("[t") and _ENTRY.match(line) else line


def _no_key(line: str) -> str:
    """Indent a request by a blank if it could be taken for a ledger line."""
    return " " + line if line.partition(": ")[0] in LEDGER_KEYS else line


def render(segment: ParsedSegment, *, note: bool) -> str:
    """The text of a segment."""
    parts = [opening(segment.first, segment.last)]
    if note:
        parts.append(NOTE)
    parts.extend(f"{key}: {text}" for key, text in segment.ledger)
    written = WrittenOut()
    for entry in segment.entries:
        head = heading(entry.turn, written.short(entry.label), entry.step)
        if entry.label == REQUESTS and entry is segment.entries[0]:
            parts.extend(map(_no_key, map(guarded, entry.lines)))
        elif entry.is_user or (not entry.label and entry.lines):
            first, *rest = entry.lines or [""]
            # A line of the agent's is counted before anybody knows whether it will stand first.
            parts.append(f"{head} {first if entry.is_user else guarded(first)}")
            parts.extend(map(guarded, rest))
        else:
            parts.append(head)
            parts.extend(map(guarded, entry.lines))
    return "\n".join(parts)


def last_turn(text: str) -> int:
    """The last turn that a segment stands for, without reading the rest of it; 0 if it does not say."""
    return _turns(_HEAD.match(text))[1]


def _turns(head: re.Match[str] | None) -> tuple[int, int]:
    first, last = (int(head.group(1)), int(head.group(2))) if head else (0, 0)
    return first, max(first, last)


def parse_segment(text: str) -> ParsedSegment:
    """The segment that a text was rendered from. Never raises: what cannot be read becomes plain lines."""
    head = _HEAD.match(text)
    segment = ParsedSegment(*_turns(head))
    lines = text[head.end() if head else 0 :].split("\n")
    written = WrittenOut()
    for line in lines:
        found = _ENTRY.match(line) if line.startswith("[t") else None
        if found:
            label = written.whole(found.group(3) or "")
            entry = SegmentEntry(int(found.group(1)), label, step=int(found.group(2) or 0))
            if found.group(4) is not None:
                entry.lines.append(found.group(4))
            segment.entries.append(entry)
        elif segment.entries:
            segment.entries[-1].lines.append(line)
        else:
            _ledger_line(segment, line)
    return segment


def _ledger_line(segment: ParsedSegment, line: str) -> None:
    key, colon, rest = line.partition(": ")
    if colon and key in LEDGER_KEYS:
        segment.ledger.append((key, rest))
    elif line and line not in (NOTE, _OLD_NOTE):
        segment.entries.append(SegmentEntry(segment.first, REQUESTS, [line]))


class WrittenOut:
    """What the headings of one segment have written out so far, in the order in which they stand."""

    def __init__(self) -> None:
        self._paths: dict[str, str] = {}
        self._folder = ""

    def short(self, label: str) -> str:
        """The label without what stands above; it is remembered."""
        found = _FOLDER.match(label)
        if found and len(found[2]) >= _SHORTEST_FOLDER:
            same, self._folder = found[2] == self._folder, found[2]
            return f"{found[1]} cd {_LEFT_OUT}{found[3]}{label[found.end() :]}" if same else label
        name, path = _file_of(label)
        if not path:
            return label
        tail = _tail(path)
        same, self._paths[tail] = self._paths.get(tail) == path, path
        return f"{name} {tail}" if same else label

    def whole(self, label: str) -> str:
        """The label that `short` left something out of; it is remembered."""
        found = _FOLDER.match(label)
        if found and found[2] == _LEFT_OUT:
            return f"{found[1]} cd {self._folder or _LEFT_OUT}{found[3]}{label[found.end() :]}"
        if found and len(found[2]) >= _SHORTEST_FOLDER:
            self._folder = found[2]
            return label
        name, _, path = label.partition(" ")
        if path.startswith(_LEFT_OUT + "/"):
            return f"{name} {self._paths.get(path, path)}"
        if path := _file_of(label)[1]:
            self._paths[_tail(path)] = path
        return label


def _tail(path: str) -> str:
    return f"{_LEFT_OUT}/{path.rpartition('/')[2]}"


def _file_of(label: str) -> tuple[str, str]:
    """The name of the call and the long path that is all its subject, "" if it is none."""
    name, _, path = label.partition(" ")
    is_path = len(path) >= _SHORTEST_PATH and path.count("/") > 1 and " " not in path and _LEFT_OUT not in path
    return name, path if is_path and not path.endswith("/") else ""
