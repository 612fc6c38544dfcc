"""From findings to the report: duplicates joined, thresholds, order, verdict. Pure functions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from codelet.errors import EXIT_DONE, EXIT_FINDINGS, EXIT_INCOMPLETE, EXIT_PROVIDER
from codelet.review.findings import AsideKind, Finding, Gate, Report, SetAside, order, weight


def set_aside(finding: Finding, kind: AsideKind, why: str) -> SetAside:
    """The entry for a finding that is not reported."""
    same = {name: getattr(finding, name) for name in SetAside.fields if name in Finding.fields}
    return SetAside(kind=kind, why=why, **same)


def duplicate(finding: Finding, twin: Finding) -> SetAside:
    """The finding as one that repeats another."""
    return set_aside(finding, "duplicate", f"the same as {twin.title!r} in {twin.path}, line {twin.line}")


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
            aside.append(duplicate(finding, twin))
    return kept, aside


def _is_same(one: Finding, other: Finding) -> bool:
    overlap = one.line <= other.end_line and other.line <= one.end_line
    same_lines = (one.line, one.end_line) == (other.line, other.end_line)
    same_title = one.title.lower().split() == other.title.lower().split()
    return overlap and (same_title or (same_lines and one.rule == other.rule))


def passing(findings: Iterable[Finding], gate: Gate) -> tuple[list[Finding], list[SetAside]]:
    """The findings at or above the least severity and confidence, and what is below."""
    judged = [(finding, why_below(finding, finding.confidence, gate)) for finding in findings]
    below = [set_aside(finding, "below", why) for finding, why in judged if why is not None]
    return [finding for finding, why in judged if why is None], below


def why_below(finding: Finding | SetAside, confidence: float, gate: Gate) -> str | None:
    """Return why a finding does not pass the least severity and confidence; None if it does."""
    if finding.weight < weight(gate.min_severity):
        return f"its severity is under {gate.min_severity}"
    if confidence < gate.min_confidence:
        return f"its confidence is under {gate.min_confidence:g}"
    return None


def concluded(report: Report, ended_by: int = EXIT_DONE) -> Report:
    """The report with its findings joined, over the thresholds, in order, at most as many as wanted, and the verdict.

    `ended_by` is the exit status of what ended the review before its end, 0 if nothing did.
    """
    gate, most = report.gate, report.gate.max_findings
    findings, twins = joined(report.findings)
    findings, below = passing(findings, gate)
    findings = _with_own_prints(sorted(findings, key=order))
    fails = any(_fails(each, gate) for each in findings)
    surplus: list[SetAside] = []
    if most is not None:
        surplus = [set_aside(each, "surplus", f"over the {most} findings asked for") for each in findings[most:]]
        findings = findings[:most]
    aside = sorted(
        (*report.aside, *twins, *below, *surplus),
        key=lambda one: (one.kind, one.path, one.line or 0, one.rule, one.title),
    )
    report = report.replace(findings=tuple(findings), aside=tuple(aside))
    # Nothing confirmed or refuted those at or above `fail_on` that have no place or cannot be read.
    placeless = [each for each in aside if each.kind in ("misplaced", "malformed") and _fails(each, gate)]
    incomplete = _incomplete(report, len(placeless))
    status = ended_by
    if ended_by in (EXIT_DONE, EXIT_FINDINGS, EXIT_INCOMPLETE):  # others come first in the command line's table
        if report.chunks and report.lost == report.chunks:
            status = EXIT_PROVIDER
        elif incomplete is not None or ended_by == EXIT_INCOMPLETE:
            status = EXIT_INCOMPLETE
        else:
            status = EXIT_FINDINGS if fails else EXIT_DONE
    whole = ended_by == EXIT_DONE and not any(each.state in ("failed", "truncated") for each in report.hunks)
    partial = not whole or bool(report.set_aside["unconfirmed"] or placeless)
    return report.replace(exit=status, partial=partial, error=report.error or incomplete)


def _with_own_prints(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, each with a fingerprint that no other one has: two bugs of one kind can be on one line."""
    taken: Counter[str] = Counter()
    own = []
    for finding in findings:
        number = taken[finding.fingerprint] if finding.fingerprint else 0
        taken[finding.fingerprint] += 1
        own.append(finding.replace(fingerprint=f"{finding.fingerprint[:-2]}{number:02x}") if number else finding)
    return own


def _fails(finding: Finding | SetAside, gate: Gate) -> bool:
    return gate.fail_on is not None and finding.weight >= weight(gate.fail_on)


def _incomplete(report: Report, placeless: int) -> str | None:
    """Return what the review lacks for the coverage and the findings that were asked for; None if nothing."""
    if report.coverage is not None and report.coverage < report.gate.min_coverage:
        states = report.states
        counted = sum(states.values()) - states["skipped"]
        return f"{states['reviewed']} of {counted} hunks were reviewed, {report.gate.min_coverage:g} % were asked for"
    reasons = []
    if unconfirmed := report.set_aside["unconfirmed"]:
        findings = "1 finding" if unconfirmed == 1 else f"{unconfirmed} findings"
        reasons.append(f"{findings} could not be confirmed or refuted")
    if placeless:
        findings = "1 finding has" if placeless == 1 else f"{placeless} findings have"
        reasons.append(f"{findings} no place in the change")
    return "; ".join(reasons) or None
