"""The entry point of compaction: `compact(messages, target)`, pure, synchronous, and deterministic.

Its stages, in the order in which they run:

1. `parsing`: calls are paired with their results, each reminder stands once.
2. `reading`: the list becomes pieces (said, called, answered); earlier segments are taken apart again.
3. `facts`: what was seen to happen, and the anchors; `score`: what counts for each turn.
4. `plan`: what stays as it is, what of that is cut, and what segments will stand for.
5. The text, each part in the room that the parts before it left: the user's words, recorded state, the agent's prose
   (`prose`), and evidence from calls and results (`evidence`).
6. `segments`: the text is written so that it can be read back; `report`: what was done, and what was lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

from codelet.call_record import CallRecord
from codelet.context.compaction.evidence import Evidence, is_in_heading
from codelet.context.compaction.lexicon import Lexicon
from codelet.context.compaction.observed import (
    Observation,
    TurnAnchor,
    anchors_of,
    observations_of,
    removals,
    state_lines,
)
from codelet.context.compaction.parsing import Normalised, normalise
from codelet.context.compaction.plan import CompactionSettings, IrreducibleContext, KeepPlan, Planner
from codelet.context.compaction.prose import AS_BEFORE, ENTRY, Line, Words, agents_prose, users_words
from codelet.context.compaction.reading import ReadSession, SessionPiece
from codelet.context.compaction.report import Allocation, Compacted, CompactionReport, Fate, TurnFate, find_loss
from codelet.context.compaction.score import Score, lift, scores
from codelet.context.compaction.segments import NOTE, ParsedSegment, SegmentEntry, opening, render
from codelet.context.tokens import Estimate, estimate_message
from codelet.context.tokens.budget import checked_tokens
from codelet.messages import AnyMessage, calls_of, kind_of, newest_prompt, segment, text_of

# In percent of what the user's words leave: recorded state, and then the agent's prose.
_STATE, _PROSE = 6, 50
_PROBE = 4_000
# Tokens from which on segments say what they are; percent of the target from which on what is left goes to units.
_LEAST_FOR_NOTE, _LEFT = 600, 6
_LEVELS, _TRIES = 4, 12
_KEPT_KINDS = frozenset({"prompt", "assistant", "tool", "segment"})


def compact(
    messages: Sequence[AnyMessage],
    target: int,
    *,
    estimate: Estimate | None = None,
    settings: CompactionSettings | None = None,
    pinned: Collection[int] = (),
    handoff: Sequence[str] = (),
    records: Mapping[str, CallRecord] | None = None,
    in_flight: bool = False,
) -> Compacted:
    """Return a list that says what matters of `messages` in at most `target` tokens, and a report of what was done.

    `messages` are Chat Completions messages of any shape; they are not changed. `estimate` measures one message in
    tokens (default: characters / 4, rounded up, + 4). `pinned` are indices of messages that stay verbatim, a call with
    its results. `handoff` are lines of a model's summary, checked by the caller. `records` are those of calls, by their
    ids. `in_flight` leaves the calls of the last assistant message open. A list that fits already is only normalised.
    Raises IrreducibleContext, with the floor itemized, if the target cannot be met, and ValueError for a target that
    is not a positive integer.
    """
    target = checked_tokens(target, "target")
    settings, measure = settings or CompactionSettings(), estimate or estimate_message
    normal = normalise(messages, in_flight=in_flight)
    sizes = [measure(message) for message in normal.messages]
    before = sum(sizes) if len(sizes) == len(messages) else sum(measure(m) for m in messages if isinstance(m, dict))
    if sum(sizes) <= target and not settings.fold:
        return Compacted(_as_given(normal.messages, normal, messages), CompactionReport(0, target, before, sum(sizes)))
    place_of = {origin: place for place, origin in enumerate(normal.origin) if origin >= 0}
    held = [place_of[at] for at in pinned if at in place_of]
    work = _Compaction(normal.messages, sizes, measure, settings, records)
    planner = Planner(normal.messages, sizes, measure, held, settings)
    for level in range(_LEVELS):
        plan = planner.plan(target, work.anchored, level)
        if not level and settings.fold and len(plan.kept) == len(normal.messages):
            return Compacted(
                _as_given(normal.messages, normal, messages), CompactionReport(0, target, before, sum(sizes))
            )
        made = work.made(plan, target, handoff)
        if made is not None and not level and 100 * (target - made.size) > _LEFT * target:
            more = planner.plan(target, work.anchored, level, spare=target - made.size)
            fuller = work.made(more, target, handoff)
            plan, made = (more, fuller) if fuller is not None and fuller.size > made.size else (plan, made)
        if made is not None:
            report = work.report(plan, made, normal, target, before, planner.fixed)
            return Compacted(_as_given(made.messages, normal, messages), report)
    raise IrreducibleContext(target, work.floor(planner.fixed))


class _Made(NamedTuple):
    """A list that fits, its size in tokens, and the lines of its segments."""

    messages: list[dict[str, Any]]
    size: int
    words: Words
    lines: list[Line]
    evidence: Evidence
    allocation: Allocation
    segments: int


class _Text(NamedTuple):
    """What segments are to say: evidence is in the order of choice, best first."""

    words: Words
    state: list[str]
    prose: list[Line]
    evidence: list[Line]
    candidates: Evidence


class _Compaction:
    """One list, read once, and made smaller by a plan."""

    def __init__(
        self,
        messages: Sequence[AnyMessage],
        sizes: Sequence[int],
        measure: Estimate,
        settings: CompactionSettings,
        records: Mapping[str, CallRecord] | None,
    ) -> None:
        self._messages, self._sizes, self._measure, self._settings = messages, sizes, measure, settings
        self._session = session = ReadSession(messages, records)
        self._lexicon = Lexicon()
        self._facts: list[Observation] = observations_of(session)
        paths = {piece.call.path if piece.call else piece.label.partition(" ")[2] for piece in session.pieces}
        self._removals = removals(self._facts, paths - {""})
        self._anchors: list[TurnAnchor] = anchors_of(session, self._facts)
        self._scores = scores(session, self._anchors, self._lexicon, settings.votes, settings.instruction)
        self._wanted = self._lexicon.of_text(settings.instruction)
        self.anchored = {session.pieces[anchor.number].at for anchor in self._anchors if anchor.number >= 0}
        probe = measure(segment("x " * (_PROBE // 2))) - measure(segment(""))
        self._note = True
        self._characters = _PROBE / max(1, probe)

    def made(self, plan: KeepPlan, target: int, handoff: Sequence[str]) -> _Made | None:
        """Return the list that a plan gives in at most `target` tokens; None if that is impossible."""
        kept = sum(self._measure(message) for message in plan.kept.values())
        handoff = list(handoff) or self._session.handoff
        runs = self._runs(plan)
        free = target - kept
        self._note = free >= _LEAST_FOR_NOTE
        frame = sum(self._measure(segment(self._opening(run, number == 0))) for number, run in enumerate(runs))
        room = int((free - frame) * self._characters) - sum(len(line) + 1 for line in handoff)
        if not runs and free >= 0:
            return self._assembled(plan, [], kept, self._text(plan, 0), handoff, target)
        for _ in range(_TRIES):
            text = self._text(plan, max(0, room))
            made = self._fitted(plan, runs, kept, text, handoff, target)
            if made is not None:
                return made
            if room <= 0:
                break
            room = room * 3 // 4 - 40
        return None

    def _text(self, plan: KeepPlan, room: int) -> _Text:
        """Divide the room, in characters: each part gets its share of what the parts before it left."""
        session, settings = self._session, self._settings
        pieces = [(n, piece) for n, piece in enumerate(session.pieces) if piece.at not in plan.kept]
        numbers = {number for number, _ in pieces}
        said = [each for each in pieces if each[1].kind == "user"]
        history = self._bound(settings.history)
        if history is not None:
            history = max(0, history - len(NOTE) - ENTRY * (len(said) + 4)) * 9 // 10
        words = users_words(said, room, history)
        spent = sum(len(line.text) for line in words.lines)
        left = room - spent - ENTRY * len(words.lines)
        share = max(0, left) * _STATE // 100
        state, failures = state_lines(self._facts, numbers, share if history is None else min(share, history - spent))
        left -= sum(len(line) + 1 for line in state)
        if (bound := self._bound(settings.context)) is not None:
            newest = newest_prompt(self._messages)
            kept = sum(self._measure(message) for at, message in plan.kept.items() if at < newest and _is_body(message))
            left = min(left, bound - int(kept * self._characters))
        shown = {line.number: line.text for line in words.lines}
        cut = {number: shown.get(number, "") for number, piece in pieces if piece.kind == "user"}
        cut = {
            number: text
            for number, text in cut.items()
            if text != session.pieces[number].text.strip() and not text.startswith(AS_BEFORE)
        }
        if history is not None and 10 * spent > 8 * history:
            cut = {}  # the user's words have all the room that they may take
        total, share = max(1, len(session.pieces)), max(0, left) * _PROSE // 100
        prose = agents_prose(pieces, total, share, self._lexicon, self._lift, self._wanted, cut)
        left -= sum(len(line.text) + 1 for line in prose) + ENTRY * len({line.number for line in prose})
        taken = {line.text for line in prose}
        evidence = Evidence(self._lexicon, total, taken)
        evidence.collect(session.pieces, plan.kept, self._removals)
        have = {
            name for text in (*(line.text for line in (*words.lines, *prose)), *state) for name in self._names(text)
        }
        for message in plan.kept.values():
            have |= self._names(_whole(message)) if kind_of(message) in _KEPT_KINDS else set()
        chosen = evidence.choose(max(0, left), have, failures, self._lift, self._wanted)
        return _Text(words, state, prose, chosen, evidence)

    def _names(self, text: str) -> set[str]:
        return self._lexicon.of_text(text)

    def _lift(self, turn: int) -> float:
        return lift(self._scores.get(turn))

    def _bound(self, tokens: int | None) -> int | None:
        return None if tokens is None else int(tokens * self._characters)

    def _runs(self, plan: KeepPlan) -> list[list[int]]:
        """Return the runs of old messages between kept ones: reminders and system messages do not part them."""
        runs: list[list[int]] = []
        parted = True
        for at, message in enumerate(self._messages):
            if at not in plan.kept:
                if parted:
                    runs.append([])
                runs[-1].append(at)
                parted = False
            elif kind_of(message) in _KEPT_KINDS:
                parted = True
        return runs

    def _opening(self, run: Sequence[int], note: bool) -> str:
        first = opening(self._first_turn(run), self._session.turns[run[-1]])
        return f"{first}\n{NOTE}" if note and self._note else first

    def _first_turn(self, run: Sequence[int]) -> int:
        return self._session.first_turns.get(run[0], self._session.turns[run[0]])

    def _fitted(
        self, plan: KeepPlan, runs: list[list[int]], kept: int, text: _Text, handoff: Sequence[str], target: int
    ) -> _Made | None:
        """Leave out as much of the evidence, the least first, as the target asks for."""
        evidence = text.evidence
        while True:
            made = self._assembled(plan, runs, kept, text._replace(evidence=evidence), handoff, target)
            over = made.size - target
            if over <= 0:
                return made
            if not evidence:
                return None
            spare, count = over * self._characters, 0
            while spare > 0 and count < len(evidence):
                count += 1
                spare -= len(evidence[-count].text) + 1
            evidence = evidence[: len(evidence) - count]

    def _assembled(
        self, plan: KeepPlan, runs: list[list[int]], kept: int, text: _Text, handoff: Sequence[str], target: int
    ) -> _Made:
        """Write the segments, and put them between what stays."""
        lines = sorted([*text.words.lines, *text.prose, *text.evidence], key=_order)
        run_of = {at: number for number, run in enumerate(runs) for at in run}
        by_run: list[list[Line]] = [[] for _ in runs]
        for line in lines:
            by_run[run_of[line.piece.at]].append(line)
        segments: dict[int, dict[str, Any]] = {}
        for number, (run, own) in enumerate(zip(runs, by_run, strict=True)):
            parsed = ParsedSegment(self._first_turn(run), self._session.turns[run[-1]], entries=_entries(own))
            if number == 0:
                parsed.handoff, parsed.state = list(handoff), text.state
            segments[run[0]] = cast("dict[str, Any]", segment(render(parsed, note=number == 0 and self._note)))
        messages: list[dict[str, Any]] = []
        for at in range(len(self._messages)):
            messages += [segments[at]] if at in segments else []
            messages += [cast("dict[str, Any]", plan.kept[at])] if at in plan.kept else []
        size = kept + sum(self._measure(each) for each in segments.values())
        return _Made(
            messages, size, text.words, lines, text.candidates, self._allocation(kept, text, handoff), len(segments)
        )

    def _allocation(self, kept: int, text: _Text, handoff: Sequence[str]) -> Allocation:
        def tokens(texts: Sequence[str]) -> int:
            return int(sum(len(each) + 1 for each in texts) / self._characters)

        parts = (text.words.lines, text.prose, text.evidence)
        words, prose, evidence = (tokens([line.text for line in part]) for part in parts)
        return Allocation(kept, words, tokens(text.state), prose, evidence, tokens(handoff))

    def floor(self, fixed: Collection[int]) -> dict[str, int]:
        """Return what no plan makes smaller, by part."""
        parts: dict[str, int] = {}
        for at in fixed:
            kind = kind_of(self._messages[at])
            name = {"system": "system messages", "developer": "system messages", "reminder": "reminders"}.get(kind)
            part = name or "pinned messages and calls in flight"
            parts[part] = parts.get(part, 0) + self._sizes[at]
        old = [at for at in range(len(self._messages)) if at not in fixed]
        if old:
            parts["segments"] = self._measure(segment(self._opening(old, note=True)))
        return parts

    def report(
        self, plan: KeepPlan, made: _Made, normal: Normalised, target: int, before: int, fixed: Collection[int]
    ) -> CompactionReport:
        """Return the report. `removed` and `cut` are about the list that was given, all else about the normalised."""
        warnings = list(plan.warnings)
        wanted = min(self._settings.keep_last, sum(kind_of(message) == "prompt" for message in self._messages))
        if made.words.left_out:
            warnings.append(f"{made.words.left_out} of the user's messages left no line: the target is too small.")
        same = {normal.origin[at] for at in plan.kept if at not in plan.cut}
        highest = max(normal.origin, default=-1)
        whole = "\n".join(map(_whole, made.messages))
        pieces = self._session.pieces
        closing = [piece.text for piece in reversed(pieces) if piece.closes and piece.at not in plan.kept]
        used = {name: weight for name, weight in made.evidence.used().items() if self._lexicon.is_name(name)}
        for piece in pieces:
            if piece.kind == "user" and piece.at not in plan.kept:
                used.update(
                    {
                        name: max(1.0, used.get(name, 0))
                        for name in self._names(piece.text)
                        if self._lexicon.is_name(name)
                    }
                )
        return CompactionReport(
            tier=3 if plan.cut or plan.whole_turns < wanted else 2,
            target=target,
            before=before,
            after=made.size,
            turns=tuple(self._fates(plan, made, fixed)),
            anchors=tuple(self._anchors),
            segments=made.segments,
            removed=tuple(at for at in range(highest + 1) if at not in same),
            cut=tuple(normal.origin[at] for at in plan.cut),
            user_messages=sum(piece.kind == "user" and piece.at not in plan.kept for piece in pieces),
            user_mode=made.words.mode,
            loss=find_loss(used, self._names(whole), closing, whole),
            warnings=tuple(warnings),
            kept_turns=plan.whole_turns,
            kept_steps=sum(kind_of(plan.kept[at]) == "assistant" for at in plan.kept if at not in plan.cut),
            allocation=made.allocation,
        )

    def _fates(self, plan: KeepPlan, made: _Made, fixed: Collection[int]) -> list[TurnFate]:
        """What became of each turn: its sizes, the lines that stand for it, its score."""
        before: dict[int, int] = {}
        after: dict[int, int] = {}
        count: dict[int, int] = {}
        lines: dict[int, int] = {}
        ways: dict[int, set[str]] = {}
        for at, message in enumerate(self._messages):
            if kind_of(message) not in ("prompt", "assistant", "tool"):
                continue
            turn = self._session.turns[at]
            before[turn] = before.get(turn, 0) + self._sizes[at]
            count[turn] = count.get(turn, 0) + 1
            if at in plan.kept:
                after[turn] = after.get(turn, 0) + self._measure(plan.kept[at])
            ways.setdefault(turn, set()).add("cut" if at in plan.cut else "kept" if at in plan.kept else "old")
        for line in made.lines:
            turn = line.piece.turn
            lines[turn] = lines.get(turn, 0) + (line.piece.kind != "user")
            after[turn] = after.get(turn, 0) + int((len(line.text) + 1) / self._characters)
        pinned = {self._session.turns[at] for at in fixed}
        return [
            TurnFate(
                turn,
                *_fate(ways[turn], lines.get(turn, 0), turn in pinned),
                before[turn],
                after.get(turn, 0),
                count[turn],
                lines.get(turn, 0),
                self._scores.get(turn, Score(turn)),
            )
            for turn in sorted(before)
        ]


def _fate(ways: set[str], lines: int, pinned: bool) -> tuple[Fate, str]:
    why = "pinned" if pinned else "one of the newest turns"
    if ways == {"kept"}:
        return "kept", why
    if ways == {"old"}:
        return "summarised", f"the user's words and {lines} lines"
    return "reduced", f"{why}; the rest summarised" if "old" in ways else f"{why}; too long to stay whole"


_ORDER = {"user": 0, "agent": 1, "call": 2, "result": 3}


def _order(line: Line) -> tuple[int, int, int]:
    """Where a line stands: by its piece, and the calls of one message after its words."""
    return line.piece.at, line.number, _ORDER[line.piece.kind]


def _entries(lines: Sequence[Line]) -> list[SegmentEntry]:
    found: list[SegmentEntry] = []
    last: object = None
    for line in lines:
        piece: SessionPiece = line.piece
        label = {"user": "user", "agent": ""}.get(piece.kind, piece.label)
        key = (piece.turn, label, piece.call.id if piece.call is not None else "", line.number * (label == "user"))
        if key != last:
            found.append(SegmentEntry(piece.turn, label))
            last = key
        found[-1].lines += [] if is_in_heading(line) else line.text.split("\n")
    return found


def _is_body(message: AnyMessage) -> bool:
    return kind_of(message) in _KEPT_KINDS


def _whole(message: AnyMessage) -> str:
    """All that a message says: its text and the texts in its calls."""
    from codelet.context.compaction.reading import call_of, strings

    calls = [text for call in calls_of(message) for text in strings(call_of(call).values)]
    return "\n".join([text_of(message), *calls])


def _as_given(made: list[dict[str, Any]], normal: Normalised, given: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """Return `made` with the caller's own object for each message that differs from it only by its known kind."""
    own = {
        id(message): cast("dict[str, Any]", given[origin])
        for message, origin in zip(normal.messages, normal.origin, strict=True)
        if origin >= 0 and message is not given[origin] and message == given[origin]
    }
    return [own.get(id(message), message) for message in made]
