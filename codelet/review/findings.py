r"""The report of a review as every format writes it: findings, what was set aside and why, the coverage by hunk.

Texts that a model wrote are clean and valid Unicode. Names of files and lines of code are as they stand in the change,
bytes that are no UTF-8 written as `\xe9`: whoever writes them to a terminal, a page or a log escapes them.
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
"""Why a finding is not reported on its lines.

misplaced: its quote is not in the change, so it has no line; malformed: it cannot be read; duplicate: joined with
another one; refuted: the second request said no; unconfirmed: the second request failed; below: under the least
severity or confidence; surplus: over the number asked for; ignored: by a comment in the code; known: in the
baseline.
"""


UNSETTLED: tuple[AsideKind, ...] = ("misplaced", "malformed", "unconfirmed")
"""Neither confirmed on its lines nor refuted: every format lists these."""


class Finding(Record, kw_only=True):
    """One fault on lines of the new side.

    `rule` is a short name in lower case with hyphens, `category` a word such as security; `confidence` is 0 to 1.
    `line` to `end_line`, counted from 1, hold `quote`, verbatim without line ends; `before` and `after` are up to three
    lines on either side, nearest to the quote as far as the hunk shows them. `unchanged` says that the change leaves
    these lines, and those next to them, as they were. `removed` are rows that the change removes and that the finding
    is about: it is on the row after them. `suggestion` is a unified patch, `replacement` its text for the lines
    without a last line end; both are None without one, `replacement` also for lines with a carriage return.
    `verified` is None if no second request was asked for. `fingerprint` stays the same when lines move; "" until it
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
        """Return how grave it is, for comparisons: 4 is critical, 0 is info."""
        return weight(self.severity)


def weight(severity: Severity) -> int:
    """Return how grave a severity is: 4 for critical down to 0 for info."""
    return len(SEVERITIES) - 1 - SEVERITIES.index(severity)


BY_NEW_COMMENT = " (the comment is new in this change)"
BY_CHANGED_BASELINE = ", which this change changes"


class SetAside(Record, kw_only=True):
    """A finding that is not reported on its lines. `line` is None if it has no place.

    `path` is a file of the change, or the model's words if there is no such file. `quote` is the code that the finding
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
        """Return how grave it is, as that of a finding."""
        return weight(self.severity)

    @property
    def by_change(self) -> bool:
        """Return whether what is reviewed may have kept it out of the report itself."""
        return self.why.endswith((BY_NEW_COMMENT, BY_CHANGED_BASELINE))


class HunkCoverage(Record, kw_only=True):
    """What became of one changed hunk. A change without hunks (binary, mode, renamed only) is one entry of zeros.

    Starts count from 1, as the diff has them. `old_path` is None unless the file was renamed or copied. `why` says it
    in words for every state but reviewed.
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
    """What decides on the verdict, as the user asked for it.

    `fail_on` is None if no finding fails the run. `min_coverage` is in % of the hunks that are not skipped.
    """

    fail_on: Severity | None = "high"
    min_severity: Severity = "info"
    min_confidence: float = 0.0
    max_findings: int | None = None
    min_coverage: float = 100.0


class Report(Record, kw_only=True):
    """What a review came to.

    `subject` says in words what was reviewed; `base` and `head` are commit ids, None if a side is no commit.
    `whole_base` is the base of the whole change if only what is new since `base` was reviewed, else None.
    `usage`, `cost` (US dollars) and `model` are None where unknown, `cost` 0.0 only where nothing was asked.
    `summary` is a paragraph on the findings as a whole, "" without one. `fallbacks` are models that answered in
    place of `model`. `partial` says that something ended it early, `error` why it is not whole; `lost` counts
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
        """Return how many hunks ended in each state."""
        counted = Counter(each.state for each in self.hunks)
        return {state: counted[state] for state in HUNK_STATES}

    @property
    def outcome(self) -> Literal["clean", "findings", "incomplete", "nothing"]:
        """Return how it came out in one word; `nothing` if there was nothing to review."""
        if self.partial or self.error or self.lost or any(each.state in ("truncated", "failed") for each in self.hunks):
            return "incomplete"
        if self.findings or self.unsettled:
            return "findings"
        return "clean" if self.coverage is not None else "nothing"

    @property
    def coverage(self) -> float | None:
        """Per cent of the hunks that are not skipped which were reviewed; None if there are none."""
        counted = [each.state == "reviewed" for each in self.hunks if each.state != "skipped"]
        return 100.0 * sum(counted) / len(counted) if counted else None

    @property
    def unsettled(self) -> list[SetAside]:
        """The findings that were neither confirmed on their lines nor refuted, the gravest first."""
        open_ones = [each for each in self.aside if each.kind in UNSETTLED]
        return sorted(open_ones, key=lambda each: -each.weight)

    @property
    def set_aside(self) -> dict[AsideKind, int]:
        """Return how many findings were set aside, by kind; every kind is there."""
        counted = Counter(each.kind for each in self.aside)
        return {kind: counted[kind] for kind in get_args(AsideKind)}


def order(finding: Finding) -> tuple[int, int, float, str, int, str]:
    """The key by which findings are ordered: the gravest, most important and surest first, then by place."""
    return -finding.weight, finding.rank, -finding.confidence, finding.path, finding.line, finding.rule


def digest(*parts: str) -> str:
    """A short name for texts."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
