"""Sentences about a report that all formats share, and one notice for each thing that it lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from codelet.record import Record
from codelet.review.findings import SEVERITIES, AsideKind, Finding, HunkCoverage, Report, Severity, digest
from codelet.system.text import with_codes

NOTHING = "There was nothing to review."
UNCHANGED = "on lines that the change does not touch"
INCOMPLETE = "codelet-incomplete"

_MOST_ASIDE = 50
# Those without a place or a confirmation are listed as findings.
_ASIDE: dict[AsideKind, str] = {
    "duplicate": "joined with another one",
    "refuted": "refuted by a second look",
    "below": "under the least severity or confidence",
    "surplus": "over the number asked for",
    "ignored": "ignored by a comment in the code",
    "known": "in the baseline",
}
_LACKS: dict[AsideKind, str] = {
    "misplaced": "without a place",
    "malformed": "that cannot be read",
    "unconfirmed": "not confirmed",
}


class Notice(Record, kw_only=True):
    """One entry of a format that is a list. Without a `path` it is about the whole change."""

    kind: Literal["finding", "unreviewed", "run", "nothing"] | AsideKind
    severity: Severity
    rule: str
    text: str
    title: str
    key: str
    path: str | None = None
    line: int | None = None
    end_line: int | None = None
    finding: Finding | None = None


def notices(report: Report) -> list[Notice]:
    """Findings, unsettled ones, hunks that were not reviewed, and the state of the run if no hunk shows it."""
    listed = []
    for each in (*report.findings, *report.unsettled):
        facts = ", ".join(filter(None, (each.severity, each.rule, _LACKS.get(each.kind or "known"))))
        key = digest(each.kind or "", each.rule, each.path, each.quote, each.title)
        notice = Notice(
            kind=each.kind or "finding", severity=each.severity, rule=each.rule, text=body(each, report),
            path=file_of(each, report) if each.kind else each.path, line=each.line or None,
            end_line=None if each.kind else each.end_line, title=f"{each.title} ({facts})", finding=each,
            key=each.fingerprint if not each.kind and each.fingerprint else key,
        )  # fmt: skip
        listed.append(notice)
    for hunk in report.unreviewed:
        text, first = f"Not reviewed ({hunk.state}): {hunk.why}", hunk.new_start or None
        unread = Notice(
            kind="unreviewed", severity="high", rule=INCOMPLETE, text=text, title=f"not reviewed ({hunk.state})",
            path=hunk.path, line=first, end_line=first and max(hunk.new_start + hunk.new_lines - 1, first),
            key=digest(INCOMPLETE, hunk.path, str(first or 1), text),
        )  # fmt: skip
        listed.append(unread)
    if not report.is_whole and not report.unreviewed:
        text = incomplete_sentence(report)
        key = digest(INCOMPLETE, text)
        listed.append(Notice(kind="run", severity="high", rule=INCOMPLETE, text=text, title=text, key=key))
    if report.outcome == "nothing":
        rule, key = "codelet-nothing", digest("codelet-nothing", NOTHING)
        listed.append(Notice(kind="nothing", severity="info", rule=rule, text=NOTHING, title=NOTHING, key=key))
    return listed


def counted(number: int, name: str) -> str:
    """`1 hunk`, `2 hunks`."""
    return f"{number:,} {name}" + "s" * (number != 1)


def outcome_sentences(report: Report) -> str:
    """What was found, covered and set aside."""
    return " ".join(filter(None, (result_sentence(report), coverage_sentence(report), aside_sentence(report))))


def result_sentence(report: Report) -> str:
    """The number of findings, in one or two sentences that never call an incomplete review clean."""
    groups: list[tuple[str, Sequence[Finding]]] = [("", report.findings)]
    for kind, lack in _LACKS.items():
        groups.append((f" {lack}", [each for each in report.unsettled if each.kind == kind]))
    sentences = []
    for lack, own in groups:
        counts = Counter(each.severity for each in own)
        severities = ", ".join(f"{counts[severity]:,} {severity}" for severity in SEVERITIES if counts[severity])
        sentences += [f"{counted(len(own), 'finding')}{lack}: {severities}."] if own else []
    if sentences:
        return " ".join(sentences)
    if report.is_whole:
        return NOTHING if report.outcome == "nothing" else "No findings."
    return "No findings in what was reviewed." if report.coverage else "Nothing was reviewed."


def coverage_sentence(report: Report) -> str:
    """The number of hunks in each state."""
    states = report.states
    share = "" if report.coverage is None else f" ({report.coverage:.0f} %)"
    reviewed = f"{states['reviewed']:,} of {counted(len(report.hunks) - states['skipped'], 'hunk')} reviewed{share}"
    rest = [f"{states[state]:,} {state}" for state in ("truncated", "failed", "skipped") if states[state]]
    return ", ".join([reviewed, *rest]) + "."


def incomplete_sentence(report: Report) -> str:
    """Return why the review is not whole; empty if it is."""
    if report.is_whole:
        return ""
    reasons = [report.error] if report.error else []
    if missing := len(report.unreviewed):
        reasons.append(f"{counted(missing, 'hunk')} not reviewed as a whole")
    if report.lost and not report.error:
        reasons.append(f"{report.lost:,} of {counted(report.chunks, 'chunk')} without an answer")
    return f"INCOMPLETE: {'; '.join(reasons) or 'it was ended early'}."


def aside_sentence(report: Report) -> str:
    """The number of findings that were set aside, by reason; empty if none were."""
    kinds = [f"{number:,} {_ASIDE[kind]}" for kind, number in report.set_aside.items() if number and kind in _ASIDE]
    sentence = f"Set aside: {'; '.join(kinds)}." if kinds else ""
    if by_change := sum(each.by_change for each in report.aside):
        return f"{sentence} The change itself may have kept {counted(by_change, 'finding')} out.".strip()
    return sentence


def judged_aside(report: Report) -> list[Finding]:
    """The findings that the second look or a comment in the code set aside: a text in the change may have caused it."""
    return [each for each in report.aside if each.kind in ("refuted", "ignored") or each.by_change][:_MOST_ASIDE]


def cost_sentence(report: Report) -> str:
    """Requests, models, tokens, money and time; unknown figures are named as such."""
    usage = report.usage
    models = " and ".join((report.model, *report.fallbacks)) if report.model is not None else "no model"
    return ", ".join(
        (
            f"{counted(report.requests, 'request')} to {models}",
            "tokens unknown" if usage is None else f"{usage.total_input:,} tokens in, {usage.output:,} out",
            "cost unknown" if report.cost is None else f"${report.cost:.4f}",
            f"{report.duration:.1f} s.",
        )
    )


def on_one_line(name: str) -> str:
    """The name of a file or a line of code on one line, every invisible character written as its code."""
    return with_codes(name).replace("\n", "⟨U+000A⟩").replace("\t", " ")


def place(path: str, line: int | None, end_line: int | None = None) -> str:
    """The place of something, as compilers write it; the path is on one line."""
    if line is None:
        return on_one_line(path)
    return f"{on_one_line(path)}:{line}" + (f"-{end_line}" if end_line is not None and end_line > line else "")


def finding_place(each: Finding) -> str:
    """The place of a finding."""
    return place(each.path, each.line or None, each.end_line)


def hunk_place(hunk: HunkCoverage) -> str:
    """The place of a hunk on the new side, or on the old one if it only removes."""
    if hunk.new_start or hunk.new_lines:
        return place(hunk.path, max(hunk.new_start, 1), hunk.new_start + hunk.new_lines - 1)
    return place(hunk.path, hunk.old_start or None)


def body(finding: Finding, report: Report) -> str:
    """A finding as one text for formats that have a single message: title, explanation, and what else is to be said."""
    if state := unsettled_state(finding):
        named = "" if file_of(finding, report) else f"It names the file {on_one_line(finding.path)}."
        rest = (finding.quote, state, named)
    else:
        note = f"({UNCHANGED})" if finding.unchanged else ""
        rest = (f"It is about removed lines:\n{finding.removed}" if finding.removed else "", note, "")
    return "\n\n".join(filter(None, (finding.title, finding.explanation, *rest)))


def unsettled_state(finding: Finding) -> str:
    """Return why a finding is neither confirmed nor refuted; "" if it is."""
    return f"{_LACKS[finding.kind]}: {finding.why}" if finding.kind in _LACKS else ""


def file_of(aside: Finding, report: Report) -> str | None:
    """The file of the change that a finding names; None if it is about the whole change."""
    return aside.path if any(hunk.path == aside.path for hunk in report.hunks) else None


def some_file(report: Report) -> str:
    """A path for what is about the whole change, in formats that demand one."""
    return report.hunks[0].path if report.hunks else "."
