"""Findings that are known: by their fingerprint in a baseline, or by an ignore comment in the code.

They are taken out before the second look, so that no request is spent on them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from codelet.errors import UsageError
from codelet.record import Record
from codelet.review.conclude import set_aside
from codelet.review.diff import FileDiff
from codelet.review.findings import BY_CHANGED_BASELINE, BY_NEW_COMMENT, Finding, Report, SetAside
from codelet.review.repeats.baseline import NewSides, category_of, fingerprinted, open_baseline
from codelet.system.text import one_line


class Repeats:
    """The known findings of one review, and its baseline if it has one.

    `files` are those of the change.
    """

    def __init__(
        self,
        *,
        files: Sequence[FileDiff],
        baseline: Path | None = None,
        update: bool = False,
    ) -> None:
        if update and baseline is None:
            raise UsageError("--update-baseline needs --baseline FILE, which it writes")
        self._sides = NewSides(files)
        self._paths = {file.path: file.old_path for file in files}
        self._baseline = open_baseline(baseline, may_be_missing=update) if baseline is not None else None
        self._changed = BY_CHANGED_BASELINE if baseline is not None and _is_among(baseline, self._paths) else ""
        self.target = baseline if update else None

    def sifted(self, findings: Sequence[Finding]) -> tuple[list[Finding], list[SetAside]]:
        """The new findings with their fingerprints, and the ignored and known ones."""
        kept, aside = without_ignored(fingerprinted(findings, self._sides), self._sides)
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
        """The new text of the baseline's file; None if the file stays the same."""
        if self.target is None or self._baseline is None:
            return None
        return self._baseline.updated(report.findings, self._sides).text()


def _is_among(baseline: Path, paths: Iterable[str]) -> bool:
    """Return whether the change may touch the file: the repository's root is not known, so the path's end counts."""
    places = {str(baseline.absolute()), str(baseline.resolve())}
    return any(place.endswith(f"/{path}") for place in places for path in paths)


_SIGNS = (r"#", r"//", r"\{?/\*", r"\*", r"--", r";", r"%", r"<!--", r"\(\*", r"\{-", r"'", r'"', r"!", r"REM\b")
_COMMENT = re.compile(rf"(?:{'|'.join(_SIGNS)}).*?codelet:\s*ignore\[([^\]\n]{{1,200}})\](.*)", re.IGNORECASE)
_COMMENT_LINE = re.compile(rf"\s*(?:{'|'.join(_SIGNS)})", re.IGNORECASE)
_END = re.compile(r"""\*/|-->|\*\)|-\}|\"{3}|'{3}""")
_MOST_ABOVE = 10
_MOST_REASON = 300
_NO_REASON = "This ignore comment gives no reason, so it does not count."


class _Ignore(Record, kw_only=True):
    """One comment: the rules it names, the reason it gives, and whether the change adds it."""

    rules: frozenset[str]
    reason: str
    new: bool


def without_ignored(findings: Sequence[Finding], sides: NewSides) -> tuple[list[Finding], list[SetAside]]:
    """The findings that no comment sets aside, and those that one does."""
    kept: list[Finding] = []
    aside: list[SetAside] = []
    for finding in findings:
        names = {finding.rule.lower(), finding.category.lower(), category_of(finding), "*"}
        found = [each for each in _ignores(finding, sides) if names & each.rules]
        counts = min((each for each in found if each.reason), key=lambda each: each.new, default=None)
        if counts is not None:
            aside.append(set_aside(finding, "ignored", counts.reason + BY_NEW_COMMENT * counts.new))
        elif found:
            kept.append(finding.replace(explanation=f"{finding.explanation}\n\n{_NO_REASON}".strip()))
        else:
            kept.append(finding)
    return kept, aside


def _ignores(finding: Finding, sides: NewSides) -> Iterator[_Ignore]:
    """Yield the comments on the lines of a finding, and in the comment lines right above it."""
    lines, added = sides.lines(finding.path), sides.added(finding.path)
    first = finding.line
    while first > finding.line - _MOST_ABOVE and _COMMENT_LINE.match(lines.get(first - 1, "")):
        first -= 1
    for number in range(finding.end_line, first - 1, -1):
        if (found := _COMMENT.search(lines.get(number, ""))) is not None:
            reason = _END.split(found[2])[0].strip(" \t:-–—")
            rules = frozenset(rule.strip().lower() for rule in found[1].split(","))
            yield _Ignore(rules=rules, reason=one_line(reason, _MOST_REASON), new=number in added)
