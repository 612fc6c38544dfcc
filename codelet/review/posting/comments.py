"""The comments to post, as Markdown: one for each finding and one for the whole review, each known by its first line.

The first line is an HTML comment with a key: it is invisible, and a later run finds it again. Texts of a model or a
file never begin a comment, so they cannot imitate such a line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from codelet.errors import EXIT_DONE
from codelet.record import Record
from codelet.review.findings import AsideKind, Finding, Report, digest
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
_FINDING = re.compile(r"<!-- codelet:finding ([0-9a-f][0-9a-f.]{7,79}) ([a-z0-9-]{1,100}) -->")
_REVIEW = re.compile(r"<!-- codelet:review (?:([0-9a-f]{40,64}\.\.[0-9a-f]{40,64})|[0-9a-f]{40,64}|-) -->")

_STILL_THERE: frozenset[AsideKind] = frozenset(("misplaced", "unconfirmed", "below", "surplus", "duplicate"))
"""Findings that are not reported on their lines, although nothing says that they are gone."""


class Thread(Record, kw_only=True):
    """A comment of ours on a finding, with the replies to it. `key` and `rule` are those of the finding.

    `resolved_by_us` says that an earlier run resolved it, and not a user.
    """

    id: str
    key: str
    rule: str
    path: str
    resolved: bool = False
    resolved_by_us: bool = False


class Changes(Record, kw_only=True):
    """The work of a run: findings to comment on by key, threads to resolve, threads to open again."""

    new: Mapping[str, Finding]
    gone: Sequence[Thread]
    back: Sequence[Thread]


def findings_by_key(findings: Sequence[Finding]) -> dict[str, Finding]:
    """The findings by a key that stays the same from run to run: the fingerprint, numbered if several share it."""
    found: dict[str, Finding] = {}
    for finding in findings:
        known_by = finding.fingerprint
        if re.fullmatch("[0-9a-f]{8,64}", known_by) is None:
            known_by = digest(finding.rule, finding.path, finding.quote)
        key, number = known_by, 1
        while key in found:
            number += 1
            key = f"{known_by}.{number}"
        found[key] = finding
    return found


def changes(report: Report, threads: Sequence[Thread], *, newest: bool) -> Changes:
    """Return how to bring the threads to the state of the report.

    A thread is resolved only if the review of the newest commit (`newest`) was whole and of the whole change, and its
    finding was not set aside without being refuted.
    """
    wanted = findings_by_key(report.findings)
    known = {thread.key for thread in threads}
    doubtful = {(aside.path, aside.rule) for aside in report.aside if aside.kind in _STILL_THERE}
    vague = any(aside.kind in _STILL_THERE and sentences.file_of(aside, report) is None for aside in report.aside)
    may_resolve = newest and not vague and sentences.is_whole(report) and report.whole_base is None
    return Changes(
        new={key: finding for key, finding in wanted.items() if key not in known},
        gone=[
            thread
            for thread in threads
            if may_resolve
            and not thread.resolved
            and thread.key not in wanted
            and (thread.path, thread.rule) not in doubtful
        ],
        back=[thread for thread in threads if thread.key in wanted and thread.resolved_by_us],
    )


def finding_comment(key: str, finding: Finding, *, on_lines: bool, suggestion: str = "suggestion") -> str:
    """The comment on a finding. `on_lines` says that it is on the finding's lines: then the code need not be repeated.

    `suggestion` is the language of a code block that the service offers to apply to these lines.
    """
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
    passed = sentences.is_whole(report) and report.coverage is not None and report.exit == EXIT_DONE
    base = report.whole_base or report.base
    reviewed = f"{base}..{report.head}" if passed and base and report.head else reviewed_range(before) or "-"
    parts = [f"<!-- codelet:review {reviewed} -->"]
    if report.head is not None and not newest:
        parts.append(f"> This review is of commit `{report.head}`; the request has other commits by now.")
    placed = [finding for key, finding in findings_by_key(report.findings).items() if key not in unplaced]
    parts.append(markdown_report(report, placed))
    return _cut("\n\n".join(parts))


def finding_of(text: str) -> tuple[str, str] | None:
    """The key and the rule of the finding that a comment is on; None if it is not on one."""
    found = _FINDING.match(text)
    return (found[1], found[2]) if found is not None else None


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
