"""SARIF 2.1.0, as code scanning services take it.

An ignored or known finding is suppressed; one without a place or a confirmation has the property `unsettled`. A review
that is not whole is an unsuccessful invocation, with a notification for each place that was not reviewed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from codelet import __version__
from codelet.review.findings import Finding, Report, Severity
from codelet.review.formats import sentences
from codelet.review.rule_list import RULES

_LEVELS: dict[Severity, tuple[str, str]] = {
    "critical": ("error", "9.5"),
    "high": ("error", "8.0"),
    "medium": ("warning", "5.5"),
    "low": ("note", "3.0"),
    "info": ("note", "0.0"),
}
"""Levels, and scores in the bands that services read as critical, high, medium and low."""

_MOST_RESULTS, _MOST_TAGS = 5_000, 10  # that GitHub shows of a run, and takes for a rule
_HELP = "A comment `codelet: ignore[RULE] reason` on the line sets a finding aside."

_Json = dict[str, Any]


def sarif(report: Report) -> str:
    """The report as one SARIF log with one run."""
    suppressed = [each for each in report.aside if each.kind in ("ignored", "known")]
    rules = _rules([*report.findings, *suppressed, *report.unsettled])
    places = {rule["id"]: index for index, rule in enumerate(rules)}
    open_ones = [_result(each, report, places) for each in report.unsettled][:_MOST_RESULTS]
    results = [_result(each, report, places) for each in (*report.findings, *suppressed)]
    room = _MOST_RESULTS - len(open_ones)
    run: _Json = {
        "tool": {"driver": {"name": "codelet", "semanticVersion": __version__, "rules": rules}},
        "automationDetails": {"id": "codelet-review/"},
        "columnKind": "utf16CodeUnits",
        "invocations": [_invocation(report, more=len(results) - room)],
        "results": [*results[:room], *open_ones],
        "properties": {  # what SARIF has no place for
            "outcome": report.outcome,
            "summary": sentences.result_sentence(report),
            "coverage": {**report.states, "percent": report.coverage},
            "setAside": report.set_aside,
            "partial": not report.is_whole,
            "base": report.base,
            "head": report.head,
            "cost": report.cost,
        },
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2) + "\n"


def _rules(findings: Sequence[Finding]) -> list[_Json]:
    """One rule for each name that occurs, as grave as the gravest finding of it."""
    rules = []
    for name in sorted({each.rule for each in findings}):
        own = [each for each in findings if each.rule == name]
        gravest = max(own, key=lambda each: each.weight).severity
        categories = sorted({each.category for each in own if each.kind is None and each.category})
        properties: _Json = {"tags": categories[:_MOST_TAGS]}
        if "security" in categories:
            properties["security-severity"] = _LEVELS[gravest][1]
        known = RULES.get(name)
        words = name.replace("-", " ")
        text = known.text if known is not None else f"What the model calls {words}."
        rule: _Json = {
            "id": name,
            "shortDescription": {"text": words.capitalize()},
            "fullDescription": {"text": text},
            "help": {"text": f"{text} {_HELP}", "markdown": f"{text}\n\n{_HELP}"},
            "defaultConfiguration": {"level": _LEVELS[gravest][0]},
            "properties": properties,
        }
        if known is not None and known.cwe is not None:
            properties["tags"] = [*properties["tags"], f"external/cwe/cwe-{known.cwe:03}"]
            rule["helpUri"] = f"https://cwe.mitre.org/data/definitions/{known.cwe}.html"
        rules.append(rule)
    return rules


def _result(each: Finding, report: Report, places: dict[str, int]) -> _Json:
    """A finding on its lines, an ignored or known one as suppressed, or an unsettled one with its state."""
    is_suppressed = each.kind in ("ignored", "known")
    path, region = each.path, {"startLine": each.line, "endLine": each.end_line, "snippet": {"text": each.quote}}
    if each.kind is not None:
        path = sentences.file_of(each, report) or sentences.some_file(report)
        region = {"startLine": each.line or 1}  # code scanning shows nothing without a line
    text = each.title if is_suppressed else sentences.body(each, report)
    result: _Json = {
        "ruleId": each.rule,
        "ruleIndex": places[each.rule],
        "level": _LEVELS[each.severity][0],
        "message": {"text": text.replace("](", "] (")},  # a bracket before a parenthesis would be read as a link
        "locations": [_location(path, region)],
    }
    if is_suppressed:
        kind = "inSource" if each.kind == "ignored" else "external"
        return result | {"suppressions": [{"kind": kind, "status": "accepted", "justification": each.why}]}
    if each.kind is not None:
        facts = {"severity": each.severity, "unsettled": each.kind, "why": each.why, "quote": each.quote}
        return result | {"properties": facts}
    result["rank"] = round(100 * each.confidence, 1)
    if each.fingerprint:
        result["partialFingerprints"] = {"codeletReview/v1": each.fingerprint}
    names = ("severity", "category", "confidence", "verified", "unchanged")
    result["properties"] = {name: getattr(each, name) for name in names}
    if (new := each.replacement) is not None:
        lines = {"startLine": each.line, "startColumn": 1, "endLine": each.end_line + 1, "endColumn": 1}
        edit = {"deletedRegion": lines, "insertedContent": {"text": f"{new}\n" if new else ""}}
        edited = _location(path)["physicalLocation"] | {"replacements": [edit]}
        result["fixes"] = [{"description": {"text": "what the review suggests"}, "artifactChanges": [edited]}]
    return result


def _location(path: str, region: _Json | None = None) -> _Json:
    place: _Json = {"artifactLocation": {"uri": quote(path), "uriBaseId": "%SRCROOT%"}}
    return {"physicalLocation": place if region is None else place | {"region": region}}


def _invocation(report: Report, *, more: int) -> _Json:
    notes: list[tuple[str, str, _Json]] = []
    if not report.is_whole:
        notes.append(("error", sentences.incomplete_sentence(report), {}))
    if more > 0:
        notes.append(("warning", f"{more:,} more findings are in the JSON report only", {}))
    for hunk in report.hunks:
        if hunk.state != "reviewed":
            region = {"startLine": hunk.new_start, "endLine": hunk.new_start + hunk.new_lines - 1}
            where = _location(hunk.path, region if hunk.new_start and hunk.new_lines else None)
            level = "note" if hunk.state == "skipped" else "error"
            notes.append((level, f"{hunk.state}: {hunk.why}", {"locations": [where]}))
    listed = [{"level": level, "message": {"text": text}, **where} for level, text, where in notes]
    invocation: _Json = {"executionSuccessful": report.is_whole, "exitCode": report.exit}
    return invocation | ({"toolExecutionNotifications": listed} if listed else {})
