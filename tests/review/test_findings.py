"""The report's own arithmetic: coverage, counts, order. Written as JSON and read back it is the same report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codelet.errors import UsageError
from codelet.review.findings import (
    Finding,
    Gate,
    HunkCoverage,
    Report,
    Severity,
    order,
    read_report,
    report_as_json,
)
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


def finding(title: str, severity: Severity = "high", confidence: float = 0.9, line: int = 1) -> Finding:
    return Finding(
        rule="some-rule", title=title, explanation="why", severity=severity, category="bug", confidence=confidence,
        path="a.py", line=line, end_line=line, quote="x = 1",
    )  # fmt: skip


def test_coverage_leaves_out_what_is_skipped() -> None:
    hunks = (
        HunkCoverage(path="a", state="reviewed"),
        HunkCoverage(path="b", state="skipped", why="generated"),
        HunkCoverage(path="c", state="failed", why="lost"),
    )
    report = Report(subject="a change", hunks=hunks)
    assert report.coverage == 50.0
    assert report.states == {"reviewed": 1, "truncated": 0, "skipped": 1, "failed": 1}


def test_coverage_of_nothing_is_unknown() -> None:
    assert Report(subject="nothing").coverage is None


def test_the_gravest_and_surest_come_first() -> None:
    listed = [finding("d", "low"), finding("c", line=9), finding("b"), finding("a", "critical", 0.1)]
    assert [each.title for each in sorted(listed, key=order)] == ["a", "b", "c", "d"]


def test_what_is_set_aside_is_counted_by_kind() -> None:
    one = Finding(kind="refuted", why="no", rule="r", title="t", severity="low", path="a")
    counted = Report(subject="x", aside=(one, one)).set_aside
    assert counted["refuted"] == 2
    assert counted["duplicate"] == 0


def read_back(folder: Path, text: str) -> Report:
    (folder / "some file").write_text(text)
    return read_report(folder / "some file")


@pytest.mark.parametrize("report", [FULL, Report(subject="nothing", cost=None)])
def test_there_and_back(tmp_path: Path, report: Report) -> None:
    text = report_as_json(report)
    assert text.isascii()
    assert read_back(tmp_path, text) == report


@pytest.mark.parametrize(
    "document",
    ["3", "{}", "{", '{"version": 2}', '{"version": 1}', '{"version": 1, "subject": "s", "hunks": [1]}', "[" * 99_999],
)
def test_what_is_none_is_an_error_that_names_the_file(tmp_path: Path, document: str) -> None:
    with pytest.raises(UsageError, match="some file: "):
        read_back(tmp_path, document)


def test_names_of_a_newer_version_are_passed_over(tmp_path: Path) -> None:
    document = json.loads(report_as_json(FULL)) | {"later": 1}
    document["findings"][0]["later"] = 2
    assert read_back(tmp_path, json.dumps(document)) == FULL
