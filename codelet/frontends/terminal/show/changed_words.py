"""Which words of a changed line are other ones: what a diff marks inside its lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

WordSpan = tuple[int, int]
"""Where a changed part begins and ends in the line, without the line's sign."""

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_LONGEST = 400
_MOST_LINES = 200
"""Bounds: of longer lines, and of more changed lines in a row, nothing is marked."""
_ALIKE = 0.4
"""A line that has less than this in common with the other is a new line rather than a changed one."""


def changed_words(lines: Sequence[str]) -> Mapping[int, Sequence[WordSpan]]:
    """The changed parts by the number of the line, counted from 0 over the lines of a unified diff."""
    found: dict[int, Sequence[WordSpan]] = {}
    for removed, added in _pairs(lines):
        before, after = lines[removed][1:], lines[added][1:]
        if max(len(before), len(after)) <= _LONGEST:
            found[removed], found[added] = _between(before, after)
    return found


def _pairs(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Each removed line with the added one that takes its place: as many of one as of the other in a row.

    Lines that begin with a backslash say of the line before that no line end follows it: they part nothing.
    """
    kept = [number for number, line in enumerate(lines) if not line.startswith("\\")]
    place = 0
    while place < len(kept):
        first = place
        while place < len(kept) and lines[kept[place]][:1] == "-":
            place += 1
        middle = place
        while place < len(kept) and lines[kept[place]][:1] == "+":
            place += 1
        if 0 < middle - first == place - middle <= _MOST_LINES and not lines[kept[first]].startswith("--- "):
            yield from zip(kept[first:middle], kept[middle:place], strict=True)
        place = max(place, first + 1)


def _between(before: str, after: str) -> tuple[list[WordSpan], list[WordSpan]]:
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return [], []
    places = _places(old), _places(new)
    spans: tuple[list[WordSpan], list[WordSpan]] = [], []
    for kind, *ends in matcher.get_opcodes():
        if kind == "equal":
            continue
        for side, (start, end) in enumerate((ends[:2], ends[2:])):
            if start < end:
                spans[side].append((places[side][start], places[side][end]))
    return spans


def _places(words: Sequence[str]) -> list[int]:
    """Where each word begins, and where the last one ends."""
    places = [0]
    for word in words:
        places.append(places[-1] + len(word))
    return places
