"""The plan of a compaction: what stays as it is, what is reduced in place, and what segments will stand for.

Fixed are the system message and the reminders. Kept are pinned messages, the newest turns and the current prompt.
Where the newest turns do not fit, only their newest units stay and the rest of them is summarised like older
turns; where even the newest unit or the prompt is too large, they are cut to head and tail. That is tier 3, and it is
always reported.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from codelet.compaction.anchors import Anchor, find
from codelet.compaction.attempts import write_failed
from codelet.compaction.content import Estimate
from codelet.compaction.errors import IrreducibleContext
from codelet.compaction.history import History
from codelet.compaction.reading import Reading
from codelet.compaction.reduce import shortened
from codelet.compaction.settings import Settings
from codelet.compaction.turns import Span, units

_SEGMENT_FLOOR = 24
_PROMPT_FLOOR = 48
TIGHT = 400
SHORT_TALK = 100
# Earlier segments up to this share of the target stay as they are; else their lines compete anew.
EARLIER_PERCENT = 15
# The current prompt is the last to be cut: up to this share of the room it stays whole.
PROMPT_PERCENT = 50


@dataclass
class Plan:
    """`kept` maps an index to the message that will stand there; what is in neither `kept` nor `gone` is old."""

    kept: dict[int, dict[str, Any]] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    reduced: set[int] = field(default_factory=set)
    why: dict[int, str] = field(default_factory=dict)
    available: int = 0
    tier: int = 2
    talk: bool = False
    warnings: list[str] = field(default_factory=list)

    def keep(self, messages: Sequence[dict[str, Any]], span: Span, why: str) -> None:
        """Keep a span as it is."""
        for index in range(span.start, span.stop):
            if index not in self.kept:
                self.kept[index] = messages[index]
                self.why[index] = why


@dataclass(frozen=True)
class Subject:
    """What is being compacted: a normalised list, what was read of it, and its sizes in tokens."""

    messages: list[dict[str, Any]]
    readings: list[Reading]
    sizes: list[int]
    measure: Estimate

    @cached_property
    def history(self) -> History:
        """What was run in it."""
        return History(self.readings)

    @cached_property
    def outdated(self) -> set[int]:
        """The segments that quote a line which a later edit took out."""
        found: set[int] = set()
        removed: set[str] = set()
        answers = {r.answers.call_id: r.text for r in self.readings if r.kind == "result" and r.answers is not None}
        for index in range(len(self.readings) - 1, -1, -1) if any(r.segment for r in self.readings) else ():
            reading = self.readings[index]
            if reading.segment is not None:
                quoted = (line.strip() for e in reading.segment.entries if not e.is_words for line in e.lines)
                if not removed.isdisjoint(quoted):
                    found.add(index)
            for deed in reading.deeds:
                if deed.kind == "write" and not write_failed(answers.get(deed.call_id, "")):
                    put_in = {line.strip() for text in deed.values for line in text.split("\n")}
                    gone = (line.strip() for c in deed.changes for _, lines in c.removed for line in lines)
                    removed.update(line for line in gone if line and line not in put_in)
        return found

    @cached_property
    def anchors(self) -> list[Anchor]:
        """Its anchors."""
        return find(self.readings, self.history.attempts)


def make(subject: Subject, target: int, settings: Settings, pinned: Collection[int], dropped: Collection[int]) -> Plan:
    """The plan for a list that is larger than `target`. Raises IrreducibleContext with the floor itemised."""
    plan = Plan()
    spans = units(subject.messages)
    by_index = {index: span for span in spans for index in range(span.start, span.stop)}
    floor: dict[str, int] = {}
    for index, reading in enumerate(subject.readings):
        if reading.kind in ("system", "reminder"):
            plan.keep(subject.messages, Span(index, index + 1), reading.kind)
            floor[reading.kind] = floor.get(reading.kind, 0) + subject.sizes[index]
    for index in sorted(set(pinned)):
        span = by_index.get(index)
        if span is not None and index not in plan.kept:
            plan.keep(subject.messages, span, "pinned")
            floor["pinned"] = floor.get("pinned", 0) + sum(subject.sizes[span.start : span.stop])
    for index in sorted(set(dropped) - set(plan.kept)):
        span = by_index.get(index)
        if span is not None:
            plan.gone.update(range(span.start, span.stop))
    plan.available = target - sum(floor.values())
    open_spans = [span for span in spans if span.start not in plan.kept and span.start not in plan.gone]
    if open_spans and plan.available < _SEGMENT_FLOOR + _PROMPT_FLOOR:
        floor["segment"], floor["prompt"] = _SEGMENT_FLOOR, _PROMPT_FLOOR
    if sum(floor.values()) > target:
        raise IrreducibleContext(target, floor)
    _keep_earlier_segments(subject, plan, target)
    _keep_newest(subject, plan, open_spans, settings)
    return plan


def _keep_earlier_segments(subject: Subject, plan: Plan, target: int) -> None:
    """Segments stay as they are, newest first, while there are few and they are small; the others are merged.

    So is one that quotes what an edit took out since.
    """
    room = target * EARLIER_PERCENT // 100
    for index in reversed([i for i, r in enumerate(subject.readings) if r.kind == "segment"][-4:]):
        if subject.sizes[index] > room or index in subject.outdated:
            break
        room -= subject.sizes[index]
        plan.keep(subject.messages, Span(index, index + 1), "segment")
        plan.available -= subject.sizes[index]


def _keep_newest(subject: Subject, plan: Plan, spans: Sequence[Span], settings: Settings) -> None:
    """Keep the newest turns whole, or the newest of them, if they fit; else its newest units and the prompt."""
    spans = [span for span in spans if span.start not in plan.kept]
    if not spans:
        return
    tight = plan.talk = _only_talk(subject, plan)
    limit = plan.available * settings.tail_percent // 100
    plan.tier = 3
    for turns, tier in () if tight else ((settings.keep_last, 2), (1, 3)):
        wanted, rest = _split_at(subject, spans, turns)
        size = sum(_weight(subject, span) for span in wanted)
        if size * 100 <= plan.available * settings.newest_percent:
            for span in wanted:
                plan.keep(subject.messages, span, "newest turns")
            plan.tier = tier
            _extend(subject, plan, rest, limit - size, cut=settings.fill)
            return
    if tight and _answered(subject, spans):
        return  # nothing is asked at the moment: the last prompt competes with the others
    last_user = next((s for s in reversed(spans) if subject.readings[s.start].kind == "user"), None)
    spent = _keep_prompt(subject, plan, last_user, max(limit, plan.available * PROMPT_PERCENT // 100))
    limit = max(limit - spent, (plan.available - spent) * settings.tail_percent // 100)
    if tight and not subject.readings[spans[-1].start].deeds:
        return
    last = spans[-1]
    if last.start not in plan.kept and _weight(subject, last) > limit:
        limit -= _keep_reduced(subject, plan, last, limit)
    _extend(subject, plan, [span for span in spans if span.start not in plan.kept], limit, cut=settings.fill)


def _split_at(subject: Subject, spans: Sequence[Span], count: int) -> tuple[list[Span], list[Span]]:
    """The spans of so many newest turns, and those before them."""
    newest = set(sorted({subject.readings[span.start].turn for span in spans})[-count:])
    return (
        [span for span in spans if subject.readings[span.start].turn in newest],
        [span for span in spans if subject.readings[span.start].turn not in newest],
    )


def _only_talk(subject: Subject, plan: Plan) -> bool:
    """Whether many short user messages alone would fill the room: then it is for them, not for the newest replies.

    What an earlier segment holds of them counts as well, or they would lose their room with the next compaction.
    """
    count = size = 0
    for index, (reading, tokens) in enumerate(zip(subject.readings, subject.sizes, strict=True)):
        if index in plan.kept or index in plan.gone:
            continue
        if reading.kind == "user":
            count, size = count + 1, size + tokens
        elif reading.segment is not None:
            words = [line for entry in reading.segment.entries if entry.is_words for line in entry.lines]
            count += len(words)
            size += tokens * sum(map(len, words)) // max(1, len(reading.text))
    if not count or size >= SHORT_TALK * count:
        return False
    return plan.available < TIGHT or size * 10 > plan.available * 6


def _answered(subject: Subject, spans: Sequence[Span]) -> bool:
    """Whether a conversation without any call ends with an answer."""
    said = [subject.readings[span.start] for span in spans]
    return said[-1].kind == "assistant" and not any(reading.deeds for reading in said)


def _weight(subject: Subject, span: Span) -> int:
    return sum(subject.sizes[span.start : span.stop])


def _extend(subject: Subject, plan: Plan, spans: Sequence[Span], limit: int, *, cut: bool) -> None:
    """Keep further units, newest first, until one does not fit; `cut` keeps that one too, its results cut."""
    for span in reversed(spans):
        weight = _weight(subject, span)
        if weight > limit:
            if cut:
                _keep_reduced(subject, plan, span, limit)
            return
        limit -= weight
        plan.keep(subject.messages, span, "newest")


def _keep_prompt(subject: Subject, plan: Plan, span: Span | None, limit: int) -> int:
    """Keep the current prompt, cut to head and tail where it is larger than the limit; its size."""
    if span is None:
        return 0
    message = subject.messages[span.start]
    if subject.sizes[span.start] > limit:
        message = shortened(message, limit, subject.measure)
        plan.reduced.add(span.start)
        plan.warnings.append("The current prompt was cut to its head and tail: it does not fit.")
    plan.kept[span.start] = message
    plan.why[span.start] = "current prompt"
    return subject.measure(message)


def _keep_reduced(subject: Subject, plan: Plan, span: Span, limit: int) -> int:
    """Keep the newest unit with its results cut so that it fits, if that leaves something of them; its size."""
    head = subject.measure(subject.messages[span.start])
    results = range(span.start + 1, span.stop)
    if not results or head + 24 * len(results) > limit:
        return 0
    share = (limit - head) // len(results)
    kept = {span.start: subject.messages[span.start]}
    for index in results:
        message = subject.messages[index]
        if subject.sizes[index] > share:
            message = shortened(message, share, subject.measure)
            plan.reduced.add(index)
        kept[index] = message
    spent = sum(subject.measure(message) for message in kept.values())
    if spent > limit:
        plan.reduced.difference_update(kept)
        return 0
    plan.tier = 3
    plan.kept.update(kept)
    plan.why.update(dict.fromkeys(kept, "newest, results cut"))
    plan.warnings.append("The newest tool results were cut to head and tail: they do not fit.")
    return spent
