"""tokenStatus: how full the window is, in whole per cent so that it changes seldom."""

from __future__ import annotations


def token_status(used: int, window: int) -> str:
    """How much of the window the list takes; both in tokens."""
    percent = min(100, -(-used * 100 // window))
    return f"Context: about {percent} % of {window:,} tokens used."
