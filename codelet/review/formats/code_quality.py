"""GitLab's Code Quality report: a list of issues, each with a fingerprint of its own.

The format has no place for the state of a review, so each place that was not reviewed is an issue as well: a merge
request can never show an incomplete review as a clean one.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from codelet.review.findings import HunkCoverage, Report, Severity
from codelet.review.formats import telling

_SEVERITIES: dict[Severity, str] = {
    "critical": "blocker",
    "high": "critical",
    "medium": "major",
    "low": "minor",
    "info": "info",
}
_INCOMPLETE = "codelet-incomplete"


def code_quality(report: Report) -> str:
    """The report as GitLab reads it from `artifacts:reports:codequality`."""
    issues: list[dict[str, Any]] = []
    taken: set[str] = set()
    for finding in report.findings:
        print_ = finding.fingerprint or _digest(finding.rule, finding.path, str(finding.line), finding.quote)
        issue = _issue(
            finding.rule,
            telling.body(finding),
            _SEVERITIES[finding.severity],
            finding.path,
            {"begin": finding.line, "end": finding.end_line},
        )
        issues.append(_with_fingerprint(issue, print_, taken))
    for aside in report.unsettled:
        line = {"begin": aside.line or 1}
        text = telling.unsettled_body(aside, report)
        issue = _issue(aside.rule, text, _SEVERITIES[aside.severity], telling.unsettled_path(aside, report), line)
        issues.append(_with_fingerprint(issue, _digest(aside.kind, aside.rule, aside.path, aside.quote), taken))
    for issue in _missing(report):
        place = issue["location"]
        print_ = _digest(_INCOMPLETE, place["path"], str(place["lines"]["begin"]), issue["description"])
        issues.append(_with_fingerprint(issue, print_, taken))
    return json.dumps(issues, indent=2) + "\n"


def _missing(report: Report) -> list[dict[str, Any]]:
    """One issue for each hunk that was not reviewed; one for the run where no hunk says what is missing."""
    places = telling.not_reviewed(report)
    issues = [_unreviewed(hunk) for hunk in places]
    if not issues and not telling.is_whole(report):
        path = telling.some_file(report)
        text = f"The review is not complete. {telling.incomplete_sentence(report)}"
        issues.append(_issue(_INCOMPLETE, text, "blocker", path, {"begin": 1}))
    if report.outcome == "nothing":
        issues.append(_issue("codelet-nothing", telling.NOTHING, "info", telling.some_file(report), {"begin": 1}))
    return issues


def _unreviewed(hunk: HunkCoverage) -> dict[str, Any]:
    first = max(hunk.new_start, 1)
    lines = {"begin": first, "end": max(hunk.new_start + hunk.new_lines - 1, first)}
    text = f"Not reviewed ({hunk.state}): {hunk.why}"
    return _issue(_INCOMPLETE, text, "blocker", hunk.path, lines)


def _issue(check: str, text: str, severity: str, path: str, lines: dict[str, int]) -> dict[str, Any]:
    return {
        "description": text,
        "check_name": check,
        "fingerprint": "",
        "severity": severity,
        "location": {"path": path.removeprefix("./"), "lines": lines},
    }


def _with_fingerprint(issue: dict[str, Any], wanted: str, taken: set[str]) -> dict[str, Any]:
    """GitLab shows only the first of two issues with one fingerprint."""
    chosen, number = wanted, 1
    while chosen in taken:
        number += 1
        chosen = _digest(wanted, str(number))
    taken.add(chosen)
    return issue | {"fingerprint": chosen}


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
