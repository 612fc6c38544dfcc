"""What every format says of a report in words: how it came out, what was not reviewed, what was set aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from codelet.review.findings import SEVERITIES, AsideKind, Finding, HunkCoverage, Report, SetAside, Severity
from codelet.review.report_text import UNCHANGED, counted, unsettled_counts, unsettled_name
from codelet.system.text import with_codes

# Those without a place or a confirmation are told of as findings.
_ASIDE: dict[AsideKind, str] = {
    "duplicate": "joined with another one",
    "refuted": "refuted by a second look",
    "below": "under the least severity or confidence",
    "surplus": "over the number asked for",
    "ignored": "ignored by a comment in the code",
    "known": "in the baseline",
}


NOTHING = "There was nothing to review."


def on_one_line(name: str) -> str:
    """The name of a file or a line of code on one line, every letter that nobody would see written as its code."""
    return with_codes(name).replace("\n", "⟨U+000A⟩").replace("\t", " ")


def not_reviewed(report: Report) -> list[HunkCoverage]:
    """The hunks that should have been reviewed and were not, or not as a whole."""
    return [hunk for hunk in report.hunks if hunk.state in ("truncated", "failed")]


def is_whole(report: Report) -> bool:
    """Whether everything that should have been reviewed was, to the end."""
    return report.outcome != "incomplete"


def severity_counts(severities: Iterable[Severity]) -> str:
    """Such as `1 critical, 2 low`."""
    counts = Counter(severities)
    return ", ".join(f"{counts[severity]:,} {severity}" for severity in SEVERITIES if counts[severity])


def result_sentence(report: Report) -> str:
    """What was found, in one or two sentences that never call an incomplete review clean."""
    sentences = []
    if report.findings:
        kinds = severity_counts(finding.severity for finding in report.findings)
        sentences.append(f"{counted(len(report.findings), 'finding')}: {kinds}.")
    sentences += [f"{text}." for text in unsettled_counts(report)]
    if sentences:
        return " ".join(sentences)
    if is_whole(report):
        return NOTHING if report.outcome == "nothing" else "No findings."
    return "No findings in what was reviewed."


def coverage_sentence(report: Report) -> str:
    """How many hunks ended in which state."""
    states = report.states
    due = len(report.hunks) - states["skipped"]
    told = f"{states['reviewed']:,} of {counted(due, 'hunk')} reviewed"
    rest = [f"{states[state]:,} {state}" for state in ("truncated", "failed", "skipped") if states[state]]
    return ", ".join([told, *rest]) + "."


def incomplete_sentence(report: Report) -> str:
    """Why the review is not whole; empty where it is."""
    if is_whole(report):
        return ""
    reasons = [report.error] if report.error else []
    if missing := len(not_reviewed(report)):
        reasons.append(f"{counted(missing, 'hunk')} not reviewed as a whole")
    if report.lost and not report.error:
        reasons.append(f"{report.lost:,} of {counted(report.chunks, 'chunk')} without an answer")
    if not reasons:
        reasons.append("it was ended early")
    return f"INCOMPLETE: {'; '.join(reasons)}."


def aside_sentence(report: Report) -> str:
    """How many findings were set aside, and why; empty if none were."""
    kinds = [f"{number:,} {_ASIDE[kind]}" for kind, number in report.set_aside.items() if number and kind in _ASIDE]
    told = f"Set aside: {'; '.join(kinds)}." if kinds else ""
    by_change = sum(each.by_change for each in report.aside)
    return f"{told} The change itself may have kept {counted(by_change, 'finding')} out." if by_change else told


def cost_sentence(report: Report) -> str:
    """What it took: requests, tokens, money and time; what is not known is said to be."""
    parts = [counted(report.requests, "request")]
    if report.usage is not None:
        parts.append(f"{report.usage.total_input:,} tokens read, {report.usage.output:,} written")
    parts.append("cost unknown" if report.cost is None else f"${report.cost:.4f}")
    if report.model:
        parts.append(report.model)
    return ", ".join([*parts, f"{report.duration:.1f} s"]) + "."


def place(path: str, line: int | None, end_line: int | None = None) -> str:
    """Where something is, as compilers write it; the path is shown on one line."""
    if line is None:
        return on_one_line(path)
    span = f"{line}-{end_line}" if end_line is not None and end_line > line else f"{line}"
    return f"{on_one_line(path)}:{span}"


def hunk_place(hunk: HunkCoverage) -> str:
    """Where a hunk is on the new side, or on the old one where it only removes."""
    if hunk.new_start or hunk.new_lines:
        return place(hunk.path, max(hunk.new_start, 1), hunk.new_start + hunk.new_lines - 1)
    return place(hunk.path, hunk.old_start or None)


def body(finding: Finding) -> str:
    """Title and explanation as one text for formats that have a single message."""
    note = f"({UNCHANGED})" if finding.unchanged else ""
    removed = f"It is about removed lines:\n{finding.removed}" if finding.removed else ""
    return "\n\n".join(filter(None, (finding.title, finding.explanation, removed, note)))


def unsettled_state(aside: SetAside) -> str:
    """Why a finding is neither confirmed nor refuted."""
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


def unsettled_path(aside: SetAside, report: Report) -> str:
    """The path of an unsettled finding in formats that demand one."""
    return file_of(aside, report) or some_file(report)


def replacement(finding: Finding) -> str | None:
    r"""What stands in the place of the quoted lines after the suggestion, without a last line end.

    None where the suggestion changes anything but exactly these lines: its own line numbers are the model's.
    """
    if finding.suggestion is None:
        return None
    old: list[str] = []
    new: list[str] = []
    hunks = 0
    for line in finding.suggestion.split("\n"):
        if line.startswith("@@"):
            hunks += 1
        elif hunks and line[:1] in ("-", " "):
            old.append(line[1:])
        if hunks and line[:1] in ("+", " "):
            new.append(line[1:])
    if hunks != 1:
        return None
    quoted = finding.quote.split("\n")
    head = _place_of(quoted, old)
    if head is None:
        return None
    tail = len(old) - head - len(quoted)
    if new[:head] != old[:head] or len(new) < head + tail or (tail and new[-tail:] != old[-tail:]):
        return None
    kept = new[head : len(new) - tail]
    return "\n".join(kept)


def _place_of(part: Sequence[str], whole: Sequence[str]) -> int | None:
    """Where the lines of `part` begin in `whole`, if at one place only."""
    size = len(part)
    places = [start for start in range(len(whole) - size + 1) if list(whole[start : start + size]) == list(part)]
    return places[0] if len(places) == 1 else None
