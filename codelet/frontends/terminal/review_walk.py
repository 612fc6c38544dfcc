"""The findings of a review one by one: which one is shown, how it looks, and what can be done about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from codelet.errors import ToolError
from codelet.review.diff import lines_of
from codelet.review.findings import Finding, Report, Severity
from codelet.review.formats import telling
from codelet.review.report_text import UNCHANGED
from codelet.review.reviewed_change import ReviewedChange
from codelet.system.text import with_codes

if TYPE_CHECKING:
    from rich.text import Text

    from codelet.frontends.terminal.screen import Screen
    from codelet.tools.tool import Arguments, ToolContext

_AROUND = 6
_LARGEST = 10 << 20
_STYLES: dict[Severity, str] = {
    "critical": "bold red",
    "high": "red",
    "medium": "yellow",
    "low": "cyan",
    "info": "dim",
}
HELP = "/review next, previous, fix, ignore REASON, quit"


class ReviewWalk:
    """A report and the place in it. `place` is that of the finding which is shown, from 0."""

    def __init__(self, report: Report, change: ReviewedChange) -> None:
        self.report = report
        self.place = 0
        self._change = change

    @property
    def finding(self) -> Finding:
        """The one that is shown."""
        return self.report.findings[self.place]

    def move(self, step: int) -> bool:
        """Go on or back; False where there is none, and the place stays."""
        if not 0 <= self.place + step < len(self.report.findings):
            return False
        self.place += step
        return True

    def show(self, screen: Screen) -> None:
        """The finding: what it says, the change around it, what is suggested."""
        from rich.text import Text

        from codelet.frontends.terminal.show.console import wrap, wrap_indented
        from codelet.frontends.terminal.show.diff_rows import diff_rows

        finding, width = self.finding, screen.width
        head = Text.assemble(
            (f"{self.place + 1} of {len(self.report.findings)}  ", "dim"),
            (finding.severity, _STYLES[finding.severity]),
            f"  {telling.place(finding.path, finding.line, finding.end_line)}  ",
            (with_codes(finding.title), "bold"),
        )
        rows: list[Text] = [*wrap(head, width)]
        confirmed = ", confirmed" if finding.verified else ""
        unchanged = f", {UNCHANGED}" if finding.unchanged else ""
        facts = f"{finding.rule} ({finding.category}, {finding.confidence:.0%} sure{confirmed}{unchanged})"
        rows += wrap_indented(Text(facts, "dim"), width, "  ")
        for line in with_codes(finding.explanation).split("\n"):
            rows += wrap_indented(Text(line), width, "  ")
        rows += diff_rows(self._around(finding), width, screen.signs)
        if finding.suggestion is not None:
            rows += [Text("  suggested:", "dim"), *diff_rows(with_codes(finding.suggestion), width, screen.signs)]
        screen.say(*rows)
        screen.note(HELP)

    def _around(self, finding: Finding) -> str:
        """The hunk with the finding, some lines before it to some lines behind it, as a diff."""
        for file in self._change.files:
            for hunk in file.hunks if file.path == finding.path else ():
                if hunk.new_start <= finding.line < hunk.new_start + max(hunk.new_lines, 1):
                    first, last = finding.line - _AROUND, finding.end_line + _AROUND
                    lines = [line for line in lines_of(hunk) if first <= line.number <= last]
                    start = lines[0].number if lines else finding.line
                    body = "\n".join(f"{line.sign}{with_codes(line.text)}" for line in lines)
                    return f"+++ {with_codes(finding.path)}\n@@ -{start} +{start} @@\n{body}\n"
        return ""


def result_lines(report: Report) -> list[str]:
    """How the review came out, for people: first of all whether it is whole."""
    tellers = (
        telling.incomplete_sentence,
        telling.result_sentence,
        telling.coverage_sentence,
        telling.aside_sentence,
        telling.cost_sentence,
    )
    lines = [line for tell in tellers if (line := tell(report))]
    for aside in report.unsettled:
        body = with_codes(telling.unsettled_body(aside, report)).replace("\n\n", "\n")
        lines.append(f"{aside.severity}  {telling.place(aside.path, aside.line)}  {body}")
    return lines


def ignore_edit(context: ToolContext, finding: Finding, comment: str) -> Arguments:
    """The arguments of an edit that puts the comment above the finding's line in the file as it is now.

    Raises ToolError where the line is no longer in the file.
    """
    from codelet.tools import encoding, files

    path = files.resolve(context, finding.path)
    name = files.shown(context, path)
    data, fingerprint = files.read_whole(path, name, _LARGEST)
    decoded = encoding.decode_text(data)
    if decoded is None:
        raise ToolError(f"{name} is not text")
    lines = decoded[0].replace("\r\n", "\n").split("\n")
    place = _place_now(lines, finding)
    if place is None:
        raise ToolError(f"{name} no longer has the line of the finding; review it again")
    context.seen[path] = fingerprint
    line = lines[place]
    indent = line[: len(line) - len(line.lstrip())]
    first, last = _unique(lines, place)
    old = lines[first:last]
    new = [*lines[first:place], f"{indent}{comment}", *lines[place:last]]
    return {"path": finding.path, "edits": [{"old": "\n".join(old), "new": "\n".join(new)}]}


def _place_now(lines: Sequence[str], finding: Finding) -> int | None:
    """Where the finding's first line is by now: the nearest one that reads the same."""
    wanted = finding.quote.split("\n")[0].strip()
    places = [index for index, line in enumerate(lines) if line.strip() == wanted]
    return min(places, key=lambda index: abs(index + 1 - finding.line)) if places and wanted else None


def _unique(lines: Sequence[str], place: int) -> tuple[int, int]:
    """The fewest lines around a place, on both sides alike, whose text occurs once."""
    text = "\n".join(lines)
    for reach in range(len(lines)):
        first, last = max(place - reach, 0), min(place + reach + 1, len(lines))
        part = "\n".join(lines[first:last])
        if text.count(part) == 1 and text.find(part, text.find(part) + 1) < 0:
            return first, last
    return 0, len(lines)
