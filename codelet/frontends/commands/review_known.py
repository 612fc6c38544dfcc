"""`--baseline`, `--update-baseline` and `--shard` of `codelet review`."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.errors import EXIT_PROVIDER, CodeletError, UsageError
from codelet.frontends.commands.review_outputs import unwritten
from codelet.frontends.streams import say

if TYPE_CHECKING:
    from codelet.review.findings import Finding, Report, SetAside, Shard
    from codelet.review.packing import ReviewPlan
    from codelet.review.repeats import Repeats
    from codelet.review.reviewed_change import ReviewedChange


class KnownFindings:
    """What the options say of findings that are known. Raises UsageError for a baseline that cannot be read.

    Without a baseline nothing is imported before there are findings: the first request does not wait for it.
    """

    def __init__(self, options: argparse.Namespace, change: ReviewedChange) -> None:
        self._options = options
        self._change = change
        self._made: Repeats | None = None
        if options.baseline is not None or options.update_baseline:
            self._repeats()

    def sift(self, findings: Sequence[Finding]) -> tuple[list[Finding], list[SetAside]]:
        """The findings that are new, and those that are ignored or known."""
        return self._repeats().sifted(findings)

    def titles(self, paths: Collection[str]) -> list[str]:
        """Return what is known of these files, for the model."""
        return self._made.titles(paths) if self._made is not None else []

    def save(self, report: Report, status: int) -> int:
        """Update the baseline where that was asked for; the exit status."""
        return save_baseline(self._made, report, status) if self._made is not None else status

    def _repeats(self) -> Repeats:
        from codelet.review.repeats import Repeats

        if self._made is None:
            path = self._options.baseline
            self._made = Repeats(
                files=self._change.files,
                baseline=Path(path) if path is not None else None,
                update=self._options.update_baseline,
            )
        return self._made


def save_baseline(repeats: Repeats, report: Report, status: int) -> int:
    """Write the baseline where that was asked for; the exit status. A review without any answer leaves it as it is."""
    text = repeats.updated(report)
    if text is None or repeats.target is None or report.exit == EXIT_PROVIDER:
        return status
    from codelet.review.formats import replace_file

    try:
        replace_file(repeats.target, text)
    except CodeletError as error:
        say(f"codelet: the baseline could not be written: {error}")
        return unwritten(status)
    return status


def part_asked_for(options: argparse.Namespace, plan: ReviewPlan) -> tuple[Shard | None, frozenset[int] | None]:
    """The shard that the options name, and the numbers of its chunks; None for a whole review. Raises UsageError."""
    if options.shard is None:
        return None, None
    if options.baseline is not None or options.update_baseline:
        raise UsageError("--shard takes no baseline: give it to codelet review merge, which has all the findings")
    from codelet.review.shards import part_of, shard_named

    return part_of(plan, shard_named(options.shard))
