"""The receipt of a compaction, and what rewriting the list costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from codelet import events

if TYPE_CHECKING:
    from codelet.compaction import Report

Reason = Literal["hard", "cost", "entries", "asked", "overflow"]


def receipt(reason: Reason, before: int, after: int, report: Report, *, warm: bool) -> events.Compaction:
    """What a compaction did, for the user. `warm` says that a cache that worked was rewritten for it."""
    kept = sum(1 for turn in report.turns if turn.fate == "kept")
    loss = report.loss
    return events.Compaction(
        phase="done",
        reason=reason,
        before=before,
        after=after,
        tier=report.tier,
        kept_turns=kept,
        anchors=tuple(f"{anchor.kind}: {anchor.text}" for anchor in report.anchors),
        segments=report.segments,
        reduced=len(report.removed) if report.tier == 1 else 0,
        lost=(*loss.rules, *loss.paths, *loss.names, *loss.numbers),
        pays_after=pays_after(before, after) if warm else 0,
        note="; ".join(report.warnings),
    )


def pays_after(before: int, after: int) -> int:
    """After how many requests a rewrite of a warm cache is paid back: writing costs 1.25, reading 0.1."""
    return -(-125 * after // (10 * (before - after))) if before > after else 0
