"""Tier 2: segments for old messages: the user's words, the ledger, lines chosen by coverage, filled to the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from codelet.context.compaction.assemble import OldBlock, message_of, segment_lengths, split
from codelet.context.compaction.collect import Collected, add_cut_words, collect, factors
from codelet.context.compaction.coverage import REPEAT_PERCENT, Selection, cover
from codelet.context.compaction.history import open_errors
from codelet.context.compaction.identifiers import NUMBER_WEIGHT
from codelet.context.compaction.ledger import Ledger, pictures_gone
from codelet.context.compaction.outcomes import Ranked, TurnOutcome, outcomes, ranked
from codelet.context.compaction.plan import CompactionPlan, CompactionSettings, IrreducibleContext, Transcript
from codelet.context.compaction.score import Score, TurnAnchor, anchored, newest, scores, scoring_words
from codelet.context.compaction.segments import last_step
from codelet.context.compaction.signals import decides
from codelet.context.compaction.user_text import EarlierPrompt, FittedPrompts, fit_prompts
from codelet.context.tokens import characters, estimate_message
from codelet.messages import newest_prompt, text_of

NOTE_FROM = 6_000
LEDGER_FROM = 2_000
SMALL_ROOM = 4_000
SHOWN_PERCENT = 15
# What the user's words may take: at their least, and if a list is little else.
LEAST_PERCENT = 60
TALK_PERCENT = 80
FACTS_PERCENT = 15
FILES_PERCENT = 10
COMPANY_PERCENT = 2
# What the lines may take that close a turn, and up to which share other outcomes may follow them: the second one where
# the target is an eighth of the list or less.
CLOSING_PERCENT = 15
OUTCOME_PERCENT, OUTCOME_MOST = 13, 20
ERRORS_PERCENT = 5
# The share of a narrative, and the least that it gets in characters.
NARRATIVE_PERCENT = 15
NARRATIVE_LEAST = 3_200
_ROUNDS = 24
# So much of the target may be left over before lines behind the one that did not fit are tried, and how many are.
_LEFT_PERCENT, _TRIED = 2, 16


@dataclass
class Summary:
    """The new list that was made for a plan, and what the report needs to know of it.

    Its new segments take `written` tokens and `characters`; `capped` says that a limit left lines out, not the target.
    """

    messages: list[dict[str, Any]]
    size: int
    written: int
    characters: int
    segments: int
    found: Collected
    words: FittedPrompts
    chosen: list[int]
    anchors: list[TurnAnchor]
    scores: dict[int, Score]
    present: set[int]
    told: list[TurnOutcome]
    capped: bool

    def untold(self) -> list[str]:
        """The agent's sentences that told a cause or a decision and are nowhere any more, the newest first."""
        chosen, collector = set(self.chosen), self.found.collector
        gone = [collector.candidates.text[one.index] for one in self.told[::-1] if one.index not in chosen]
        return [line for line in gone if decides(line)]


