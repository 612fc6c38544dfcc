"""Markdown, for a comment on a pull request or a job's summary.

What a model or a file wrote is text and nothing else in it: no mark-up, no link, no picture, no mention of a person
and no reference to an issue comes of it.
"""

from __future__ import annotations

from collections.abc import Collection

from codelet.review.findings import Finding, HunkCoverage, Report, SetAside
from codelet.review.formats import telling
from codelet.review.formats.markdown_text import code_block, code_span, markdown_line, markdown_text
from codelet.review.report_text import UNCHANGED

_MOST_PLACES = 50


def markdown_report(report: Report, listed: Collection[Finding] = ()) -> str:
    """The report as one document. The findings in `listed` take one row each: they are shown in full elsewhere."""
    parts = ["# Code review", _summary(report)]
    if report.summary:
        parts.append(markdown_text(report.summary))
    if report.findings:
        parts.append("## Findings")
        parts += ["\n".join(map(_row, listed))] if listed else []
        parts += [_finding(each) for each in report.findings if each not in listed]
    if report.unsettled:
        parts.append("## Findings without a place or a confirmation")
        parts += [_unsettled(each, report) for each in report.unsettled]
    if missing := telling.not_reviewed(report):
        parts += ["## Not reviewed", _places(missing)]
    if skipped := [hunk for hunk in report.hunks if hunk.state == "skipped"]:
        parts += ["## Skipped", _places(skipped)]
    if ignored := [each for each in report.aside if each.kind == "ignored"]:
        parts += ["## Ignored by comments", "\n".join(map(_ignored, ignored))]
    parts.append(f"<sub>{markdown_text(telling.cost_sentence(report))}</sub>")
    return "\n\n".join(parts) + "\n"


def _summary(report: Report) -> str:
    sentences = [
        f"Reviewed: {markdown_line(report.subject)}{f' at {code_span(report.head[:12])}' if report.head else ''}.",
        telling.result_sentence(report),
        telling.coverage_sentence(report),
    ]
    sentences.append(telling.aside_sentence(report))
    summary = " ".join(filter(None, sentences))
    incomplete = telling.incomplete_sentence(report)
    return f"> **{markdown_line(incomplete)}**\n\n{summary}" if incomplete else summary


def finding_facts(finding: Finding) -> list[str]:
    """Rule, category, confidence and state of a finding."""
    facts = [code_span(finding.rule), markdown_line(finding.category), f"confidence {finding.confidence:.2f}"]
    if finding.verified:
        facts.append("confirmed")
    if finding.unchanged:
        facts.append(UNCHANGED)
    return facts


def _row(finding: Finding) -> str:
    where = code_span(telling.place(finding.path, finding.line, finding.end_line))
    return f"- {finding.severity}: {markdown_line(finding.title)} – {where}"


def _finding(finding: Finding) -> str:
    where = telling.place(finding.path, finding.line, finding.end_line)
    parts = [
        f"### {finding.severity}: {markdown_line(finding.title)}",
        f"{code_span(where)} · {' · '.join(finding_facts(finding))}",
        code_block(finding.quote, ""),
    ]
    if finding.removed:
        parts.append(code_block("\n".join(f"- {row}" for row in finding.removed.split("\n")), "diff"))
    if finding.explanation:
        parts.append(markdown_text(finding.explanation))
    if finding.suggestion:
        parts += ["Suggestion:", code_block(finding.suggestion, "diff")]
    return "\n\n".join(parts)


def _unsettled(aside: SetAside, report: Report) -> str:
    facts = [
        code_span(telling.place(aside.path, aside.line)),
        code_span(aside.rule),
        markdown_line(telling.unsettled_state(aside)),
    ]
    if telling.file_of(aside, report) is None:
        facts.append("about the change as a whole")
    parts = [f"### {aside.severity}: {markdown_line(aside.title)}", " · ".join(facts)]
    if aside.quote:
        parts.append(code_block(aside.quote, ""))
    if aside.explanation:
        parts.append(markdown_text(aside.explanation))
    return "\n\n".join(parts)


def _places(hunks: list[HunkCoverage]) -> str:
    lines = [
        f"- {code_span(telling.hunk_place(hunk))} – {hunk.state}: {markdown_line(hunk.why)}"
        for hunk in hunks[:_MOST_PLACES]
    ]
    if len(hunks) > _MOST_PLACES:
        lines.append(f"- and {len(hunks) - _MOST_PLACES:,} more; the JSON report lists all")
    return "\n".join(lines)


def _ignored(aside: SetAside) -> str:
    where = code_span(telling.place(aside.path, aside.line))
    return f"- {where} – {markdown_line(aside.title)} ({code_span(aside.rule)}): {markdown_line(aside.why)}"
