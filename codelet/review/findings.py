r"""The report of a review as every format writes it: findings, what was set aside and why, the coverage by hunk.

Then the verdict: duplicates, thresholds, order, exit status; and the report as JSON. Texts that a model wrote are clean
and valid Unicode. Names of files and lines of code are verbatim, with bytes that are not UTF-8 written as `\xe9`:
escape them on a terminal, a page or in a log.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

import msgspec

from codelet.errors import EXIT_DONE, EXIT_FINDINGS, EXIT_INCOMPLETE, EXIT_PROVIDER, UsageError
from codelet.usage import Usage

REPORT_VERSION = 1

Severity = Literal["critical", "high", "medium", "low", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""From the gravest down."""

HunkState = Literal["reviewed", "truncated", "skipped", "failed"]
AsideKind = Literal[
    "misplaced", "malformed", "duplicate", "refuted", "unconfirmed", "below", "surplus", "ignored", "known"
]
"""The reasons why a finding is not reported on its lines; `sentences` has them in words."""


class ReportPart(msgspec.Struct, frozen=True, kw_only=True):
    """A value of the report, and an object of the JSON report."""

    def replace(self, **fields: Any) -> Self:
        return msgspec.structs.replace(self, **fields)


BY_NEW_COMMENT = " (the comment is new in this change)"
BY_CHANGED_BASELINE = ", which this change changes"


class Finding(ReportPart, frozen=True, kw_only=True):
    """One bug, on lines of the new side.

    `line` to `end_line`, counted from 1, hold `quote`, verbatim without line ends; `before` and `after` are up to three
    lines on either side as far as the hunk shows them. `unchanged`: the change does not touch these lines or those next
    to them. `removed` are removed rows that it is about; it is on the row after them. `replacement` is the suggested
    text without a last line end, `verified` None without a second look, `rank` its importance within a severity.

    `kind` and `why` say why it is not reported. If the change itself may have kept it out, `why` ends with
    BY_NEW_COMMENT or BY_CHANGED_BASELINE. Without a place the line is 0, and `path` may be the model's word for a file.
    """

    rule: str
    title: str
    severity: Severity
    path: str
    explanation: str = ""
    category: str = ""
    confidence: float = 1.0
    line: int = 0
    end_line: int = 0
    quote: str = ""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    unchanged: bool = False
    removed: str = ""
    replacement: str | None = None
    verified: bool | None = None
    fingerprint: str = ""
    rank: int = 0
    kind: AsideKind | None = None
    why: str = ""

    def set_aside(self, kind: AsideKind, why: str) -> Finding:
        return self.replace(kind=kind, why=why)

    @property
    def by_change(self) -> bool:
        """Return whether the change itself may have kept it out of the report."""
        return self.why.endswith((BY_NEW_COMMENT, BY_CHANGED_BASELINE))

    @property
    def weight(self) -> int:
        return weight(self.severity)

    @property
    def suggestion(self) -> str:
        """The lines and their replacement as rows of a diff; "" without one."""
        if self.replacement is None:
            return ""
        added = [f"+{row}" for row in self.replacement.split("\n")] if self.replacement else []
        return "\n".join([*(f"-{row}" for row in self.quote.split("\n")), *added])


def weight(severity: Severity) -> int:
    """The severity as a number: 4 for critical down to 0 for info."""
    return len(SEVERITIES) - 1 - SEVERITIES.index(severity)


class HunkCoverage(ReportPart, frozen=True, kw_only=True):
    """The state of one changed hunk, and why if it is not reviewed. A file without hunks is one entry of zeros."""

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


class Gate(ReportPart, frozen=True, kw_only=True):
    """The thresholds that decide the verdict: `min_coverage` is in % of the hunks that are not skipped."""

    fail_on: Severity | None = "high"
    min_severity: Severity = "info"
    min_confidence: float = 0.0
    max_findings: int | None = None
    min_coverage: float = 100.0

    def fails(self, severity: Severity) -> bool:
        """Return whether a severity is at or above `fail_on`; with None nothing is."""
        return self.fail_on is not None and weight(severity) >= weight(self.fail_on)


