"""The entry point of compaction: `compact(messages, target)`, pure, synchronous, and deterministic.

Its stages, in the order in which they run:

1. `normalise`: pair calls with their results, keep one text of each reminder.
2. `reading`: split the list into pieces (texts, calls, results), those of earlier segments included.
3. `observed`: events, anchors, and a score for each turn.
4. `plan`: the messages that stay whole, the ones that are cut, and the ones that segments replace.
5. `lines`: the text, each part in the room that the earlier parts left: the user's words, the recorded state, the
   agent's prose, evidence from calls and results.
6. `segments`: write the text in a form that can be parsed again; then the report: what was done and lost.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

from codelet.call_record import CallRecord
from codelet.context.compaction.lexicon import forget_names, is_name, names_in
from codelet.context.compaction.lines import Evidence, Line, agents_prose, in_order, size_of, users_words
from codelet.context.compaction.observed import Score, TurnAnchor, anchors_of, observations_of, scores, state_lines
from codelet.context.compaction.plan import BODY, CompactionSettings, IrreducibleContext, KeepPlan
from codelet.context.compaction.reading import ReadSession, whole_text
from codelet.context.compaction.segments import NOTE, USER, ParsedSegment, SegmentEntry, render
from codelet.context.tokens import Estimate, SizeTarget, checked_tokens, estimate_message
from codelet.messages import ForeignMessage, kind_of, newest_prompt, normalise, segment
from codelet.record import Record

# The recorded state in percent of the room after the user's words, the agent's prose in percent of the room after that.
_STATE, _PROSE = 6, 48
# Characters of an entry's heading, tokens of a segment without text.
_ENTRY, _FRAME = 12, 12
# Characters of a text that is measured to get the characters per token.
_PROBE = 4_000
_MOST_LOST = 20
_PATH = re.compile(r"[\w.~@$-]*/[\w./@~$-]*\w\Z")


class TurnFate(NamedTuple):
    """The result for one turn: its size before and after, and the part that stays verbatim, in tokens."""

    turn: int
    before: int
    after: int
    verbatim: int
    score: Score

    @property
    def fate(self) -> str:
        return "kept" if self.verbatim >= self.before else "reduced" if self.verbatim else "summarised"


class Allocation(NamedTuple):
    """The tokens of a compacted list: the messages that stay verbatim, and the parts of the segments."""

    verbatim: int = 0
    words: int = 0
    state: int = 0
    prose: int = 0
    evidence: int = 0
    handoff: int = 0


class CompactionReport(Record, kw_only=True):
    """The report of one compaction.

    `tier`: 0 only normalised, 2 summarised, 3 a message was cut, or fewer of the newest turns stay whole than asked
    for. `before` and `after` are the sizes of the list in tokens. `removed` are the indices, in the given list, of
    messages that are not in the result unchanged; `cut` those that it has in a shorter form, in order. `kept_turns` of
    the newest turns and `kept_steps` of the agent's messages stay verbatim. `lost` are paths and names that are gone.
    `warnings` are sentences for the user, `struck` the lines of a handoff that were rejected, with the reason.
    """

    tier: int
    target: int
    before: int
    after: int
    turns: tuple[TurnFate, ...] = ()
    anchors: tuple[TurnAnchor, ...] = ()
    segments: int = 0
    removed: tuple[int, ...] = ()
    cut: tuple[int, ...] = ()
    lost: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    struck: tuple[str, ...] = ()
    kept_turns: int = 0
    kept_steps: int = 0
    allocation: Allocation = Allocation()


class Compacted(NamedTuple):
    """The new list and its report."""

    messages: list[dict[str, Any]]
    report: CompactionReport


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
    list. `estimate` measures one message in tokens (default: characters / 4, rounded up, + 4). `pinned` are indices of
    messages that stay verbatim, a call with its results. `handoff` are lines of a model's summary, checked by the
    caller. `records` are call records by id. `in_flight` leaves the calls of the last assistant message open. A list
    that fits already is only normalised. Raises IrreducibleContext, with the floor itemized, if the target cannot be
    met, and ValueError for a target that is not a positive integer.
    """
    limits = target if isinstance(target, SizeTarget) else SizeTarget(size=target)
    checked_tokens(limits.size, "target")
    settings, measure = settings or CompactionSettings(), estimate or estimate_message
    normal = normalise(messages, in_flight=in_flight)
    plan = KeepPlan(normal, measure, settings, pinned)
    before = sum(measure(message) for message in messages if isinstance(message, dict))
    report = CompactionReport(tier=0, target=limits.size, before=before, after=sum(plan.sizes))
    made: Sequence[ForeignMessage] = normal.messages
    if report.after > limits.size or settings.fold:
        try:
            made, report = _Compaction(plan, limits, handoff, records or {}).result(report)
        finally:
            forget_names()
    if report.tier:
        same = {normal.origin[at] for at in plan.kept if at not in plan.cut}
        removed = tuple(at for at in range(max(normal.origin) + 1) if at not in same)
        report = report.replace(removed=removed, cut=tuple(normal.origin[at] for at in plan.cut))
    placed = zip(normal.messages, normal.origin, strict=True)
    # The caller's own object for each message that only got a kind.
    own = {id(each): messages[origin] for each, origin in placed if origin >= 0 and each == messages[origin]}
    return Compacted([cast("dict[str, Any]", own.get(id(each), each)) for each in made], report)


