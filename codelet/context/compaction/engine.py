"""The entry point of compaction: `compact(messages, target)`, pure, synchronous, and deterministic.

Its stages, in the order in which they run:

1. `normalise`: pair calls with their results, keep one text of each reminder.
2. `reading`: split the list into pieces (texts, calls, results), those of earlier segments included.
3. `observed`: events and anchors; `report.scores`: a score for each turn.
4. `plan`: the messages that stay whole, the ones that are cut, and the ones that segments replace.
5. The text, each part in the room that the earlier parts left: the user's words and the agent's prose (`prose`), the
   recorded state, evidence from calls and results (`evidence`).
6. `segments`: write the text in a form that can be parsed again; `report`: what was done and lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

from codelet.call_record import CallRecord
from codelet.context.compaction.coverage import Line
from codelet.context.compaction.evidence import Evidence
from codelet.context.compaction.lexicon import Lexicon
from codelet.context.compaction.observed import anchors_of, observations_of, removals, state_lines
from codelet.context.compaction.plan import BODY, CompactionSettings, IrreducibleContext, KeepPlan
from codelet.context.compaction.prose import ENTRY, Words, agents_prose, users_words
from codelet.context.compaction.reading import ReadSession, call_of, strings
from codelet.context.compaction.report import Allocation, Compacted, CompactionReport, Score, TurnFate, scores
from codelet.context.compaction.segments import NOTE, USER, ParsedSegment, SegmentEntry, render
from codelet.context.tokens import Estimate, estimate_message
from codelet.context.tokens.budget import SizeTarget, checked_tokens
from codelet.messages import AnyMessage, Normalised, calls_of, kind_of, newest_prompt, normalise, segment, text_of

# The recorded state in percent of the room after the user's words, the agent's prose in percent of the room after that.
_STATE, _PROSE = 6, 50
# Characters of a text that is measured to get the characters per token.
_PROBE = 4_000
# The least tokens for segments with an explanation.
_LEAST_FOR_NOTE = 600
_LEVELS, _TRIES = 4, 12
_MOST_LOST = 20
_PATH = re.compile(r"[\w.~@$-]*/[\w./@~$-]*\w\Z")
_ORDER = {"user": 0, "agent": 1, "call": 2, "result": 3}


def compact(
    messages: Sequence[AnyMessage],
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
    allotted = target if isinstance(target, SizeTarget) else SizeTarget(size=target)
    target = checked_tokens(allotted.size, "target")
    settings, measure = settings or CompactionSettings(), estimate or estimate_message
    normal = normalise(messages, in_flight=in_flight)
    sizes = [measure(message) for message in normal.messages]
    before = sum(sizes) if len(sizes) == len(messages) else sum(measure(m) for m in messages if isinstance(m, dict))
    unchanged = Compacted(
        _as_given(normal.messages, normal, messages),
        CompactionReport(tier=0, target=target, before=before, after=sum(sizes)),
    )
    if sum(sizes) <= target and not settings.fold:
        return unchanged
    place_of = {origin: place for place, origin in enumerate(normal.origin) if origin >= 0}
    held = [place_of[at] for at in pinned if at in place_of]
    work = _Compaction(normal.messages, sizes, measure, settings, records, allotted, handoff)
    for level in range(_LEVELS):
        plan = KeepPlan(normal.messages, measure, settings, allotted, level, held, work.anchored)
        if not level and settings.fold and len(plan.kept) == len(normal.messages):
            return unchanged
        if (made := work.made(plan)) is not None:
            return Compacted(_as_given(made.messages, normal, messages), work.report(made, normal, before))
    raise IrreducibleContext(target, work.floor(plan.fixed))


class _Text(NamedTuple):
    """The content of segments. Evidence is in the order of choice, best first; `used` are names by weight."""

    words: Words
    state: list[str]
    prose: list[Line]
    evidence: list[Line]
    used: Mapping[str, float]

    @property
    def lines(self) -> list[Line]:
        """All lines, in no order."""
        return [*self.words.lines, *self.prose, *self.evidence]


class _Made(NamedTuple):
    """A list with its size and the size of its verbatim messages in tokens, and what it was made of."""

    messages: list[dict[str, Any]]
    size: int
    kept: int
    text: _Text
    segments: int
    plan: KeepPlan


class _Compaction:
    """One list, read once, to be shortened by one plan after another."""

    def __init__(
        self,
        messages: Sequence[AnyMessage],
        sizes: Sequence[int],
        measure: Estimate,
        settings: CompactionSettings,
        records: Mapping[str, CallRecord] | None,
        target: SizeTarget,
        handoff: Sequence[str],
    ) -> None:
        self._messages, self._sizes, self._measure, self._settings = messages, sizes, measure, settings
        self._session = session = ReadSession(messages, records)
        self._target, self._handoff = target, list(handoff) or session.handoff
        self._lexicon = Lexicon()
        self._facts = observations_of(session)
        self._removals = removals(self._facts, {piece.path for piece in session.pieces} - {""})
        self._anchors = anchors_of(session, self._facts)
        self._scores = scores(session, self._anchors, self._lexicon, settings.votes, settings.instruction)
        self._wanted = self._lexicon.of_text(settings.instruction)
        self.anchored = {session.pieces[anchor.number].at for anchor in self._anchors if anchor.number >= 0}
        probe = measure(segment("x " * (_PROBE // 2))) - measure(segment(""))
        self._characters = _PROBE / max(1, probe)

    def made(self, plan: KeepPlan) -> _Made | None:
        """Return the list that a plan results in; None if it does not fit."""
        kept = sum(map(self._measure, plan.kept.values()))
        runs, free = self._runs(plan), self._target.size - kept
        note = free >= _LEAST_FOR_NOTE
        frames = [ParsedSegment(*self._turns(run)) for run in runs]
        for number, frame in enumerate(frames):
            free -= self._measure(segment(render(frame, note=note and not number)))
        room = int(free * self._characters) - sum(len(line) + 1 for line in self._handoff)
        for _ in range(_TRIES if runs else 0):
            made = self._fitted(plan, runs, kept, self._text(plan, max(0, room)), note)
            if made is not None or room <= 0:
                return made
            room = room * 3 // 4 - 40
        return self._assembled(plan, runs, kept, self._text(plan, 0), note) if not runs and free >= 0 else None

    def _text(self, plan: KeepPlan, room: int) -> _Text:
        """Fill the room, in characters: each part gets its share of what the parts before it left."""
        session, target, lexicon = self._session, self._target, self._lexicon
        old = [(n, piece) for n, piece in enumerate(session.pieces) if piece.at not in plan.kept]
        prompts = [each for each in old if each[1].kind == "user"]
        history = None if target.history is None else int(target.history * self._characters)
        if history is not None:
            history = max(0, history - len(NOTE) - ENTRY * (len(prompts) + 4)) * 9 // 10
        words = users_words(prompts, room, history)
        spent = sum(len(line.text) for line in words.lines)
        left = room - spent - ENTRY * len(words.lines)
        share = max(0, left) * _STATE // 100
        share = share if history is None else min(share, history - spent)
        state, failures = state_lines(self._facts, {number for number, _ in old}, share)
        left -= sum(len(line) + 1 for line in state)
        if target.context is not None:
            newest = newest_prompt(self._messages)
            kept = [message for at, message in plan.kept.items() if at < newest and kind_of(message) in BODY]
            left = min(left, int((target.context - sum(map(self._measure, kept))) * self._characters))
        cut = {line.number: line.text for line in words.lines if line.piece.text.strip() not in line.text}
        if history is not None and 10 * spent > 8 * history:
            cut = {}  # the user's words have all the room that they may take
        recent = [each for each in old if each[0] >= session.recent]
        share = max(0, left) * _PROSE // 100
        prose = agents_prose(recent, max(1, len(session.pieces)), share, lexicon, self._lift, self._wanted, cut)
        left -= sum(len(line.text) + 1 for line in prose) + ENTRY * len({line.number for line in prose})
        evidence = Evidence(session, lexicon, plan.kept, self._removals, {line.text for line in prose})
        texts = [line.text for line in (*words.lines, *prose)] + state
        texts += [_whole(message) for message in plan.kept.values() if kind_of(message) in BODY]
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

    def _fitted(self, plan: KeepPlan, runs: list[list[int]], kept: int, text: _Text, note: bool) -> _Made | None:
        """Remove evidence, the least first, until the list meets the target."""
        while (made := self._assembled(plan, runs, kept, text, note)).size > self._target.size:
            if not text.evidence:
                return None
            spare, count = (made.size - self._target.size) * self._characters, 0
            while spare > 0 and count < len(text.evidence):
                count += 1
                spare -= len(text.evidence[-count].text) + 1
            text = text._replace(evidence=text.evidence[: len(text.evidence) - count])
        return made

    def _assembled(self, plan: KeepPlan, runs: list[list[int]], kept: int, text: _Text, note: bool) -> _Made:
        """Write the segments and put them between the messages that stay."""
        run_of = {at: number for number, run in enumerate(runs) for at in run}
        by_run: list[list[Line]] = [[] for _ in runs]
        for line in sorted(text.lines, key=lambda line: (line.piece.at, line.number, _ORDER[line.piece.kind])):
            by_run[run_of[line.piece.at]].append(line)
        segments: dict[int, dict[str, Any]] = {}
        for run, own in zip(runs, by_run, strict=True):
            parsed = ParsedSegment(*self._turns(run), entries=_entries(own))
            if run is runs[0]:
                parsed.handoff, parsed.state = self._handoff, text.state
            segments[run[0]] = cast("dict[str, Any]", segment(render(parsed, note=note and run is runs[0])))
        places = sorted({*segments, *plan.kept})
        messages = [segments[at] if at in segments else cast("dict[str, Any]", plan.kept[at]) for at in places]
        return _Made(messages, kept + sum(map(self._measure, segments.values())), kept, text, len(segments), plan)

    def floor(self, fixed: Collection[int]) -> dict[str, int]:
        """Return the size of what no plan shortens, by part."""
        parts: Counter[str] = Counter()
        names = {"system": "system messages", "developer": "system messages", "reminder": "reminders"}
        for at in fixed:
            parts[names.get(kind_of(self._messages[at]), "pinned messages and calls in flight")] += self._sizes[at]
        if old := [at for at in range(len(self._messages)) if at not in fixed]:
            parts["segments"] = self._measure(segment(render(ParsedSegment(*self._turns(old)), note=True)))
        return dict(parts)

    def report(self, made: _Made, normal: Normalised, before: int) -> CompactionReport:
        """Return the report. `removed` and `cut` refer to the given list, all else to the normalised one."""
        plan, text, lexicon = made.plan, made.text, self._lexicon
        warnings = list(plan.warnings)
        if text.words.left_out:
            warnings.append(f"{text.words.left_out} of the user's messages have no line: the target is too small.")
        wanted = min(self._settings.keep_last, sum(kind_of(message) == "prompt" for message in self._messages))
        same = {normal.origin[at] for at in plan.kept if at not in plan.cut}
        whole = "\n".join(map(_whole, made.messages))
        old = [piece for piece in self._session.pieces[self._session.recent :] if piece.at not in plan.kept]
        by_user = {name: 1.0 for piece in old if piece.kind == "user" for name in lexicon.of_text(piece.text)}
        used, present = {**by_user, **text.used}, lexicon.of_text(whole)
        gone = [name for name in used if lexicon.is_name(name) and name not in present]
        gone.sort(key=lambda name: (not _PATH.match(name), -used[name], name))
        flat = " ".join(whole.split())
        closing = [
            each for piece in reversed(old) if piece.closes and (each := " ".join(piece.text.split())) not in flat
        ]
        parts = [[line.text for line in part] for part in (text.words.lines, text.prose, text.evidence)]
        words, prose, evidence, state, handoff = (
            int(sum(len(each) + 1 for each in texts) / self._characters)
            for texts in (*parts, text.state, self._handoff)
        )
        return CompactionReport(
            tier=3 if plan.cut or plan.whole_turns < wanted else 2,
            target=self._target.size,
            before=before,
            after=made.size,
            turns=self._fates(made),
            anchors=tuple(self._anchors),
            segments=made.segments,
            removed=tuple(at for at in range(max(normal.origin, default=-1) + 1) if at not in same),
            cut=tuple(normal.origin[at] for at in plan.cut),
            words_each=text.words.each,
            lost=(*closing[:_MOST_LOST], *gone[:_MOST_LOST]),
            sentences_gone=len(closing),
            warnings=tuple(warnings),
            kept_turns=plan.whole_turns,
            kept_steps=sum(kind_of(plan.kept[at]) == "assistant" for at in plan.kept if at not in plan.cut),
            allocation=Allocation(made.kept, words, state, prose, evidence, handoff),
        )

    def _fates(self, made: _Made) -> tuple[TurnFate, ...]:
        before, verbatim, after = Counter[int](), Counter[int](), Counter[int]()
        for at, message in enumerate(self._messages):
            if kind_of(message) in BODY and kind_of(message) != "segment":
                before[self._session.turns[at]] += self._sizes[at]
                verbatim[self._session.turns[at]] += self._measure(made.plan.kept[at]) if at in made.plan.kept else 0
        for line in made.text.lines:
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


def _whole(message: AnyMessage) -> str:
    """Return a message's text and the texts in its calls."""
    calls = [text for call in calls_of(message) for text in strings(call_of(call).values)]
    return "\n".join([text_of(message), *calls])


def _as_given(made: list[dict[str, Any]], normal: Normalised, given: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """Return `made` with the caller's own object for each message that only got a kind."""
    own = {
        id(message): cast("dict[str, Any]", given[origin])
        for message, origin in zip(normal.messages, normal.origin, strict=True)
        if origin >= 0 and message is not given[origin] and message == given[origin]
    }
    return [own.get(id(message), message) for message in made]
