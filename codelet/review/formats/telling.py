"""What every format says of a report: the sentences about all of it, and one notice for each thing that it lists."""

from __future__ import annotations

from typing import Literal

from codelet.record import Record
from codelet.review.findings import AsideKind, Finding, HunkCoverage, Report, SetAside, Severity, digest
from codelet.review.report_text import UNCHANGED, counted, severity_counts, unsettled_counts, unsettled_name
from codelet.system.text import with_codes

NOTHING = "There was nothing to review."
INCOMPLETE = "codelet-incomplete"
"""The rule of a notice about what was not reviewed."""

# Those without a place or a confirmation are listed as findings.
_ASIDE: dict[AsideKind, str] = {
    "duplicate": "joined with another one",
    "refuted": "refuted by a second look",
    "below": "under the least severity or confidence",
    "surplus": "over the number asked for",
    "ignored": "ignored by a comment in the code",
    "known": "in the baseline",
}


class Notice(Record, kw_only=True):
    """One entry of a format that is a list. `path` is None if it is about the whole change; `key` identifies it."""

    kind: Literal["finding", "unsettled", "unreviewed", "run", "nothing"]
    severity: Severity
    rule: str
    text: str
    title: str
    path: str | None = None
    line: int | None = None
    end_line: int | None = None
    key: str = ""
    finding: Finding | None = None


def notices(report: Report) -> list[Notice]:
    """Findings, unsettled ones, hunks that were not reviewed, and what no hunk says of the run."""
    found = [
        Notice(
            kind="finding", severity=each.severity, rule=each.rule, text=body(each), path=each.path, line=each.line,
            end_line=each.end_line, title=f"{each.title} ({each.severity}, {each.rule})", finding=each,
            key=each.fingerprint or digest(each.rule, each.path, str(each.line), each.quote),
        )
        for each in report.findings
    ]  # fmt: skip
    found += [
        Notice(
            kind="unsettled", severity=each.severity, rule=each.rule, text=unsettled_body(each, report),
            path=file_of(each, report), line=each.line, key=digest(each.kind, each.rule, each.path, each.quote),
            title=f"{each.title} ({each.severity}, {each.rule}, {unsettled_name(each)})",
        )
        for each in report.unsettled
    ]  # fmt: skip
    for hunk in not_reviewed(report):
        text = f"Not reviewed ({hunk.state}): {hunk.why}"
        first = hunk.new_start or None
        unread = Notice(
            kind="unreviewed", severity="high", rule=INCOMPLETE, text=text, title=f"not reviewed ({hunk.state})",
            path=hunk.path, line=first, end_line=first and max(hunk.new_start + hunk.new_lines - 1, first),
            key=digest(INCOMPLETE, hunk.path, str(first or 1), text),
        )  # fmt: skip
        found.append(unread)
    if not is_whole(report) and not not_reviewed(report):
        text = incomplete_sentence(report)
        key = digest(INCOMPLETE, text)
        found.append(Notice(kind="run", severity="high", rule=INCOMPLETE, text=text, title="not complete", key=key))
    if report.outcome == "nothing":
        rule = "codelet-nothing"
        found.append(
            Notice(kind="nothing", severity="info", rule=rule, text=NOTHING, title=NOTHING, key=digest(rule, NOTHING))
        )
    return found


def on_one_line(name: str) -> str:
    """The name of a file or a line of code on one line, every invisible character written as its code."""
    return with_codes(name).replace("\n", "⟨U+000A⟩").replace("\t", " ")


def not_reviewed(report: Report) -> list[HunkCoverage]:
    """The hunks that should have been reviewed and were not, or not as a whole."""
    return [hunk for hunk in report.hunks if hunk.state in ("truncated", "failed")]


def is_whole(report: Report) -> bool:
    """Return whether everything that should have been reviewed was, to the end."""
    return report.outcome != "incomplete"


def result_sentence(report: Report) -> str:
    """Return what was found, in one or two sentences that never call an incomplete review clean."""
    sentences = [f"{text}." for text in unsettled_counts(report)]
    if report.findings:
        kinds = severity_counts(finding.severity for finding in report.findings)
        sentences.insert(0, f"{counted(len(report.findings), 'finding')}: {kinds}.")
    if sentences:
        return " ".join(sentences)
    if is_whole(report):
        return NOTHING if report.outcome == "nothing" else "No findings."
    return "No findings in what was reviewed."


def coverage_sentence(report: Report) -> str:
    """Return how many hunks ended in which state."""
    states = report.states
    reviewed = f"{states['reviewed']:,} of {counted(len(report.hunks) - states['skipped'], 'hunk')} reviewed"
    rest = [f"{states[state]:,} {state}" for state in ("truncated", "failed", "skipped") if states[state]]
    return ", ".join([reviewed, *rest]) + "."


