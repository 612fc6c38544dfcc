"""The entry point of compaction: `compact(messages, target)`, pure, synchronous, and deterministic.

Its stages, in the order in which they run:

1. `normalise`: pair calls with their results, keep one text of each reminder.
2. `reading`: split the list into pieces (texts, calls, results), those of earlier segments included.
3. `observed`: events, anchors, and a score for each turn.
4. `KeepPlan`: the messages that stay whole, the ones that are cut, and the ones that segments replace.
5. `lines`: the text, each part in the room that the earlier parts left: the user's words, the recorded state, the
   agent's prose, evidence from calls and results.
6. `segments`: write the text in a form that can be parsed again; then the report: what was done and lost.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from codelet.call_record import CallRecord
from codelet.context.compaction.lines import Evidence, Line, agents_prose, in_order, size_of, users_words
from codelet.context.compaction.observed import Score, TurnAnchor, anchors_of, observations_of, scores, state_lines
from codelet.context.compaction.reading import ReadSession, common_cap, forget_names, is_name, names_in, whole_text
from codelet.context.compaction.segments import NOTE, USER, ParsedSegment, SegmentEntry, render
from codelet.context.inputs import cut
from codelet.context.tokens import Estimate, SizeTarget, checked_tokens, estimate_message
from codelet.errors import EXIT_LIMIT, CodeletError
from codelet.messages import (
    ForeignMessage,
    Normalised,
    calls_of,
    kind_of,
    newest_prompt,
    normalise,
    segment,
    text_of,
    with_text,
    without_images,
)
from codelet.prompt import PICTURES_DROPPED
from codelet.record import Record

# The recorded state in percent of the room after the user's words, the agent's prose in percent of the room after that.
_STATE, _PROSE = 6, 48
# Characters of an entry's heading, tokens of a segment without text.
_ENTRY, _FRAME = 12, 12
# Characters of a text that is measured to get the characters per token.
_PROBE = 4_000
_MOST_LOST = 20
# Limits in percent of the available tokens: the newest whole turns, else the newest units; the newest prompt if calls
# follow it; the results or the prompt that the model has not seen, and their size after a cut.
_TURNS, _UNITS, _PROMPT, _UNSEEN, _CUT_TO = 40, 18, 45, 80, 60
# The least part of the units, in percent, that stays when the cut moves to an anchor.
_AT_ANCHOR = 67
_SAME_FROM = 1_000
SAME = "[unchanged: a later call below has the same result{hint}]"
BODY = frozenset({"prompt", "segment", "assistant", "tool"})
"""The kinds of messages that a compaction may take out."""


class IrreducibleContext(CodeletError):
    """The target is smaller than what must stay. `floor` itemizes that in tokens, largest first."""

    exit_status = EXIT_LIMIT

    def __init__(self, target: int, floor: dict[str, int]) -> None:
        self.target, self.floor = target, dict(sorted(floor.items(), key=lambda item: -item[1]))
        parts = ", ".join(f"{name} {tokens:,}" for name, tokens in self.floor.items())
        least = f"{sum(floor.values()):,} tokens ({parts})"
        super().__init__(f"the context cannot be made smaller than {least}; the target is {target:,}")


class CompactionSettings(Record):
    """The options of a compaction, apart from sizes.

    The newest `keep_last` turns stay whole if they fit. `fold` writes segments even if the list fits. `votes` are the
    user's pins and drops by turn, -5 to 5. `instruction` is what the user asked to keep. `first_id` is the number of
    the archive's next id; the first message that is cut gets it.
    """

    keep_last: int = 2
    fold: bool = False
    votes: Mapping[int, int] = MappingProxyType({})
    instruction: str = ""
    first_id: int | None = None


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


class CompactionReport(Record, kw_only=True):
    """The report of one compaction.

    `tier`: 0 only normalised, 2 summarised, 3 a message was cut, or fewer of the newest turns stay whole than asked
    for. `before` and `after` are the sizes of the list in tokens. `removed` are the indices, in the given list, of
    messages that are not in the result unchanged; `cut` those that it has in a shorter form, in order. `kept_turns` of
    the newest turns and `kept_steps` of the agent's messages stay verbatim. `lost` are paths and names that are gone.
    `warnings` are sentences for the user, `struck` the lines of a handoff that were rejected, with the reason.
    `allocation` has the tokens of the messages that stay verbatim and of each part of the segments.
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
    allocation: Mapping[str, int] = MappingProxyType({})


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


