"""What a compaction did: everything that a preview and a receipt need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from codelet.compaction.anchors import Anchor
from codelet.compaction.loss import Loss
from codelet.compaction.score import Score

Fate = Literal["kept", "reduced", "summarised", "dropped"]


@dataclass(frozen=True)
class TurnFate:
    """What became of one turn, and why. Sizes in tokens by the estimate used; `lines` were chosen from it."""

    turn: int
    fate: Fate
    why: str
    before: int
    after: int
    messages: int
    lines: int
    score: Score


@dataclass(frozen=True)
class Report:
    """The receipt of one compaction.

    `tier`: 0 nothing but mending, 1 old results reduced, 2 summarised, 3 newest turns or the prompt touched as well.
    `before` and `after` are the sizes of the whole list in tokens. `removed` are the indices, in the list given, of
    messages that are not in the result as they were: the archive takes those. `warnings` are sentences for the user.
    """

    tier: int
    target: int
    before: int
    after: int
    turns: tuple[TurnFate, ...] = ()
    anchors: tuple[Anchor, ...] = ()
    segments: int = 0
    kept_messages: int = 0
    removed: tuple[int, ...] = ()
    user_messages: int = 0
    user_mode: str = "verbatim"
    mended: dict[str, int] = field(default_factory=dict)
    loss: Loss = field(default_factory=Loss)
    warnings: tuple[str, ...] = ()

    @property
    def saved_percent(self) -> int:
        """How much smaller the list is, in whole per cent."""
        return 100 * (self.before - self.after) // self.before if self.before else 0


class Compacted(NamedTuple):
    """The new list, and what was done."""

    messages: list[dict[str, Any]]
    report: Report
