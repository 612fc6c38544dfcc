"""The report as one HTML page: the findings in the diff where they belong, and what was not reviewed.

The page needs nothing else and runs nothing. A large diff is shown up to a bound; the files with findings come first.
"""

from __future__ import annotations

from collections.abc import Sequence

from codelet.export.page.rendering import COMMON_STYLE, rendered
from codelet.review.diff import Hunk, lines_of
from codelet.review.findings import UNSETTLED, Finding, Report
from codelet.review.formats import telling
from codelet.review.report_text import UNCHANGED
from codelet.review.reviewed_change import ReviewedChange
from codelet.system.text import with_codes

_PACKAGE = "codelet.review.formats.review_page"
_MOST_ROWS = 20_000
_LONGEST = 1_000
_KINDS = {"+": "add", "-": "del"}
_Part = dict[str, object]
"""What the template shows of a file, a hunk or a row."""


def review_page(report: Report, change: ReviewedChange | None) -> str:
    """The whole document; without the change it has the findings and no diff."""
    shown: set[int] = set()
    files = _files(report, change, shown)
    facts = {
        "Base": (report.base or "")[:12],
        "Head": (report.head or "")[:12],
        "Exit status": str(report.exit),
        "It took": telling.cost_sentence(report).removesuffix("."),
    }
    return rendered(
        (_PACKAGE, "page.html"),
        (COMMON_STYLE, (_PACKAGE, "review.css")),
        cleaning=with_codes,
        title=f"Review of {report.subject}",
        facts=[(name, value) for name, value in facts.items() if value],
        incomplete=telling.incomplete_sentence(report),
        sentences=[telling.result_sentence(report), telling.coverage_sentence(report), telling.aside_sentence(report)],
        findings=list(enumerate(report.findings, 1)),
        numbers={id(finding): index for index, finding in enumerate(report.findings, 1)},
        apart=[finding for finding in report.findings if id(finding) not in shown],
        files=files,
        missing=[(telling.hunk_place(hunk), hunk) for hunk in telling.not_reviewed(report)],
        skipped=[(telling.hunk_place(hunk), hunk) for hunk in report.hunks if hunk.state == "skipped"],
        unsettled=[(telling.finding_place(each), telling.unsettled_state(each), each) for each in report.unsettled],
        unchanged=UNCHANGED,
        aside=[(telling.finding_place(each), each) for each in report.aside if each.kind not in UNSETTLED],
        place=telling.finding_place,
        key=id,
    )


def _files(report: Report, change: ReviewedChange | None, shown: set[int]) -> list[_Part]:
    """The files of the change, those with findings first, as long as there is room; `shown` gets their findings."""
    found: dict[str, list[Finding]] = {}
    for finding in report.findings:
        found.setdefault(finding.path, []).append(finding)
    states = {(hunk.path, hunk.old_start, hunk.new_start): hunk for hunk in report.hunks}
    room = _MOST_ROWS
    files: list[_Part] = []
    for file in sorted(change.files if change is not None else (), key=lambda file: file.path not in found):
        hunks: list[_Part] = []
        findings = found.get(file.path, ())
        for hunk in file.hunks:
            if (size := hunk.body.count(b"\n") + 1) > room:
                continue
            room -= size
            state = states.get((file.path, hunk.old_start, hunk.new_start))
            missing = f"{state.state}: {state.why}" if state is not None and state.state != "reviewed" else ""
            place = f"@@ -{hunk.old_start},{hunk.old_lines} +{hunk.new_start},{hunk.new_lines} @@"
            hunks.append({"place": place, "missing": missing, "rows": _rows(hunk, findings, shown)})
        if file.hunks:
            files.append(
                {
                    "path": f"{file.old_path} → {file.path}" if file.old_path is not None else file.path,
                    "is_open": bool(findings) or any(hunk["missing"] for hunk in hunks),
                    "count": len(findings),
                    "hunks": hunks,
                    "left_out": len(file.hunks) - len(hunks),
                }
            )
    return files


def _rows(hunk: Hunk, findings: Sequence[Finding], shown: set[int]) -> list[_Part]:
    """The lines of a hunk, each with the findings that end on it."""
    rows: list[_Part] = []
    for line in lines_of(hunk):
        is_new = line.sign != "-"
        here = [each for each in findings if is_new and each.end_line == line.number]
        shown |= {id(each) for each in here}
        text = line.text if len(line.text) <= _LONGEST else f"{line.text[:_LONGEST]}…"
        number = str(line.number) if is_new else ""
        rows.append({"kind": _KINDS.get(line.sign), "number": number, "text": line.sign + text, "findings": here})
    return rows
