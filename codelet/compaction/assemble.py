"""Put the new list together: kept messages where they stood, a segment for each run of old ones between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from codelet.compaction.gather import Gatherer
from codelet.compaction.segments import REQUESTS, Entry, Segment, guarded, heading, is_user_label, opening, render


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
    segment = Segment(block.first, block.last, block.ledger, [entry for _, entry in placed])
    return {"role": "user", "content": render(segment, note=note)}


@dataclass
class Lengths:
    """How long the segments of some blocks would be in characters, told without writing them.

    `bare[b]` is the length of block b's segment without lines (-1: there would be none), `first[b]` of what stands at
    its head in any case; `costs` are (block, characters) for each chosen line, its heading with the first of a source.
    """

    bare: list[int]
    first: list[int]
    costs: list[tuple[int, int]]

    def of(self, used: int) -> list[int]:
        """The lengths of the segments that there would be with the first `used` lines."""
        added = [0] * len(self.bare)
        for block, cost in self.costs[:used]:
            added[block] += cost
        return [
            max(bare, first) + more
            for bare, first, more in zip(self.bare, self.first, added, strict=True)
            if more or bare >= 0
        ]


def lengths(blocks: Sequence[Block], gatherer: Gatherer, chosen: Sequence[int], *, note: bool) -> Lengths | None:
    """The lengths for some chosen lines; None where an entry would look different with other lines beside it."""
    sources, candidates = gatherer.sources, gatherer.candidates
    if any(entry.label == REQUESTS for block in blocks for _, entry in block.said):
        return None
    found = Lengths([], [], [])
    for number, block in enumerate(blocks):
        empty = message_of(block, gatherer, [], note=note and number == 0)
        found.bare.append(len(empty["content"]) if empty is not None else -1)
        found.first.append(len(render(Segment(block.first, block.last), note=note and number == 0)))
    opened: set[int] = set()
    for part, index in zip(_owners(blocks, gatherer, chosen), chosen, strict=True):
        own = candidates.source[index]
        source = sources[own]
        cost = 0 if index == source.head else len(guarded(candidates.text[index])) + 1
        if own not in opened:
            if is_user_label(source.label):
                return None
            opened.add(own)
            cost += len(heading(source.turn, source.label)) + 1
        found.costs.append((part, cost))
    return found


def split(blocks: Sequence[Block], gatherer: Gatherer, chosen: Sequence[int]) -> list[list[int]]:
    """The chosen lines of each block, in the order in which they were chosen.

    Lines cut from a kept message go to the block before it.
    """
    if not blocks:
        return []
    parts: list[list[int]] = [[] for _ in blocks]
    for number, index in zip(_owners(blocks, gatherer, chosen), chosen, strict=True):
        parts[number].append(index)
    return parts


def _owners(blocks: Sequence[Block], gatherer: Gatherer, chosen: Sequence[int]) -> list[int]:
    """For each chosen line the number of its block."""
    owner: dict[int, int] = {}
    for number, block in enumerate(blocks):
        for place in range(block.start, block.stop):
            owner[place] = number
    nearest = 0
    for place in range(max(owner, default=-1) + 1):
        nearest = owner.setdefault(place, nearest)
    sources, source_of, last = gatherer.sources, gatherer.candidates.source, len(blocks) - 1
    return [owner.get(sources[source_of[index]].place[0], last) for index in chosen]