def summarise(
    transcript: Transcript, plan: CompactionPlan, settings: CompactionSettings, target: int, narrative: Sequence[str]
) -> Summary:
    """Make the list for a plan, at most `target` tokens. Raises IrreducibleContext if bare segments are too much."""
    found = collect(transcript, plan)
    collector = found.collector
    anchors = transcript.anchors
    present, names = _names(transcript, plan, found)
    older = [(i, reading) for i, reading in enumerate(transcript.readings) if i not in plan.kept]
    errors = [fault.turn for fault in open_errors(older, transcript.history)]
    rated = {}
    if settings.rated:
        rated = scores(transcript.readings, names, collector.lexicon, anchors, errors, settings.feedback)
    room = _room(transcript, plan, found, target)
    beside = sum(len("narrative") + len(text) + 3 for text in narrative)
    words = _words(transcript, plan, found, found.said, room, settings, target, beside)
    add_cut_words(found, words.cut)
    left = room - words.size()
    if found.blocks and room >= LEDGER_FROM:
        ledger = _ledger(transcript, plan, found, anchors, narrative)
        told = ledger.told(min(left // 2, max(NARRATIVE_LEAST, room * NARRATIVE_PERCENT // 100)))
        ledger_room = min(left // 2, room * settings.ledger_percent // 100)
        last = found.blocks[-1]
        below = words.mode == "verbatim" and bool(last.said) and last.said[0][1].turn == ledger.goal[0]
        last.ledger = told + ledger.lines(ledger_room, collector.stale.gone, goal=not below) + _steps(transcript, last)
        found.blocks[-1].ledger += pictures_gone(m for n, m in enumerate(transcript.messages) if n not in plan.kept)
        left -= sum(len(key) + len(text) + 3 for key, text in found.blocks[-1].ledger)
    allowed = _for_context(transcript, plan, settings)
    left, capped = (left, False) if allowed is None or left <= allowed else (allowed, True)
    collector.mark()
    factors(found, rated, settings.minimum_score, left)
    shown = {n for e in words.entries for n in collector.lexicon.read("\n".join(e.lines))}
    listed = {n for b in found.blocks for n in collector.lexicon.read("\n".join(text for _, text in b.ledger))}
    # More than fits is chosen, as joined headings give room back; what is too much goes when it is fitted.
    slack = 104 if transcript.measure is estimate_message else 115
    worth = {turn: score.of_lines for turn, score in rated.items()}
    ends = outcomes(collector, worth)
    first = ranked(collector, ends, worth, anchored(anchors)) if settings.rated else Ranked()
    budget = max(0, left) * slack // 100
    chosen = _chosen(found, present | shown | listed, budget, first, room, _outcome_percent(transcript, target))
    note = room >= NOTE_FROM
    messages, size, segments, used = _fit(transcript, plan, found, chosen, target, note=note)
    present |= shown | listed
    for index in chosen[:used]:
        present.update(collector.candidates.names[index])
    written = size - sum(transcript.measure(message) for message in plan.kept.values())
    length = sum(map(characters, messages)) - sum(map(characters, plan.kept.values()))
    return Summary(
        messages, size, written, length, segments, found, words, chosen[:used], anchors, rated, present, ends, capped
    )


def _outcome_percent(transcript: Transcript, target: int) -> int:
    """The share of outcomes, more of it from a quarter of the list down to an eighth.

    The less fits, the more does a sentence that tells a cause answer than the names in as many characters of lines; at
    a quarter there is room for both, and more sentences cost names.
    """
    eighths = max(100, min(200, -(-800 * target // sum(transcript.sizes))))  # in per cent, rounded up
    return OUTCOME_MOST - (OUTCOME_MOST - OUTCOME_PERCENT) * (eighths - 100) // 100


def _chosen(
    found: Collected, shown: set[int], budget: int, first: Ranked, room: int, outcome_percent: int
) -> list[int]:
    """The lines to keep, best first: outcomes, facts by how rare they are, each in its share, then what covers most."""
    collector = found.collector
    selection = Selection(collector.candidates, collector.headers, [source.head for source in collector.sources])
    most = budget * 40 // 100
    ends = selection.put(first.closing, min(room * CLOSING_PERCENT // 100, most))
    ends += selection.put(first.others, min(room * outcome_percent // 100, most) - selection.spent)
    told_errors = sorted(collector.errors.values(), key=collector.candidates.position.__getitem__, reverse=True)
    ends += selection.put(told_errors, budget * ERRORS_PERCENT // 100)
    spent = selection.spent
    budget -= spent
    rare = list(collector.lexicon.shape)
    cover(rare, shown, SHOWN_PERCENT)
    for index in ends:
        cover(rare, collector.candidates.names[index], SHOWN_PERCENT)
    facts = ends + selection.take(collector.facts, rare, budget * FACTS_PERCENT // 100, REPEAT_PERCENT)
    weights = collector.weights()
    cover(weights, shown, SHOWN_PERCENT)
    facts = facts + selection.take(
        list(collector.files.values()),
        rare,
        budget * (FACTS_PERCENT + FILES_PERCENT) // 100 - (selection.spent - spent),
        REPEAT_PERCENT,
    )
    for index in facts:
        cover(weights, collector.candidates.names[index], SHOWN_PERCENT)
    company = budget * COMPANY_PERCENT // 100
    lines = selection.take(range(len(collector.candidates.text)), weights, budget + spent - selection.spent - company)
    selection.accompany(
        lines, [shape >= NUMBER_WEIGHT for shape in collector.lexicon.shape], budget + spent - selection.spent
    )
    return selection.chosen


def _names(transcript: Transcript, plan: CompactionPlan, found: Collected) -> tuple[set[int], dict[int, set[int]]]:
    """The words in what is kept, and the words of each turn that bear on its score."""
    collector = found.collector
    names: dict[int, set[int]] = {}
    present: set[int] = set()
    for index, message in plan.kept.items():
        reading = transcript.readings[index]
        here = collector.lexicon.read(text_of(message))
        for action in reading.actions:
            here |= collector.lexicon.read(action.subject)
            for edit in action.edits:
                here |= collector.lexicon.read(edit.text)
                for _, taken in edit.removed:
                    here |= collector.lexicon.read("\n".join(taken))
        present |= here
        if reading.kind not in ("system", "reminder"):
            names.setdefault(reading.turn, set()).update(here)
    turns = [source.turn for source in collector.sources]
    by_turn: dict[int, list[tuple[int, ...]]] = {}
    for source, found_names in zip(collector.candidates.source, collector.candidates.names, strict=True):
        by_turn.setdefault(turns[source], []).append(found_names)
    for turn in newest(transcript.readings):
        names.setdefault(turn, set()).update(*by_turn.pop(turn, ()))
    # Of the older turns only those words are told that can bear on a score: to tell all takes several times longer.
    told = scoring_words(transcript.readings, names, collector.lexicon)
    for turn, lines in by_turn.items():
        names.setdefault(turn, set()).update(told.intersection(chain.from_iterable(lines)))
    return present, names


def _characters(transcript: Transcript, tokens: int) -> int:
    """About how many characters of text so many tokens have."""
    if transcript.measure is estimate_message:
        return 4 * tokens
    texts = sum(transcript.sizes) - len(transcript.sizes) * transcript.measure({"role": "user", "content": ""})
    return tokens * transcript.length // max(1, texts)


def _for_context(transcript: Transcript, plan: CompactionPlan, settings: CompactionSettings) -> int | None:
    """Characters that lines may take beside what is kept of earlier turns; None without a limit."""
    if settings.context is None:
        return None
    earlier = [i for i in plan.kept if i < newest_prompt(transcript.messages)]
    kept = [i for i in earlier if transcript.readings[i].kind not in ("system", "reminder", "segment")]
    return max(0, _characters(transcript, settings.context - sum(transcript.measure(plan.kept[i]) for i in kept)))


def _room(transcript: Transcript, plan: CompactionPlan, found: Collected, target: int) -> int:
    """Characters for all segments together. If that is little, only segments with the user's words are counted on."""
    fixed = target - sum(transcript.measure(message) for message in plan.kept.values())
    frame = transcript.measure({"role": "user", "content": ""})
    with_words = [b for b in found.blocks if any(b.start <= place[0] < b.stop for place in found.places)]
    room = 0
    for blocks in (found.blocks, with_words):
        left = fixed - len(blocks) * frame
        room = max(0, _characters(transcript, left) - sum(block.overhead() for block in blocks))
        if room > SMALL_ROOM or not with_words:
            break
    return room


def _words(
    transcript: Transcript,
    plan: CompactionPlan,
    found: Collected,
    said: list[EarlierPrompt],
    room: int,
    settings: CompactionSettings,
    target: int,
    beside: int,
) -> FittedPrompts:
    """Fit the user's words into their blocks, fewer of them while the bare segments are too large.

    `beside` are the characters of a narrative, which stands in the share of history too.
    """
    fixed = sum(transcript.measure(message) for message in plan.kept.values())
    verbatim, least = (TALK_PERCENT, 100) if plan.talk else (settings.user_percent, LEAST_PERCENT)
    most = room
    if settings.history is not None:  # the ledger stands there as well
        share = _characters(transcript, settings.history)
        most = max(share // 2, share * 97 // 100 - room * settings.ledger_percent // 100 - beside)
    while True:
        words = fit_prompts(said, min(most, room * verbatim // 100), min(most, room * least // 100))
        _place_words(found, words)
        made = _segments(found, [], note=False)
        over = fixed + sum(transcript.measure(message) for message in made if message is not None) - target
        if over <= 0 or not words.entries:
            return words
        room = max(0, min(room, words.size()) - max(8, over * room // max(1, target - fixed)))


def _place_words(found: Collected, words: FittedPrompts) -> None:
    """Give each block its entries. One entry for all messages goes to the first block that has any."""
    for block in found.blocks:
        block.said = []
    if len(words.entries) == len(found.places):
        for place, entry in zip(found.places, words.entries, strict=True):
            block = next(b for b in found.blocks if b.start <= place[0] < b.stop)
            block.said.append((place, entry))
    elif words.entries:
        block = next(b for b in found.blocks if b.start <= found.places[0][0] < b.stop)
        block.said.append((found.places[0], words.entries[0]))


def _ledger(
    transcript: Transcript,
    plan: CompactionPlan,
    found: Collected,
    anchors: Sequence[TurnAnchor],
    narrative: Sequence[str],
) -> Ledger:
    old = [i for b in found.blocks for i in range(b.start, b.stop)]
    ledger = Ledger()
    for index in old:
        segment = transcript.readings[index].segment
        if segment is not None:
            ledger.carry_on(segment.ledger)
    turns = {transcript.readings[i].turn for i in old}
    readings = [(i, transcript.readings[i]) for i in old]
    ledger.take_in(readings, transcript.history, [a for a in anchors if a.turn in turns])
    if narrative:  # it was written with the earlier one in sight
        ledger.narrative = list(narrative)
    return ledger


def _steps(transcript: Transcript, block: OldBlock) -> list[tuple[str, str]]:
    """The step of a long turn up to which a block stands for it, so that those behind it go on counting."""
    last = transcript.readings[block.stop - 1]
    step = max(last.step, last_step(last.segment) if last.segment is not None else 0)
    return [("steps", f"t{block.last}.{step}")] if step else []


def _fit(
    transcript: Transcript, plan: CompactionPlan, found: Collected, chosen: list[int], target: int, *, note: bool
) -> tuple[list[dict[str, Any]], int, int, int]:
    """The list with as many of the chosen lines, best first, as the target takes: messages, size, segments, lines."""
    fixed = sum(transcript.measure(message) for message in plan.kept.values())
    size_of = _sizes(transcript, found, chosen, fixed, note=note)
    low, high, used = 0, len(chosen), len(chosen)
    best: tuple[int, int] | None = None
    for _ in range(_ROUNDS):
        size = size_of(used)
        if size <= target:
            best, low = (size, used), used
            if high == used or 200 * size >= 199 * target:
                break
        else:
            high = used - 1
        if low >= high:
            if best is None and used > 0:
                used = 0
                continue
            break
        over = size - target
        step = len(chosen) * abs(over) // max(1, size - fixed) + 1
        guess = used - step if over > 0 else used + step
        used = guess if low < guess <= high else (low + high + 1) // 2
    if best is None:
        made = _segments(found, [], note=False)
        size, used = fixed + _measured(transcript, made), 0
        if size > target:
            bare = size - fixed
            raise IrreducibleContext(target, {"kept messages": fixed, "segments": bare})
    else:
        size, used = _with_shorter(transcript, found, chosen, best, target, note=note)
        made = _segments(found, chosen[:used], note=note)
    messages: list[dict[str, Any]] = []
    starts = {block.start: segment for block, segment in zip(found.blocks, made, strict=True)}
    for index in range(len(transcript.messages)):
        segment = starts.get(index)
        if segment is not None:
            messages.append(segment)
        if index in plan.kept:
            messages.append(plan.kept[index])
    return messages, size, sum(1 for segment in made if segment is not None), used


def _with_shorter(
    transcript: Transcript, found: Collected, chosen: list[int], best: tuple[int, int], target: int, *, note: bool
) -> tuple[int, int]:
    """The same with lines behind the one that did not fit, where those do: size and lines. They go up in `chosen`."""
    size, used = best
    if 100 * (target - size) <= _LEFT_PERCENT * target:
        return best  # as nearly always: only of a small target one line is so much
    without = size - _measured(transcript, _segments(found, chosen[:used], note=note))
    for place in range(used + 1, min(len(chosen), used + _TRIED)):
        if 100 * (target - size) <= _LEFT_PERCENT * target:
            break
        tried = without + _measured(transcript, _segments(found, [*chosen[:used], chosen[place]], note=note))
        if tried <= target:
            chosen.insert(used, chosen.pop(place))
            size, used = tried, used + 1
    return size, used


def _measured(transcript: Transcript, made: Sequence[dict[str, Any] | None]) -> int:
    return sum(transcript.measure(message) for message in made if message is not None)


def _sizes(
    transcript: Transcript, found: Collected, chosen: list[int], fixed: int, *, note: bool
) -> Callable[[int], int]:
    """Return a function from a number of chosen lines to the size of the list that holds them."""
    of_length = transcript.of_length
    known = segment_lengths(found.blocks, found.collector, chosen, note=note) if of_length is not None else None

    def size_of(used: int) -> int:
        if known is not None and of_length is not None:
            return fixed + sum(map(of_length, known.of(used)))
        return fixed + _measured(transcript, _segments(found, chosen[:used], note=note))

    return size_of


def _segments(found: Collected, chosen: Sequence[int], *, note: bool) -> list[dict[str, Any] | None]:
    parts = split(found.blocks, found.collector, chosen)
    blocks: list[OldBlock] = found.blocks
    return [
        message_of(block, found.collector, part, note=note and number == 0)
        for number, (block, part) in enumerate(zip(blocks, parts, strict=True))
    ]
