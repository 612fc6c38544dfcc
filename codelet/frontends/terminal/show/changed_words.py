"""Which words of a changed line are other ones: what a diff marks inside its lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

WordSpan = tuple[int, int]
"""Where a changed part begins and ends in the line, without the line's sign; at one place where the other has more."""

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_SIGNIFICANT = re.compile(r"\w+|[^\w\s]")
_LONGEST = 400
_MOST_LINES = 200
"""Bounds: of longer lines, and of more changed lines in a row, nothing is marked."""
_ALIKE = 0.4
"""A line that has less than this in common with the other is a new line rather than a changed one."""
_MOST_COMPARED = 400
"""Where lines were added or removed besides, so many pairs are compared at most to find which line became which."""


def changed_words(lines: Sequence[str]) -> Mapping[int, Sequence[WordSpan]]:
    """The changed parts by the number of the line, counted from 0 over the lines of a unified diff."""
    found: dict[int, Sequence[WordSpan]] = {}
    for removed, added in _pairs(lines):
        before, after = lines[removed][1:], lines[added][1:]
        if max(len(before), len(after)) <= _LONGEST:
            found[removed], found[added] = _between(before, after)
    return found


def _pairs(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Each removed line with the added one that takes its place, where as many stand there of one as of the other, or
    where the likeness of the lines tells it.

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
        removed, added = kept[first:middle], kept[middle:place]
        if not removed or not added or lines[removed[0]].startswith("--- "):
            pass  # nothing was replaced, or it is the head of a file
        elif len(removed) == len(added) <= _MOST_LINES:
            yield from zip(removed, added, strict=True)
        elif len(removed) * len(added) <= _MOST_COMPARED:
            yield from _alike(lines, removed, added)
        place = max(place, first + 1)


def _alike(lines: Sequence[str], removed: Sequence[int], added: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The pairs of most likeness in all that keep the order of the lines; a line may have no other."""
    words = {number: Counter(_SIGNIFICANT.findall(lines[number][1 : _LONGEST + 1])) for number in (*removed, *added)}
    counts = {number: sum(counter.values()) for number, counter in words.items()}
    most: list[list[float]] = [[0.0] * (len(added) + 1) for _ in range(len(removed) + 1)]
    likeness = {}
    for i, old in enumerate(removed):
        for j, new in enumerate(added):
            ratio = 2 * sum((words[old] & words[new]).values()) / max(counts[old] + counts[new], 1)
            likeness[i, j] = ratio if ratio >= _ALIKE else 0.0
            most[i + 1][j + 1] = max(most[i][j + 1], most[i + 1][j], most[i][j] + likeness[i, j])
    pairs = []
    i, j = len(removed), len(added)
    while i and j:
        if likeness[i - 1, j - 1] and most[i][j] == most[i - 1][j - 1] + likeness[i - 1, j - 1]:
            i, j = i - 1, j - 1
            pairs.append((removed[i], added[j]))
        elif most[i][j] == most[i - 1][j]:
            i -= 1
        else:
            j -= 1
    return reversed(pairs)


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
            spans[side].append((places[side][start], places[side][end]))
    return spans


def _places(words: Sequence[str]) -> list[int]:
    """Where each word begins, and where the last one ends."""
    places = [0]
    for word in words:
        places.append(places[-1] + len(word))
    return places
