"""SARIF 2.1.0, as code scanning services take it.

What a comment in the code or the baseline set aside is there with a suppression, what has no place or no confirmation
with `unsettled` among its properties. Where a review is not whole, the
invocation was not successful and a notification stands for each place that was not reviewed.
"""

from __future__ import annotations

import json
from typing import Any, Literal
from urllib.parse import quote

from codelet import __version__
from codelet.review.findings import Finding, Report, SetAside, Severity, weight
from codelet.review.formats import telling
from codelet.review.rule_list import RULES

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: dict[Severity, str] = {
    "critical": "error",
    "high": "error",
    "medium": "warning",
    "low": "note",
    "info": "note",
}
_SCORES: dict[Severity, str] = {"critical": "9.5", "high": "8.0", "medium": "5.5", "low": "3.0", "info": "0.0"}
"""Numbers in the bands that services read as critical, high, medium and low."""

_MOST_RESULTS, _MOST_TAGS = 5_000, 10
"""What GitHub shows of a run, and about what it takes for a rule."""
_HELP = "A comment `codelet: ignore[RULE] reason` on the line sets a finding aside."
_FINGERPRINT = "codeletReview/v1"

_Suppression = Literal["inSource", "external"]


def sarif(report: Report) -> str:
    """The report as one SARIF log with one run."""
    suppressed = [each for each in report.aside if each.kind in ("ignored", "known")]
    unsettled = report.unsettled
    rules = _rules(report, [*suppressed, *unsettled])
    places = {rule["id"]: index for index, rule in enumerate(rules)}
    open_ones = [_unsettled(each, report, places) for each in unsettled][:_MOST_RESULTS]
    results = [
        *(_result(finding, places) for finding in report.findings),
        *(_suppressed(each, places) for each in suppressed),
    ]
    room = _MOST_RESULTS - len(open_ones)
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "codelet", "semanticVersion": __version__, "rules": rules}},
        "automationDetails": {"id": "codelet-review/"},
        "columnKind": "utf16CodeUnits",
        "invocations": [_invocation(report, more=len(results) - room)],
        "results": [*results[:room], *open_ones],
        "properties": _facts(report),
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2) + "\n"


def _facts(report: Report) -> dict[str, Any]:
    """What SARIF has no place for."""
    return {
        "outcome": report.outcome,
        "summary": telling.result_sentence(report),
        "coverage": {**report.states, "percent": report.coverage},
        "setAside": report.set_aside,
        "partial": not telling.is_whole(report),
        "base": report.base,
        "head": report.head,
        "cost": report.cost,
    }


def _rules(report: Report, aside: list[SetAside]) -> list[dict[str, Any]]:
    """One rule for each name that occurs, as grave as the gravest finding of it."""
    found: dict[str, tuple[Severity, set[str]]] = {}
    named = [(each.rule, each.severity, each.category) for each in report.findings]
    for name, severity, category in [*named, *((each.rule, each.severity, "") for each in aside)]:
        gravest, categories = found.get(name, (severity, set()))
        found[name] = (max(gravest, severity, key=weight), categories | {category} - {""})
    return [_rule(name, severity, sorted(categories)) for name, (severity, categories) in sorted(found.items())]


def _rule(name: str, severity: Severity, categories: list[str]) -> dict[str, Any]:
    properties: dict[str, Any] = {"tags": categories[:_MOST_TAGS]}
    if "security" in categories:
        properties["security-severity"] = _SCORES[severity]
    known = RULES.get(name)
    text = known.text if known is not None else f"What the model calls {name.replace('-', ' ')}."
    rule: dict[str, Any] = {
        "id": name,
        "shortDescription": {"text": name.replace("-", " ").capitalize()},
        "fullDescription": {"text": text},
        "help": {"text": f"{text} {_HELP}", "markdown": f"{text}\n\n{_HELP}"},
        "defaultConfiguration": {"level": _LEVELS[severity]},
        "properties": properties,
    }
    if known is not None and known.cwe is not None:
        properties["tags"] = [*properties["tags"], f"external/cwe/cwe-{known.cwe:03}"]
        rule["helpUri"] = f"https://cwe.mitre.org/data/definitions/{known.cwe}.html"
    return rule


