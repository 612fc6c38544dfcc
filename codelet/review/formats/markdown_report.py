"""Markdown: the report, for a job's summary, and the comments on a request, each known by its first line.

Texts of a model or a file stay text: they make no mark-up, link, image, mention of a user or reference to an issue, and
never begin a comment, whose first line is an HTML comment with a key by which a later run finds it again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from codelet.errors import EXIT_DONE
from codelet.review.diff import SEPARATOR
from codelet.review.findings import Finding, HunkCoverage, Report, digest
from codelet.review.formats import sentences
from codelet.review.rule_list import rule_name
from codelet.system.text import with_codes

_MOST_PLACES = 50
_SPECIAL = re.compile(r"([\\`*_\[\]|~])")
_CODE = re.compile(r"(?<![`\\])`([^`\n]+)`(?!`)")
_LINE_START = re.compile(r"(?m)^(\s*)([#+=/-]|\d+(?=[.)]))")
"""The beginning of a heading, a rule, a list, or a command to the service (`/approve`)."""
_REFERENCE = re.compile(r"(?:@|(?<!&)#|://|\bwww\.)(?=\S)|\bGH-(?=\d)")
_LONGEST = 60_000  # characters of a comment; GitHub takes 65,536
_FINDING = re.compile(r"<!-- codelet:finding ([0-9a-f]{8,64}) ([a-z0-9-]{1,100}) -->")
_REVIEW = re.compile(r"<!-- codelet:review (?:([0-9a-f]{40,64}\.\.[0-9a-f]{40,64})|[0-9a-f]{40,64}|-) -->")


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


def _finding_facts(finding: Finding) -> str:
    facts = [code_span(finding.rule), markdown_line(finding.category), f"confidence {finding.confidence:.2f}"]
    return " · ".join([*facts, *["confirmed"] * bool(finding.verified), *[sentences.UNCHANGED] * finding.unchanged])


def _finding_text(finding: Finding, suggestion: str = "") -> list[str]:
    """The removed lines, the explanation and the suggestion; `suggestion` is one that a service can apply."""
    parts = ["The change removes:", code_block(finding.removed, "")] if finding.removed else []
    parts.append(markdown_text(finding.explanation))
    if suggestion:
        parts.append(suggestion)
    elif finding.suggestion:
        parts += ["Suggestion:", code_block(finding.suggestion, "diff")]
    return [part for part in parts if part]


def _finding(finding: Finding, report: Report) -> str:
    facts = [_place(finding), _finding_facts(finding)]
    if state := sentences.unsettled_state(finding):
        facts = [_place(finding), code_span(finding.rule), markdown_line(state)]
        facts += ["about the change as a whole"] if sentences.file_of(finding, report) is None else []
    quote = code_block(finding.quote, "") if finding.quote else ""
    head = f"### {finding.severity}: {markdown_line(finding.title)}"
    return "\n\n".join(filter(None, (head, " · ".join(facts), quote, *_finding_text(finding))))


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


def findings_by_key(findings: Sequence[Finding]) -> dict[str, Finding]:
    """The findings by a key that stays the same from run to run: the fingerprint, which no two of a report share."""
    return {each.fingerprint or digest(each.rule, each.path, each.quote): each for each in findings}


def finding_comment(key: str, finding: Finding, *, on_lines: bool, suggestion: str = "suggestion") -> str:
    """The comment on a finding, `on_lines` or elsewhere; `suggestion` marks code that the service offers to apply."""
    parts = [
        f"<!-- codelet:finding {key} {rule_name(finding.rule)} -->",
        f"**{finding.severity}: {markdown_line(finding.title)}**",
        _finding_facts(finding),
    ]
    if not on_lines:
        parts += [code_span(sentences.finding_place(finding)), code_block(finding.quote, "")]
    applied = "" if finding.replacement is None or not on_lines else code_block(finding.replacement, suggestion)
    return _cut("\n\n".join([*parts, *_finding_text(finding, applied)]))


def summary_comment(report: Report, unplaced: Collection[str], before: str, *, newest: bool) -> str:
    """The comment on the whole review. `unplaced` are the keys of findings that could not be commented on.

    Its first line names the range of commits in the last review that was whole and passed, so that a later review can
    begin there: that of this report, or the one that the comment named `before`. What failed must not be passed over,
    and nor must what was in the base of that review: a request can be moved to another base.
    """
    passed = report.is_whole and report.coverage is not None and report.exit == EXIT_DONE
    base = report.whole_base or report.base
    reviewed = f"{base}..{report.head}" if passed and base and report.head else reviewed_range(before) or "-"
    parts = [f"<!-- codelet:review {reviewed} -->"]
    if report.head is not None and not newest:
        parts.append(f"> This review is of commit `{report.head}`; the request has other commits by now.")
    placed = [finding for key, finding in findings_by_key(report.findings).items() if key not in unplaced]
    parts.append(markdown_report(report, placed))
    return _cut("\n\n".join(parts))


def finding_of(text: str) -> tuple[str, str]:
    """The key and the rule of the finding that a comment is on; empty if it is not on one."""
    found = _FINDING.match(text)
    return (found[1], found[2]) if found is not None else ("", "")


def reviewed_range(text: str) -> str | None:
    """The base and head of the last review that passed, "" if none did; None for no comment on a whole review."""
    found = _REVIEW.match(text)
    return found[1] or "" if found is not None else None


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    kept = text[: text.rfind("\n\n", 0, _LONGEST)]
    open_fence = "\n```" if kept.count("\n```") % 2 else ""
    return f"{kept}{open_fence}\n\nThe rest is too long for a comment; the JSON report has all of it."
