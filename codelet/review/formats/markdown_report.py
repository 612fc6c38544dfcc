"""Markdown, for a comment on a pull request or a job's summary.

What a model or a file wrote is text and nothing else in it: no mark-up, no link, no picture, no mention of a person
and no reference to an issue comes of it.
"""

from __future__ import annotations

import re

from codelet.review.findings import Finding, HunkCoverage, Report, SetAside
from codelet.review.formats import telling
from codelet.review.report_text import UNCHANGED
from codelet.system.text import with_codes

_SPECIAL = re.compile(r"([\\`*_\[\]|~])")
_LINE_START = re.compile(r"(?m)^(\s*)([#+=-]|\d+(?=[.)]))")
_REFERENCE = re.compile(r"(?:@|(?<!&)#|://|\bwww\.)(?=\S)|\bGH-(?=\d)")
_MOST_PLACES = 50


def markdown_report(report: Report) -> str:
    """The report as one document."""
    parts = ["# Code review", _summary(report)]
    if report.findings:
        parts.append("## Findings")
        parts += map(_finding, report.findings)
    if report.unsettled:
        parts.append("## Findings without a place or a confirmation")
        parts += [_unsettled(each, report) for each in report.unsettled]
    if missing := telling.not_reviewed(report):
        parts += ["## Not reviewed", _places(missing)]
    if skipped := [hunk for hunk in report.hunks if hunk.state == "skipped"]:
        parts += ["## Skipped", _places(skipped)]
    if ignored := [each for each in report.aside if each.kind == "ignored"]:
        parts += ["## Ignored by comments", "\n".join(map(_ignored, ignored))]
    parts.append(f"<sub>{_text(telling.cost_sentence(report))}</sub>")
    return "\n\n".join(parts) + "\n"


def _summary(report: Report) -> str:
    sentences = [
        f"Reviewed: {_title(report.subject)}.",
        telling.result_sentence(report),
        telling.coverage_sentence(report),
    ]
    sentences.append(telling.aside_sentence(report))
    summary = " ".join(filter(None, sentences))
    incomplete = telling.incomplete_sentence(report)
    return f"> **{_title(incomplete)}**\n\n{summary}" if incomplete else summary


def _finding(finding: Finding) -> str:
    where = telling.place(finding.path, finding.line, finding.end_line)
    facts = [_code(finding.rule), _title(finding.category), f"confidence {finding.confidence:.2f}"]
    if finding.verified:
        facts.append("confirmed")
    if finding.unchanged:
        facts.append(UNCHANGED)
    parts = [
        f"### {finding.severity}: {_title(finding.title)}",
        f"{_code(where)} · {' · '.join(facts)}",
        _fenced(finding.quote, ""),
    ]
    if finding.explanation:
        parts.append(_text(finding.explanation))
    if finding.suggestion:
        parts += ["Suggestion:", _fenced(finding.suggestion, "diff")]
    return "\n\n".join(parts)


def _unsettled(aside: SetAside, report: Report) -> str:
    facts = [_code(telling.place(aside.path, aside.line)), _code(aside.rule), _title(telling.unsettled_state(aside))]
    if telling.file_of(aside, report) is None:
        facts.append("about the change as a whole")
    parts = [f"### {aside.severity}: {_title(aside.title)}", " · ".join(facts)]
    if aside.quote:
        parts.append(_fenced(aside.quote, ""))
    if aside.explanation:
        parts.append(_text(aside.explanation))
    return "\n\n".join(parts)


def _places(hunks: list[HunkCoverage]) -> str:
    lines = [f"- {_code(telling.hunk_place(hunk))} – {hunk.state}: {_title(hunk.why)}" for hunk in hunks[:_MOST_PLACES]]
    if len(hunks) > _MOST_PLACES:
        lines.append(f"- and {len(hunks) - _MOST_PLACES:,} more; the JSON report lists all")
    return "\n".join(lines)


def _ignored(aside: SetAside) -> str:
    where = _code(telling.place(aside.path, aside.line))
    return f"- {where} – {_title(aside.title)} ({_code(aside.rule)}): {_title(aside.why)}"


def _text(text: str) -> str:
    """Text in which nothing is mark-up; an empty comment keeps a service from seeing names and addresses in it."""
    escaped = with_codes(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = _LINE_START.sub(_kept, _SPECIAL.sub(r"\\\1", escaped))
    return _REFERENCE.sub(lambda found: f"{found.group()[:-1]}{_broken(found.group()[-1])}", escaped)


def _title(text: str) -> str:
    """Text on one line."""
    return _text(" ".join(text.split()))


def _kept(found: re.Match[str]) -> str:
    """The beginning of a line that would make a heading, a rule or a list of it."""
    blank, mark = found.groups()
    return f"{blank}&#{ord(mark[0])};{mark[1:]}"


def _broken(mark: str) -> str:
    """The last sign of a reference, torn from what it refers to."""
    return f"<!-- -->{mark}" if mark in "/." else f"{mark}<!-- -->"


def _code(text: str) -> str:
    """A code span that holds any text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * (longest + 1)
    blank = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) else ""
    return f"{ticks}{blank}{text}{blank}{ticks}"


def _fenced(text: str, language: str) -> str:
    """A block of code, whatever stands in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    block = with_codes(text.rstrip("\n"))
    return f"{fence}{language}\n{block}\n{fence}"
