"""The comments to post, as Markdown: one for each finding and one for the whole review, each known by its first line.

The first line is an HTML comment with a key: it is invisible, and a later run finds it again. Texts of a model or a
file never begin a comment, so they cannot imitate such a line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from codelet.errors import EXIT_DONE
from codelet.review.findings import Finding, Report, digest
from codelet.review.formats import sentences
from codelet.review.formats.markdown_report import (
    code_block,
    code_span,
    finding_facts,
    finding_text,
    markdown_line,
    markdown_report,
)
from codelet.review.rule_list import rule_name

_LONGEST = 60_000
"""Characters of a comment; GitHub takes 65,536."""
_FINDING = re.compile(r"<!-- codelet:finding ([0-9a-f]{8,64}) ([a-z0-9-]{1,100}) -->")
_REVIEW = re.compile(r"<!-- codelet:review (?:([0-9a-f]{40,64}\.\.[0-9a-f]{40,64})|[0-9a-f]{40,64}|-) -->")


def findings_by_key(findings: Sequence[Finding]) -> dict[str, Finding]:
    """The findings by a key that stays the same from run to run: the fingerprint, which no two of a report share."""
    return {each.fingerprint or digest(each.rule, each.path, each.quote): each for each in findings}


def finding_comment(key: str, finding: Finding, *, on_lines: bool, suggestion: str = "suggestion") -> str:
    """The comment on a finding, `on_lines` or elsewhere; `suggestion` marks code that the service offers to apply."""
    parts = [
        f"<!-- codelet:finding {key} {rule_name(finding.rule)} -->",
        f"**{finding.severity}: {markdown_line(finding.title)}**",
        finding_facts(finding),
    ]
    if not on_lines:
        parts += [code_span(sentences.finding_place(finding)), code_block(finding.quote, "")]
    applied = "" if finding.replacement is None or not on_lines else code_block(finding.replacement, suggestion)
    return _cut("\n\n".join([*parts, *finding_text(finding, applied)]))


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


def is_summary(text: str) -> bool:
    """Return whether a comment is the one on a whole review."""
    return _REVIEW.match(text) is not None


def reviewed_range(text: str) -> str | None:
    """The base and the head of the last review that passed, as a comment names them, or None."""
    found = _REVIEW.match(text)
    return found[1] if found is not None else None


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    kept = text[: text.rfind("\n\n", 0, _LONGEST)]
    open_fence = "\n```" if kept.count("\n```") % 2 else ""
    return f"{kept}{open_fence}\n\nThe rest is too long for a comment; the JSON report has all of it."