class Report(ReportPart, frozen=True, kw_only=True):
    """The result of a review.

    `whole_base` is the base of the whole change if only what is new since `base` was reviewed. `usage`, `cost` (US
    dollars) and `model` are None if unknown. `fallbacks` are models that answered in place of `model`. `partial` says
    that something ended it early, and `error` why; `lost` counts chunks without an answer. `duration` is in seconds.
    """

    version: int = REPORT_VERSION
    subject: str
    base: str | None = None
    head: str | None = None
    whole_base: str | None = None
    findings: tuple[Finding, ...] = ()
    aside: tuple[Finding, ...] = ()
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
        counted = Counter(each.state for each in self.hunks)
        return {state: counted[state] for state in get_args(HunkState)}

    @property
    def outcome(self) -> Literal["clean", "findings", "incomplete", "nothing"]:
        if self.partial or self.error or self.lost or self.unreviewed:
            return "incomplete"
        if self.findings or self.unsettled:
            return "findings"
        return "clean" if self.coverage is not None else "nothing"

    @property
    def is_whole(self) -> bool:
        """Return whether everything that should have been reviewed was, to the end."""
        return self.outcome != "incomplete"

    @property
    def unreviewed(self) -> list[HunkCoverage]:
        """The hunks that should have been reviewed and were not, or not as a whole."""
        return [hunk for hunk in self.hunks if hunk.state in ("truncated", "failed")]

    @property
    def coverage(self) -> float | None:
        """The share of reviewed hunks in %, skipped ones not counted; None if there is nothing to review."""
        counted = [each.state == "reviewed" for each in self.hunks if each.state != "skipped"]
        return 100.0 * sum(counted) / len(counted) if counted else None

    @property
    def unsettled(self) -> list[Finding]:
        """The findings that were neither confirmed on their lines nor refuted, the gravest first."""
        open_ones = [each for each in self.aside if each.kind in ("misplaced", "malformed", "unconfirmed")]
        return sorted(open_ones, key=lambda each: -each.weight)

    @property
    def set_aside(self) -> dict[AsideKind, int]:
        counted = Counter(each.kind for each in self.aside)
        return {kind: counted[kind] for kind in get_args(AsideKind)}


def order(finding: Finding) -> tuple[int, int, float, str, int, str]:
    """The sort key of findings: the gravest, most important and surest first, then by place."""
    return -finding.weight, finding.rank, -finding.confidence, finding.path, finding.line, finding.rule


