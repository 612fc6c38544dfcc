"""Put the new list together: kept messages where they stood, a segment for each run of old ones between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import Any, cast

from codelet import messages
from codelet.context.compaction.candidates import LineCollector
from codelet.context.compaction.segments import (
    REQUESTS,
    SAID,
    USER,
    ParsedSegment,
    SegmentEntry,
    WrittenOut,
    guarded,
    heading,
    opening,
    render,
)


@dataclass
class OldBlock:
    """A run of old messages that one segment will stand for: its turns, its ledger, the user's words in it by place."""

    start: int
    stop: int
    first: int
    last: int
    ledger: list[tuple[str, str]] = field(default_factory=list)
    said: list[tuple[tuple[int, int], SegmentEntry]] = field(default_factory=list)

    def overhead(self) -> int:
        """Characters that its first line takes."""
        return len(opening(self.first, self.last)) + 1


def message_of(
    block: OldBlock, collector: LineCollector, chosen: Sequence[int], *, note: bool
) -> dict[str, Any] | None:
    """The segment of a block with those of the chosen lines that belong to it; None if it would be empty."""
    placed = [(_order(place, entry.label), entry) for place, entry in block.said]
    candidates = collector.candidates
    by_source: dict[int, list[int]] = {}
    for index in chosen:
        by_source.setdefault(candidates.source[index], []).append(index)
    for number, indices in by_source.items():
        source = collector.sources[number]
        indices.sort(key=candidates.position.__getitem__)
        lines = [candidates.text[i] for i in indices if i != source.head]
        entry = SegmentEntry(source.turn, source.label, lines, source.step)
        placed.append((_order(source.place, source.label), entry))
    if not placed and not block.ledger:
        return None
    placed.sort(key=lambda item: item[0])
    segment = ParsedSegment(block.first, block.last, block.ledger, _joined([entry for _, entry in placed]))
    return cast("dict[str, Any]", messages.segment(render(segment, note=note)))


def _order(place: tuple[int, int], label: str) -> tuple[bool, int, int]:
    """Where an entry stands: what was said comes first, turn by turn, and then what was read, written and run."""
    return bool(label) and label not in SAID, *place


def _joined(entries: Sequence[SegmentEntry]) -> list[SegmentEntry]:
    """Join neighbouring entries of one turn and label, so that their heading stands once."""
    joined: list[SegmentEntry] = []
    for entry in entries:
        last = joined[-1] if joined else None
        if (
            last is not None
            and not entry.is_words
            and (last.turn, last.step, last.label) == (entry.turn, entry.step, entry.label)
        ):
            last.lines.extend(entry.lines)
        else:
            joined.append(entry)
    return joined


@dataclass
class SegmentLengths:
    """The lengths of segments in characters, given how many of the chosen lines they hold, without writing them.

    `bare[b]` is the length of block b's segment without lines, `first[b]` of what stands at its head in any case;
    `costs` are (block, source, characters) of each chosen line, without the heading of its source.
    """

    blocks: Sequence[OldBlock]
    collector: LineCollector
    bare: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    costs: list[tuple[int, int, int]] = field(default_factory=list)

    def of(self, used: int) -> list[int]:
        """The lengths of the segments if the first `used` lines are in them; empty segments are left out."""
        lines = [0] * len(self.blocks)
        opened: list[dict[int, None]] = [{} for _ in self.blocks]
        for block, source, cost in self.costs[:used]:
            lines[block] += cost
            opened[block][source] = None
        found = []
        for number, sources in enumerate(opened):
            if sources or self.bare[number]:
                headings = self._headings(number, sources)
                found.append(max(self.bare[number], self.first[number]) + lines[number] + headings)
        return found

    def _headings(self, number: int, opened: Iterable[int]) -> int:
        """Characters of the headings of some sources: neighbours of one turn and label share one."""
        sources = self.collector.sources
        said: tuple[int, int, str] | None = None  # its heading counts with its words
        placed = [(_order(place, USER), said) for place, _ in self.blocks[number].said]
        placed += [
            (_order(source.place, source.label), (source.turn, source.step, source.label))
            for source in map(sources.__getitem__, opened)
        ]
        placed.sort(key=itemgetter(0))
        written, length = WrittenOut(), 0
        for last, one in pairwise([said, *map(itemgetter(1), placed)]):
            if one is not None and one != last:
                turn, step, label = one
                length += len(heading(turn, written.short(label), step)) + 1
        return length


def segment_lengths(
    blocks: Sequence[OldBlock], collector: LineCollector, chosen: Sequence[int], *, note: bool
) -> SegmentLengths | None:
    """Prepare the lengths for some chosen lines; None if an entry looks different with other lines beside it."""
    sources, candidates = collector.sources, collector.candidates
    labels = {sources[number].label for number in {candidates.source[index] for index in chosen}}
    labels.update(REQUESTS for block in blocks for _, entry in block.said if entry.label == REQUESTS)
    if any(SegmentEntry(0, label).is_words for label in labels):
        return None
    found = SegmentLengths(blocks, collector)
    for number, block in enumerate(blocks):
        bare = message_of(block, collector, [], note=note and number == 0)
        found.bare.append(len(bare["content"]) if bare is not None else 0)
        found.first.append(len(render(ParsedSegment(block.first, block.last), note=note and number == 0)))
    for part, index in zip(_owners(blocks, collector, chosen), chosen, strict=True):
        own = candidates.source[index]
        cost = 0 if index == sources[own].head else len(guarded(candidates.text[index])) + 1
        found.costs.append((part, own, cost))
    return found


def split(blocks: Sequence[OldBlock], collector: LineCollector, chosen: Sequence[int]) -> list[list[int]]:
    """The chosen lines of each block, in the order in which they were chosen.

    Lines cut from a kept message go to the block before it.
    """
    if not blocks:
        return []
    parts: list[list[int]] = [[] for _ in blocks]
    for number, index in zip(_owners(blocks, collector, chosen), chosen, strict=True):
        parts[number].append(index)
    return parts


def _owners(blocks: Sequence[OldBlock], collector: LineCollector, chosen: Sequence[int]) -> list[int]:
    """The number of the block that each chosen line belongs to."""
    owner: dict[int, int] = {}
    for number, block in enumerate(blocks):
        for place in range(block.start, block.stop):
            owner[place] = number
    nearest = 0
    for place in range(max(owner, default=-1) + 1):
        nearest = owner.setdefault(place, nearest)
    sources, source_of, last = collector.sources, collector.candidates.source, len(blocks) - 1
    return [owner.get(sources[source_of[index]].place[0], last) for index in chosen]
