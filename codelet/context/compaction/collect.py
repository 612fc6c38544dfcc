"""Collect from the old messages of a plan what a summary is made of: the user's words, and candidate lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from codelet.context.compaction.actions import LABEL_LENGTH, READERS, Action, is_writer, label_of
from codelet.context.compaction.assemble import OldBlock
from codelet.context.compaction.candidates import LONGEST_LINE, LineCollector, parts_of_line
from codelet.context.compaction.edits import shows_edit, without_removed
from codelet.context.compaction.file_changes import squeezed
from codelet.context.compaction.parsing import ParsedMessage
from codelet.context.compaction.plan import CompactionPlan, Transcript
from codelet.context.compaction.score import Score
from codelet.context.compaction.segments import FROM_USER, REQUESTS
from codelet.context.compaction.signals import is_listing, write_failed
from codelet.context.compaction.user_text import EarlierPrompt
from codelet.messages import text_of

Position = tuple[int, int]
# So much of a turn's last words is read where a turn is not read line by line.
_ENDING = 1_200
# A line that the answer to an edit shows as taken out.
_MINUS = re.compile(r"\s*(?:\d+\s+)?-(?!-)")


@dataclass
class Collected:
    """Blocks of old messages, what the user said in them, and the collector that holds their lines."""

    collector: LineCollector
    blocks: list[OldBlock] = field(default_factory=list)
    said: list[EarlierPrompt] = field(default_factory=list)
    places: list[Position] = field(default_factory=list)


def collect(transcript: Transcript, plan: CompactionPlan) -> Collected:
    """Walk over the messages once; return what the old ones hold."""
    found = Collected(LineCollector(len(transcript.messages)))
    sources: dict[str, int] = {}
    results = {r.answers.call_id: r.text for r in transcript.readings if r.answers is not None}
    block: OldBlock | None = None
    for index, reading in enumerate(transcript.readings):
        if index in plan.kept:
            _edits_in(found, reading, results)
            if index in plan.reduced:
                _take_cut(found, index, transcript.readings, text_of(plan.kept[index]))
            block = None
            continue
        if block is None:
            block = OldBlock(index, index, max(1, reading.turn), reading.turn)
            found.blocks.append(block)
        block.stop = index + 1
        block.last = max(block.last, reading.turn, block.first)
        if index in plan.unread:
            _take_little(found, index, reading, results, ends=index in plan.endings)
        else:
            _take(found, index, reading, sources, block, results)
        if reading.kind == "result":
            found.collector.stale.happened(transcript.history.effects.get(index, ()))
    found.collector.read()
    return found


def _take_cut(found: Collected, index: int, readings: Sequence[ParsedMessage], shown: str) -> None:
    """Collect the lines that were cut from a kept message, for the segment before its unit (there always is one)."""
    reading = readings[index]
    if not found.blocks:
        start = index
        while start > 0 and readings[start].kind == "result":
            start -= 1
        found.blocks.append(OldBlock(start, start, max(1, reading.turn), max(1, reading.turn)))
    here = set(shown.split("\n"))
    rest = "\n".join(line for line in reading.text.split("\n") if line not in here)
    label = FROM_USER if reading.answers is None else label_of(reading.answers)
    source = found.collector.source((index, 1), reading.turn, label, step=reading.step)
    if reading.kind == "user":
        found.collector.add(source, _still_there(found.collector, rest), _who_said(rest))
    else:
        _take_result(found.collector, source, reading, rest)


def _edits_in(found: Collected, reading: ParsedMessage, results: Mapping[str, str]) -> None:
    """Strike out what the edits in a kept message removed: it must not stand before it as if it were current."""
    for action in reading.actions:
        if action.kind == "write" and not write_failed(results.get(action.call_id, "")):
            for edit in action.edits:
                _remove(found.collector, edit.removed, edit.text)
            if action.undoes:
                found.collector.stale.undone(action.subject)


def _take_little(
    found: Collected, index: int, reading: ParsedMessage, results: Mapping[str, str], *, ends: bool
) -> None:
    """Collect of a message that is not read line by line the agent's last words in a turn, and what it took out."""
    collector = found.collector
    if ends:
        ending = reading.text[:_ENDING].rpartition("\n")[0] or reading.text[:_ENDING]
        text = _as_it_is_now(collector, ending, reading)
        collector.add(collector.source((index, 0), reading.turn, "", step=reading.step), text, "assistant")
    _edits_in(found, reading, results)
    for action in reading.actions:
        if action.kind == "write" and not write_failed(results.get(action.call_id, "")):
            if action.whole:
                collector.stale.rewrite(action.subject, [line for text in action.values for line in text.split("\n")])
            for file in action.gone:
                collector.stale.rewrite(file)


def _remove(collector: LineCollector, removed: Sequence[tuple[str, Sequence[str]]], kept: str = "") -> None:
    stays = _as_candidates(kept.split("\n")) if removed and kept else ()
    for file, lines in removed:
        collector.stale.remove(file, _as_candidates(lines), stays)


def _as_candidates(lines: Sequence[str]) -> list[str]:
    """Lines, those that are too long in the pieces that a candidate has."""
    return [part for line in lines for part in (parts_of_line(squeezed(line)) if len(line) > LONGEST_LINE else (line,))]


def _who_said(text: str) -> str:
    """Who speaks in what was cut from a prompt: a program, where it is a list that one printed."""
    return "other" if is_listing(text) else "user"


def _still_there(collector: LineCollector, text: str) -> str:
    """The user's words that were cut, without lines that an edit has removed since."""
    gone = collector.stale.gone
    return "\n".join(line for line in text.split("\n") if line.strip() not in gone) if gone else text