def _result(finding: Finding, places: dict[str, int]) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": finding.line, "endLine": finding.end_line}
    if finding.quote:
        region["snippet"] = {"text": finding.quote}
    result = _base(finding.rule, finding.severity, telling.body(finding), places)
    result["locations"] = [_location(finding.path, region)]
    result["rank"] = round(100 * finding.confidence, 1)
    if finding.fingerprint:
        result["partialFingerprints"] = {_FINGERPRINT: finding.fingerprint}
    result["properties"] = {
        "severity": finding.severity,
        "category": finding.category,
        "confidence": finding.confidence,
        "verified": finding.verified,
        "unchanged": finding.unchanged,
    }
    if (text := telling.replacement(finding)) is not None:
        result["fixes"] = [_fix(finding, text)]
    return result


def _suppressed(aside: SetAside, places: dict[str, int]) -> dict[str, Any]:
    kind: _Suppression = "inSource" if aside.kind == "ignored" else "external"
    result = _base(aside.rule, aside.severity, aside.title, places)
    result["locations"] = [_location(aside.path, {"startLine": aside.line} if aside.line is not None else None)]
    result["suppressions"] = [{"kind": kind, "status": "accepted", "justification": aside.why}]
    return result


def _unsettled(aside: SetAside, report: Report, places: dict[str, int]) -> dict[str, Any]:
    result = _base(aside.rule, aside.severity, telling.unsettled_body(aside, report), places)
    region = {"startLine": aside.line} if aside.line is not None else None
    result["locations"] = [_location(telling.unsettled_path(aside, report), region)]
    result["properties"] = {"severity": aside.severity, "unsettled": aside.kind, "why": aside.why, "quote": aside.quote}
    return result


def _base(rule: str, severity: Severity, text: str, places: dict[str, int]) -> dict[str, Any]:
    # A bracket before a parenthesis would be read as a link.
    message = text.replace("](", "] (")
    return {
        "ruleId": rule,
        "ruleIndex": places[rule],
        "level": _LEVELS[severity],
        "message": {"text": message},
    }


def _location(path: str, region: dict[str, Any] | None) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(path), "uriBaseId": "%SRCROOT%"}}
    if region is not None:
        place["region"] = region
    return {"physicalLocation": place}


def _fix(finding: Finding, text: str) -> dict[str, Any]:
    inserted = {"text": f"{text}\n"} if text else {"text": ""}
    region = {"startLine": finding.line, "startColumn": 1, "endLine": finding.end_line + 1, "endColumn": 1}
    change = {
        "artifactLocation": {"uri": quote(finding.path), "uriBaseId": "%SRCROOT%"},
        "replacements": [{"deletedRegion": region, "insertedContent": inserted}],
    }
    return {"description": {"text": "what the review suggests"}, "artifactChanges": [change]}


def _invocation(report: Report, *, more: int) -> dict[str, Any]:
    whole = telling.is_whole(report)
    invocation: dict[str, Any] = {"executionSuccessful": whole, "exitCode": report.exit}
    notes: list[dict[str, Any]] = []
    if not whole:
        notes.append(_note(telling.incomplete_sentence(report), "error", None))
    if more > 0:
        notes.append(_note(f"{more:,} more findings are in the JSON report only", "warning", None))
    for hunk in report.hunks:
        if hunk.state != "reviewed":
            region = {"startLine": hunk.new_start, "endLine": hunk.new_start + hunk.new_lines - 1}
            where = _location(hunk.path, region if hunk.new_start and hunk.new_lines else None)
            notes.append(_note(f"{hunk.state}: {hunk.why}", "note" if hunk.state == "skipped" else "error", where))
    if notes:
        invocation["toolExecutionNotifications"] = notes
    return invocation


def _note(text: str, level: str, location: dict[str, Any] | None) -> dict[str, Any]:
    note: dict[str, Any] = {"level": level, "message": {"text": text}}
    if location is not None:
        note["locations"] = [location]
    return note
