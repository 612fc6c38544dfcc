"""tokenStatus: how much of the budget is used, in whole per cent so that it changes seldom."""

from __future__ import annotations

from codelet.tokens.budget import percent_of


def token_status(used: int, budget: int) -> str:
    """How much of the budget the list takes; both in tokens."""
    percent = min(100, percent_of(used, budget))
    return f"Context: about {percent} % of the budget of {budget:,} tokens used."