class _Compaction:
    """One list to be shortened."""

    def __init__(
        self, plan: KeepPlan, target: SizeTarget, handoff: Sequence[str], records: Mapping[str, CallRecord]
    ) -> None:
        self._plan, self._target, self._measure = plan, target, plan.measure
        self._session = session = ReadSession(plan.messages, records)
        self._handoff = list(handoff) or session.handoff
        self._facts = observations_of(session)
        self._anchors = anchors_of(session, self._facts)
        self._scores = scores(session, self._anchors, plan.settings.votes, plan.settings.instruction)
        probe = self._measure(segment("x " * (_PROBE // 2))) - self._measure(segment(""))
        self._characters = _PROBE / max(1, probe)

    def result(self, unchanged: CompactionReport) -> tuple[Sequence[ForeignMessage], CompactionReport]:
        """Return the new list and its report, or the old list if all of it stays."""
        plan, target, floor = self._plan, self._target.size, self._floor()
        if (spare := target - sum(floor.values())) < 0:
            raise IrreducibleContext(target, floor)
        settled = {self._session.pieces[anchor.number].at for anchor in self._anchors if anchor.number >= 0}
        plan.keep_newest(spare, self._target, settled)
        if len(plan.kept) == len(plan.messages) and unchanged.after <= target:
            return plan.messages, unchanged
        kept = sum(map(self._measure, plan.kept.values()))
        empty = sum(map(self._measure, self._segments().values()))
        lines, state, used = self._text(max(0, int((target - kept - empty) * self._characters)))
        while True:
            segments = self._segments(lines, state)
            size = kept + sum(map(self._measure, segments.values()))
            if size <= target:
                break
            if not lines and not state:
                raise IrreducibleContext(target, floor)
            surplus = (size - target) * self._characters
            while surplus > 0 and (lines or state):
                surplus -= 1 + len(lines.pop().text if lines else state.pop())
        placed = {**plan.kept, **segments}
        made = [placed[at] for at in sorted(placed)]
        there = names_in("\n".join(map(whole_text, made)))
        gone = [name for name in used if is_name(name) and name not in there]
        gone.sort(key=lambda name: (not _PATH.match(name), -used[name], name))
        report = self._report(unchanged, lines, state, kept)
        return made, report.replace(after=size, segments=len(segments), lost=tuple(gone[:_MOST_LOST]))

    def _floor(self) -> dict[str, int]:
        """Return the size of what cannot be shortened, by part, with room for one more segment."""
        parts: Counter[str] = Counter()
        names = {"system": "system messages", "developer": "system messages", "reminder": "reminders"}
        for at, message in self._plan.kept.items():
            parts[names.get(kind_of(message), "pinned messages and calls in flight")] += self._plan.sizes[at]
        parts["segments"] = sum(map(self._measure, self._segments().values())) + _FRAME
        return dict(parts)

    def _text(self, room: int) -> tuple[list[Line], list[str], Mapping[str, float]]:
        """Fill the room, in characters: each part gets its share of what the parts before it left.

        Return the lines, those that can be spared last, the recorded state, and the weight of each name.
        """
        session, target, kept, pieces = self._session, self._target, self._plan.kept, self._session.pieces
        old = {piece.number for piece in pieces if piece.at not in kept}
        prompts = [piece for piece in pieces if piece.number in old and piece.kind == "user"]
        history = room
        if target.history is not None:
            frames = len(NOTE) + _ENTRY * (len(prompts) + 4)
            history = int(target.history * self._characters)
            history = max(history // 2, history - frames) * 9 // 10
        wanted = names_in(self._plan.settings.instruction)
        lifts = {turn: score.lift for turn, score in self._scores.items()}
        words = users_words(prompts, room, history)
        left = room - size_of(words)
        state = state_lines(self._facts, old, min(max(0, left) * _STATE // 100, max(0, history - size_of(words))))
        left -= sum(len(line) + 1 for line in state)
        if target.context is not None:
            newest = newest_prompt(self._plan.messages)
            earlier = [message for at, message in kept.items() if at < newest and kind_of(message) in BODY]
            left = min(left, int((target.context - sum(map(self._measure, earlier))) * self._characters))
        recent = old.intersection(range(session.recent, len(pieces)))
        prose = agents_prose(session, recent, max(0, left) * _PROSE // 100, lifts, wanted)
        evidence = Evidence(session, self._facts)
        texts = [line.text for line in (*words, *prose)] + state
        texts += [whole_text(message) for message in kept.values() if kind_of(message) in BODY]
        have = set().union(*map(names_in, texts))
        chosen = evidence.choose(recent, prose, max(0, left - size_of(prose)), have, lifts, wanted)
        return [*words[::-1], *prose[::-1], *chosen], state, evidence.used

    def _segments(self, lines: Sequence[Line] = (), state: Sequence[str] = ()) -> dict[int, ForeignMessage]:
        """Write the segments, by the place of the first message that they replace.

        One segment replaces the old messages between kept ones, across reminders and system messages.
        """
        runs: list[list[int]] = []
        parted = True
        for at, message in enumerate(self._plan.messages):
            if at not in self._plan.kept:
                runs += [[]] if parted else []
                runs[-1].append(at)
            if at not in self._plan.kept or kind_of(message) in BODY:
                parted = at in self._plan.kept
        session, found = self._session, dict[int, ForeignMessage]()
        for run in runs:
            inside = [line for line in lines if run[0] <= line.piece.at <= run[-1]]
            first = next((piece.turn for piece in session.pieces if piece.at == run[0]), session.turns[run[0]])
            parsed = ParsedSegment(first, session.turns[run[-1]], entries=_entries(inside))
            if not found:
                parsed.handoff, parsed.state = self._handoff, list(state)
            found[run[0]] = segment(render(parsed, note=not found))
        return found

    def _report(
        self, unchanged: CompactionReport, lines: Sequence[Line], state: Sequence[str], kept: int
    ) -> CompactionReport:
        plan, session = self._plan, self._session
        parts, after = defaultdict[str, float](float), defaultdict[int, float](float)
        verbatim, whole = Counter[int](), Counter[int]()
        for line in lines:
            tokens = (len(line.text) + 1) / self._characters
            parts[line.piece.kind] += tokens
            after[line.piece.turn] += tokens
        for at, message in enumerate(plan.messages):
            if kind_of(message) in BODY - {"segment"}:
                whole[session.turns[at]] += plan.sizes[at]
                verbatim[session.turns[at]] += self._measure(plan.kept[at]) if at in plan.kept else 0
        fates = (
            TurnFate(turn, size, verbatim[turn] + int(after[turn]), verbatim[turn], self._scores[turn])
            for turn, size in sorted(whole.items())
        )
        rows, handoff = (sum(len(row) + 1 for row in rows) / self._characters for rows in (state, self._handoff))
        sizes = (kept, parts["user"], rows, parts["agent"], parts["call"] + parts["result"], handoff)
        warnings = plan.warnings
        old = [piece for piece in session.pieces if piece.kind == "user" and piece.at not in plan.kept]
        said = {piece.text.strip() for piece in old} - {""}
        if left_out := len(said) - sum(line.piece.kind == "user" for line in lines):
            warnings = [*warnings, f"{left_out} of the user's messages have no line: the target is too small."]
        wanted = min(plan.settings.keep_last, sum(kind_of(message) == "prompt" for message in plan.messages))
        return unchanged.replace(
            tier=3 if plan.cut or plan.whole_turns < wanted else 2,
            turns=tuple(fates),
            anchors=tuple(self._anchors),
            warnings=tuple(warnings),
            kept_turns=plan.whole_turns,
            kept_steps=sum(kind_of(plan.kept[at]) == "assistant" for at in plan.kept if at not in plan.cut),
            allocation=Allocation(*map(int, sizes)),
        )


def _entries(lines: Sequence[Line]) -> list[SegmentEntry]:
    """Return lines as entries, in order of time."""
    found: list[SegmentEntry] = []
    last: object = None
    for line in sorted(lines, key=in_order):
        if line.heading != last:
            found.append(SegmentEntry(line.piece.turn, USER if line.piece.kind == "user" else line.piece.label))
            last = line.heading
        found[-1].lines += [] if line.is_in_heading else line.text.split("\n")
    return found
