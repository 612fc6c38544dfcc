"""Put the new list together: kept messages where they stood, a segment for each run of old ones between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from codelet.compaction.gather import Gatherer
from codelet.compaction.segments import Entry, Segment, opening, render


@dataclass
class Block:
    """A run of old messages: its turns, its ledger, and the user's words in it by place in the list."""

    start: int
    stop: int
    first: int
    last: int
    ledger: list[tuple[str, str]] = field(default_factory=list)
    said: list[tuple[tuple[int, int], Entry]] = field(default_factory=list)

    def overhead(self) -> int:
        """Characters that its first line takes."""
        return len(opening(self.first, self.last)) + 1


def message_of(block: Block, gatherer: Gatherer, chosen: Sequence[int], *, note: bool) -> dict[str, Any] | None:
    """The segment of a block with those of the chosen lines that belong to it; None if it would be empty."""
    placed: list[tuple[tuple[int, int], Entry]] = list(block.said)
    candidates = gatherer.candidates
    by_source: dict[int, list[int]] = {}
    for index in chosen:
        by_source.setdefault(candidates.source[index], []).append(index)
    for number, indices in by_source.items():
        source = gatherer.sources[number]
        indices.sort(key=candidates.position.__getitem__)
        lines = [candidates.text[i] for i in indices if i != source.head]
        placed.append((source.place, Entry(source.turn, source.label, lines)))
    if not placed and not block.ledger:
        return None
    placed.sort(key=lambda item: item[0])
    segment = Segment(block.first, block.last, block.ledger, _joined([entry for _, entry in placed]))
    return {"role": "user", "content": render(segment, note=note)}


def _joined(entries: Sequence[Entry]) -> list[Entry]:
    """Entries with neighbours of one turn and label made one: their heading need not stand twice."""
    joined: list[Entry] = []
    for entry in entries:
        last = joined[-1] if joined else None
        if last is not None and not entry.is_words and (last.turn, last.label) == (entry.turn, entry.label):
            last.lines.extend(entry.lines)
        else:
            joined.append(entry)
    return joined


def split(blocks: Sequence[Block], gatherer: Gatherer, chosen: Sequence[int]) -> list[list[int]]:
    """The chosen lines of each block, in the order in which they were chosen.

    Lines cut from a kept message go to the block before it.
    """
    if not blocks:
        return []
    owner: dict[int, int] = {}
    for number, block in enumerate(blocks):
        for place in range(block.start, block.stop):
            owner[place] = number
    parts: list[list[int]] = [[] for _ in blocks]
    nearest = 0
    for place in range(max(owner, default=-1) + 1):
        nearest = owner.setdefault(place, nearest)
    for index in chosen:
        place = gatherer.sources[gatherer.candidates.source[index]].place[0]
        parts[owner.get(place, len(blocks) - 1)].append(index)
    return parts
