"""The settings of a compaction. Shares are whole per cent of the room that fixed messages leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Settings:
    """How a target is spent.

    `keep_last` turns stay verbatim while they take at most `newest_percent`; else the newest units up to
    `tail_percent`. `user_percent` goes to the user's words, `ledger_percent` to the ledger, the rest to lines chosen
    by coverage. A turn whose score is below `minimum_score` gives no lines. `feedback[turn]` is what the user said
    of a turn, -5 to 5. `fill` cuts the results of the newest unit that does not fit rather than leave it out.
    """

    keep_last: int = 3
    newest_percent: int = 40
    tail_percent: int = 18
    user_percent: int = 20
    ledger_percent: int = 4
    minimum_score: int = 0
    fill: bool = False
    feedback: Mapping[int, int] = field(default_factory=dict)
