"""The report as one HTML page: the findings in the diff where they belong, and what was not reviewed.

The page needs nothing else and runs nothing. A large diff is shown up to a bound; the files with findings come first.
"""

from __future__ import annotations

from collections.abc import Sequence

from codelet.export.page.rendering import COMMON_STYLE, rendered
from codelet.record import Record
from codelet.review.diff import FileDiff, Hunk
from codelet.review.findings import UNSETTLED, Finding, HunkCoverage, Report
from codelet.review.formats import telling
from codelet.review.hunk_lines import lines_of
from codelet.review.report_text import UNCHANGED
from codelet.review.reviewed_change import ReviewedChange
from codelet.system.text import with_codes

_PACKAGE = "codelet.review.formats.review_page"
_MOST_ROWS = 20_000
_LONGEST = 1_000
_KINDS = {"+": "add", "-": "del"}


class _Row(Record, kw_only=True):
    """One line of the diff, and the findings that end on it."""

    kind: str
    number: str
    text: str
    findings: tuple[Finding, ...]


class _Hunk(Record, kw_only=True):
    """One hunk; `missing` says why it was not reviewed, where it was not."""

    place: str
    missing: str
    rows: tuple[_Row, ...]


class _File(Record, kw_only=True):
    """One file: folded away unless something is to be seen in it."""

    path: str
    is_open: bool
    count: int
    hunks: tuple[_Hunk, ...]
    left_out: int


def review_page(report: Report, change: ReviewedChange | None) -> str:
    """The whole document; without the change it has the findings and no diff."""
    files = _files(report, change)
    shown = {id(finding) for file in files for hunk in file.hunks for row in hunk.rows for finding in row.findings}
    return rendered(
        (_PACKAGE, "page.html"),
        (COMMON_STYLE, (_PACKAGE, "review.css")),
        cleaning=with_codes,
        title=f"Review of {report.subject}",
        facts=_facts(report),
        incomplete=telling.incomplete_sentence(report),
        sentences=[telling.result_sentence(report), telling.coverage_sentence(report), telling.aside_sentence(report)],
        findings=[(index, finding) for index, finding in enumerate(report.findings, 1)],
        numbers={id(finding): index for index, finding in enumerate(report.findings, 1)},
        apart=[finding for finding in report.findings if id(finding) not in shown],
        files=files,
        missing=[(telling.hunk_place(hunk), hunk) for hunk in telling.not_reviewed(report)],
        skipped=[(telling.hunk_place(hunk), hunk) for hunk in report.hunks if hunk.state == "skipped"],
        unsettled=[
            (telling.place(each.path, each.line), telling.unsettled_state(each), each) for each in report.unsettled
        ],
        unchanged=UNCHANGED,
        aside=[(telling.place(each.path, each.line), each) for each in report.aside if each.kind not in UNSETTLED],
        place=lambda finding: telling.place(finding.path, finding.line, finding.end_line),
        key=id,
    )


def _facts(report: Report) -> list[tuple[str, str]]:
    facts = {
        "Base": (report.base or "")[:12],
        "Head": (report.head or "")[:12],
        "Exit status": str(report.exit),
        "It took": telling.cost_sentence(report).removesuffix("."),
    }
    return [(name, value) for name, value in facts.items() if value]


def _files(report: Report, change: ReviewedChange | None) -> list[_File]:
    """The files of the change, those with findings first, as long as there is room."""
    found: dict[str, list[Finding]] = {}
    for finding in report.findings:
        found.setdefault(finding.path, []).append(finding)
    states: dict[tuple[str, int, int], HunkCoverage] = {
        (hunk.path, hunk.old_start, hunk.new_start): hunk for hunk in report.hunks
    }
    listed = sorted(change.files if change is not None else (), key=lambda file: file.path not in found)
    room = _MOST_ROWS
    files = []
    for file in listed:
        if not file.hunks:
            continue
        made, room = _file(file, found.get(file.path, ()), states, room)
        files.append(made)
    return files


def _file(
    file: FileDiff, findings: Sequence[Finding], states: dict[tuple[str, int, int], HunkCoverage], room: int
) -> tuple[_File, int]:
    """One file in at most `room` rows, and the room that is left then."""
    hunks: list[_Hunk] = []
    left_out = 0
    for hunk in file.hunks:
        size = hunk.body.count(b"\n") + 1
        if size > room:
            left_out += 1
            continue
        room -= size
        state = states.get((file.path, hunk.old_start, hunk.new_start))
        missing = f"{state.state}: {state.why}" if state is not None and state.state != "reviewed" else ""
        hunks.append(_Hunk(place=_place(hunk), missing=missing, rows=_rows(hunk, findings)))
    is_open = bool(findings) or any(hunk.missing for hunk in hunks)
    name = f"{file.old_path} → {file.path}" if file.old_path is not None else file.path
    return _File(path=name, is_open=is_open, count=len(findings), hunks=tuple(hunks), left_out=left_out), room


def _place(hunk: Hunk) -> str:
    return f"@@ -{hunk.old_start},{hunk.old_lines} +{hunk.new_start},{hunk.new_lines} @@"


def _rows(hunk: Hunk, findings: Sequence[Finding]) -> tuple[_Row, ...]:
    lines = lines_of(hunk)
    rows = []
    for line in lines:
        here = () if line.sign == "-" else tuple(each for each in findings if each.end_line == line.number)
        text = line.text if len(line.text) <= _LONGEST else f"{line.text[:_LONGEST]}…"
        number = "" if line.sign == "-" else str(line.number)
        rows.append(_Row(kind=_KINDS.get(line.sign, ""), number=number, text=f"{line.sign}{text}", findings=here))
    return tuple(rows)