class KeepPlan:
    """The messages of a normalised list that stay: `kept` by place; those at `cut` are shortened.

    `pinned` are indices in the given list. `whole_turns` counts the newest turns that are whole. A unit, below, is a
    prompt, or an assistant message with its results, as a range of places.
    """

    def __init__(
        self, normal: Normalised, measure: Estimate, settings: CompactionSettings, pinned: Collection[int]
    ) -> None:
        self.messages = messages = normal.messages
        self.sizes, self.measure, self.settings = list(map(measure, messages)), measure, settings
        self._kinds = list(map(kind_of, messages))
        units: list[range] = []
        for at, kind in enumerate(self._kinds):
            if kind == "tool" and units:
                units[-1] = range(units[-1].start, at + 1)
            elif kind in ("prompt", "assistant"):
                units.append(range(at, at + 1))
        fixed = {at for at, kind in enumerate(self._kinds) if kind not in BODY}
        for at in (at for at, origin in enumerate(normal.origin) if origin in pinned):
            fixed.update(next((unit for unit in units if at in unit), [at]))
        if units and len(units[-1]) <= len(calls_of(messages[units[-1].start])):
            fixed.update(units[-1])  # its calls are in flight
        self.kept: dict[int, ForeignMessage] = {at: messages[at] for at in fixed}
        self.cut: list[int] = []
        self.warnings: list[str] = []
        self.whole_turns = 0
        self._units = [unit for unit in units if unit.start not in fixed]

    def keep_newest(self, available: int, target: SizeTarget, anchored: Collection[int]) -> None:
        """Keep what is newest in `available` tokens; at `anchored` places something was settled."""
        fixed, starts = set(self.kept), [unit.start for unit in self._units]
        # The tokens from each place on, without what stays in any case.
        sizes = (0 if at in fixed else size for at, size in reversed(list(enumerate(self.sizes))))
        tail = list(accumulate(sizes, initial=0))[::-1]
        segment = max((at for at, kind in enumerate(self._kinds) if kind == "segment"), default=-1)
        # Messages after a segment without a prompt count as a turn.
        after = [at for at in starts if at > segment]
        turns = [at for at in after if at == after[0] or self._kinds[at] == "prompt"]
        most = available * _TURNS // 100 if target.whole is None else min(target.whole, available)
        whole = [at for at in turns[-self.settings.keep_last :] if tail[at] <= most and self.settings.keep_last]
        self.whole_turns = len(whole)
        start = whole[0] if whole else len(self.messages)
        if not whole and self._units:
            start = self._keep_unseen(available, target)
        if earlier := [at for at in starts if at < start and tail[at] <= available * _UNITS // 100]:
            least = _AT_ANCHOR * (tail[earlier[0]] - tail[start])
            near = [at for at in earlier if at - 1 in anchored and 100 * (tail[at] - tail[start]) >= least]
            start = min(near, default=earlier[0])
        for unit in self._units:
            if unit.start >= start and unit.start not in self.kept:
                self.kept.update({at: self.messages[at] for at in unit})
        self._say_once(fixed)

    def _keep_unseen(self, available: int, target: SizeTarget) -> int:
        """Keep the newest prompt and the results that the model has not seen; return the first place of the newest.

        If it is too large, its largest messages are cut.
        """
        last = self._units[-1]
        prompt = next((unit for unit in reversed(self._units) if self._kinds[unit.start] == "prompt"), last)
        if prompt is not last and 100 * self.sizes[prompt.start] <= _PROMPT * available:
            self.kept[prompt.start] = self.messages[prompt.start]
            available -= self.sizes[prompt.start]
        if last.stop < len(self._kinds) or not (prompt is last or self._kinds[-1] == "tool"):
            return len(self._kinds)
        room = available * _UNSEEN // 100 if target.unseen is None else min(target.unseen, available)
        size = sum(self.sizes[at] for at in last)
        if size > room:
            room = available * _CUT_TO // 100
        cuttable = {at: self.sizes[at] for at in (last if prompt is last else last[1:])}
        cap = common_cap(list(cuttable.values()), max(0, room - size + sum(cuttable.values())))
        places = [at for at in cuttable if cuttable[at] > cap]
        made = [shortened(self.messages[at], cap, self.measure, self._recall_id(n)) for n, at in enumerate(places)]
        shorter = {at: message for at, message in zip(places, made, strict=True) if message is not None}
        if len(shorter) < len(places):
            return len(self._kinds)
        self.kept.update({at: shorter.get(at, self.messages[at]) for at in last})
        self.cut += places
        if places:
            whose = "there is" if target.unseen is None else "the budget has"
            self.warnings.append(
                f"{len(places)} of the newest messages {'is' if len(places) == 1 else 'are'} cut: together they take "
                f"{size:,} tokens, {whose} room for {room:,}"
            )
        return last.start

    def _recall_id(self, number: int) -> str:
        return "" if self.settings.first_id is None else f"r{self.settings.first_id + number}"

    def _say_once(self, fixed: Collection[int]) -> None:
        """Keep only the newest of equal long results whole."""
        seen: set[str] = set()
        for at in sorted(set(self.kept) - set(fixed), reverse=True):
            message, text = self.kept[at], text_of(self.kept[at])
            if message.get("role") == "tool" and len(text) >= _SAME_FROM:
                if text in seen and at not in self.cut:
                    key = self._recall_id(len(self.cut))
                    self.kept[at] = with_text(message, SAME.format(hint=f"; recall entry={key}" if key else ""))
                    self.cut.append(at)
                seen.add(text)


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
        gone.sort(key=lambda name: ("/" not in name, -used[name], name))
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
        parts = dict.fromkeys(("words", "state", "prose", "evidence", "handoff"), 0.0)
        after = defaultdict[int, float](float)
        verbatim, whole = Counter[int](), Counter[int]()
        for line in lines:
            tokens = (len(line.text) + 1) / self._characters
            parts[{"user": "words", "agent": "prose"}.get(line.piece.kind, "evidence")] += tokens
            after[line.piece.turn] += tokens
        for at, message in enumerate(plan.messages):
            if kind_of(message) in BODY - {"segment"}:
                whole[session.turns[at]] += plan.sizes[at]
                verbatim[session.turns[at]] += self._measure(plan.kept[at]) if at in plan.kept else 0
        fates = (
            TurnFate(turn, size, verbatim[turn] + int(after[turn]), verbatim[turn], self._scores[turn])
            for turn, size in sorted(whole.items())
        )
        for name, rows in (("state", state), ("handoff", self._handoff)):
            parts[name] = sum(len(row) + 1 for row in rows) / self._characters
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
            allocation={"verbatim": kept, **{name: int(size) for name, size in parts.items()}},
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


def shortened(message: ForeignMessage, tokens: int, measure: Estimate, recall_id: str) -> dict[str, Any] | None:
    """Return the message cut to at most `tokens`; None if that leaves too little of it."""
    bare = with_text(message, text_of(message))
    if "images" in message:
        bare = without_images(dict(message), PICTURES_DROPPED)
    shorter, length = bare, len(text_of(bare))
    while (size := measure(shorter)) > tokens:
        length = min(length - 1, length * tokens * 95 // (100 * size))
        if length < 40:
            return None
        shorter = with_text(bare, cut(text_of(bare), length, recall_id))
    return shorter
