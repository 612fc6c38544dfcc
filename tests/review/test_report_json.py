"""A report written as JSON and read back is the same report."""

from __future__ import annotations

import json

import pytest

from codelet.errors import UsageError
from codelet.review.findings import Finding, Gate, HunkCoverage, Report
from codelet.review.report_json import report_as_json, report_from
from codelet.usage import Usage

FULL = Report(
    subject="the commits a..b\u202e",
    base="1" * 40,
    findings=(
        Finding(
            rule="r", title="t", explanation="e", severity="low", category="c", confidence=0.25, path="ü\n.py", line=3,
            end_line=4, quote="a\nb", before=("x",), after=("y", "z"), replacement="c", verified=True,
        ),
    ),
    aside=(Finding(kind="refuted", why="w", rule="r", title="t", severity="info", path="p"),),
    hunks=(HunkCoverage(path="p", state="skipped", why="binary"),),
    gate=Gate(fail_on=None, max_findings=3),
    usage=Usage(total_input=5, output=2),
    cost=0.5,
    duration=1.5,
    exit=5,
)  # fmt: skip


@pytest.mark.parametrize("report", [FULL, Report(subject="nothing", cost=None)])
def test_there_and_back(report: Report) -> None:
    text = report_as_json(report)
    assert text.isascii()
    assert report_from(json.loads(text), "x") == report


@pytest.mark.parametrize(
    "document", [3, {}, {"version": 2}, {"version": 1}, {"version": 1, "subject": "s", "hunks": [1]}]
)
def test_what_is_none_is_an_error_that_names_the_file(document: object) -> None:
    with pytest.raises(UsageError, match="some file: "):
        report_from(document, "some file")


def test_names_of_a_newer_version_are_passed_over() -> None:
    document = json.loads(report_as_json(FULL)) | {"later": 1}
    document["findings"][0]["later"] = 2
    assert report_from(document, "x") == FULL
