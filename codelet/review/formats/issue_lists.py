"""Formats that are a list of issues: GitHub's annotations, GitLab's Code Quality report, reviewdog's, JUnit.

None of them has a place for the state of a review. What was not reviewed is an issue as well, so that an incomplete
review is never shown as a clean one.
"""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from codelet.review.findings import Report, Severity
from codelet.review.formats import sentences
from codelet.system.text import with_codes

_WORDS: dict[Severity, tuple[str, str, str]] = {
    "critical": ("error", "blocker", "ERROR"),
    "high": ("error", "critical", "ERROR"),
    "medium": ("warning", "major", "WARNING"),
    "low": ("notice", "minor", "INFO"),
    "info": ("notice", "info", "INFO"),
}
"""The severity in GitHub's, GitLab's and reviewdog's words."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def github_annotations(report: Report) -> str:
    """The report as workflow commands and nothing else, the outcome first: GitHub shows ten of a step."""
    outcome = [sentences.incomplete_sentence(report), sentences.outcome_sentences(report)]
    outcome += [f"Commit {report.head[:12]}."] if report.head else []
    kind = "notice" if report.is_whole else "error"
    lines = [_command(kind, " ".join(filter(None, outcome)), {"title": "codelet review"})]
    for each in sentences.notices(report):
        if each.kind in ("run", "nothing"):
            continue  # the first line says it
        properties = {"file": each.path} if each.path is not None else {}
        if each.line is not None:
            properties |= {"line": str(each.line), "endLine": str(each.end_line or each.line)}
        text = each.text.partition("\n\n")[2] or each.text  # the title is a property
        lines.append(_command(_WORDS[each.severity][0], text, {**properties, "title": each.title}))
    return "".join(f"{line}\n" for line in lines)


def _command(name: str, text: str, properties: dict[str, str]) -> str:
    """A command. It ends with its line, and its properties end at a comma or a colon: these are escaped."""

    def data(value: str) -> str:
        return with_codes(value).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    listed = (f"{key}={data(value).replace(':', '%3A').replace(',', '%2C')}" for key, value in properties.items())
    return f"::{name} {','.join(listed)}::{data(text)}"


def code_quality(report: Report) -> str:
    """The report as GitLab reads it from `artifacts:reports:codequality`: the fingerprints differ."""
    issues = [
        {
            "description": each.text,
            "check_name": each.rule,
            "fingerprint": each.key,
            "severity": "blocker" if each.rule == sentences.INCOMPLETE else _WORDS[each.severity][1],
            "location": {
                "path": (each.path or sentences.some_file(report)).removeprefix("./"),
                "lines": {"begin": each.line or 1} | ({"end": each.end_line} if each.end_line else {}),
            },
        }
        for each in sentences.notices(report)
    ]
    return json.dumps(issues, indent=2) + "\n"


def rdjson(report: Report) -> str:
    """The report for `reviewdog -f=rdjson`."""
    source = {"name": "codelet"}
    diagnostics = []
    for each in sentences.notices(report):
        location: dict[str, Any] = {"path": each.path or sentences.some_file(report)}
        diagnostic: dict[str, Any] = {
            "message": each.text,
            "location": location,
            "severity": _WORDS[each.severity][2],
            "source": source,
            "code": {"value": each.rule},
        }
        if each.line is not None:
            # Whole lines: without columns the end belongs to the range.
            location["range"] = {"start": {"line": each.line}, "end": {"line": each.end_line or each.line}}
            if each.finding is not None and each.finding.replacement is not None:
                diagnostic["suggestions"] = [{"range": location["range"], "text": each.finding.replacement}]
        diagnostics.append(diagnostic)
    return json.dumps({"source": source, "diagnostics": diagnostics}, indent=2) + "\n"


def junit(report: Report) -> str:
    """The report as JUnit XML: a test case for each hunk that was reviewed or skipped, and for each notice.

    A finding at or above `--fail-on` is a failure, one below it passes with its text as output.
    """
    cases = []
    for hunk in report.hunks:
        if hunk.state in ("reviewed", "skipped"):
            tag = "skipped" if hunk.state == "skipped" else ""
            cases.append(_case(f"{sentences.hunk_place(hunk)} {hunk.state}", hunk.path, tag, hunk.why, hunk.state))
    for each in sentences.notices(report):
        is_grave = report.gate.fails(each.severity)
        tag = {"finding": "failure" if is_grave else "system-out", "nothing": "skipped"}.get(each.kind, "")
        if not tag:  # an error if it makes the review incomplete
            tag = "error" if is_grave or each.kind in ("unconfirmed", "unreviewed", "run") else "system-out"
        path = each.path or "codelet.review"
        where = sentences.place(path, each.line, each.end_line)
        kind = each.severity if each.kind == "finding" else each.kind
        cases.append(_case(f"{where} {each.rule}", path, tag, f"{where}\n{each.text}", kind, each.title))
    for aside in report.aside:
        if aside.kind in ("ignored", "known"):
            name = f"{sentences.finding_place(aside)} {aside.rule} ({aside.kind})"
            cases.append(_case(name, aside.path, "skipped", f"{aside.title}\n{aside.why}", aside.kind))
    counts = {kind: sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error", "skipped")}
    totals = {"tests": str(len(cases)), "failures": str(counts["failure"]), "errors": str(counts["error"])}
    facts = {"name": "codelet review", "time": f"{report.duration:.3f}", **totals}
    root = Element("testsuites", facts)
    SubElement(root, "testsuite", {**facts, "skipped": str(counts["skipped"])}).extend(cases)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _case(name: str, path: str, tag: str, text: str, kind: str, message: str | None = None) -> Element:
    def xml(value: str) -> str:
        return _NOT_XML.sub("\ufffd", value)  # XML cannot hold the rest

    case = Element("testcase", {"name": xml(name), "classname": xml(sentences.on_one_line(path))})
    if tag:
        facts = {"message": xml(message or text.split("\n")[0]), "type": kind} if tag != "system-out" else {}
        SubElement(case, tag, facts).text = xml(text)
    return case
