"""Numbers for users: tokens, times, money."""

from __future__ import annotations


def tokens(count: int) -> str:
    """`812`, `12.3k`, `1.2M`."""
    if count < 1000:
        return str(count)
    value, unit = (count / 1000, "k") if count < 999_500 else (count / 1_000_000, "M")
    return (f"{value:.1f}".removesuffix(".0") if value < 99.95 else f"{value:.0f}") + unit


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 05 s`, `1 h 02 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def plural(count: int, noun: str, several: str | None = None) -> str:
    """`1 line`, `2 lines`; `several` is an irregular plural."""
    return f"{count} {noun}" if count == 1 else f"{count:,} {several or noun + 's'}"


def money(dollars: float) -> str:
    """`$0.0042`, `$1.20`."""
    return f"${dollars:.2f}" if dollars >= 0.1 else f"${dollars:.4f}"


def next_request(before: int, after: int) -> str:
    """A compaction's effect on the next request, in tokens."""
    return f"the next request {tokens(before)} → {tokens(after)} tokens"
