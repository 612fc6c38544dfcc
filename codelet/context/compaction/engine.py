"""The entry point of compaction: `compact(messages, target)`, pure, synchronous, and deterministic.

Its stages, in the order in which they run:

1. `normalise`: pair calls with their results, keep one text of each reminder.
2. `reading`: split the list into pieces (texts, calls, results), those of earlier segments included.
3. `observed`: events and anchors; `report.scores`: a score for each turn.
4. `plan`: the messages that stay whole, the ones that are cut, and the ones that segments replace.
5. `lines`: the text, each part in the room that the earlier parts left: the user's words, the recorded state, the
   agent's prose, evidence from calls and results.
6. `segments`: write the text in a form that can be parsed again; `report`: what was done and lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

from codelet.call_record import CallRecord
from codelet.context.compaction.lexicon import Lexicon
from codelet.context.compaction.lines import ENTRY, Evidence, Line, Words, agents_prose, users_words
from codelet.context.compaction.observed import anchors_of, observations_of, removals, state_lines
from codelet.context.compaction.plan import BODY, CompactionSettings, IrreducibleContext, KeepPlan
from codelet.context.compaction.reading import ReadSession, whole_text
from codelet.context.compaction.report import Allocation, Compacted, CompactionReport, Score, TurnFate, scores
from codelet.context.compaction.segments import NOTE, USER, ParsedSegment, SegmentEntry, render
from codelet.context.tokens import Estimate, estimate_message
from codelet.context.tokens.budget import SizeTarget, checked_tokens
from codelet.messages import ForeignMessage, Normalised, kind_of, newest_prompt, normalise, segment

# The recorded state in percent of the room after the user's words, the agent's prose in percent of the room after that.
_STATE, _PROSE = 6, 50
# Characters of a text that is measured to get the characters per token.
_PROBE = 4_000
# The least tokens for segments with an explanation.
_LEAST_FOR_NOTE = 600
_MOST_LOST = 20
_PATH = re.compile(r"[\w.~@$-]*/[\w./@~$-]*\w\Z")
_ORDER = {"user": 0, "agent": 1, "call": 2, "result": 3}


def compact(
    messages: Sequence[ForeignMessage],
    target: int | SizeTarget,
    *,
    estimate: Estimate | None = None,
    settings: CompactionSettings | None = None,
    pinned: Collection[int] = (),
    handoff: Sequence[str] = (),
    records: Mapping[str, CallRecord] | None = None,
    in_flight: bool = False,
) -> Compacted:
    """Return a list with the essence of `messages` in at most `target` tokens, and a report.

    `messages` are Chat Completions messages of any shape; they are not changed. `target` can also limit parts of the
    list. `estimate` measures one message in
    tokens (default: characters / 4, rounded up, + 4). `pinned` are indices of messages that stay verbatim, a call with
    its results. `handoff` are lines of a model's summary, checked by the caller. `records` are call records by id.
    `in_flight` leaves the calls of the last assistant message open. A list that fits already is only normalised.
    Raises IrreducibleContext, with the floor itemized, if the target cannot be met, and ValueError for a target that
    is not a positive integer.
    """
    limits = target if isinstance(target, SizeTarget) else SizeTarget(size=target)
    checked_tokens(limits.size, "target")
    settings, measure = settings or CompactionSettings(), estimate or estimate_message
    normal = normalise(messages, in_flight=in_flight)
    sizes = list(map(measure, normal.messages))
    given = [message for message in messages if isinstance(message, dict)]
    before = sum(sizes if len(sizes) == len(messages) else map(measure, given))
    report = CompactionReport(tier=0, target=limits.size, before=before, after=sum(sizes))
    unchanged = Compacted(_as_given(normal.messages, normal, messages), report)
    if report.after <= limits.size and not settings.fold:
        return unchanged
    work = _Compaction(normal, sizes, measure, settings, limits, handoff, records or {})
    place_of = {origin: place for place, origin in enumerate(normal.origin)}
    held = [place_of[at] for at in pinned if at in place_of]
    for bare in (False, True):
        plan = KeepPlan(normal.messages, sizes, measure, settings, limits, bare, held, work.anchored)
        if not bare and settings.fold and len(plan.kept) == len(normal.messages):
            return unchanged
        if (made := work.made(plan)) is not None:
            own = _as_given(made.messages, normal, messages)
            return Compacted(own, made.report.replace(before=before))
    raise IrreducibleContext(limits.size, work.floor(plan.fixed))


def _as_given(
    made: Sequence[ForeignMessage], normal: Normalised, given: Sequence[ForeignMessage]
) -> list[dict[str, Any]]:
    """Return `made` with the caller's own object for each message that only got a kind."""
    own = {
        id(message): given[at]
        for message, at in zip(normal.messages, normal.origin, strict=True)
        if at >= 0 and message is not given[at] and message == given[at]
    }
    return [cast("dict[str, Any]", own.get(id(message), message)) for message in made]


