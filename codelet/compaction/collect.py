"""Collect from the old messages of a plan what a summary is made of: the user's words, and candidate lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from codelet.compaction.assemble import Block
from codelet.compaction.attempts import write_failed
from codelet.compaction.calls import LABEL_LENGTH, READERS, Deed, is_writer, label_of
from codelet.compaction.edits import shows_edit, taken_apart
from codelet.compaction.gather import Gatherer
from codelet.compaction.plan import Plan, Subject
from codelet.compaction.reading import Reading
from codelet.compaction.score import Score
from codelet.compaction.segments import REQUESTS
from codelet.compaction.words import Said
from codelet.tokens.estimate import text_of

Place = tuple[int, int]
# A line that the answer to an edit shows as taken out.
_MINUS = re.compile(r"\s*(?:\d+\s+)?-(?!-)")


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
    results = {r.answers.call_id: r.text for r in subject.readings if r.kind == "result" and r.answers is not None}
    block: Block | None = None
    for index, reading in enumerate(subject.readings):
        if index in plan.kept:
            _edits_in(found, reading, results)
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
        _take(found, index, reading, sources, block, results)
        if reading.kind == "result":
            found.gatherer.stale.happened(subject.history.effects.get(index, ()))
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
    if reading.kind == "user":
        found.gatherer.add(source, _still_there(found.gatherer, rest), "user")
    else:
        _take_result(found.gatherer, source, reading, rest)


def _edits_in(found: Collected, reading: Reading, results: Mapping[str, str]) -> None:
    """What a kept message says stands in the list; what its edits took out must not stand before it as current."""
    for deed in reading.deeds:
        if deed.kind == "write" and not write_failed(results.get(deed.call_id, "")):
            for change in deed.changes:
                _remove(found.gatherer, change.removed, change.text)


def _remove(gatherer: Gatherer, removed: Sequence[tuple[str, Sequence[str]]], kept: str = "") -> None:
    stays = kept.split("\n") if removed else ()
    for file, lines in removed:
        gatherer.stale.remove(file, lines, stays)


def _still_there(gatherer: Gatherer, text: str) -> str:
    """The user's words that were cut, without lines that an edit took out since."""
    gone = gatherer.stale.gone
    return "\n".join(line for line in text.split("\n") if line.strip() not in gone) if gone else text


def _take_deed(gatherer: Gatherer, source: int, deed: Deed, answer: str) -> None:
    """What a call says. Of a write that did not happen nothing is told but its heading."""
    wrote = deed.kind == "write"
    failed = wrote and write_failed(answer)
    if deed.kind in ("read", "write") and not failed:
        gatherer.stale.shows(source, deed.subject, wrote=wrote)
    if len(deed.subject) > LABEL_LENGTH:
        gatherer.add(source, deed.subject, "assistant")
    if failed:
        return
    if deed.whole:
        gatherer.stale.rewrite(deed.subject, [line for text in deed.values for line in text.split("\n")])
    for change in deed.changes:
        _remove(gatherer, change.removed)
        if change.text:
            gatherer.add(source, change.text, "assistant")
    for file in deed.deleted:
        gatherer.stale.rewrite(file)


def _take_result(gatherer: Gatherer, source: int, reading: Reading, text: str) -> None:
    """What a call answered: of the diffs in it what they put in. A file that was read is what it is."""
    kind = reading.answers.kind if reading.answers is not None else "other"
    if kind == "write":
        text = "\n".join(line for line in text.split("\n") if not _MINUS.match(line))
    if kind != "read" and shows_edit(text):
        parts = taken_apart(text)
        _remove(gatherer, [(file, lines) for file, lines in parts.removed])
        text = parts.text
    gatherer.add(source, text, "result")


def _take(
    found: Collected, index: int, reading: Reading, sources: dict[str, int], block: Block, results: Mapping[str, str]
) -> None:
    gatherer = found.gatherer
    if reading.kind == "user":
        found.said.append(Said(reading.turn, reading.text))
        found.places.append((index, 0))
    elif reading.kind == "segment":
        _take_segment(found, index, reading, block)
    elif reading.kind == "assistant":
        if reading.text:
            text = reading.text
            if shows_edit(text):
                parts = taken_apart(text)
                _remove(gatherer, [(file, lines) for file, lines in parts.removed])
                text = parts.text
            gatherer.add(gatherer.source((index, 0), reading.turn, ""), text, "assistant")
        for number, deed in enumerate(reading.deeds, 1):
            label = label_of(deed)
            source = gatherer.source((index, number), reading.turn, label, as_line=True, tells=deed.kind != "read")
            sources[deed.call_id] = source
            gatherer.add_head(source, "assistant")
            _take_deed(gatherer, source, deed, results.get(deed.call_id, ""))
    elif reading.kind == "result" and reading.answers is not None:
        source = sources.get(reading.answers.call_id, -1)
        if source < 0:
            source = gatherer.source((index, 0), reading.turn, "result")
        _take_result(gatherer, source, reading, reading.text)
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
            found.said.append(Said(entry.turn, "\n".join(entry.lines)))
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
            name, _, subject = entry.label.partition(" ")
            if name in READERS or is_writer(name):
                gatherer.stale.shows(source, subject, wrote=is_writer(name))
            gatherer.add(source, "\n".join(entry.lines), "segment")


def add_cut_words(found: Collected, cut: list[tuple[int, str]]) -> None:
    """Make candidates of what was cut from the user's words; `cut` holds positions in `said` and texts."""
    for position, text in cut:
        index, number = found.places[position]
        source = found.gatherer.source((index, number), found.said[position].turn, "from user")
        found.gatherer.add(source, _still_there(found.gatherer, text), "user")
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
