"""The formats of a report by name.

Each is a function from a report to text, imported when it is used: this file is apart, since front ends need the names
alone. Each marks a review that is not whole: none can pass for a clean one.
"""

from __future__ import annotations

from importlib import import_module

from codelet.review.findings import Report

FORMATS = {
    "text": "codelet.review.formats.text_report:report_as_text",
    "json": "codelet.review.findings:report_as_json",
    "markdown": "codelet.review.formats.markdown_report:markdown_report",
    "sarif": "codelet.review.formats.sarif:sarif",
    "gitlab": "codelet.review.formats.issue_lists:code_quality",
    "rdjson": "codelet.review.formats.issue_lists:rdjson",
    "github": "codelet.review.formats.issue_lists:github_annotations",
    "junit": "codelet.review.formats.issue_lists:junit",
}


def written(name: str, report: Report) -> str:
    """The report in a format."""
    module, _, function = FORMATS[name].partition(":")
    text: str = getattr(import_module(module), function)(report)
    return text
