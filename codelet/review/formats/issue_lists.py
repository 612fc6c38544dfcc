"""Formats that are a list of issues: GitHub's annotations, GitLab's Code Quality report, reviewdog's diagnostics.

None of them has a place for the state of a review. What was not reviewed is an issue as well, so that an incomplete
review is never shown as a clean one.
"""

from __future__ import annotations

import json
from typing import Any

from codelet.review.findings import Report, Severity, digest
from codelet.review.formats import sentences
from codelet.review.formats.sentences import Notice, notices
from codelet.system.text import with_codes

_WORDS: dict[Severity, tuple[str, str, str]] = {
    "critical": ("error", "blocker", "ERROR"),
    "high": ("error", "critical", "ERROR"),
    "medium": ("warning", "major", "WARNING"),
    "low": ("notice", "minor", "INFO"),
    "info": ("notice", "info", "INFO"),
}
"""The severity in GitHub's, GitLab's and reviewdog's words."""


def github_annotations(report: Report) -> str:
    """The report as workflow commands, one line each. The first reports the outcome: GitHub shows ten of a step.

    Nothing but the commands is written: no text of a model or of a file begins a line.
    """
    outcome = [sentences.incomplete_sentence(report), sentences.result_sentence(report)]
    outcome += [sentences.coverage_sentence(report), sentences.aside_sentence(report)]
    outcome += [f"Commit {report.head[:12]}."] if report.head else []
    kind = "notice" if sentences.is_whole(report) else "error"
    lines = [_command(kind, " ".join(filter(None, outcome)), {"title": "codelet review"})]
    for each in notices(report):
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
    issues: list[dict[str, Any]] = []
    taken: set[str] = set()
    for each in notices(report):
        chosen, number = each.key, 1
        while chosen in taken:  # GitLab shows only the first of two issues with one fingerprint
            number += 1
            chosen = digest(each.key, str(number))
        taken.add(chosen)
        lines = {"begin": each.line or 1} | ({"end": each.end_line} if each.end_line else {})
        issues.append(
            {
                "description": each.text,
                "check_name": each.rule,
                "fingerprint": chosen,
                "severity": "blocker" if each.rule == sentences.INCOMPLETE else _WORDS[each.severity][1],
                "location": {"path": (each.path or sentences.some_file(report)).removeprefix("./"), "lines": lines},
            }
        )
    return json.dumps(issues, indent=2) + "\n"


def rdjson(report: Report) -> str:
    """The report for `reviewdog -f=rdjson`."""
    source = {"name": "codelet"}
    diagnostics = [_diagnostic(each, each.path or sentences.some_file(report)) for each in notices(report)]
    return json.dumps({"source": source, "diagnostics": diagnostics}, indent=2) + "\n"


def _diagnostic(notice: Notice, path: str) -> dict[str, Any]:
    location: dict[str, Any] = {"path": path}
    diagnostic: dict[str, Any] = {
        "message": notice.text,
        "location": location,
        "severity": _WORDS[notice.severity][2],
        "source": {"name": "codelet"},
        "code": {"value": notice.rule},
    }
    if notice.line is not None:
        # Whole lines: without columns the end belongs to the range.
        location["range"] = {"start": {"line": notice.line}, "end": {"line": notice.end_line or notice.line}}
        if notice.finding is not None and notice.finding.replacement is not None:
            diagnostic["suggestions"] = [{"range": location["range"], "text": notice.finding.replacement}]
    return diagnostic
