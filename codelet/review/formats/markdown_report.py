"""Markdown, for a comment on a pull request or a job's summary.

Texts of a model or a file stay text: they make no mark-up, link, image, mention of a user or reference to an issue.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from codelet.review.diff import SEPARATOR
from codelet.review.findings import Finding, HunkCoverage, Report
from codelet.review.formats import sentences
from codelet.review.formats.sentences import UNCHANGED
from codelet.system.text import with_codes

_MOST_PLACES = 50
_SPECIAL = re.compile(r"([\\`*_\[\]|~])")
_CODE = re.compile(r"(?<![`\\])`([^`\n]+)`(?!`)")
_LINE_START = re.compile(r"(?m)^(\s*)([#+=/-]|\d+(?=[.)]))")
"""The beginning of a heading, a rule, a list, or a command to the service (`/approve`)."""
_REFERENCE = re.compile(r"(?:@|(?<!&)#|://|\bwww\.)(?=\S)|\bGH-(?=\d)")


def markdown_report(report: Report, listed: Collection[Finding] = ()) -> str:
    """The report as one document. The findings in `listed` take one row each: they are shown in full elsewhere."""
    parts = ["# Code review"]
    if incomplete := sentences.incomplete_sentence(report):
        parts.append(f"> **{markdown_line(incomplete)}**")
    head = f" at {code_span(report.head[:12])}" if report.head else ""
    parts.append(f"Reviewed: {markdown_line(report.subject)}{head}. {sentences.outcome_sentences(report)}")
    parts.append(markdown_text(report.summary))
    rows = [f"- {each.severity}: {markdown_line(each.title)} – {_place(each)}" for each in listed]
    full = [_finding(each, report) for each in report.findings if each not in listed]
    parts += _section("Findings", ["\n".join(rows), *full])
    unsettled = [_finding(each, report) for each in report.unsettled]
    parts += _section("Findings without a place or a confirmation", unsettled)
    parts += _section("Not reviewed", [_hunks(report.unreviewed)])
    parts += _section("Skipped", [_hunks([hunk for hunk in report.hunks if hunk.state == "skipped"])])
    rows = [
        f"- {each.kind}: {each.severity}, {_place(each)} – {markdown_line(each.title)}: {markdown_line(each.why)}"
        for each in sentences.judged_aside(report)
    ]
    parts += _section("Set aside", ["\n".join(rows)])
    parts.append(f"<sub>{markdown_text(sentences.cost_sentence(report))}</sub>")
    return "\n\n".join(filter(None, parts)) + "\n"


def _section(title: str, parts: list[str]) -> list[str]:
    return [f"## {title}", *parts] if any(parts) else []


def _place(each: Finding) -> str:
    return code_span(sentences.finding_place(each))


def finding_facts(finding: Finding) -> str:
    """Rule, category, confidence and state of a finding."""
    facts = [code_span(finding.rule), markdown_line(finding.category), f"confidence {finding.confidence:.2f}"]
    return " · ".join([*facts, *["confirmed"] * bool(finding.verified), *[UNCHANGED] * finding.unchanged])


def finding_text(finding: Finding, suggestion: str = "") -> list[str]:
    """The removed lines, the explanation and the suggestion; `suggestion` is one that a service can apply."""
    parts = ["The change removes:", code_block(finding.removed, "")] if finding.removed else []
    parts.append(markdown_text(finding.explanation))
    if suggestion:
        parts.append(suggestion)
    elif finding.suggestion:
        parts += ["Suggestion:", code_block(finding.suggestion, "diff")]
    return [part for part in parts if part]


def _finding(finding: Finding, report: Report) -> str:
    facts = [_place(finding), finding_facts(finding)]
    if state := sentences.unsettled_state(finding):
        facts = [_place(finding), code_span(finding.rule), markdown_line(state)]
        facts += ["about the change as a whole"] if sentences.file_of(finding, report) is None else []
    quote = code_block(finding.quote, "") if finding.quote else ""
    head = f"### {finding.severity}: {markdown_line(finding.title)}"
    return "\n\n".join(filter(None, (head, " · ".join(facts), quote, *finding_text(finding))))


def _hunks(hunks: list[HunkCoverage]) -> str:
    lines = [
        f"- {code_span(sentences.hunk_place(hunk))} – {hunk.state}: {markdown_line(hunk.why)}"
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
    """A block of code that holds any text."""
    fence = _ticks(text, 3)
    block = with_codes(SEPARATOR.sub(lambda sign: f"⟨U+{ord(sign.group()):04X}⟩", text.rstrip("\n")))
    return f"{fence}{language}\n{block}\n{fence}"
