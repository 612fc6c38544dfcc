r"""The report of a review as every format writes it: findings, what was set aside and why, the coverage by hunk.

Texts that a model wrote are clean and valid Unicode. Names of files and lines of code are verbatim, with bytes that
are not UTF-8 written as `\xe9`: escape them on a terminal, a page or in a log.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Literal, get_args

from codelet.record import Record
from codelet.usage import Usage

REPORT_VERSION = 1

Severity = Literal["critical", "high", "medium", "low", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""From the gravest down."""

HunkState = Literal["reviewed", "truncated", "skipped", "failed"]
HUNK_STATES: tuple[HunkState, ...] = get_args(HunkState)

AsideKind = Literal[
    "misplaced", "malformed", "duplicate", "refuted", "unconfirmed", "below", "surplus", "ignored", "known"
]
"""The reasons why a finding is not reported on its lines.

misplaced: its quote is not in the change, so it has no line; malformed: it cannot be read; duplicate: joined with
another one; refuted: the second request said no; unconfirmed: the second request failed; below: under the least
severity or confidence; surplus: over the number asked for; ignored: by a comment in the code; known: in the
baseline.
"""


UNSETTLED: tuple[AsideKind, ...] = ("misplaced", "malformed", "unconfirmed")
"""Neither confirmed on its lines nor refuted: every format lists these."""


class Finding(Record, kw_only=True):
    """One bug on lines of the new side.

    `rule` is a short name in lower case with hyphens, `category` a word such as security; `confidence` is 0 to 1.
    `line` to `end_line`, counted from 1, hold `quote`, verbatim without line ends; `before` and `after` are up to three
    lines on either side, nearest to the quote as far as the hunk shows them. `unchanged` says that the change does
    not touch these lines or those next to them. `removed` are rows that the change removes and that the finding
    is about: it is on the row after them. `suggestion` is a unified patch, `replacement` its text for the lines
    without a last line end, unless the lines end with a carriage return.
    `verified` is None without a second look. `fingerprint` stays the same when lines move; "" until it
    is made. `rank` orders findings of one severity by importance, if the last request ranked them.
    """

    rule: str
    title: str
    explanation: str
    severity: Severity
    category: str
    confidence: float
    path: str
    line: int
    end_line: int
    quote: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    unchanged: bool = False
    removed: str = ""
    suggestion: str | None = None
    replacement: str | None = None
    verified: bool | None = None
    fingerprint: str = ""
    rank: int = 0

    @property
    def weight(self) -> int:
        """The severity as a number: 4 is critical, 0 is info."""
        return weight(self.severity)


def weight(severity: Severity) -> int:
    """The severity as a number: 4 for critical down to 0 for info."""
    return len(SEVERITIES) - 1 - SEVERITIES.index(severity)


BY_NEW_COMMENT = " (the comment is new in this change)"
BY_CHANGED_BASELINE = ", which this change changes"


class SetAside(Record, kw_only=True):
    """A finding that is not reported on its lines. A `line` of None means no place.

    `path` is a file of the change, or the model's own word for one. `quote` is the code that the finding
    is about: of a misplaced one, as the model wrote it. If the change itself may have kept it out of the report, `why`
    ends with BY_NEW_COMMENT or BY_CHANGED_BASELINE.
    """

    kind: AsideKind
    why: str
    rule: str
    title: str
    severity: Severity
    path: str
    line: int | None = None
    explanation: str = ""
    quote: str = ""

    @property
    def weight(self) -> int:
        return weight(self.severity)

    @property
    def by_change(self) -> bool:
        """Return whether the change itself may have kept it out of the report."""
        return self.why.endswith((BY_NEW_COMMENT, BY_CHANGED_BASELINE))


class HunkCoverage(Record, kw_only=True):
    """The state of one changed hunk. A change without hunks (binary, mode, renamed only) is one entry of zeros.

    Starts count from 1, as the diff has them. `old_path` is set if the file was renamed or copied. `why` explains
    every state but reviewed.
    """

    path: str
    old_path: str | None = None
    old_start: int = 0
    old_lines: int = 0
    new_start: int = 0
    new_lines: int = 0
    added: int = 0
    removed: int = 0
    state: HunkState
    why: str = ""


class Gate(Record, kw_only=True):
    """The thresholds that decide the verdict.

    With `fail_on` None no finding fails the run. `min_coverage` is in % of the hunks that are not skipped.
    """

    fail_on: Severity | None = "high"
    min_severity: Severity = "info"
    min_confidence: float = 0.0
    max_findings: int | None = None
    min_coverage: float = 100.0


class Report(Record, kw_only=True):
    """The result of a review.

    `subject` describes the change; `base` and `head` are commit ids, or None.
    `whole_base` is the base of the whole change if only what is new since `base` was reviewed, else None.
    `usage`, `cost` (US dollars) and `model` are None if unknown; `cost` is 0.0 only without requests.
    `summary` is a paragraph on the findings as a whole, "" without one. `fallbacks` are models that answered in
    place of `model`. `partial` says that something ended it early, and `error` why; `lost` counts
    chunks without an answer. `duration` is in seconds; `exit` is the status with which the command ends.
    """

    version: int = REPORT_VERSION
    subject: str
    base: str | None = None
    head: str | None = None
    whole_base: str | None = None
    findings: tuple[Finding, ...] = ()
    aside: tuple[SetAside, ...] = ()
    hunks: tuple[HunkCoverage, ...] = ()
    gate: Gate = Gate()
    chunks: int = 0
    lost: int = 0
    requests: int = 0
    usage: Usage | None = None
    cost: float | None = None
    model: str | None = None
    fallbacks: tuple[str, ...] = ()
    summary: str = ""
    partial: bool = False
    error: str | None = None
    duration: float = 0.0
    exit: int = 0

    @property
    def states(self) -> dict[HunkState, int]:
        """The number of hunks in each state."""
        counted = Counter(each.state for each in self.hunks)
        return {state: counted[state] for state in HUNK_STATES}

    @property
    def outcome(self) -> Literal["clean", "findings", "incomplete", "nothing"]:
        """The outcome in one word; `nothing` if there was nothing to review."""
        if self.partial or self.error or self.lost or any(each.state in ("truncated", "failed") for each in self.hunks):
            return "incomplete"
        if self.findings or self.unsettled:
            return "findings"
        return "clean" if self.coverage is not None else "nothing"

    @property
    def coverage(self) -> float | None:
        """The share of reviewed hunks in %, skipped ones not counted; None if there is nothing to review."""
        counted = [each.state == "reviewed" for each in self.hunks if each.state != "skipped"]
        return 100.0 * sum(counted) / len(counted) if counted else None

    @property
    def unsettled(self) -> list[SetAside]:
        """The findings that were neither confirmed on their lines nor refuted, the gravest first."""
        open_ones = [each for each in self.aside if each.kind in UNSETTLED]
        return sorted(open_ones, key=lambda each: -each.weight)

    @property
    def set_aside(self) -> dict[AsideKind, int]:
        """The number of findings that were set aside, by kind; all kinds are keys."""
        counted = Counter(each.kind for each in self.aside)
        return {kind: counted[kind] for kind in get_args(AsideKind)}


def order(finding: Finding) -> tuple[int, int, float, str, int, str]:
    """The sort key of findings: the gravest, most important and surest first, then by place."""
    return -finding.weight, finding.rank, -finding.confidence, finding.path, finding.line, finding.rule


def digest(*parts: str) -> str:
    """A short name for texts."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
