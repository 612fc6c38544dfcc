"""Which words of a line an edit changed: the spans of characters to mark in the old line and in the new one."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_MOST_WORDS = 300
_LEAST_ALIKE = 0.5
"""Lines that have less in common are different lines, not changed ones."""

CharacterSpan = tuple[int, int]


def changed_words(old: str, new: str) -> tuple[list[CharacterSpan], list[CharacterSpan]]:
    """The spans that differ; none where the lines are too long or too different to be told apart by words."""
    from difflib import SequenceMatcher

    before, after = _WORD.findall(old), _WORD.findall(new)
    if len(before) > _MOST_WORDS or len(after) > _MOST_WORDS:
        return [], []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    same = sum(len("".join(before[block.a : block.a + block.size]).strip()) for block in matcher.get_matching_blocks())
    if same < _LEAST_ALIKE * min(len(old.strip()), len(new.strip())):
        return [], []
    changed = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return _spans(before, [code[1:3] for code in changed]), _spans(after, [code[3:5] for code in changed])


def _spans(words: Sequence[str], ranges: Sequence[tuple[int, int]]) -> list[CharacterSpan]:
    """Ranges of words as ranges of characters; what a single blank parts is one."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    found: list[CharacterSpan] = []
    for first, last in ranges:
        low, high = starts[first], starts[last]
        if low == high:
            continue
        if found and words[first - 1].isspace() and found[-1][1] == starts[first - 1]:
            low = found.pop()[0]
        found.append((low, high))
    return found
