"""What a run does about findings that it has met before: fingerprints, ignore comments, the baseline.

It is a sieve of the run, before anything is asked a second time. `fingerprint`, `ignore`
and `baseline` hold the work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from codelet.errors import UsageError
from codelet.review.diff import FileDiff
from codelet.review.findings import BY_CHANGED_BASELINE, Finding, HunkCoverage, Report, SetAside
from codelet.review.repeats.baseline import open_baseline
from codelet.review.repeats.fingerprint import NewSides, fingerprinted
from codelet.review.repeats.ignore import without_ignored


class Repeats:
    """The sieve of one review, and its baseline, where it has one, after it.

    `files` are those of the change; a merge of reports has none, and takes the paths from their `hunks`.
    """

    def __init__(
        self,
        *,
        files: Sequence[FileDiff] = (),
        hunks: Sequence[HunkCoverage] = (),
        baseline: Path | None = None,
        update: bool = False,
    ) -> None:
        if update and baseline is None:
            raise UsageError("--update-baseline needs --baseline FILE, which it writes")
        self._sides = NewSides(files) if files else None
        self._paths: dict[str, str | None] = {hunk.path: hunk.old_path for hunk in hunks}
        self._paths.update((file.path, file.old_path) for file in files)
        self._baseline = open_baseline(baseline, may_be_missing=update) if baseline is not None else None
        self._changed = BY_CHANGED_BASELINE if baseline is not None and _is_among(baseline, self._paths) else ""
        self.target = baseline if update else None

    def sifted(self, findings: Sequence[Finding]) -> tuple[list[Finding], list[SetAside]]:
        """The findings that are new, with their fingerprints, and those that are ignored or known."""
        kept = list(findings)
        aside: list[SetAside] = []
        if self._sides is not None:
            kept, aside = without_ignored(fingerprinted(kept, self._sides), self._sides)
        if self._baseline is not None:
            kept, known = self._baseline.new_findings(kept, self._paths)
            aside = [*aside, *(each.replace(why=each.why + self._changed) for each in known)]
        return kept, aside

    def titles(self, paths: Collection[str]) -> list[str]:
        """The known findings of these files; none of a baseline that the change may have written."""
        if self._baseline is None or self._changed:
            return []
        return [f"{each.path}: {each.title}" for each in self._baseline.entries if each.path in paths]

    def updated(self, report: Report) -> str | None:
        """What the file of the baseline is to hold after the run; None where it stays as it is."""
        if self.target is None or self._baseline is None:
            return None
        return self._baseline.updated(report.findings, self._sides).text()


def _is_among(baseline: Path, paths: Iterable[str]) -> bool:
    """Whether the change may touch the file: where its repository begins is not known, so the path's end counts."""
    places = {str(baseline.absolute()), str(baseline.resolve())}
    return any(place.endswith(f"/{path}") for place in places for path in paths)
