"""The report as plain text: findings first, then the parts that were not reviewed, then the sums.

Only codelet's own words begin in the first column; a model's are indented.
"""

from __future__ import annotations

from collections.abc import Iterator

from codelet.review.findings import Finding, Report
from codelet.review.formats import sentences
from codelet.system.text import clean, one_line, visible

_WIDTH = 200
_MOST_SKIPPED = 20


def report_as_text(report: Report) -> str:
    """The whole report. It is safe on a terminal, but not in a pipeline whose runner reads commands."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"Review of {one_line(report.subject, _WIDTH)}"
    if report.summary:
        yield from ("", *_indented(report.summary, "  "))
    for finding in (*report.findings, *report.unsettled):
        yield from ("", *_finding(finding))
    yield ""
    yield sentences.result_sentence(report)
    if aside_sentence := sentences.aside_sentence(report):
        yield aside_sentence
    for each in sentences.judged_aside(report):
        if each.kind == "ignored" and not each.by_change:
            continue
        words = f"{one_line(each.title, _WIDTH)}: {one_line(each.why, 2 * _WIDTH)}"
        yield f"  {each.kind}: {each.severity}  {sentences.finding_place(each)}  {words}"
    if report.hunks:
        yield f"coverage: {sentences.coverage_sentence(report)}"
    for hunk in report.unreviewed:
        yield f"  {hunk.state}: {sentences.hunk_place(hunk)}: {one_line(hunk.why, _WIDTH)}"
    skipped = dict.fromkeys((each.path, each.why) for each in report.hunks if each.state == "skipped")
    for path, why in list(skipped)[:_MOST_SKIPPED]:
        yield f"  skipped: {sentences.place(path, None)}: {one_line(why, _WIDTH)}"
    if len(skipped) > _MOST_SKIPPED:
        more = sentences.counted(len(skipped) - _MOST_SKIPPED, "more skipped file")
        yield f"  and {more}; --output json lists all of them"
    if report.requests:
        yield one_line(sentences.cost_sentence(report), _WIDTH)
    if incomplete := sentences.incomplete_sentence(report):
        yield one_line(incomplete, 1_000)


def _indented(text: str, indent: str = "    ") -> list[str]:
    """The rows of a text of others; none for an empty one."""
    show = visible if indent.strip() else clean
    return [f"{indent}{show(line)}".rstrip() for line in text.rstrip("\n").split("\n")] if text else []


def _finding(finding: Finding) -> Iterator[str]:
    yield f"{finding.severity}  {sentences.finding_place(finding)}  {finding.title}"
    sure = f"{finding.confidence:.0%} sure" + (", confirmed" if finding.verified else "")
    unchanged = f", {sentences.UNCHANGED}" if finding.unchanged else ""
    state = one_line(sentences.unsettled_state(finding), _WIDTH) or f"{finding.category}, {sure}{unchanged}"
    yield f"    {finding.rule} ({state})"
    yield from _indented(finding.explanation)
    yield from _indented(finding.removed, "    - ")
    yield from _indented(finding.quote, "    | ")
    if finding.suggestion:
        yield "    suggestion:"
        yield from (f"      {visible(row)}" for row in finding.suggestion.split("\n"))
