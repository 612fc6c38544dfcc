"""The entry point of compaction: `compact(messages, target)`, pure, synchronous and deterministic.

Its stages, in the order in which they run; `summarise` holds 4 to 7 together:

1. Normalise (`parsing`): calls are paired with their results, each reminder stands once.
2. Parse (`parsing`): the kind and the turn of each message, and what its calls do (`actions`, `edits`).
3. Plan (`plan`): what stays as it is, what is cut in place, and what segments will stand for.
4. Collect (`collect`): of the old messages the user's prompts, and candidate lines (`candidates`) without those
   that a later edit made untrue (`file_changes`).
5. Rate: a score for each turn (`score`), and the state of files, errors and runs (`ledger`, from `history`).
6. Choose: the prompts are fitted into their share (`user_text`), the rest goes to the lines that say most (`coverage`).
7. Write (`segments`, `assemble`): the new list, with as many of the chosen lines as the target takes.
8. Report (`report`): what became of each turn, and what was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, cast

from codelet.context.compaction.parsing import Normalised, normalise, parse_messages
from codelet.context.compaction.plan import (
    CompactionPlan,
    CompactionSettings,
    IrreducibleContext,
    Transcript,
    make_plan,
)
from codelet.context.compaction.report import Compacted, CompactionReport, Fate, TurnFate, find_loss
from codelet.context.compaction.score import Score
from codelet.context.compaction.summarise import Summary, summarise
from codelet.context.tokens import Estimate, estimate_length, estimate_message
from codelet.context.tokens.budget import checked_tokens
from codelet.messages import AnyMessage

# If so much of the target is left over, in per cent, a second attempt gives it to the newest messages.
_UNUSED_PERCENT = 8


def compact(
    messages: Sequence[AnyMessage],
    target: int,
    *,
    estimate: Estimate | None = None,
    settings: CompactionSettings | None = None,
    pinned: Collection[int] = (),
    narrative: Sequence[str] = (),
    in_flight: bool = False,
) -> Compacted:
    """Return a list that says what matters of `messages` in at most `target` tokens, and a report of what was done.

    `messages` are Chat Completions messages of any shape; they are not changed. `estimate` measures one message in
    tokens (default: characters / 4, rounded up, + 4). `pinned` are indices of messages that stay verbatim, a call with
    its results. `narrative` are lines for the ledger, checked by the caller. `in_flight` leaves the calls of the last
    assistant message open. A list that fits already is only normalised. Raises IrreducibleContext, with the floor
    itemised, if the target cannot be met, and ValueError for a target that is not a positive integer.
    """
    target = checked_tokens(target, "target")
    return Prepared(messages, estimate, in_flight=in_flight).compacted(target, settings, pinned, narrative)


class Prepared:
    """A list after stages 1 and 2, which no target changes: made smaller several times, it is read once.

    `of_length` is the `estimate` of a message that has so many characters, if there is such a thing.
    """

    def __init__(
        self,
        messages: Sequence[AnyMessage],
        estimate: Estimate | None = None,
        *,
        in_flight: bool = False,
        of_length: Callable[[int], int] | None = None,
    ) -> None:
        self.given = messages
        self.measure = measure = estimate or estimate_message
        self._of_length = estimate_length if measure is estimate_message else of_length
        self._normal = normal = normalise(messages, in_flight=in_flight)
        self._sizes = sizes = [measure(message) for message in normal.messages]
        same = len(normal.messages) == len(messages)
        self._before = sum(sizes) if same else _size(messages, measure, normal, sizes)

    @cached_property
    def _transcript(self) -> Transcript:
        messages = self._normal.messages
        return Transcript(messages, parse_messages(messages), self._sizes, self.measure, self._of_length)

    def compacted(
        self,
        target: int,
        settings: CompactionSettings | None = None,
        pinned: Collection[int] = (),
        narrative: Sequence[str] = (),
    ) -> Compacted:
        """Stages 3 to 8, as `compact` does them."""
        normal = self._normal
        if sum(self._sizes) <= target:
            report = CompactionReport(0, target, self._before, sum(self._sizes))
            return Compacted(_as_given(normal.messages, normal, self.given), report)
        place_of = {origin: place for place, origin in enumerate(normal.origin) if origin >= 0}
        held = [place_of[i] for i in pinned if i in place_of]
        made = _filled(self._transcript, held, narrative, settings or CompactionSettings(), target)
        report = _report(self._transcript, made, normal, self._before)
        return Compacted(_as_given(made.summary.messages, normal, self.given), report)


class _Attempt(NamedTuple):
    """A plan and the list that was made for it (stages 3 to 7)."""

    plan: CompactionPlan
    summary: Summary


def _filled(
    transcript: Transcript,
    pinned: Sequence[int],
    narrative: Sequence[str],
    settings: CompactionSettings,
    target: int,
) -> _Attempt:
    """Return the first attempt or, if that leaves much of the target unused, one that keeps more of the newest."""

    def attempt(wanted: CompactionSettings) -> _Attempt:
        plan = make_plan(transcript, target, wanted, pinned)
        return _Attempt(plan, summarise(transcript, plan, wanted, target, narrative))

    first = plan, summary = attempt(settings)
    if summary.capped or 100 * (target - summary.size) < _UNUSED_PERCENT * target:
        return first
    # What the segments take now is theirs, the user's words in them included; the rest is for the newest.
    share = 100 * (plan.available - summary.written) // max(1, plan.available) - 1
    said = summary.words.size() * 100 // max(1, summary.characters) + 1
    more = replace(
        settings,
        fill=True,
        newest_percent=max(settings.newest_percent, share),
        tail_percent=share,
        user_percent=max(settings.user_percent, said),
    )
    try:
        second = attempt(more)
    except IrreducibleContext:
        return first
    better = second.summary.size > summary.size and second.summary.words.mode == summary.words.mode
    return second if better else first


def _as_given(made: list[dict[str, Any]], normal: Normalised, given: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """Return `made` with the caller's own object for each message that differs from it only by its known kind."""
    own = {
        id(message): cast("dict[str, Any]", given[origin])
        for message, origin in zip(normal.messages, normal.origin, strict=True)
        if origin >= 0 and message is not given[origin] and message == given[origin]
    }
    return [own.get(id(message), message) for message in made]


