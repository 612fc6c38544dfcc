"""Collect from the old messages of a plan what a summary is made of: the user's words, and candidate lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from codelet.compaction.assemble import Block
from codelet.compaction.calls import LABEL_LENGTH, READERS, label_of
from codelet.compaction.gather import Gatherer
from codelet.compaction.plan import Plan, Subject
from codelet.compaction.reading import Reading
from codelet.compaction.score import Score
from codelet.compaction.segments import REQUESTS, SUPERSEDED
from codelet.compaction.words import Said
from codelet.tokens.estimate import text_of

Place = tuple[int, int]


@dataclass
class Collected:
    """Blocks of old messages, what the user said in them, and the gatherer that holds their lines."""

    gatherer: Gatherer
    blocks: list[Block] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)


def collect(subject: Subject, plan: Plan) -> Collected:
    """Walk over the old messages once."""
    found = Collected(Gatherer(len(subject.messages)))
    sources: dict[str, int] = {}
    block: Block | None = None
    for index, reading in enumerate(subject.readings):
        if index in plan.kept:
            if index in plan.reduced:
                _take_cut(found, index, subject.readings, text_of(plan.kept[index]))
            block = None
            continue
        if index in plan.gone:
            continue
        if block is None:
            block = Block(index, index, max(1, reading.turn), reading.turn)
            found.blocks.append(block)
        block.stop = index + 1
        block.last = max(block.last, reading.turn, block.first)
        _take(found, index, reading, sources, block)
    found.gatherer.read()
    return found


def _take_cut(found: Collected, index: int, readings: Sequence[Reading], shown: str) -> None:
    """Lines that were cut from a kept message. They stand in the segment before its unit; there is always one."""
    reading = readings[index]
    if not found.blocks:
        start = index
        while start > 0 and readings[start].kind == "result":
            start -= 1
        found.blocks.append(Block(start, start, max(1, reading.turn), max(1, reading.turn)))
    here = set(shown.split("\n"))
    rest = "\n".join(line for line in reading.text.split("\n") if line not in here)
    label = "from user" if reading.answers is None else label_of(reading.answers)
    source = found.gatherer.source((index, 1), reading.turn, label)
    found.gatherer.add(source, rest, "user" if reading.kind == "user" else "result")


def _take(found: Collected, index: int, reading: Reading, sources: dict[str, int], block: Block) -> None:
    gatherer = found.gatherer
    if reading.kind == "user":
        found.said.append(Said(reading.turn, reading.text))
        found.places.append((index, 0))
    elif reading.kind == "segment":
        _take_segment(found, index, reading, block)
    elif reading.kind == "assistant":
        if reading.text:
            gatherer.add(gatherer.source((index, 0), reading.turn, ""), reading.text, "assistant")
        for number, deed in enumerate(reading.deeds, 1):
            label = label_of(deed)
            source = gatherer.source((index, number), reading.turn, label, as_line=True, tells=deed.kind != "read")
            sources[deed.call_id] = source
            gatherer.add_head(source, "assistant")
            if len(deed.subject) > LABEL_LENGTH:
                gatherer.add(source, deed.subject, "assistant")
            for value in deed.values:
                gatherer.add(source, value, "assistant")
    elif reading.kind == "result" and reading.answers is not None:
        source = sources.get(reading.answers.call_id, -1)
        if source < 0:
            source = gatherer.source((index, 0), reading.turn, "result")
        gatherer.add(source, reading.text, "result")
    elif reading.text:
        _from_source(found, index, reading, "other", "other")


def _from_source(found: Collected, index: int, reading: Reading, label: str, speaker: str) -> None:
    source = found.gatherer.source((index, 1), reading.turn, label)
    found.gatherer.add(source, reading.text, speaker)


def _take_segment(found: Collected, index: int, reading: Reading, block: Block) -> None:
    """An earlier segment: its user's words and its lines compete anew, its ledger is carried on."""
    segment = reading.segment
    if segment is None:
        return
    block.first = min(block.first, segment.first) if block.start != index else segment.first
    for number, entry in enumerate(segment.entries):
        if entry.is_user:
            found.said.append(Said(entry.turn, "\n".join(entry.lines), entry.label == SUPERSEDED))
            found.places.append((index, number))
        elif entry.label == REQUESTS:
            for line in entry.lines:
                found.said.append(Said(entry.turn, line))
                found.places.append((index, number))
        else:
            gatherer = found.gatherer
            tells = entry.label.split(" ", 1)[0] not in READERS and bool(entry.label)
            source = gatherer.source((index, number), entry.turn, entry.label, as_line=bool(entry.label), tells=tells)
            gatherer.add_head(source, "segment")
            gatherer.add(source, "\n".join(entry.lines), "segment")


def add_cut_words(found: Collected, cut: list[tuple[int, str]]) -> None:
    """Make candidates of what was cut from the user's words; `cut` holds positions in `said` and texts."""
    for position, text in cut:
        index, number = found.places[position]
        source = found.gatherer.source((index, number), found.said[position].turn, "from user")
        found.gatherer.add(source, text, "user")
    found.gatherer.read()


def factors(found: Collected, scores: Mapping[int, Score], minimum: int) -> None:
    """Let a turn's score bear on its lines: up to a third more; a turn below `minimum` gives none."""
    candidates, sources = found.gatherer.candidates, found.gatherer.sources
    per_source = []
    for source in sources:
        score = scores.get(source.turn)
        total = score.total if score else 0
        per_source.append(1000 + 3 * total if total >= minimum else 0)
    candidates.factor = [
        factor * per_source[source] // 1000 for factor, source in zip(candidates.factor, candidates.source, strict=True)
    ]
