"""What compaction writes for made-up sessions, as files that a person has read and approved.

Of each session of `stories` there is one file for each size that it is made smaller to (of some one in another measure
as well), one for its old results reduced in place, and one for what is known of it: what ran and how it ended, what
became of files, errors, anchors, scores.
`CODELET_WRITE_GOLDEN=1` writes the files anew, for a person to read the difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codelet.context.compaction import CompactionReport, compact
from codelet.context.compaction.actions import label_of
from codelet.context.compaction.history import History
from codelet.context.compaction.ledger import Ledger
from codelet.context.compaction.parsing import ParsedMessage, normalise, parse_messages
from codelet.context.compaction.reduction import reduction
from codelet.context.compaction.score import Score, find_anchors
from codelet.context.tokens import estimate_message
from codelet.messages import call_arguments, call_name, calls_of, images_of, kind_of, text_of, with_kinds
from tests.context.compaction.lists import Message, pairing_faults
from tests.context.compaction.stories import STORIES
from tests.context.compaction.stories.story import Story

APPROVED = Path(__file__).parent / "approved"
SIZES = (50, 25, 10)
_PARTS = ("anchor", "recency", "relevance", "files", "reference", "feedback")


def is_approved(name: str, text: str) -> None:
    """Compare a text with the approved file of that name, or write it."""
    path = APPROVED / f"{name}.txt"
    if os.environ.get("CODELET_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text.split("\n") == path.read_text(encoding="utf-8").split("\n")


def score_shown(score: Score) -> str:
    parts = [f"{part} {getattr(score, part)}" for part in _PARTS if getattr(score, part)]
    return f"{score.total} ({', '.join(parts) or 'nothing'})"


def ranges(numbers: tuple[int, ...]) -> str:
    """Numbers with those that follow one another as ranges."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def report_shown(report: CompactionReport) -> Iterator[str]:
    yield f"tier {report.tier}: {report.before:,} tokens, {report.after:,} after, target {report.target:,}"
    yield f"segments: {report.segments}; user's messages: {report.user_messages}, {report.user_mode}"
    yield f"removed: {ranges(report.removed)}; steps kept: {report.kept_steps}"
    for fate in report.turns:
        yield (
            f"turn {fate.turn}: {fate.fate} ({fate.why}); {fate.before:,} tokens, {fate.after:,} after; "
            f"{fate.messages} messages; {fate.lines} lines; score {score_shown(fate.score)}"
        )
    for anchor in report.anchors:
        yield f"anchor: turn {anchor.turn}, {anchor.kind}{' (run)' * anchor.by_run}: {anchor.text}"
    loss = report.loss
    for kind, lost in (("rule", loss.rules), ("decision", loss.decisions)):
        yield from (f"lost {kind}: {one}" for one in lost)
    for kind, lost in (("paths", loss.paths), ("names", loss.names), ("numbers", loss.numbers)):
        yield f"lost {kind}: {', '.join(lost) or 'none'}"
    yield f"lost in all: {loss.names_gone} names, {loss.decisions_gone} decisions"
    yield from (f"warning: {warning}" for warning in report.warnings)
    yield from (f"struck: {line}" for line in report.struck)


def messages_shown(messages: list[Message]) -> Iterator[str]:
    for message in with_kinds(messages):
        told = "".join(f", picture {picture['name']}" for picture in images_of(message))
        yield f"\n======== {kind_of(message)} {message.get('tool_call_id', '')}".rstrip() + told
        if text := text_of(message):
            yield text
        yield from (f"-> {call['id']}: {call_name(call)} {call_arguments(call)}" for call in calls_of(message))


def size_of(story: Story) -> int:
    return sum(map(estimate_message, story.messages))


@pytest.mark.parametrize("percent", SIZES)
@pytest.mark.parametrize("name", STORIES)
def test_a_session_made_smaller_reads_as_approved(name: str, percent: int) -> None:
    story = STORIES[name]()
    target = size_of(story) * percent // 100
    made = compact(
        story.messages,
        target,
        settings=story.settings,
        pinned=story.pinned,
        narrative=story.narrative,
        in_flight=story.in_flight,
    )
    assert sum(map(estimate_message, made.messages)) == made.report.after <= target
    assert story.in_flight or pairing_faults(made.messages) == []
    is_approved(f"{name}/{percent}", "\n".join([*report_shown(made.report), *messages_shown(made.messages), ""]))