class _Text(NamedTuple):
    """The content of segments. Evidence is in the order of choice, best first; `used` are names by weight."""

    words: Words
    state: list[str]
    prose: list[Line]
    evidence: list[Line]
    used: Mapping[str, float]

    @property
    def lines(self) -> list[Line]:
        return [*self.words.lines, *self.prose, *self.evidence]

    def shorten(self, characters: float) -> bool:
        """Remove about as many characters, evidence first, then what is oldest; return False if nothing is left."""
        there = bool(self.lines or self.state)
        for part, place in ((self.evidence, -1), (self.prose, 0), (self.words.lines, 0)):
            while part and characters > 0:
                characters -= len(part.pop(place).text) + 1
        while self.state and characters > 0:
            characters -= len(self.state.pop()) + 1
        return there


class _Compaction:
    """One list, read once, to be shortened by one plan after another."""

    def __init__(
        self,
        normal: Normalised,
        sizes: Sequence[int],
        measure: Estimate,
        settings: CompactionSettings,
        target: SizeTarget,
        handoff: Sequence[str],
        records: Mapping[str, CallRecord],
    ) -> None:
        self._messages, self._origin, self._sizes = normal.messages, normal.origin, sizes
        self._measure, self._settings, self._target = measure, settings, target
        self._session = session = ReadSession(self._messages, records)
        self._handoff = list(handoff) or session.handoff
        self._lexicon = Lexicon()
        self._facts = observations_of(session)
        self._removals = removals(self._facts, {piece.path for piece in session.pieces} - {""})
        self._anchors = anchors_of(session, self._facts)
        self._scores = scores(session, self._anchors, self._lexicon, settings.votes, settings.instruction)
        self._wanted = self._lexicon.of_text(settings.instruction)
        self.anchored = {session.pieces[anchor.number].at for anchor in self._anchors if anchor.number >= 0}
        probe = self._measure(segment("x " * (_PROBE // 2))) - self._measure(segment(""))
        self._characters = _PROBE / max(1, probe)

    def made(self, plan: KeepPlan) -> Compacted | None:
        """Return the result of a plan, None if it does not fit."""
        kept = sum(map(self._measure, plan.kept.values()))
        runs, free = self._runs(plan), self._target.size - kept
        note = free >= _LEAST_FOR_NOTE
        for number, run in enumerate(runs):
            free -= self._measure(segment(render(ParsedSegment(*self._turns(run)), note=note and not number)))
        text = self._text(plan, max(0, int(free * self._characters) - sum(len(line) + 1 for line in self._handoff)))
        while True:
            segments = self._segments(runs, text, note)
            size = kept + sum(map(self._measure, segments.values()))
            if size <= self._target.size:
                return self._compacted(plan, text, segments, kept, size)
            if not text.shorten((size - self._target.size) * self._characters):
                return None

    def _text(self, plan: KeepPlan, room: int) -> _Text:
        """Fill the room, in characters: each part gets its share of what the parts before it left."""
        session, target, lexicon = self._session, self._target, self._lexicon
        old = [(n, piece) for n, piece in enumerate(session.pieces) if piece.at not in plan.kept]
        prompts = [each for each in old if each[1].kind == "user"]
        history = room
        if target.history is not None:
            frames = len(NOTE) + ENTRY * (len(prompts) + 4)
            history = max(0, int(target.history * self._characters) - frames) * 9 // 10
        words = users_words(prompts, room, history)
        spent = sum(len(line.text) for line in words.lines)
        left = room - spent - ENTRY * len(words.lines)
        share = max(0, left) * _STATE // 100
        share = share if target.history is None else min(share, history - spent)
        state, failures = state_lines(self._facts, {number for number, _ in old}, share)
        left -= sum(len(line) + 1 for line in state)
        if target.context is not None:
            newest = newest_prompt(self._messages)
            kept = [message for at, message in plan.kept.items() if at < newest and kind_of(message) in BODY]
            left = min(left, int((target.context - sum(map(self._measure, kept))) * self._characters))
        recent = [each for each in old if each[0] >= session.recent]
        share = max(0, left) * _PROSE // 100
        prose = agents_prose(recent, max(1, len(session.pieces)), share, lexicon, self._lift, self._wanted)
        left -= sum(len(line.text) + 1 for line in prose) + ENTRY * len({line.number for line in prose})
        evidence = Evidence(session, lexicon, plan.kept, self._removals, {line.text for line in prose})
        texts = [line.text for line in (*words.lines, *prose)] + state
        texts += [whole_text(message) for message in plan.kept.values() if kind_of(message) in BODY]
        have = set().union(*map(lexicon.of_text, texts))
        chosen = evidence.choose(max(0, left), have, failures, self._lift, self._wanted)
        return _Text(words, state, prose, chosen, evidence.used)

    def _lift(self, turn: int) -> float:
        return self._scores[turn].lift if turn in self._scores else 1.0

    def _runs(self, plan: KeepPlan) -> list[list[int]]:
        """Return the runs of old messages between kept ones, across reminders and system messages."""
        runs: list[list[int]] = []
        parted = True
        for at, message in enumerate(self._messages):
            if at not in plan.kept:
                runs += [[]] if parted else []
                runs[-1].append(at)
            if at not in plan.kept or kind_of(message) in BODY:
                parted = at in plan.kept
        return runs

    def _turns(self, run: Sequence[int]) -> tuple[int, int]:
        """The first and the last turn of a run."""
        turns = self._session.turns
        return self._session.first_turns.get(run[0], turns[run[0]]), turns[run[-1]]

    def _segments(self, runs: Sequence[Sequence[int]], text: _Text, note: bool) -> dict[int, ForeignMessage]:
        """Write the segments, by the place of the first message that they replace."""
        lines = sorted(text.lines, key=lambda line: (line.piece.at, line.number, _ORDER[line.piece.kind]))
        segments: dict[int, ForeignMessage] = {}
        for run in runs:
            places = set(run)
            parsed = ParsedSegment(*self._turns(run), entries=_entries([li for li in lines if li.piece.at in places]))
            if not segments:
                parsed.handoff, parsed.state = self._handoff, text.state
            segments[run[0]] = segment(render(parsed, note=note and not segments))
        return segments

    def floor(self, fixed: Collection[int]) -> dict[str, int]:
        """Return the size of what no plan shortens, by part."""
        parts: Counter[str] = Counter()
        names = {"system": "system messages", "developer": "system messages", "reminder": "reminders"}
        for at in fixed:
            parts[names.get(kind_of(self._messages[at]), "pinned messages and calls in flight")] += self._sizes[at]
        if old := [at for at in range(len(self._messages)) if at not in fixed]:
            parts["segments"] = self._measure(segment(render(ParsedSegment(*self._turns(old)), note=True)))
        return dict(parts)

    def _compacted(
        self, plan: KeepPlan, text: _Text, segments: Mapping[int, ForeignMessage], kept: int, size: int
    ) -> Compacted:
        """Return the list with its report. `removed` and `cut` refer to the given list, all else to the normal one."""
        placed, origin = {**plan.kept, **segments}, self._origin
        messages = [cast("dict[str, Any]", placed[at]) for at in sorted(placed)]
        warnings = list(plan.warnings)
        if left_out := text.words.wanted - len(text.words.lines):
            warnings.append(f"{left_out} of the user's messages have no line: the target is too small.")
        wanted = min(self._settings.keep_last, sum(kind_of(message) == "prompt" for message in self._messages))
        same = {origin[at] for at in plan.kept if at not in plan.cut}
        parts = [[line.text for line in part] for part in (text.words.lines, text.prose, text.evidence)]
        words, prose, evidence, state, handoff = (
            int(sum(len(each) + 1 for each in texts) / self._characters)
            for texts in (*parts, text.state, self._handoff)
        )
        report = CompactionReport(
            tier=3 if plan.cut or plan.whole_turns < wanted else 2,
            target=self._target.size,
            before=0,
            after=size,
            turns=self._fates(plan, text),
            anchors=tuple(self._anchors),
            segments=len(segments),
            removed=tuple(at for at in range(max(origin, default=-1) + 1) if at not in same),
            cut=tuple(origin[at] for at in plan.cut),
            words_each=text.words.each,
            lost=tuple(self._lost(text.used, "\n".join(map(whole_text, messages)))),
            warnings=tuple(warnings),
            kept_turns=plan.whole_turns,
            kept_steps=sum(kind_of(plan.kept[at]) == "assistant" for at in plan.kept if at not in plan.cut),
            allocation=Allocation(kept, words, state, prose, evidence, handoff),
        )
        return Compacted(messages, report)

    def _lost(self, used: Mapping[str, float], whole: str) -> list[str]:
        """Return the names that the result, `whole`, does not have, paths first."""
        present = self._lexicon.of_text(whole)
        gone = [name for name in used if self._lexicon.is_name(name) and name not in present]
        return sorted(gone, key=lambda name: (not _PATH.match(name), -used[name], name))[:_MOST_LOST]

    def _fates(self, plan: KeepPlan, text: _Text) -> tuple[TurnFate, ...]:
        before, verbatim, after = Counter[int](), Counter[int](), Counter[int]()
        for at, message in enumerate(self._messages):
            if kind_of(message) in BODY and kind_of(message) != "segment":
                before[self._session.turns[at]] += self._sizes[at]
                verbatim[self._session.turns[at]] += self._measure(plan.kept[at]) if at in plan.kept else 0
        for line in text.lines:
            after[line.piece.turn] += int((len(line.text) + 1) / self._characters)
        return tuple(
            TurnFate(turn, size, verbatim[turn] + after[turn], verbatim[turn], self._scores.get(turn, Score(turn)))
            for turn, size in sorted(before.items())
        )


def _entries(lines: Sequence[Line]) -> list[SegmentEntry]:
    found: list[SegmentEntry] = []
    last: object = None
    for line in lines:
        piece = line.piece
        label = {"user": USER, "agent": ""}.get(piece.kind, piece.label)
        key = (piece.turn, label, piece.call.id if piece.call is not None else "", line.number * (label == USER))
        if key != last:
            found.append(SegmentEntry(piece.turn, label))
            last = key
        found[-1].lines += [] if line.is_in_heading else line.text.split("\n")
    return found
