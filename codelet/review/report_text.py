"""The report as plain text for people: findings first, then what was not reviewed, then the sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from codelet.review.findings import SEVERITIES, UNSETTLED, Finding, HunkCoverage, Report, SetAside, Severity
from codelet.system.text import clean, one_line, visible

_INDENT = "    "
_WIDTH = 200
_MOST_SKIPPED = 20
_NOTHING = "nothing to review"
UNCHANGED = "on lines that the change does not touch"
"""What is said of a finding with `unchanged`."""


def report_as_text(report: Report) -> str:
    """The whole report. It is clean for a terminal; whoever prints it in a pipeline breaks the runner's commands."""
    return "\n".join(_lines(report)) + "\n"


def counted(number: int, name: str) -> str:
    """`1 hunk`, `2 hunks`."""
    return f"{number:,} {name}" + "s" * (number != 1)


def severity_counts(severities: Iterable[Severity]) -> str:
    """Such as `1 critical, 2 low`."""
    counts = Counter(severities)
    return ", ".join(f"{counts[severity]:,} {severity}" for severity in SEVERITIES if counts[severity])


def summary_line(report: Report) -> str:
    """The findings in one line: `2 findings: 1 high, 1 low`."""
    kinds = severity_counts(each.severity for each in report.findings)
    found = f"{counted(len(report.findings), 'finding')}" + (f": {kinds}" if kinds else "")
    return "; ".join([found, *unsettled_counts(report)])


def unsettled_counts(report: Report) -> list[str]:
    """Return how many findings have no place or no confirmation: `1 finding without a place: 1 high`."""
    texts = []
    for name in dict.fromkeys(map(unsettled_name, report.unsettled)):
        kinds = [each.severity for each in report.unsettled if unsettled_name(each) == name]
        texts.append(f"{counted(len(kinds), 'finding')} {name}: {severity_counts(kinds)}")
    return texts


def unsettled_name(aside: SetAside) -> str:
    """Return what an unsettled finding lacks, in words."""
    return {"misplaced": "without a place", "malformed": "that cannot be read"}.get(aside.kind, "not confirmed")


def _lines(report: Report) -> Iterator[str]:
    yield f"Review of {one_line(report.subject, _WIDTH)}"
    if not report.hunks:
        yield _NOTHING if report.error is None else one_line(report.error, _WIDTH)
        return
    if report.outcome == "nothing":
        yield _NOTHING
    if report.summary:
        yield from ("", *clean(report.summary).split("\n"))
    for finding in report.findings:
        yield ""
        yield from _finding(finding)
    for open_one in report.unsettled:
        yield ""
        yield from _unsettled(open_one)
    yield ""
    yield summary_line(report) + (" (partial)" if report.partial else "")
    aside = [f"{number} {kind}" for kind, number in report.set_aside.items() if number and kind not in UNSETTLED]
    if aside:
        yield f"set aside: {', '.join(aside)}"
    for each in report.aside:
        if each.by_change:  # the change itself may have kept it out: whoever reads only the sums is to see it
            words = f"{one_line(each.title, _WIDTH)}: {one_line(each.why, 2 * _WIDTH)}"
            yield f"  {each.kind}: {each.severity}  {_aside_place(each)}  {words}"
    yield from _coverage(report)
    yield _sums(report)
    if report.error is not None:
        yield one_line(report.error, 1_000)


def _finding(finding: Finding) -> Iterator[str]:
    lines = f"{finding.line}" if finding.line == finding.end_line else f"{finding.line}-{finding.end_line}"
    sure = f"{finding.confidence:.0%} sure" + (", confirmed" if finding.verified else "")
    yield f"{finding.severity}  {_name(finding.path)}:{lines}  {finding.title}"
    unchanged = f", {UNCHANGED}" if finding.unchanged else ""
    yield f"{_INDENT}{finding.rule} ({finding.category}, {sure}{unchanged})"
    yield from (f"{_INDENT}{line}".rstrip() for line in clean(finding.explanation).split("\n"))
    yield from (f"{_INDENT}- {visible(line)}" for line in finding.removed.split("\n") if finding.removed)
    yield from (f"{_INDENT}| {visible(line)}" for line in finding.quote.split("\n"))
    if finding.suggestion is not None:
        yield f"{_INDENT}suggestion:"
        yield from (f"{_INDENT}  {visible(line)}" for line in finding.suggestion.rstrip("\n").split("\n"))


def _unsettled(aside: SetAside) -> Iterator[str]:
    yield f"{aside.severity}  {_aside_place(aside)}  {aside.title}"
    yield f"{_INDENT}{aside.rule} ({unsettled_name(aside)}: {one_line(aside.why, _WIDTH)})"
    yield from (f"{_INDENT}{line}".rstrip() for line in clean(aside.explanation).split("\n") if aside.explanation)
    yield from (f"{_INDENT}| {visible(line)}" for line in aside.quote.split("\n") if aside.quote)


def _coverage(report: Report) -> Iterator[str]:
    states = report.states
    asked = sum(states.values()) - states["skipped"]
    share = "" if report.coverage is None else f" ({report.coverage:.0f} %)"
    yield f"coverage: {states['reviewed']} of {counted(asked, 'hunk')} reviewed{share}, {states['skipped']} skipped"
    for hunk in report.hunks:
        if hunk.state in ("failed", "truncated"):
            yield f"  {hunk.state}: {_place(hunk)}: {one_line(hunk.why, _WIDTH)}"
    skipped = dict.fromkeys((each.path, each.why) for each in report.hunks if each.state == "skipped")
    for path, why in list(skipped)[:_MOST_SKIPPED]:
        yield f"  skipped: {_name(path)}: {one_line(why, _WIDTH)}"
    if len(skipped) > _MOST_SKIPPED:
        yield f"  and {counted(len(skipped) - _MOST_SKIPPED, 'more skipped file')}; --output json lists all of them"


def _sums(report: Report) -> str:
    usage = report.usage
    tokens = "tokens unknown" if usage is None else f"{usage.total_input:,} tokens in, {usage.output:,} out"
    cost = "cost unknown" if report.cost is None else f"${report.cost:.4f}"
    model = "no model" if report.model is None else one_line(" and ".join((report.model, *report.fallbacks)), 160)
    return f"{counted(report.requests, 'request')} to {model}, {tokens}, {cost}, {report.duration:.1f} s"


def _place(hunk: HunkCoverage) -> str:
    last = hunk.new_start + max(hunk.new_lines, 1) - 1
    lines = f":{hunk.new_start}" + (f"-{last}" if last > hunk.new_start else "") if hunk.new_start else ""
    return _name(hunk.path) + lines


def _aside_place(aside: SetAside) -> str:
    return f"{_name(aside.path)}:{aside.line}" if aside.line else _name(aside.path)


def _name(path: str) -> str:
    """A file's name in one row: nothing in it is hidden, and no newline ends the row."""
    return visible(path).replace("\n", "\\n").replace("\t", "\\t")
