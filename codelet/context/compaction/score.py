"""The score of a turn, in capped parts so that none can win alone, and what it does: `lift`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from codelet.context.compaction.lexicon import Lexicon
from codelet.context.compaction.observed import TurnAnchor
from codelet.context.compaction.reading import ReadSession

ANCHOR_CAP, RECENCY_CAP, RELEVANCE_CAP, FILES_CAP, REFERENCE_CAP, FEEDBACK_CAP = 40, 20, 20, 15, 10, 5
_RECENT, _READ, _MOST_NAMES = 3, 20_000, 60


class Score(NamedTuple):
    """The parts of a turn's score; `feedback` is what pins and drops say of it, from -5 to 5."""

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


def lift(score: Score | None) -> float:
    """Return the factor by which a turn's words and lines count: a pin or a drop moves it by half, the rest a little.

    Measured, no other weight of an anchor or a score kept more of what was asked later.
    """
    if score is None:
        return 1.0
    return 1 + (score.total - score.feedback) / 1_000 + score.feedback / 10


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
        if piece.call is not None and piece.call.path:
            files.setdefault(piece.turn, set()).add(piece.call.path)
    order = sorted(texts)
    prompt = next((piece.text for piece in reversed(session.pieces) if piece.kind == "user"), "")
    found = lexicon.of_text(f"{instruction}\n{prompt}"[:_READ])
    asked = sorted(word for word in found if lexicon.names(word).get(word))[:_MOST_NAMES]
    recent_files: set[str] = set().union(*(files.get(turn, set()) for turn in order[-_RECENT:]))
    first_named: dict[str, int] = {}
    result: dict[int, Score] = {}
    for place, turn in enumerate(order):
        text = "\n".join(texts[turn])
        named = [name for name in asked if name in text]
        for name in named:
            first_named.setdefault(name, turn)
        best = max((anchor.weight for anchor in anchors if anchor.turn == turn), default=0)
        result[turn] = Score(
            turn,
            anchor=min(ANCHOR_CAP, best),
            recency=RECENCY_CAP * (place + 1) // len(order),
            relevance=min(RELEVANCE_CAP, 5 * len(named)),
            files=min(FILES_CAP, 5 * len(files.get(turn, set()) & recent_files)),
            reference=REFERENCE_CAP * any(first_named[name] == turn != order[-1] for name in named),
            feedback=max(-FEEDBACK_CAP, min(FEEDBACK_CAP, votes.get(turn, 0))),
        )
    return result