def digest(*parts: str) -> str:
    """A short name for texts."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def duplicate(finding: Finding, twin: Finding) -> Finding:
    """The finding as one that repeats another."""
    return finding.set_aside("duplicate", f"the same as {twin.title!r} in {twin.path}, line {twin.line}")


def joined(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """The findings with duplicates joined into the gravest and surest of them, and what was joined."""

    def is_same(one: Finding, other: Finding) -> bool:
        if (one.line, one.end_line, one.rule) == (other.line, other.end_line, other.rule):
            return True
        overlap = one.line <= other.end_line and other.line <= one.end_line
        return overlap and one.title.lower().split() == other.title.lower().split()

    by_path: dict[str, list[Finding]] = defaultdict(list)
    aside: list[Finding] = []
    for finding in sorted(findings, key=order):
        twin = next((other for other in by_path[finding.path] if is_same(finding, other)), None)
        if twin is None:
            by_path[finding.path].append(finding)
        else:
            aside.append(duplicate(finding, twin))
    return [finding for kept in by_path.values() for finding in kept], aside


def passing(findings: Iterable[Finding], gate: Gate) -> tuple[list[Finding], list[Finding]]:
    """The findings at or above the least severity and confidence, and what is below."""
    kept: list[Finding] = []
    below: list[Finding] = []
    for finding in findings:
        if finding.weight < weight(gate.min_severity):
            below.append(finding.set_aside("below", f"its severity is under {gate.min_severity}"))
        elif finding.confidence < gate.min_confidence:
            below.append(finding.set_aside("below", f"its confidence is under {gate.min_confidence:g}"))
        else:
            kept.append(finding)
    return kept, below


def concluded(report: Report, ended_by: int = EXIT_DONE) -> Report:
    """The report with its findings joined, over the thresholds, in order, at most as many as wanted, and the verdict.

    `ended_by` is the exit status of what ended the review before its end, 0 if nothing did.
    """
    gate = report.gate
    findings, twins = joined(report.findings)
    findings, below = passing(findings, gate)
    findings = _with_own_prints(sorted(findings, key=order))
    most = len(findings) if gate.max_findings is None else gate.max_findings
    surplus = [each.set_aside("surplus", f"over the {most} findings asked for") for each in findings[most:]]
    aside = sorted(
        (*report.aside, *twins, *below, *surplus),
        key=lambda one: (one.kind, one.path, one.line, one.rule, one.title),
    )
    report = report.replace(findings=tuple(findings[:most]), aside=tuple(aside))
    # Nothing confirmed or refuted those at or above `fail_on` that have no place or cannot be read.
    placeless = sum(each.kind in ("misplaced", "malformed") and gate.fails(each.severity) for each in aside)
    unconfirmed = report.set_aside["unconfirmed"]
    incomplete = _incomplete(report, unconfirmed, placeless)
    status = ended_by
    if ended_by in (EXIT_DONE, EXIT_FINDINGS, EXIT_INCOMPLETE):  # others come first in the command line's table
        if report.chunks and report.lost == report.chunks:
            status = EXIT_PROVIDER
        elif incomplete or ended_by == EXIT_INCOMPLETE:
            status = EXIT_INCOMPLETE
        else:
            status = EXIT_FINDINGS if any(gate.fails(each.severity) for each in findings) else EXIT_DONE
    partial = ended_by != EXIT_DONE or bool(report.unreviewed or unconfirmed or placeless)
    return report.replace(exit=status, partial=partial, error=report.error or incomplete or None)


def _with_own_prints(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, each with a fingerprint that no other one has: two bugs of one kind can be on one line."""
    taken: Counter[str] = Counter()
    own = []
    for finding in findings:
        number = taken[finding.fingerprint] if finding.fingerprint else 0
        taken[finding.fingerprint] += 1
        own.append(finding.replace(fingerprint=f"{finding.fingerprint[:-2]}{number:02x}") if number else finding)
    return own


def _incomplete(report: Report, unconfirmed: int, placeless: int) -> str:
    """Return what the review lacks for the coverage and the findings that were asked for; "" if nothing."""
    if report.coverage is not None and report.coverage < report.gate.min_coverage:
        states = report.states
        counted = sum(states.values()) - states["skipped"]
        return f"{states['reviewed']} of {counted} hunks were reviewed, {report.gate.min_coverage:g} % were asked for"
    lacks = {"could not be confirmed or refuted": unconfirmed, "without a place in the change": placeless}
    return "; ".join(f"{number} finding{'s' * (number != 1)} {lack}" for lack, number in lacks.items() if number)


def report_as_json(report: Report) -> str:
    """The report as a JSON object in ASCII, so that nothing in it can act on a terminal or a log; unknown is null."""
    document = msgspec.to_builtins(report, enc_hook=lambda usage: {name: getattr(usage, name) for name in Usage.fields})
    document |= {
        "aside": [{**each, "line": each["line"] or None} for each in document["aside"]],
        "outcome": report.outcome,
        "states": report.states,
        "coverage": None if report.coverage is None else round(report.coverage, 2),
        "set_aside": report.set_aside,
        "duration": round(report.duration, 3),
    }
    return json.dumps(document, indent=1) + "\n"


def read_report(path: Path) -> Report:
    """The report in a JSON file. Raises UsageError that names it."""

    def usage_of(kind: type, value: Any) -> Any:
        return kind(**{name: number for name, number in value.items() if name in Usage.fields})

    try:
        document = json.loads(path.read_bytes())
        if not isinstance(document, dict) or document.get("version") != REPORT_VERSION:
            raise ValueError(f"its version is not {REPORT_VERSION}")
        aside = [{**each, "line": each.get("line") or 0} for each in document.get("aside", ())]
        return msgspec.convert({**document, "aside": aside}, Report, dec_hook=usage_of)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError, MemoryError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: is not a JSON report of a review: {error}") from None
