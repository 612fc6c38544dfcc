"""Anchors (turns in which something was settled), and the score of a turn.

Anchors are no places to cut: the outcome of a turn that holds one stands before all others. A score is a sum of
integers, every part capped so that no single signal can win: anchor ≤ 40, recency ≤ 20, relevance to the current prompt
≤ 20, files shared with the newest turns ≤ 15, reference back to it in the user's words ≤ 10, feedback ±5. Ties go to
the newer turn. The anchor's part holds a turn above the least score; no more than 4 of it raise the turn's lines, so
that they win ties: few of them settle something, and with all of it real sessions lost decisions and names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codelet.context.compaction.history import Execution
from codelet.context.compaction.identifiers import NUMBER_WEIGHT, Lexicon
from codelet.context.compaction.parsing import ParsedMessage
from codelet.context.compaction.signals import claim_of, moves_on, states_decision
from codelet.context.compaction.work_tree import COMMITTED

WEIGHTS = {
    "error fixed": 36, "cause found": 34, "task done": 32, "milestone": 30, "decision": 28, "checkpoint": 28
}  # fmt: skip
CONFIDENCE = {
    "error fixed": 95, "cause found": 92, "task done": 92, "milestone": 92, "decision": 90, "checkpoint": 91
}  # fmt: skip
LEAST_CONFIDENCE = 90


@dataclass(frozen=True)
class TurnAnchor:
    """Something settled in a turn. `confidence` in per cent; `weight` is its share of a turn's score, ≤ 40.

    `by_run` says that a run told it, not somebody's words.
    """

    turn: int
    kind: str
    text: str
    by_run: bool = False

    @property
    def weight(self) -> int:
        """Points that this anchor is worth."""
        return WEIGHTS[self.kind]

    @property
    def confidence(self) -> int:
        """How sure its detector is, in per cent."""
        return CONFIDENCE[self.kind]


def find_anchors(readings: Sequence[ParsedMessage], executions: Sequence[Execution]) -> list[TurnAnchor]:
    """The anchors of a list, in order of their turns; at most one of a kind in a turn."""
    found: dict[tuple[int, str], TurnAnchor] = {}
    wrote = {reading.turn for reading in readings for action in reading.actions if action.kind == "write"}
    failing: dict[str, None] = {}
    for run in executions:
        if run.run is None or run.passed is None:
            continue
        if not run.passed:
            failing[run.text] = None
            continue
        mended = [text for text in failing if run.covers(text)]
        kind = _kind_of(run, run.turn in wrote, bool(mended))
        for text in mended:
            del failing[text]
        if kind is not None:
            text = f"{run.text[:80]}: {run.line[:100]}" if run.line else run.text[:80]
            anchor = TurnAnchor(run.turn, kind, " ".join(text.split()), by_run=True)
            if kind != "checkpoint" or run.line or (run.turn, kind) not in found:  # a push tells less than its commit
                found[run.turn, kind] = anchor
    commits = [run for run in executions if run.what == "commit" and run.passed is not False]
    # Git says so itself, whatever became of the exit status.
    committed = {run.turn: run for run in commits if run.passed is None or COMMITTED.match(run.line)}
    for turn, run in committed.items():
        if COMMITTED.match(run.line):
            found.setdefault((turn, "checkpoint"), TurnAnchor(turn, "checkpoint", run.line[:100], by_run=True))
    closing: dict[int, ParsedMessage] = {}
    for reading in readings:
        if reading.kind == "user":
            _from_user(reading, found)
        elif reading.kind == "assistant" and reading.text.strip():
            closing[reading.turn] = reading
    last = max(closing, default=0)
    for turn, reading in closing.items():
        if not reading.actions or turn == last:
            _from_agent(reading, turn in wrote or turn in committed, found)
    return sorted(found.values(), key=lambda anchor: (anchor.turn, -anchor.weight, anchor.kind))


def _kind_of(run: Execution, wrote: bool, mended: bool) -> str | None:
    """The kind of anchor that a run that passed is, if it is one."""
    if run.what == "tests":
        if not wrote:
            return None
        return "error fixed" if mended else "task done"
    return "milestone" if run.what == "build" else "checkpoint"


def _from_agent(reading: ParsedMessage, changed: bool, found: dict[tuple[int, str], TurnAnchor]) -> None:
    """What the agent says at the end of a turn: a fault mended or work done where it changed something, a cause."""
    text = " ".join(reading.text[:1500].split())
    kind = claim_of(text, changed=changed)
    if kind is not None:
        found.setdefault((reading.turn, kind), TurnAnchor(reading.turn, kind, text[:160]))


def _from_user(reading: ParsedMessage, found: dict[tuple[int, str], TurnAnchor]) -> None:
    text = " ".join(reading.text[:2000].split())
    if text.startswith("<"):
        return  # what a program put in, not the user
    if len(text) <= 700 and states_decision(text):
        found.setdefault((reading.turn, "decision"), TurnAnchor(reading.turn, "decision", text[:160]))
    elif moves_on(text):
        found.setdefault((reading.turn, "checkpoint"), TurnAnchor(reading.turn, "checkpoint", text[:80]))


TIE_CAP = 4
ANCHOR_CAP, RECENCY_CAP, RELEVANCE_CAP, FILES_CAP, REFERENCE_CAP, FEEDBACK_CAP = 40, 20, 20, 15, 10, 5
# The turns that count as the newest, and how much of the prompt is read.
_RECENT, _READ = 3, 20_000
_STEP = re.compile(r"\b(?:step|turn|point|item)\s+#?(\d{1,4})\b", re.IGNORECASE)
_EARLIER = re.compile(
    r"\b(?:earlier|previous|above|before|original|first|initial|that)\s+(error|plan|test|file|change|fix|approach|bug|"
    r"failure|command|commit|version|idea|decision|question|output)s?\b",
    re.IGNORECASE,
)

_LONGEST_WORD = 300
# The user says of what the agent just did that it was right, or that it was not.
_THAT_WAS_IT = re.compile(
    r"\W*(?:(?:yes|yep|yeah|great|perfect|ok(?:ay)?|thanks)\W+)*"
    r"(?:that(?:'s| was| is) (?:it|what i (?:meant|wanted))\b(?! not)|"
    r"that (?:fixed|solved|did) it\b|exactly\b(?! (?:what|why|how|where|the)))",
    re.IGNORECASE,
)
_THAT_WAS_NOT = re.compile(
    r"\W*(?:(?:no|nope|hm+)\W+)*(?:that(?:'s not| was(?: not|n't)| is(?: not|n't)) (?:it|what i (?:meant|wanted))\b|"
    r"that did(?: not|n't) (?:fix|solve|help|work)\b)",
    re.IGNORECASE,
)


def anchored(anchors: Sequence[TurnAnchor]) -> set[int]:
    """The turns that hold an anchor that is sure enough."""
    return {anchor.turn for anchor in anchors if anchor.confidence >= LEAST_CONFIDENCE}


@dataclass(frozen=True)
class Score:
    """The score of one turn, by part."""

    turn: int
    anchor: int = 0
    recency: int = 0
    relevance: int = 0
    files: int = 0
    reference: int = 0
    feedback: int = 0

    @property
    def total(self) -> int:
        """Sum of the parts, never below 0."""
        return max(0, self.anchor + self._others())

    @property
    def of_lines(self) -> int:
        """What a line of the turn is worth by it, never below 0."""
        return max(0, min(self.anchor, TIE_CAP) + self._others())

    def _others(self) -> int:
        return self.recency + self.relevance + self.files + self.reference + self.feedback


def scores(
    readings: Sequence[ParsedMessage],
    names: Mapping[int, set[int]],
    lexicon: Lexicon,
    anchors: Sequence[TurnAnchor],
    open_errors: Sequence[int] = (),
    feedback: Mapping[int, int] | None = None,
) -> dict[int, Score]:
    """Score every turn in the list. `names[turn]` are the numbers of the words in it; `scoring_words` are enough.

    `feedback[turn]` is what the user did about it (more than 0: keep, less: let go); where that is nothing, "that was
    it" in the next prompt counts. It never lowers a turn that holds an anchor or an open error.
    """
    order = _order(readings)
    votes = {**_judged(readings), **(feedback or {})}
    prompt = _prompt(readings)
    words = lexicon.read(prompt[:_READ])
    shape = lexicon.shape
    asked = {n for n in words if shape[n] >= NUMBER_WEIGHT}
    recent_turns = set(order[-_RECENT:])
    recent: set[int] = {n for t in recent_turns for n in names.get(t, ()) if shape[n] >= NUMBER_WEIGHT}
    files = _files(readings)
    recent_files = {path for t in recent_turns for path in files.get(t, ())}
    pointed = _pointed_at(prompt, readings, set(order), set(open_errors), anchors)
    best: dict[int, int] = {}
    for anchor in anchors:
        if anchor.confidence >= LEAST_CONFIDENCE:
            best[anchor.turn] = max(best.get(anchor.turn, 0), anchor.weight)
    result: dict[int, Score] = {}
    for place, turn in enumerate(order):
        own = names.get(turn, set())
        voted = max(-FEEDBACK_CAP, min(FEEDBACK_CAP, votes.get(turn, 0)))
        if voted < 0 and (turn in best or turn in open_errors):
            voted = 0
        result[turn] = Score(
            turn,
            anchor=min(ANCHOR_CAP, best.get(turn, 0)),
            recency=RECENCY_CAP * (place + 1) // len(order),
            relevance=min(RELEVANCE_CAP, 5 * len(own & asked) + 2 * min(4, len(own & recent) // 8)),
            files=min(FILES_CAP, 5 * len(files.get(turn, set()) & recent_files) + 3 * (turn in open_errors)),
            reference=REFERENCE_CAP if turn in pointed else 0,
            feedback=voted,
        )
    return result


def scoring_words(readings: Sequence[ParsedMessage], names: Mapping[int, set[int]], lexicon: Lexicon) -> set[int]:
    """The words that can bear on a score: those of the current prompt, and those of the newest turns in `names`."""
    recent = [names[turn] for turn in newest(readings) if turn in names]
    return lexicon.read(_prompt(readings)[:_READ]).union(*recent)


def newest(readings: Sequence[ParsedMessage]) -> list[int]:
    """The turns that count as the newest."""
    return _order(readings)[-_RECENT:]


def _order(readings: Sequence[ParsedMessage]) -> list[int]:
    return sorted({r.turn for r in readings if r.kind not in ("system", "reminder")})


def _prompt(readings: Sequence[ParsedMessage]) -> str:
    return next((r.text for r in reversed(readings) if r.kind == "user"), "")


def _files(readings: Sequence[ParsedMessage]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for reading in readings:
        for action in reading.actions:
            if action.kind in ("read", "write") and action.subject:
                found.setdefault(reading.turn, set()).add(action.subject)
    return found


def _judged(readings: Sequence[ParsedMessage]) -> dict[int, int]:
    """What the user's words say of the turn before them: that was it, or that was not."""
    found: dict[int, int] = {}
    for reading in readings:
        if reading.kind == "user" and reading.turn > 1 and len(reading.text) <= _LONGEST_WORD:
            if _THAT_WAS_NOT.match(reading.text):
                found[reading.turn - 1] = -FEEDBACK_CAP
            elif _THAT_WAS_IT.match(reading.text):
                found[reading.turn - 1] = FEEDBACK_CAP
    return found


def _pointed_at(
    prompt: str, readings: Sequence[ParsedMessage], known: set[int], failed: set[int], anchors: Sequence[TurnAnchor]
) -> set[int]:
    """Turns that the prompt's words point to: by number, or as "the earlier error", "the first plan"."""
    found = {int(number) for number in _STEP.findall(prompt[:_READ])} & known
    kinds = {word.lower() for word in _EARLIER.findall(prompt[:_READ])}
    if kinds & {"error", "bug", "failure", "test"}:
        found |= set(sorted(failed & known)[-2:])
    if kinds & {"decision", "idea", "approach", "plan"}:
        found |= set([a.turn for a in anchors if a.kind == "decision" and a.turn in known][-2:])
    for word in kinds:
        said = [r.turn for r in readings if r.kind == "user" and word in r.text.lower()[:2000]]
        found |= set(said[:-1][-1:])
    return found
