"""The report's own arithmetic: coverage, counts, order."""

from codelet.review.findings import Finding, HunkCoverage, Report, Severity, order


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
