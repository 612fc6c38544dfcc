"""The report of a compaction, with what it lost, and the score of each turn: previews, receipts, and `/why` show it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from codelet.context.compaction.lexicon import Lexicon
from codelet.context.compaction.observed import TurnAnchor
from codelet.context.compaction.reading import ReadSession
from codelet.record import Record

CAPS = {"anchor": 40, "recency": 20, "relevance": 20, "files": 15, "reference": 10, "feedback": 5}
"""The most points of each part of a score, so that no part wins alone."""
_POINTS_EACH, _RECENT, _READ, _MOST_NAMES = 5, 3, 20_000, 60


class Score(NamedTuple):
    """A turn's score, by parts. `feedback` comes from the user's pins and drops, from -5 to 5."""

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
        """The factor for the turn's words and lines: a pin or a drop moves it by half, the other parts a little.

        Larger factors for anchors or scores did not keep more of what was asked later.
        """
        return 1 + (self.total - self.feedback) / 1_000 + self.feedback / 10


def scores(
    session: ReadSession,
    anchors: Sequence[TurnAnchor],
    lexicon: Lexicon,
    votes: Mapping[int, int],
    instruction: str = "",
) -> dict[int, Score]:
    """Score every turn. `votes` are the user's pins and drops; an instruction counts as part of the newest prompt."""
    texts, files = dict[int, list[str]](), defaultdict[int, set[str]](set)
    for number, piece in enumerate(session.pieces):
        texts.setdefault(piece.turn, []).append(piece.text if number >= session.recent else "")
        if piece.call is not None and piece.call.path:
            files[piece.turn].add(piece.call.path)
    order = sorted(texts)
    prompt = next((piece.text for piece in reversed(session.pieces) if piece.kind == "user"), "")
    found = lexicon.of_text(f"{instruction}\n{prompt}"[:_READ])
    asked = sorted(filter(lexicon.is_name, found))[:_MOST_NAMES]
    recent_files = set[str]().union(*(files[turn] for turn in order[-_RECENT:]))
    weights: dict[int, int] = {}
    for anchor in anchors:
        weights[anchor.turn] = max(anchor.weight, weights.get(anchor.turn, 0))
    first_named: dict[str, int] = {}
    result: dict[int, Score] = {}
    for place, turn in enumerate(order, 1):
        text = "\n".join(texts[turn])
        named = [name for name in asked if name in text]
        for name in named:
            first_named.setdefault(name, turn)
        parts = {
            "anchor": weights.get(turn, 0),
            "recency": CAPS["recency"] * place // len(order),
            "relevance": _POINTS_EACH * len(named),
            "files": _POINTS_EACH * len(files[turn] & recent_files),
            "reference": CAPS["reference"] * any(first_named[name] == turn != order[-1] for name in named),
            "feedback": votes.get(turn, 0),
        }
        capped = {name: max(-CAPS[name], min(CAPS[name], points)) for name, points in parts.items()}
        result[turn] = Score(turn, **capped)
    return result


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
    the newest turns and `kept_steps` of the agent's messages stay verbatim. `words_each` is the limit for each of the
    user's messages in characters; None: they are whole. `lost` are paths and names that are gone. `warnings` are
    sentences for the user, `struck` the lines of a handoff that were rejected, with the reason.
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
    warnings: tuple[str, ...] = ()
    struck: tuple[str, ...] = ()
    kept_turns: int = 0
    kept_steps: int = 0
    allocation: Allocation = Allocation()


class Compacted(NamedTuple):
    """The new list and its report."""

    messages: list[dict[str, Any]]
    report: CompactionReport
