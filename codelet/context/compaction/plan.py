"""The plan of a compaction: what stays as it is, what is cut in place, and what segments will stand for.

Fixed are the system message and the reminders. Kept are pinned messages, the newest turns and the current prompt.
If the newest turns do not fit, only their newest units stay and the rest of them is summarised like older turns; if
even the newest unit or the prompt is too large, it is cut to its head and tail. That is tier 3, and it is always
reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from codelet.context.compaction.history import History
from codelet.context.compaction.identifiers import Lexicon
from codelet.context.compaction.parsing import ParsedMessage
from codelet.context.compaction.reduction import shortened
from codelet.context.compaction.score import TurnAnchor, find_anchors, scores
from codelet.context.compaction.signals import is_listing, write_failed
from codelet.context.tokens import Estimate, characters
from codelet.errors import EXIT_LIMIT, CodeletError
from codelet.messages import AnyMessage


class IrreducibleContext(CodeletError):
    """The target cannot be met: what must stay is larger. `floor` itemises it, in tokens, largest first."""

    exit_status = EXIT_LIMIT

    def __init__(self, target: int, floor: dict[str, int]) -> None:
        self.target = target
        self.floor = dict(sorted(floor.items(), key=lambda item: -item[1]))
        parts = ", ".join(f"{name} {tokens:,}" for name, tokens in self.floor.items())
        least = sum(floor.values())
        super().__init__(
            f"the context cannot be made smaller than {least:,} tokens ({parts}); the target is {target:,}"
        )


@dataclass(frozen=True)
class CompactionSettings:
    """How a target is spent.

    `keep_last` turns stay verbatim while they take at most `newest_percent`; else the newest units up to
    `tail_percent`. `user_percent` goes to the user's words, `ledger_percent` to the ledger, the rest to lines chosen
    by coverage. A turn whose score is below `minimum_score` gives no lines. `feedback[turn]` is what the user said
    of a turn, -5 to 5. `history` is the most, in tokens, that segments may say beside the lines that they quote,
    `context` the most for these lines and what is kept of earlier turns; None is no limit. `fill` cuts the results of
    the newest unit that does not fit rather than leave it out. Without `rated` no outcome and no score bears on what
    stays: that is what they are measured against.
    """

    keep_last: int = 3
    newest_percent: int = 40
    tail_percent: int = 18
    user_percent: int = 20
    ledger_percent: int = 4
    minimum_score: int = 0
    history: int | None = None
    context: int | None = None
    fill: bool = False
    rated: bool = True
    feedback: Mapping[int, int] = field(default_factory=dict)


_READ = 20_000
_SEGMENT_FLOOR = 24
_PROMPT_FLOOR = 48
TIGHT = 400
SHORT_TALK = 100
# Earlier segments up to this share of the target stay as they are; else their lines compete anew.
EARLIER_PERCENT = 15
# Of a list that is far larger than the target so much is read line by line, in tokens: so many times the target, and
# never less than that. Of other turns the agent's last words are read, of one turn for so many tokens of the target.
READ_TIMES, READ_LEAST, ENDING_EACH = 8, 400_000, 48
# The current prompt is the last to be cut: up to this share of the room it stays whole.
PROMPT_PERCENT = 50


@dataclass(frozen=True)
class Span:
    """Messages `start` (inclusive) to `stop` (exclusive)."""

    start: int
    stop: int


def units(messages: Sequence[AnyMessage]) -> list[Span]:
    """The list as units, in order; together they are the whole list.

    A unit is what can only stay or go as a whole: an assistant message with the results of its calls, or one other
    message.
    """
    starts = [i for i, message in enumerate(messages) if message.get("role") != "tool" or i == 0]
    return [Span(a, b) for a, b in zip(starts, [*starts[1:], len(messages)], strict=True)]


@dataclass
class CompactionPlan:
    """`kept` maps an index to the message that will stand there; all other messages are old.

    Of the old ones at `unread` no line is a candidate; at `endings` stand the last words of some of their turns.
    """

    target: int
    kept: dict[int, dict[str, Any]] = field(default_factory=dict)
    reduced: set[int] = field(default_factory=set)
    why: dict[int, str] = field(default_factory=dict)
    available: int = 0
    tier: int = 2
    talk: bool = False
    warnings: list[str] = field(default_factory=list)
    unread: set[int] = field(default_factory=set)
    endings: set[int] = field(default_factory=set)

    def keep(self, messages: Sequence[dict[str, Any]], span: Span, why: str) -> None:
        """Keep a span as it is."""
        for index in range(span.start, span.stop):
            if index not in self.kept:
                self.kept[index] = messages[index]
                self.why[index] = why


@dataclass(frozen=True)
class Transcript:
    """What is being compacted: a normalised list, its messages as parsed, and their sizes in tokens.

    `of_length` tells the size of a message by its characters, where that is all that `measure` looks at.
    """

    messages: list[dict[str, Any]]
    readings: list[ParsedMessage]
    sizes: list[int]
    measure: Estimate
    of_length: Callable[[int], int] | None = None

    @cached_property
    def length(self) -> int:
        """How many characters its messages have."""
        return sum(map(characters, self.messages))

    @cached_property
    def history(self) -> History:
        """What ran in it."""
        return History(self.readings)

    @cached_property
    def outdated(self) -> set[int]:
        """The segments that quote a line which a later edit removed."""
        found: set[int] = set()
        removed: set[str] = set()
        answers = {r.answers.call_id: r.text for r in self.readings if r.answers is not None}
        for index in range(len(self.readings) - 1, -1, -1) if any(r.segment for r in self.readings) else ():
            reading = self.readings[index]
            if reading.segment is not None:
                quoted = (line.strip() for e in reading.segment.entries if not e.is_words for line in e.lines)
                if not removed.isdisjoint(quoted):
                    found.add(index)
            for action in reading.actions:
                if action.kind == "write" and not write_failed(answers.get(action.call_id, "")):
                    put_in = {line.strip() for text in action.values for line in text.split("\n")}
                    gone = (line.strip() for c in action.edits for _, lines in c.removed for line in lines)
                    removed.update(line for line in gone if line and line not in put_in)
        return found

    @cached_property
    def anchors(self) -> list[TurnAnchor]:
        """Its anchors."""
        return find_anchors(self.readings, self.history.executions)

    def rated(self, feedback: Mapping[int, int]) -> dict[int, int]:
        """The score of each turn, by what the user said in it alone and without open errors: cheap in a long list."""
        lexicon = Lexicon()
        names: dict[int, set[int]] = {}
        for reading in self.readings:
            if reading.kind == "user":
                names.setdefault(reading.turn, set()).update(lexicon.read(reading.text[:_READ]))
        found = scores(self.readings, names, lexicon, self.anchors, feedback=feedback)
        return {turn: score.total for turn, score in found.items()}


def make_plan(
    transcript: Transcript, target: int, settings: CompactionSettings, pinned: Collection[int]
) -> CompactionPlan:
    """The plan for a list that is larger than `target`. Raises IrreducibleContext with the floor itemised."""
    plan = CompactionPlan(target)
    spans = units(transcript.messages)
    by_index = {index: span for span in spans for index in range(span.start, span.stop)}
    floor: dict[str, int] = {}
    for index, reading in enumerate(transcript.readings):
        if reading.kind in ("system", "reminder"):
            plan.keep(transcript.messages, Span(index, index + 1), reading.kind)
            floor[reading.kind] = floor.get(reading.kind, 0) + transcript.sizes[index]
    for index in sorted(set(pinned)):
        span = by_index.get(index)
        if span is not None and index not in plan.kept:
            plan.keep(transcript.messages, span, "pinned")
            floor["pinned"] = floor.get("pinned", 0) + sum(transcript.sizes[span.start : span.stop])
    plan.available = target - sum(floor.values())
    open_spans = [span for span in spans if span.start not in plan.kept]
    if open_spans and plan.available < _SEGMENT_FLOOR + _PROMPT_FLOOR:
        floor["segment"], floor["prompt"] = _SEGMENT_FLOOR, _PROMPT_FLOOR
    if sum(floor.values()) > target:
        raise IrreducibleContext(target, floor)
    _keep_earlier_segments(transcript, plan, target)
    _keep_newest(transcript, plan, open_spans, settings)
    _leave_unread(transcript, plan, settings)
    return plan


def _leave_unread(transcript: Transcript, plan: CompactionPlan, settings: CompactionSettings) -> None:
    """Choose what of a list that is far larger than the target is read line by line.

    Half of the room for that goes to the newest units, the rest to those of the turns with the highest scores. The
    user's words, the ledger and the edits come from all of them.
    """
    room = max(READ_TIMES * plan.target, READ_LEAST)
    readings = transcript.readings
    old = [
        span
        for span in units(transcript.messages)
        if span.start not in plan.kept and readings[span.start].kind not in ("user", "segment")
    ]
    weights = {span.start: _weight(transcript, span) for span in old}
    if sum(weights.values()) <= room:
        return
    rated = transcript.rated(settings.feedback) if settings.rated else {}
    left, half, place = room, room // 2, len(old)
    while left > half:
        place -= 1
        left -= weights[old[place].start]
    for span in sorted(old[:place], key=lambda s: (rated.get(readings[s.start].turn, 0), s.start), reverse=True):
        if left > 0:
            left -= weights[span.start]
        else:
            plan.unread.update(range(span.start, span.stop))
    last = {readings[i].turn: i for i in sorted(plan.unread) if readings[i].kind == "assistant" and readings[i].text}
    best = sorted(last, key=lambda turn: (rated.get(turn, 0), turn), reverse=True)
    plan.endings.update(last[turn] for turn in best[: plan.target // ENDING_EACH])
    share = (sum(weights.values()) - room) * 100 // sum(weights.values())
    plan.warnings.append(
        f"The list is so much larger than what may stay that {share}% of it was not read line by line: of that part "
        "only the user's words, the ledger and the last words of turns are kept."
    )


def _keep_earlier_segments(transcript: Transcript, plan: CompactionPlan, target: int) -> None:
    """Keep segments as they are, newest first, while there are few and they are small; the others are merged.

    A segment that quotes what an edit has removed since is merged too.
    """
    room = target * EARLIER_PERCENT // 100
    for index in reversed([i for i, r in enumerate(transcript.readings) if r.kind == "segment"][-4:]):
        if transcript.sizes[index] > room or index in transcript.outdated:
            break
        room -= transcript.sizes[index]
        plan.keep(transcript.messages, Span(index, index + 1), "segment")
        plan.available -= transcript.sizes[index]


def _keep_newest(
    transcript: Transcript, plan: CompactionPlan, spans: Sequence[Span], settings: CompactionSettings
) -> None:
    """Keep the newest turns whole, or the newest of them, if they fit; else its newest units and the prompt."""
    spans = [span for span in spans if span.start not in plan.kept]
    if not spans:
        return
    tight = plan.talk = _only_talk(transcript, plan)
    limit = plan.available * settings.tail_percent // 100
    plan.tier = 3
    for turns, tier in () if tight else ((settings.keep_last, 2), (1, 3)):
        wanted, rest = _split_at(transcript, spans, turns)
        size = sum(_weight(transcript, span) for span in wanted)
        if size * 100 <= plan.available * settings.newest_percent:
            for span in wanted:
                plan.keep(transcript.messages, span, "newest turns")
            plan.tier = tier
            _extend(transcript, plan, rest, limit - size, cut=settings.fill)
            return
    if tight and _answered(transcript, spans):
        return  # nothing is asked at the moment: the last prompt competes with the others
    last_user = next((s for s in reversed(spans) if transcript.readings[s.start].kind == "user"), None)
    listed = last_user is not None and is_listing(transcript.readings[last_user.start].text)
    whole = 0 if listed else plan.available * PROMPT_PERCENT // 100
    spent = _keep_prompt(transcript, plan, last_user, max(limit, whole))
    limit = max(limit - spent, (plan.available - spent) * settings.tail_percent // 100)
    if tight and not transcript.readings[spans[-1].start].actions:
        return
    last = spans[-1]
    if last.start not in plan.kept and _weight(transcript, last) > limit:
        limit -= _keep_reduced(transcript, plan, last, limit)
    _extend(transcript, plan, [span for span in spans if span.start not in plan.kept], limit, cut=settings.fill)


def _split_at(transcript: Transcript, spans: Sequence[Span], count: int) -> tuple[list[Span], list[Span]]:
    """Split the spans: those of the newest `count` turns, and those before them."""
    newest = set(sorted({transcript.readings[span.start].turn for span in spans})[-count:])
    return (
        [span for span in spans if transcript.readings[span.start].turn in newest],
        [span for span in spans if transcript.readings[span.start].turn not in newest],
    )


def _only_talk(transcript: Transcript, plan: CompactionPlan) -> bool:
    """Whether many short user messages, a third of the list at least, would fill the room; it is then theirs.

    Those in earlier segments count as well, or they would lose their room with the next compaction.
    """
    count = size = whole = 0
    for index, (reading, tokens) in enumerate(zip(transcript.readings, transcript.sizes, strict=True)):
        if index in plan.kept:
            continue
        whole += tokens
        if reading.kind == "user":
            count, size = count + 1, size + tokens
        elif reading.segment is not None:
            words = [line for entry in reading.segment.entries if entry.is_words for line in entry.lines]
            count += len(words)
            size += tokens * sum(map(len, words)) // max(1, len(reading.text))
    if not count or size >= SHORT_TALK * count or 3 * size < whole:
        return False
    return plan.available < TIGHT or size * 10 > plan.available * 6


def _answered(transcript: Transcript, spans: Sequence[Span]) -> bool:
    """Whether a conversation without any call ends with an answer."""
    said = [transcript.readings[span.start] for span in spans]
    return said[-1].kind == "assistant" and not any(reading.actions for reading in said)


def _weight(transcript: Transcript, span: Span) -> int:
    return sum(transcript.sizes[span.start : span.stop])


def _extend(transcript: Transcript, plan: CompactionPlan, spans: Sequence[Span], limit: int, *, cut: bool) -> None:
    """Keep further units, newest first, until one does not fit; `cut` keeps that one too, its results cut."""
    for span in reversed(spans):
        weight = _weight(transcript, span)
        if weight > limit:
            if cut:
                _keep_reduced(transcript, plan, span, limit)
            return
        limit -= weight
        plan.keep(transcript.messages, span, "newest")


def _keep_prompt(transcript: Transcript, plan: CompactionPlan, span: Span | None, limit: int) -> int:
    """Keep the current prompt, cut to head and tail if it is larger than the limit; return its size."""
    if span is None:
        return 0
    message = transcript.messages[span.start]
    if transcript.sizes[span.start] > limit:
        message = shortened(message, limit, transcript.measure)
        plan.reduced.add(span.start)
        plan.warnings.append("The current prompt was cut to its head and tail: it does not fit.")
    plan.kept[span.start] = message
    plan.why[span.start] = "current prompt"
    return transcript.measure(message)


def _keep_reduced(transcript: Transcript, plan: CompactionPlan, span: Span, limit: int) -> int:
    """Keep the newest unit with its results cut so that it fits, if that leaves some of them; return its size or 0."""
    head = transcript.measure(transcript.messages[span.start])
    results = range(span.start + 1, span.stop)
    if not results or head + 24 * len(results) > limit:
        return 0
    share = (limit - head) // len(results)
    kept = {span.start: transcript.messages[span.start]}
    for index in results:
        message = transcript.messages[index]
        if transcript.sizes[index] > share:
            message = shortened(message, share, transcript.measure)
            plan.reduced.add(index)
        kept[index] = message
    spent = sum(transcript.measure(message) for message in kept.values())
    if spent > limit:
        plan.reduced.difference_update(kept)
        return 0
    plan.tier = 3
    plan.kept.update(kept)
    plan.why.update(dict.fromkeys(kept, "newest, results cut"))
    plan.warnings.append("The newest tool results were cut to head and tail: they do not fit.")
    return spent