def _take_action(collector: LineCollector, source: int, action: Action, answer: str) -> None:
    """Collect what a call says; of a write that failed, only its heading."""
    wrote = action.kind == "write"
    failed = wrote and write_failed(answer)
    if action.kind in ("read", "write") and not failed:
        if action.undoes:
            collector.stale.undone(action.subject)
        collector.stale.shows(source, action.subject, wrote=wrote and not action.undoes)
    if len(action.subject) > LABEL_LENGTH:
        collector.add(source, action.subject, "assistant")
    if failed:
        return
    if action.whole:
        collector.stale.rewrite(action.subject, [line for text in action.values for line in text.split("\n")])
    for edit in action.edits:
        _remove(collector, edit.removed)
        if edit.text:
            collector.add(source, edit.text, "assistant")
    for file in action.gone:
        collector.stale.rewrite(file)


def _take_result(collector: LineCollector, source: int, reading: ParsedMessage, text: str) -> None:
    """Collect a result; of the diffs in it only what they add, unless it is a file that was read."""
    kind = reading.answers.kind if reading.answers is not None else "other"
    if kind == "write":
        text = "\n".join(line for line in text.split("\n") if not _MINUS.match(line))
    collector.add(source, text if kind == "read" else _as_it_is_now(collector, text, reading), "result")


def _as_it_is_now(collector: LineCollector, text: str, reading: ParsedMessage) -> str:
    """A message's text, or a part of it, without the lines that an edit in it removed: these are stale from here on."""
    if text is reading.text:
        parts = reading.edited
    elif shows_edit(text):
        parts = without_removed(text)
    else:
        return text
    if parts is None:
        return text
    _remove(collector, parts.removed)
    return parts.text


def _take(
    found: Collected,
    index: int,
    reading: ParsedMessage,
    sources: dict[str, int],
    block: OldBlock,
    results: Mapping[str, str],
) -> None:
    collector = found.collector
    if reading.kind == "user":
        found.said.append(EarlierPrompt(reading.turn, reading.text))
        found.places.append((index, 0))
    elif reading.kind == "segment":
        _take_segment(found, index, reading, block)
    elif reading.kind == "assistant":
        if reading.text:
            text = _as_it_is_now(collector, reading.text, reading)
            collector.add(collector.source((index, 0), reading.turn, "", step=reading.step), text, "assistant")
        for number, action in enumerate(reading.actions, 1):
            label = label_of(action)
            source = collector.source(
                (index, number), reading.turn, label, as_line=True, tells=action.kind != "read", step=reading.step
            )
            sources[action.call_id] = source
            collector.add_head(source, "assistant")
            _take_action(collector, source, action, results.get(action.call_id, ""))
    elif reading.answers is not None:
        _take_result(collector, sources[reading.answers.call_id], reading, reading.text)
    elif reading.text:
        _from_source(found, index, reading, "other", "other")


def _from_source(found: Collected, index: int, reading: ParsedMessage, label: str, speaker: str) -> None:
    source = found.collector.source((index, 1), reading.turn, label, step=reading.step)
    found.collector.add(source, reading.text, speaker)


def _take_segment(found: Collected, index: int, reading: ParsedMessage, block: OldBlock) -> None:
    """Collect an earlier segment: its user's words and its lines compete anew, its ledger is carried on."""
    segment = reading.segment
    if segment is None:
        return
    block.first = min(block.first, segment.first) if block.start != index else segment.first
    for number, entry in enumerate(segment.entries):
        if entry.is_user:
            found.said.append(EarlierPrompt(entry.turn, "\n".join(entry.lines)))
            found.places.append((index, number))
        elif entry.label == REQUESTS:
            for line in entry.lines:
                found.said.append(EarlierPrompt(entry.turn, line))
                found.places.append((index, number))
        else:
            collector = found.collector
            tells = entry.label.split(" ", 1)[0] not in READERS and bool(entry.label)
            source = collector.source(
                (index, number), entry.turn, entry.label, as_line=bool(entry.label), tells=tells, step=entry.step
            )
            collector.add_head(source, "segment")
            name, _, subject = entry.label.partition(" ")
            if name in READERS or is_writer(name):
                collector.stale.shows(source, subject, wrote=is_writer(name))
            collector.add(source, "\n".join(entry.lines), "segment")


def add_cut_words(found: Collected, cut: list[tuple[int, str]]) -> None:
    """Make candidates of what was cut from the user's words; `cut` are (position in `said`, text) pairs."""
    for position, text in cut:
        index, number = found.places[position]
        source = found.collector.source((index, number), found.said[position].turn, FROM_USER)
        found.collector.add(source, _still_there(found.collector, text), _who_said(text))
    found.collector.read()


def factors(found: Collected, scores: Mapping[int, Score], minimum: int, room: int) -> None:
    """Raise the factor of each line by its turn's score; a turn below `minimum` gives no lines.

    `room` is what the lines may take, in characters: the less of what there is fits, the more the score counts, from
    a third more for the highest one to several times.
    """
    there = sum(map(len, found.collector.candidates.text))
    points = max(3, min(60, 250 * there // max(1, 100 * room) - 8))
    candidates, sources = found.collector.candidates, found.collector.sources
    per_turn = {}
    for turn in {source.turn for source in sources}:
        score = scores.get(turn, Score(turn))
        per_turn[turn] = 1000 + points * score.of_lines if score.total >= minimum else 0
    per_source = [per_turn[source.turn] for source in sources]
    candidates.factor = [
        factor * per_source[source] // 1000 for factor, source in zip(candidates.factor, candidates.source, strict=True)
    ]
