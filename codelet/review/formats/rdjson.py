"""Reviewdog's diagnostic format, one object for the whole run."""

from __future__ import annotations

import json
from typing import Any

from codelet.review.findings import Finding, HunkCoverage, Report, SetAside, Severity
from codelet.review.formats import telling

_SEVERITIES: dict[Severity, str] = {
    "critical": "ERROR",
    "high": "ERROR",
    "medium": "WARNING",
    "low": "INFO",
    "info": "INFO",
}
_INCOMPLETE = "codelet-incomplete"


def rdjson(report: Report) -> str:
    """The report for `reviewdog -f=rdjson`; each hunk that was not reviewed is a diagnostic, too."""
    diagnostics = [
        *map(_diagnostic, report.findings),
        *(_unsettled(each, report) for each in report.unsettled),
        *map(_unreviewed, telling.not_reviewed(report)),
    ]
    if not telling.is_whole(report) and not telling.not_reviewed(report):
        diagnostics.append(_whole_run(report))
    if report.outcome == "nothing":
        diagnostics.append(_entry(telling.NOTHING, telling.some_file(report), None, "info", "codelet-nothing"))
    result = {"source": {"name": "codelet"}, "diagnostics": diagnostics}
    return json.dumps(result, indent=2) + "\n"


def _diagnostic(finding: Finding) -> dict[str, Any]:
    diagnostic = _entry(
        telling.body(finding), finding.path, _range(finding.line, finding.end_line), finding.severity, finding.rule
    )
    if (text := telling.replacement(finding)) is not None:
        diagnostic["suggestions"] = [{"range": _range(finding.line, finding.end_line), "text": text}]
    return diagnostic


def _unsettled(aside: SetAside, report: Report) -> dict[str, Any]:
    span = _range(aside.line, aside.line) if aside.line is not None else None
    path = telling.unsettled_path(aside, report)
    return _entry(telling.unsettled_body(aside, report), path, span, aside.severity, aside.rule)


def _unreviewed(hunk: HunkCoverage) -> dict[str, Any]:
    span = _range(hunk.new_start, hunk.new_start + hunk.new_lines - 1) if hunk.new_start else None
    return _entry(f"Not reviewed ({hunk.state}): {hunk.why}", hunk.path, span, "high", _INCOMPLETE)


def _whole_run(report: Report) -> dict[str, Any]:
    return _entry(telling.incomplete_sentence(report), telling.some_file(report), None, "high", _INCOMPLETE)


def _entry(text: str, path: str, span: dict[str, Any] | None, severity: Severity, rule: str) -> dict[str, Any]:
    location: dict[str, Any] = {"path": path}
    if span is not None:
        location["range"] = span
    return {
        "message": text,
        "location": location,
        "severity": _SEVERITIES[severity],
        "source": {"name": "codelet"},
        "code": {"value": rule},
    }


def _range(line: int, end_line: int) -> dict[str, Any]:
    """Whole lines: without columns the end belongs to the range."""
    return {"start": {"line": line}, "end": {"line": max(end_line, line)}}
