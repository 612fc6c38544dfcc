"""The archive: messages that compactions removed, in memory within a cap, and their recall.

Answers are bounded, or recalling would fill the window again.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from sys import getsizeof
from time import process_time
from typing import Any, NamedTuple

from codelet.context.inputs import cut, place_of_line
from codelet.context.tokens import characters
from codelet.messages import call_arguments, call_name, calls_of, images_of, text_of
from codelet.record import Record

CAP = 64 * 1024 * 1024
LONGEST_ANSWER = 12_000
LONGEST_PATTERN = 200
_MOST_HITS = 40
_SCANNED = 4 * 1024 * 1024
_SEARCHING = 5.0
"""CPU seconds for one search, as a pattern can be slow in each line without being exponential."""
_LONGEST_LINE = 400
# The bytes of an entry besides its text.
_ENTRY_BYTES = 512
# The bytes of a call per character.
_BYTES_PER_CHARACTER = 4
# Patterns are compiled once they are needed. Older exports have `id` for the argument.
_OWN_ID = r"r[0-9]{1,9}"
_NAMED = r"recall (?:entry|id)=(r[0-9]{1,9})\b"
# A repeated group can take exponential time, many repetitions in a row polynomial time of a high degree.
_SLOW = r"(?s)\)\s*[*+{]|\\\d|(?:(?:[*+}]|(?<![(\\*+}])\?).*){4}"


class Archived(Record):
    """One removed message, with its id and its turn; `bytes` is its size."""

    id: str
    turn: int
    message: Mapping[str, Any]
    bytes: int


class ShownRange(NamedTuple):
    """A range of one entry's text in a search result, in characters."""

    key: str
    start: int
    end: int


class Archive:
    """Messages by id. `cap` is in bytes; beyond it the oldest are dropped, and counted by `lost`."""

    def __init__(self, cap: int = CAP) -> None:
        self.cap = cap
        self.bytes = 0
        self.lost = 0
        self._entries: OrderedDict[str, Archived] = OrderedDict()
        self.next_number = 1
        """The number of the next id. Each message gets one, in order, even if it does not fit."""

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, turn: int, message: Mapping[str, object]) -> str | None:
        """Store a message; return its id, or None if it alone is larger than the cap."""
        key = f"r{self.next_number}"
        self.next_number += 1
        return key if self._store(key, turn, message) else None

    def take_out(self, message: Mapping[str, object]) -> list[Archived]:
        """Remove the entries whose ids are in a message's markers; return them for `restore`."""
        text = text_of(message) + "".join(map(call_arguments, calls_of(message)))
        found = [self._entries.pop(key) for key in dict.fromkeys(re.findall(_NAMED, text)) if key in self._entries]
        self.bytes -= sum(entry.bytes for entry in found)
        return found

    def _store(self, key: str, turn: int, message: Mapping[str, object]) -> bool:
        text = text_of(message)
        size = getsizeof(text) + _BYTES_PER_CHARACTER * (characters(message) - len(text)) + _ENTRY_BYTES
        size += sum(len(picture["data"]) for picture in images_of(message))
        if size > self.cap:
            self.lost += 1
            return False
        while self.bytes + size > self.cap:
            _, oldest = self._entries.popitem(last=False)
            self.bytes -= oldest.bytes
            self.lost += 1
        self._entries[key] = Archived(key, turn, message, size)
        self.bytes += size
        return True

    def entries(self) -> list[Archived]:
        """Return all entries, oldest first."""
        return list(self._entries.values())

    def restore(self, key: str, turn: int, message: Mapping[str, object]) -> None:
        """Store a message under the id that it had in another archive."""
        following = int(key[1:]) + 1 if re.fullmatch(_OWN_ID, key) else 0
        if key not in self._entries and self._store(key, turn, message):
            self.next_number = max(self.next_number, following)

    def clear(self) -> None:
        self._entries.clear()
        self.bytes = 0

    def entry(self, key: str) -> Archived | None:
        """Return the entry with this id, or None."""
        return self._entries.get(key.strip())

    def by_turn(self, turn: int) -> str:
        """Return the texts of a turn's messages, bounded."""
        found = [each for each in self._entries.values() if each.turn == turn]
        if not found:
            return f"Nothing in the archive belongs to turn {turn}."
        text = "\n\n".join(f"[{e.id}, turn {turn}, {e.message.get('role')}]\n{text_in(e)}" for e in found)
        return cut(text, LONGEST_ANSWER)

    def find(
        self, pattern: str, key: str = "", first: int = 1, longest: int = LONGEST_ANSWER
    ) -> tuple[str, list[ShownRange]]:
        """Search by regular expression; return matching lines with ids and numbers, newest first, and their ranges.

        The result is bounded in lines, in time, and to `longest` characters. `key` limits the search to one entry, from
        line `first`. A pattern that does not compile, is too long, or could take exponential time is plain text.
        """
        matcher = line_matcher(pattern)
        hits: list[ShownRange] = []
        lines: list[str] = []
        scanned = room = 0
        begun = process_time()
        only = self.entry(key) if key else None
        for entry in [only] if only else reversed(self._entries.values()):
            for number, place, line in _numbered(entry, first if only else 1):
                scanned += min(len(line), _LONGEST_LINE)
                if scanned > _SCANNED or process_time() - begun > _SEARCHING:
                    on = f"; continue with lines={number}-" if only else "; name an id or a turn"
                    return "\n".join([*lines, f"[… the search stopped at {entry.id} line {number}{on}]"]), hits
                if not matcher.search(line[:_LONGEST_LINE]):
                    continue
                text = f"{entry.id} t{entry.turn} line {number}: {line.strip()[:_LONGEST_LINE]}"
                room += len(text) + 1
                if len(hits) == _MOST_HITS or room > min(longest, LONGEST_ANSWER):
                    more = f"[… more than {len(hits)} lines match; the next is line {number}]"
                    return "\n".join([*lines, more]), hits
                lines.append(text)
                hits.append(ShownRange(entry.id, place, place + min(len(line), _LONGEST_LINE)))
        if lines:
            return "\n".join(lines), hits
        within = f"{key} from line {first} on" if only else "the archive"
        searched = f"the first {_LONGEST_LINE} characters of each line were searched"
        return f"Nothing in {within} matches {pattern[:LONGEST_PATTERN]!r}; {searched}.", hits


def line_matcher(pattern: str) -> re.Pattern[str]:
    """Compile a pattern for single lines, ignoring case; as plain text if it is no safe expression."""
    if len(pattern) <= LONGEST_PATTERN and not re.search(_SLOW, pattern):
        with suppress(re.error, RecursionError, OverflowError):
            return re.compile(pattern, re.IGNORECASE)
    return re.compile(re.escape(pattern[:LONGEST_PATTERN]), re.IGNORECASE)


def text_in(entry: Archived) -> str:
    """Return the whole text of an entry, calls included."""
    text, calls = text_of(entry.message), calls_of(entry.message)
    return "\n".join([text, *(f"{call_name(call)} {call_arguments(call)}" for call in calls)]) if calls else text


def _numbered(entry: Archived, first: int) -> Iterator[tuple[int, int, str]]:
    """Yield number, place and text of an entry's lines, from line `first`."""
    text = text_in(entry)
    number, place = first, place_of_line(text, first)
    while place < len(text):
        end = text.find("\n", place)
        end = len(text) if end < 0 else end
        yield number, place, text[place:end]
        number, place = number + 1, end + 1
