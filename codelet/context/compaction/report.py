"""What a compaction did and what it lost, and the score of each turn: what previews, receipts, and `/why` show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from codelet.context.compaction.lexicon import Lexicon
from codelet.context.compaction.observed import TurnAnchor
from codelet.context.compaction.reading import ReadSession
from codelet.record import Record

ANCHOR_CAP, RECENCY_CAP, RELEVANCE_CAP, FILES_CAP, REFERENCE_CAP, FEEDBACK_CAP = 40, 20, 20, 15, 10, 5
_RECENT, _READ, _MOST_NAMES = 3, 20_000, 60


class Score(NamedTuple):
    """A turn's score, in capped parts so that none wins alone. `feedback` is what pins and drops say, from -5 to 5."""

    turn: int
    anchor: int = 0
    recency: int = 0
    relevance: int = 0
    files: int = 0
    reference: int = 0
    feedback: int = 0

    @property
    def total(self) -> int:
        """The sum of the parts, at least 0."""
        return max(0, sum(self[1:]))

    @property
    def lift(self) -> float:
        """The factor by which the turn's words and lines count: a pin or a drop moves it by half, the rest a little.

        Measured, no other weight of an anchor or a score kept more of what was asked later.
        """
        return 1 + (self.total - self.feedback) / 1_000 + self.feedback / 10


def scores(
    session: ReadSession,
    anchors: Sequence[TurnAnchor],
    lexicon: Lexicon,
    votes: Mapping[int, int],
    instruction: str = "",
) -> dict[int, Score]:
    """Score every turn. `votes` are what pins and drops say; an instruction counts as part of the newest prompt."""
    texts: dict[int, list[str]] = {}
    files: dict[int, set[str]] = {}
    for number, piece in enumerate(session.pieces):
        texts.setdefault(piece.turn, []).append(piece.text if number >= session.recent else "")
        files.setdefault(piece.turn, set()).update([piece.call.path] if piece.call and piece.call.path else ())
    order = sorted(texts)
    prompt = next((piece.text for piece in reversed(session.pieces) if piece.kind == "user"), "")
    found = lexicon.of_text(f"{instruction}\n{prompt}"[:_READ])
    asked = sorted(filter(lexicon.is_name, found))[:_MOST_NAMES]
    recent_files = set[str]().union(*(files[turn] for turn in order[-_RECENT:]))
    best: dict[int, int] = {}
    for anchor in anchors:
        best[anchor.turn] = max(anchor.weight, best.get(anchor.turn, 0))
    first_named: dict[str, int] = {}
    result: dict[int, Score] = {}
    for place, turn in enumerate(order):
        text = "\n".join(texts[turn])
        named = [name for name in asked if name in text]
        for name in named:
            first_named.setdefault(name, turn)
        result[turn] = Score(
            turn,
            anchor=min(ANCHOR_CAP, best.get(turn, 0)),
            recency=RECENCY_CAP * (place + 1) // len(order),
            relevance=min(RELEVANCE_CAP, 5 * len(named)),
            files=min(FILES_CAP, 5 * len(files[turn] & recent_files)),
            reference=REFERENCE_CAP * any(first_named[name] == turn != order[-1] for name in named),
            feedback=max(-FEEDBACK_CAP, min(FEEDBACK_CAP, votes.get(turn, 0))),
        )
    return result


class TurnFate(NamedTuple):
    """What became of one turn: its size before and after in tokens, and what of it stays verbatim."""

    turn: int
    before: int
    after: int
    verbatim: int
    score: Score

    @property
    def fate(self) -> str:
        """The same in a word."""
        return "kept" if self.verbatim >= self.before else "reduced" if self.verbatim else "summarised"


class Allocation(NamedTuple):
    """Where the tokens of a compacted list go, decided once: what stays as it is, and the parts of the segments."""

    verbatim: int = 0
    words: int = 0
    state: int = 0
    prose: int = 0
    evidence: int = 0
    handoff: int = 0


class CompactionReport(Record, kw_only=True):
    """What one compaction did.

    `tier`: 0 only put in order, 2 summarised, 3 fewer of the newest turns kept whole than asked for, or a message cut.
    `before` and `after` are the sizes of the whole list in tokens. `removed` are the indices, in the list given, of
    messages that are not in the result as they were; `cut` are those of them that are there cut, in order: the archive
    takes them. `kept_turns` of the newest turns, and `kept_steps` of the agent's messages, stay as they were.
    `words_each` are the characters that each of the user's messages has at most; None: they are whole. `lost` are some
    of the agent's last words that went, then paths, then names; `sentences_gone` counts all of the first. `warnings`
    are sentences for the user; `struck` are the lines of a handoff that were not kept, with the reason.
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
    words_each: int | None = None
    lost: tuple[str, ...] = ()
    sentences_gone: int = 0
    warnings: tuple[str, ...] = ()
    struck: tuple[str, ...] = ()
    kept_turns: int = 0
    kept_steps: int = 0
    allocation: Allocation = Allocation()


class Compacted(NamedTuple):
    """The new list, and the report of what was done."""

    messages: list[dict[str, Any]]
    report: CompactionReport
