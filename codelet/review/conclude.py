"""From what a review found to its report: duplicates joined, thresholds, order, verdict. Pure functions.

A report of all shards is concluded like that of one run, so that both come to the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from codelet.errors import EXIT_DONE, EXIT_FINDINGS, EXIT_INCOMPLETE, EXIT_LIMIT, EXIT_PROVIDER
from codelet.review.findings import AsideKind, Finding, Gate, Report, SetAside, coverage_of, order, weight


def set_aside(finding: Finding, kind: AsideKind, why: str) -> SetAside:
    """The finding as one that is not reported."""
    return SetAside(
        kind=kind,
        why=why,
        rule=finding.rule,
        title=finding.title,
        severity=finding.severity,
        path=finding.path,
        line=finding.line,
        explanation=finding.explanation,
        quote=finding.quote,
    )


def joined(findings: Sequence[Finding]) -> tuple[list[Finding], list[SetAside]]:
    """The findings with duplicates joined into the gravest and surest of them, and what was joined.

    Two are the same bug if their lines overlap and their title is the same, or their rule and all of their lines.
    """
    kept: list[Finding] = []
    aside: list[SetAside] = []
    by_path: dict[str, list[Finding]] = defaultdict(list)
    for finding in sorted(findings, key=order):
        twin = next((other for other in by_path[finding.path] if _is_same(finding, other)), None)
        if twin is None:
            kept.append(finding)
            by_path[finding.path].append(finding)
        else:
            aside.append(set_aside(finding, "duplicate", f"the same as {twin.title!r} in line {twin.line}"))
    return kept, aside


def passing(findings: Iterable[Finding], gate: Gate) -> tuple[list[Finding], list[SetAside]]:
    """The findings at or above the least severity and confidence, and what is below."""
    kept: list[Finding] = []
    aside: list[SetAside] = []
    for finding in findings:
        why = why_below(finding, finding.confidence, gate)
        if why is None:
            kept.append(finding)
        else:
            aside.append(set_aside(finding, "below", why))
    return kept, aside


def why_below(finding: Finding | SetAside, confidence: float, gate: Gate) -> str | None:
    """Why a finding does not pass the least severity and confidence; None if it does."""
    if finding.weight < weight(gate.min_severity):
        return f"its severity is under {gate.min_severity}"
    if confidence < gate.min_confidence:
        return f"its confidence is under {gate.min_confidence:g}"
    return None


def concluded(report: Report, ended_by: int = EXIT_DONE) -> Report:
    """The report with its findings joined, over the thresholds, in order, at most as many as wanted, and the verdict.

    `ended_by` is the exit status of what ended the review before its end, 0 where nothing did. A shard keeps what is
    over the number of findings: only all of them together have too many.
    """
    findings, twins = joined(report.findings)
    findings, below = passing(findings, report.gate)
    findings.sort(key=order)
    findings = _with_own_prints(findings)
    surplus: list[SetAside] = []
    most = report.gate.max_findings
    fails = any(_fails(each, report.gate) for each in findings)
    if most is not None and report.shard is None:
        surplus = [set_aside(each, "surplus", f"over the {most} findings asked for") for each in findings[most:]]
        findings = findings[:most]
    aside = sorted((*report.aside, *twins, *below, *surplus), key=_aside_order)
    report = report.replace(findings=tuple(findings), aside=tuple(aside))
    incomplete = _incomplete(report)
    status = _exit(report, ended_by, fails=fails, incomplete=incomplete is not None)
    whole = ended_by == EXIT_DONE and not any(each.state in ("failed", "truncated") for each in report.hunks)
    return report.replace(
        exit=status,
        partial=not whole or bool(report.set_aside["unconfirmed"] or _grave_without_place(report)),
        error=report.error or incomplete,
    )


def _with_own_prints(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, each with a fingerprint that no other one has: two bugs of one kind can be on one line."""
    taken: Counter[str] = Counter()
    own = []
    for finding in findings:
        number = taken[finding.fingerprint] if finding.fingerprint else 0
        taken[finding.fingerprint] += 1
        print_ = f"{finding.fingerprint[:-2]}{number:02x}" if number else finding.fingerprint
        own.append(finding.replace(fingerprint=print_))
    return own


def _is_same(one: Finding, other: Finding) -> bool:
    overlap = one.line <= other.end_line and other.line <= one.end_line
    same_lines = (one.line, one.end_line) == (other.line, other.end_line)
    return overlap and (_words(one.title) == _words(other.title) or (same_lines and one.rule == other.rule))


def _words(text: str) -> str:
    return " ".join(text.lower().split())


def _aside_order(one: SetAside) -> tuple[str, str, int, str, str]:
    return one.kind, one.path, one.line or 0, one.rule, one.title


def _fails(finding: Finding | SetAside, gate: Gate) -> bool:
    return gate.fail_on is not None and finding.weight >= weight(gate.fail_on)


def _incomplete(report: Report) -> str | None:
    """In words what of the review is missing that the user asked for; None where nothing is."""
    covered = coverage_of(report.hunks)
    if covered is not None and covered < report.gate.min_coverage:
        states = report.states
        counted = sum(states.values()) - states["skipped"]
        return f"{states['reviewed']} of {counted} hunks were reviewed, {report.gate.min_coverage:g} % were asked for"
    reasons = []
    if unconfirmed := report.set_aside["unconfirmed"]:
        findings = "1 finding" if unconfirmed == 1 else f"{unconfirmed} findings"
        reasons.append(f"{findings} could not be confirmed or refuted")
    if placeless := len(_grave_without_place(report)):
        findings = "1 finding has" if placeless == 1 else f"{placeless} findings have"
        reasons.append(f"{findings} no place in the change")
    return "; ".join(reasons) or None


def _grave_without_place(report: Report) -> list[SetAside]:
    """The findings at or above `fail_on` without a place or legible text: nothing confirmed or refuted them."""
    return [each for each in report.aside if each.kind in ("misplaced", "malformed") and _fails(each, report.gate)]


def _exit(report: Report, ended_by: int, *, fails: bool, incomplete: bool) -> int:
    """The exit status: of several the one that comes first in the table of the command line."""
    if ended_by > EXIT_FINDINGS and ended_by not in (EXIT_PROVIDER, EXIT_LIMIT, EXIT_INCOMPLETE):
        return ended_by
    if ended_by in (EXIT_PROVIDER, EXIT_LIMIT):
        return ended_by
    if report.chunks and report.lost == report.chunks:
        return EXIT_PROVIDER
    if incomplete or ended_by == EXIT_INCOMPLETE:
        return EXIT_INCOMPLETE
    return EXIT_FINDINGS if fails else EXIT_DONE
