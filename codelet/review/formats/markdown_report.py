"""Markdown, for a comment on a pull request or a job's summary.

What a model or a file wrote is text and nothing else in it: no mark-up, no link, no picture, no mention of a person
and no reference to an issue comes of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from codelet.review.diff import SEPARATOR
from codelet.review.findings import Finding, HunkCoverage, Report, SetAside
from codelet.review.formats import telling
from codelet.review.report_text import UNCHANGED
from codelet.system.text import with_codes

_MOST_PLACES = 50
_SPECIAL = re.compile(r"([\\`*_\[\]|~])")
_CODE = re.compile(r"(?<![`\\])`([^`\n]+)`(?!`)")
_LINE_START = re.compile(r"(?m)^(\s*)([#+=/-]|\d+(?=[.)]))")
"""What would make a heading, a rule, a list, or a command to the service (`/approve`)."""
_REFERENCE = re.compile(r"(?:@|(?<!&)#|://|\bwww\.)(?=\S)|\bGH-(?=\d)")


def markdown_report(report: Report, listed: Collection[Finding] = ()) -> str:
    """The report as one document. The findings in `listed` take one row each: they are shown in full elsewhere."""
    parts = ["# Code review", _summary(report)]
    if report.summary:
        parts.append(markdown_text(report.summary))
    if report.findings:
        parts.append("## Findings")
        if listed:
            shown = ((each, code_span(telling.finding_place(each))) for each in listed)
            parts.append("\n".join(f"- {each.severity}: {markdown_line(each.title)} – {at}" for each, at in shown))
        parts += [_finding(each) for each in report.findings if each not in listed]
    if report.unsettled:
        parts.append("## Findings without a place or a confirmation")
        parts += [_unsettled(each, report) for each in report.unsettled]
    if missing := telling.not_reviewed(report):
        parts += ["## Not reviewed", _places(missing)]
    if skipped := [hunk for hunk in report.hunks if hunk.state == "skipped"]:
        parts += ["## Skipped", _places(skipped)]
    if ignored := [each for each in report.aside if each.kind == "ignored"]:
        rows = [
            f"- {code_span(telling.finding_place(each))} – {markdown_line(each.title)} ({code_span(each.rule)}): "
            f"{markdown_line(each.why)}"
            for each in ignored
        ]
        parts += ["## Ignored by comments", "\n".join(rows)]
    parts.append(f"<sub>{markdown_text(telling.cost_sentence(report))}</sub>")
    return "\n\n".join(parts) + "\n"


def _summary(report: Report) -> str:
    sentences = (
        f"Reviewed: {markdown_line(report.subject)}{f' at {code_span(report.head[:12])}' if report.head else ''}.",
        telling.result_sentence(report),
        telling.coverage_sentence(report),
        telling.aside_sentence(report),
    )
    summary = " ".join(filter(None, sentences))
    incomplete = telling.incomplete_sentence(report)
    return f"> **{markdown_line(incomplete)}**\n\n{summary}" if incomplete else summary


def finding_facts(finding: Finding) -> str:
    """Rule, category, confidence and state of a finding."""
    facts = [code_span(finding.rule), markdown_line(finding.category), f"confidence {finding.confidence:.2f}"]
    return " · ".join([*facts, *["confirmed"] * bool(finding.verified), *[UNCHANGED] * finding.unchanged])


def _finding(finding: Finding) -> str:
    parts = [
        f"### {finding.severity}: {markdown_line(finding.title)}",
        f"{code_span(telling.finding_place(finding))} · {finding_facts(finding)}",
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
    state = markdown_line(telling.unsettled_state(aside))
    facts = [code_span(telling.finding_place(aside)), code_span(aside.rule), state]
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


def markdown_text(text: str) -> str:
    """Text in which nothing is mark-up but spans of code; names and addresses are hidden from the service."""
    parts = _CODE.split(text)
    return "".join(code_span(with_codes(part)) if number % 2 else _escaped(part) for number, part in enumerate(parts))


def _escaped(text: str) -> str:
    """Text in which nothing is mark-up; an empty comment keeps a service from seeing names and addresses in it."""

    def broken(found: re.Match[str]) -> str:
        rest, sign = found.group()[:-1], found.group()[-1]
        return f"{rest}<!-- -->{sign}" if sign in "/." else f"{rest}{sign}<!-- -->"

    escaped = with_codes(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = _LINE_START.sub(lambda f: f"{f[1]}&#{ord(f[2][0])};{f[2][1:]}", _SPECIAL.sub(r"\\\1", escaped))
    return _REFERENCE.sub(broken, escaped)


def markdown_line(text: str) -> str:
    """Text on one line."""
    return markdown_text(" ".join(text.split()))


def _ticks(text: str, least: int) -> str:
    return "`" * max(least, 1 + max(map(len, re.findall("`+", text)), default=0))


def code_span(text: str) -> str:
    """A code span that holds any text."""
    ticks = _ticks(text, 1)
    blank = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) else ""
    return f"{ticks}{blank}{text}{blank}{ticks}"


def code_block(text: str, language: str) -> str:
    """A block of code, whatever it holds."""
    fence = _ticks(text, 3)
    block = with_codes(SEPARATOR.sub(lambda sign: f"⟨U+{ord(sign.group()):04X}⟩", text.rstrip("\n")))
    return f"{fence}{language}\n{block}\n{fence}"
