"""SARIF 2.1.0, as code scanning services take it.

An ignored or known finding is a result with a suppression; one without a place or a confirmation has the property
`unsettled`. If a review is not whole, the invocation was not successful, and
there is a notification for each place that was not reviewed.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from codelet import __version__
from codelet.review.findings import Finding, Report, Severity, weight
from codelet.review.formats import sentences
from codelet.review.rule_list import RULES

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: dict[Severity, tuple[str, str]] = {
    "critical": ("error", "9.5"),
    "high": ("error", "8.0"),
    "medium": ("warning", "5.5"),
    "low": ("note", "3.0"),
    "info": ("note", "0.0"),
}
"""Levels, and scores in the bands that services read as critical, high, medium and low."""

_MOST_RESULTS, _MOST_TAGS = 5_000, 10
"""The number of results that GitHub shows of a run, and of tags that it takes for a rule."""
_HELP = "A comment `codelet: ignore[RULE] reason` on the line sets a finding aside."

_Json = dict[str, Any]


def sarif(report: Report) -> str:
    """The report as one SARIF log with one run."""
    suppressed = [each for each in report.aside if each.kind in ("ignored", "known")]
    rules = _rules(report, [*suppressed, *report.unsettled])
    places = {rule["id"]: index for index, rule in enumerate(rules)}
    open_ones = [_aside(each, report, places) for each in report.unsettled][:_MOST_RESULTS]
    results = [_result(finding, report, places) for finding in report.findings]
    results += [_aside(each, report, places) for each in suppressed]
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
            "partial": not sentences.is_whole(report),
            "base": report.base,
            "head": report.head,
            "cost": report.cost,
        },
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rules(report: Report, aside: list[Finding]) -> list[_Json]:
    """One rule for each name that occurs, as grave as the gravest finding of it."""
    found: dict[str, tuple[Severity, set[str]]] = {}
    named = [(each.rule, each.severity, each.category) for each in report.findings]
    for name, severity, category in [*named, *((each.rule, each.severity, "") for each in aside)]:
        gravest, categories = found.get(name, (severity, set()))
        found[name] = (max(gravest, severity, key=weight), categories | {category} - {""})
    return [_rule(name, severity, sorted(categories)) for name, (severity, categories) in sorted(found.items())]


def _rule(name: str, severity: Severity, categories: list[str]) -> _Json:
    properties: _Json = {"tags": categories[:_MOST_TAGS]}
    if "security" in categories:
        properties["security-severity"] = _LEVELS[severity][1]
    known = RULES.get(name)
    words = name.replace("-", " ")
    text = known.text if known is not None else f"What the model calls {words}."
    rule: _Json = {
        "id": name,
        "shortDescription": {"text": words.capitalize()},
        "fullDescription": {"text": text},
        "help": {"text": f"{text} {_HELP}", "markdown": f"{text}\n\n{_HELP}"},
        "defaultConfiguration": {"level": _LEVELS[severity][0]},
        "properties": properties,
    }
    if known is not None and known.cwe is not None:
        properties["tags"] = [*properties["tags"], f"external/cwe/cwe-{known.cwe:03}"]
        rule["helpUri"] = f"https://cwe.mitre.org/data/definitions/{known.cwe}.html"
    return rule


def _result(finding: Finding, report: Report, places: dict[str, int]) -> _Json:
    region = {"startLine": finding.line, "endLine": finding.end_line, "snippet": {"text": finding.quote}}
    result = _base(finding, sentences.body(finding, report), places, _location(finding.path, region))
    result["rank"] = round(100 * finding.confidence, 1)
    if finding.fingerprint:
        result["partialFingerprints"] = {"codeletReview/v1": finding.fingerprint}
    names = ("severity", "category", "confidence", "verified", "unchanged")
    result["properties"] = {name: getattr(finding, name) for name in names}
    if (text := finding.replacement) is not None:
        lines = {"startLine": finding.line, "startColumn": 1, "endLine": finding.end_line + 1, "endColumn": 1}
        edit = {"deletedRegion": lines, "insertedContent": {"text": f"{text}\n" if text else ""}}
        edited = _location(finding.path)["physicalLocation"] | {"replacements": [edit]}
        result["fixes"] = [{"description": {"text": "what the review suggests"}, "artifactChanges": [edited]}]
    return result


def _aside(aside: Finding, report: Report, places: dict[str, int]) -> _Json:
    """An ignored or known finding as suppressed, another one with its state."""
    path = sentences.file_of(aside, report) or sentences.some_file(report)
    location = _location(path, {"startLine": aside.line or 1})  # code scanning shows nothing without a line
    if aside.kind in ("ignored", "known"):
        kind = "inSource" if aside.kind == "ignored" else "external"
        suppressions = [{"kind": kind, "status": "accepted", "justification": aside.why}]
        return _base(aside, aside.title, places, location) | {"suppressions": suppressions}
    facts = {"severity": aside.severity, "unsettled": aside.kind, "why": aside.why, "quote": aside.quote}
    return _base(aside, sentences.body(aside, report), places, location) | {"properties": facts}


def _base(each: Finding, text: str, places: dict[str, int], location: _Json) -> _Json:
    return {
        "ruleId": each.rule,
        "ruleIndex": places[each.rule],
        "level": _LEVELS[each.severity][0],
        "message": {"text": text.replace("](", "] (")},  # a bracket before a parenthesis would be read as a link
        "locations": [location],
    }


def _location(path: str, region: _Json | None = None) -> _Json:
    place: _Json = {"artifactLocation": {"uri": quote(path), "uriBaseId": "%SRCROOT%"}}
    return {"physicalLocation": place if region is None else place | {"region": region}}


def _invocation(report: Report, *, more: int) -> _Json:
    whole = sentences.is_whole(report)
    notes: list[tuple[str, str, _Json]] = []
    if not whole:
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
    invocation: _Json = {"executionSuccessful": whole, "exitCode": report.exit}
    return invocation | ({"toolExecutionNotifications": listed} if listed else {})
