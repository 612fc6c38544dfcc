"""Ranges of a long text: by lines, by bytes, its two ends, and how much of it some ranges cover.

Places are offsets in characters; lines count from 1, bytes from 0, in UTF-8.
"""

from __future__ import annotations

_STEP = 65_536


def byte_length(text: str) -> int:
    """How many bytes a text has in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def line_count(text: str) -> int:
    """How many lines a text has; one without an end counts."""
    return text.count("\n") + (text != "" and not text.endswith("\n"))


def line_at(text: str, place: int) -> int:
    """The number of the line that a place is in."""
    return text.count("\n", 0, place) + 1


def place_of_line(text: str, number: int) -> int:
    """Where a line begins; the end of the text where there is none of that number."""
    place, left = 0, number - 1
    while left > 0:
        found = text.count("\n", place, place + _STEP)
        if found < left:
            place, left = place + _STEP, left - found
            if place >= len(text):
                return len(text)
            continue
        for _ in range(left):
            place = text.find("\n", place) + 1
        break
    return place


def byte_at(text: str, place: int) -> int:
    """The number of the byte at which a place's character begins."""
    return place if text.isascii() else byte_length(text[:place])


def place_of_byte(text: str, number: int) -> int:
    """The place of the character that a byte belongs to, or of the text's end."""
    if text.isascii():
        return min(number, len(text))
    return len(text.encode("utf-8", "replace")[:number].decode("utf-8", "ignore"))


def ends(text: str, room: int) -> tuple[int, int]:
    """Where the head ends and the tail begins that together have at most `room` characters, 60 to 40.

    Both cuts lie at line ends where there is one in the outer half, else anywhere.
    """
    if len(text) <= room:
        return len(text), len(text)
    head, tail = room * 6 // 10, len(text) - room * 4 // 10
    line_end = text.rfind("\n", head // 2, head) + 1
    line_start = text.find("\n", tail, tail + (len(text) - tail) // 2) + 1
    return line_end or head, line_start or tail


class Spans:
    """Ranges of one text, as places; what is covered twice counts once."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []

    def add(self, start: int, end: int) -> None:
        """Cover the characters from `start` to before `end`."""
        merged: list[tuple[int, int]] = []
        for first, last in sorted([*self._spans, (start, max(start, end))]):
            if merged and first <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(merged[-1][1], last)
            else:
                merged.append((first, last))
        self._spans = merged

    def bytes_of(self, text: str) -> int:
        """How many bytes of `text` are covered."""
        return sum(byte_length(text[start:end]) for start, end in self._spans)

    def cover(self, text: str) -> bool:
        """Whether all of `text` is covered."""
        return not text or any(start <= 0 and end >= len(text) for start, end in self._spans)
