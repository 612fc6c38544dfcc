"""GitHub's annotations: workflow commands in the log of a step, one line each.

A command ends at its line's end and its properties at a comma or a colon, so `%`, CR and LF are escaped everywhere, `:`
and `,` in properties; what nobody would see is written as its code. Nothing but the commands is written: no text of a
model or of a file begins a line.
"""

from __future__ import annotations

from codelet.review.findings import Finding, HunkCoverage, Report, SetAside, Severity
from codelet.review.formats import telling
from codelet.review.report_text import unsettled_name
from codelet.system.text import with_codes

_COMMANDS: dict[Severity, str] = {
    "critical": "error",
    "high": "error",
    "medium": "warning",
    "low": "notice",
    "info": "notice",
}


def github_annotations(report: Report) -> str:
    """The report as workflow commands; the first one says how the review came out: GitHub shows ten of a step."""
    lines = [
        _outcome(report),
        *map(_finding, report.findings),
        *(_unsettled(each, report) for each in report.unsettled),
        *map(_unreviewed, telling.not_reviewed(report)),
    ]
    return "".join(f"{line}\n" for line in lines)


def _finding(finding: Finding) -> str:
    title = f"{finding.title} ({finding.severity}, {finding.rule})"
    text = telling.body(finding) if finding.unchanged else finding.explanation or finding.title
    return _command(_COMMANDS[finding.severity], text, finding.path, (finding.line, finding.end_line), title)


def _unsettled(aside: SetAside, report: Report) -> str:
    title = f"{aside.title} ({aside.severity}, {aside.rule}, {unsettled_name(aside)})"
    span = (aside.line, aside.line) if aside.line is not None else None
    path = telling.file_of(aside, report)
    return _command(_COMMANDS[aside.severity], telling.unsettled_body(aside, report), path, span, title)


def _unreviewed(hunk: HunkCoverage) -> str:
    span = (hunk.new_start, max(hunk.new_start + hunk.new_lines - 1, hunk.new_start)) if hunk.new_start else None
    return _command("error", hunk.why or hunk.state, hunk.path, span, f"not reviewed ({hunk.state})")


def _outcome(report: Report) -> str:
    tellers = (telling.incomplete_sentence, telling.result_sentence, telling.coverage_sentence, telling.aside_sentence)
    text = " ".join(filter(None, (tell(report) for tell in tellers)))
    text += f" Commit {report.head[:12]}." if report.head else ""
    return _command("notice" if telling.is_whole(report) else "error", text, None, None, "codelet review")


def _command(name: str, text: str, path: str | None, span: tuple[int, int] | None, title: str) -> str:
    properties = {"file": path} if path is not None else {}
    if span is not None:
        properties |= {"line": str(span[0]), "endLine": str(span[1])}
    properties["title"] = title
    told = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{name} {told}::{_data(text)}"


def _data(text: str) -> str:
    return with_codes(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