def _size(messages: Sequence[AnyMessage], measure: Estimate, normal: Normalised, sizes: Sequence[int]) -> int:
    """Return the size of the list as it was given; messages that normalising left alone are not measured again."""
    known = {id(message): size for message, size in zip(normal.messages, sizes, strict=True)}
    own = [message for message in messages if isinstance(message, dict)]
    return sum([known[id(message)] if id(message) in known else measure(message) for message in own])


def _report(transcript: Transcript, made: _Attempt, normal: Normalised, before: int) -> CompactionReport:
    """Return the report. `removed` speaks of the list that was given, all else of the normalised one."""
    plan, summary = made
    kept_origins = {normal.origin[i] for i in plan.kept if i not in plan.reduced}
    highest = max(normal.origin, default=-1)
    warnings = list(plan.warnings)
    if summary.words.left_out:
        warnings.append(f"{summary.words.left_out} of the user's messages left no line: the target is too small.")
    collector = summary.found.collector
    after_words = [line for entry in summary.words.entries for line in entry.lines]
    after_words += [transcript.readings[i].text for i in plan.kept if transcript.readings[i].kind == "user"]
    after_words += [collector.candidates.text[i] for i in summary.chosen]
    after_words += [text for block in summary.found.blocks for _, text in block.ledger]
    said = [one.text for one in summary.found.said]
    return CompactionReport(
        tier=plan.tier,
        target=plan.target,
        before=before,
        after=summary.size,
        turns=tuple(_fates(transcript, plan, summary)),
        anchors=tuple(summary.anchors),
        segments=summary.segments,
        removed=tuple(i for i in range(highest + 1) if i not in kept_origins),
        user_messages=len(said),
        user_mode=summary.words.mode,
        loss=find_loss(
            collector.lexicon, collector.used, summary.present, said, "\n".join(after_words), summary.untold()
        ),
        warnings=tuple(warnings),
        kept_steps=sum(transcript.readings[i].kind == "assistant" for i in plan.kept if i not in plan.reduced),
    )


def _fates(transcript: Transcript, plan: CompactionPlan, summary: Summary) -> list[TurnFate]:
    """What became of each turn: its sizes, the lines chosen from it, its score."""
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    count: dict[int, int] = {}
    whole: dict[int, set[str]] = {}
    reasons: dict[int, str] = {}
    for index, reading in enumerate(transcript.readings):
        if reading.kind in ("system", "reminder", "segment"):
            continue
        turn = reading.turn
        before[turn] = before.get(turn, 0) + transcript.sizes[index]
        count[turn] = count.get(turn, 0) + 1
        if index in plan.kept:
            after[turn] = after.get(turn, 0) + transcript.measure(plan.kept[index])
            reasons.setdefault(turn, plan.why.get(index, ""))
        fate = "reduced" if index in plan.reduced else "kept" if index in plan.kept else "old"
        whole.setdefault(turn, set()).add(fate)
    lines: dict[int, int] = {}
    collector = summary.found.collector
    for index in summary.chosen:
        turn = collector.sources[collector.candidates.source[index]].turn
        lines[turn] = lines.get(turn, 0) + 1
        after[turn] = after.get(turn, 0) + len(collector.candidates.text[index]) // 4
    for entry in summary.words.entries:
        after[entry.turn] = after.get(entry.turn, 0) + sum(len(line) + 1 for line in entry.lines) // 4
    found = []
    for turn in sorted(before):
        fate, why = _fate(whole[turn], reasons.get(turn, ""), lines.get(turn, 0))
        score = summary.scores.get(turn, Score(turn))
        found.append(
            TurnFate(turn, fate, why, before[turn], after.get(turn, 0), count[turn], lines.get(turn, 0), score)
        )
    return found


def _fate(parts: set[str], reason: str, lines: int) -> tuple[Fate, str]:
    if parts == {"old"}:
        return "summarised", f"the user's words and {lines} lines"
    if "old" in parts:
        return "reduced", f"{reason}; the rest summarised"
    return "reduced" if "reduced" in parts else "kept", reason