def incomplete_sentence(report: Report) -> str:
    """Return why the review is not whole; empty if it is."""
    if is_whole(report):
        return ""
    reasons = [report.error] if report.error else []
    if missing := len(not_reviewed(report)):
        reasons.append(f"{counted(missing, 'hunk')} not reviewed as a whole")
    if report.lost and not report.error:
        reasons.append(f"{report.lost:,} of {counted(report.chunks, 'chunk')} without an answer")
    return f"INCOMPLETE: {'; '.join(reasons) or 'it was ended early'}."


def aside_sentence(report: Report) -> str:
    """Return how many findings were set aside, and why; empty if none were."""
    kinds = [f"{number:,} {_ASIDE[kind]}" for kind, number in report.set_aside.items() if number and kind in _ASIDE]
    sentence = f"Set aside: {'; '.join(kinds)}." if kinds else ""
    if by_change := sum(each.by_change for each in report.aside):
        return f"{sentence} The change itself may have kept {counted(by_change, 'finding')} out."
    return sentence


def cost_sentence(report: Report) -> str:
    """Return what it took: requests, tokens, money and time; what is not known is said to be."""
    parts = [counted(report.requests, "request")]
    if report.usage is not None:
        parts.append(f"{report.usage.total_input:,} tokens read, {report.usage.output:,} written")
    parts.append("cost unknown" if report.cost is None else f"${report.cost:.4f}")
    return ", ".join([*parts, *([report.model] if report.model else []), f"{report.duration:.1f} s"]) + "."


def place(path: str, line: int | None, end_line: int | None = None) -> str:
    """Return where something is, as compilers write it; the path is shown on one line."""
    if line is None:
        return on_one_line(path)
    return f"{on_one_line(path)}:{line}" + (f"-{end_line}" if end_line is not None and end_line > line else "")


def finding_place(each: Finding | SetAside) -> str:
    """Return where a finding is."""
    return place(each.path, each.line, each.end_line if isinstance(each, Finding) else None)


def hunk_place(hunk: HunkCoverage) -> str:
    """Return where a hunk is on the new side, or on the old one where it only removes."""
    if hunk.new_start or hunk.new_lines:
        return place(hunk.path, max(hunk.new_start, 1), hunk.new_start + hunk.new_lines - 1)
    return place(hunk.path, hunk.old_start or None)


def body(finding: Finding) -> str:
    """Title and explanation as one text for formats that have a single message."""
    note = f"({UNCHANGED})" if finding.unchanged else ""
    removed = f"It is about removed lines:\n{finding.removed}" if finding.removed else ""
    return "\n\n".join(filter(None, (finding.title, finding.explanation, removed, note)))


def unsettled_state(aside: SetAside) -> str:
    """Return why a finding is neither confirmed nor refuted."""
    return f"{unsettled_name(aside)}: {aside.why}"


def unsettled_body(aside: SetAside, report: Report) -> str:
    """An unsettled finding as one text: title, explanation, quote, why it is unsettled, and an unknown file."""
    named = "" if file_of(aside, report) else f"It names the file {on_one_line(aside.path)}."
    return "\n\n".join(filter(None, (aside.title, aside.explanation, aside.quote, unsettled_state(aside), named)))


def file_of(aside: SetAside, report: Report) -> str | None:
    """The file of the change that a finding names; None if there is none, so that it is about the whole change."""
    return aside.path if any(hunk.path == aside.path for hunk in report.hunks) else None


def some_file(report: Report) -> str:
    """A path for what is about the whole change, in formats that demand one."""
    return report.hunks[0].path if report.hunks else "."


def replacement(finding: Finding) -> str | None:
    r"""Return what stands in the place of the quoted lines after the suggestion, without a last line end.

    None if the suggestion changes anything but exactly these lines: its own line numbers are the model's.
    """
    lines = (finding.suggestion or "").split("\n")
    starts = [number for number, line in enumerate(lines) if line.startswith("@@")]
    if len(starts) != 1:
        return None
    rows = lines[starts[0] + 1 :]
    old = [row[1:] for row in rows if row[:1] in ("-", " ")]
    new = [row[1:] for row in rows if row[:1] in ("+", " ")]
    quoted = finding.quote.split("\n")
    heads = [start for start in range(len(old)) if old[start : start + len(quoted)] == quoted]
    if len(heads) != 1:
        return None
    head, tail = heads[0], len(old) - heads[0] - len(quoted)
    if new[:head] != old[:head] or len(new) < head + tail or (tail and new[-tail:] != old[-tail:]):
        return None
    return "\n".join(new[head : len(new) - tail])