def in_bytes(message: Mapping[str, Any]) -> int:
    """Another measure of a message, as a tokenizer of a model is: by its bytes, calls by their number."""
    return 3 + len(text_of(message).encode()) // 3 + 40 * len(calls_of(message))


@pytest.mark.parametrize("name", ["chinese_pipeline", "compacted_again", "handed_over", "many_segments", "shell_work"])
def test_a_session_that_is_measured_otherwise_reads_as_approved(name: str) -> None:
    story = STORIES[name]()
    target = sum(map(in_bytes, story.messages)) * 30 // 100
    settings = replace(story.settings, user_percent=12, context=target // 2)
    made = compact(story.messages, target, estimate=in_bytes, settings=settings, narrative=story.narrative)
    assert sum(map(in_bytes, made.messages)) == made.report.after <= target
    is_approved(f"{name}/in_bytes", "\n".join([*report_shown(made.report), *messages_shown(made.messages), ""]))


@pytest.mark.parametrize("name", STORIES)
def test_old_results_of_a_session_are_reduced_as_approved(name: str) -> None:
    story = STORIES[name]()
    messages = normalise(story.messages).messages
    made = reduction(messages, estimate_message, keep_turns=2, least=60, enough=size_of(story) // 3, first_id=5)
    lines = ["nothing is reduced"]
    if made is not None:
        changed = [made.messages[place] for place in made.report.removed]
        lines = [*report_shown(made.report), *messages_shown(changed), ""]
    is_approved(f"{name}/reduced", "\n".join(lines))


def readings_shown(readings: list[ParsedMessage]) -> Iterator[str]:
    for place, reading in enumerate(readings):
        step = f".{reading.step}" if reading.step else ""
        yield f"{place}: {reading.kind} t{reading.turn}{step}".rstrip()
        for action in reading.actions:
            more = [f"written {', '.join(action.written)}"] if action.written else []
            more += [f"deleted {', '.join(action.deleted)}"] if action.deleted else []
            more += ["whole"] if action.whole else []
            yield f"    {action.kind}: {label_of(action)}{''.join(f'; {one}' for one in more)}"
            for edit in action.edits if action.kind == "write" else ():
                yield from (f"    - {file}: {' / '.join(lines)}"[:200] for file, lines in edit.removed)
                yield from (f"    + {' / '.join(edit.text.split(chr(10)))}"[:200] for _ in edit.text[:1])
        yield from (f"    error: {line}" for line in reading.errors)


@pytest.mark.parametrize("name", STORIES)
def test_what_is_known_of_a_session_is_as_approved(name: str) -> None:
    story = STORIES[name]()
    readings = parse_messages(normalise(with_kinds(story.messages)).messages)
    history = History(readings)
    anchors = find_anchors(readings, history.executions)
    ledger = Ledger()
    for reading in readings:
        ledger.carry_on(reading.segment.ledger if reading.segment is not None else ())
    ledger.take_in(list(enumerate(readings)), history, anchors)
    lines = [f"{key}: {text}" for room in (600, 100_000) for key, text in [("-- room", str(room)), *ledger.lines(room)]]
    ends = {True: "went well", False: "failed", None: "nobody can tell"}
    ran = [
        f"{one.place}: {one.text} | {one.what or 'no run'}, {ends[one.passed]} | {one.line}".rstrip(" |")
        for one in history.executions
    ]
    did = [
        f"{place}: {one.how} {one.path} {one.pattern.pattern if one.pattern else ''}".rstrip()
        for place, effects in history.effects.items()
        for one in effects
    ]
    told = [f"t{one.turn} {one.kind}, {one.confidence}%, {one.weight}: {one.text}" for one in anchors]
    parts = {
        "messages": readings_shown(readings),
        "ran": ran,
        "files": did,
        "anchors": told,
        "ledger": lines,
        "struck": story.struck,
    }
    text = "\n".join(line for title, part in parts.items() for line in (f"== {title}", *part))
    is_approved(f"{name}/known", text + "\n")
