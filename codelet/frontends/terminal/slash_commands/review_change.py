"""`/review`: reviews a change with the session's model, shows its findings, and hands one to the model."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from codelet.errors import EXIT_INTERRUPT, CodeletError, UsageError
from codelet.events import Event, ResultStatus, ToolCallStarted, ToolProgress, ToolResult
from codelet.system.text import with_codes
from codelet.system.text.typed import whole_number

if TYPE_CHECKING:
    import argparse

    from codelet.frontends.terminal.screen import Screen
    from codelet.frontends.terminal.slash_commands.slash_command import ReplControls
    from codelet.providers.protocol import Provider
    from codelet.review.findings import Finding, Report
    from codelet.review.reviewed_change import ReviewedChange

_ID = "review"
_JOBS = 4
_AROUND = 6
_STYLES = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "cyan", "info": "dim"}
_HINT = "/review N shows one with the change around it; /review fix N hands it to the model"


async def review(repl: ReplControls, argument: str) -> None:
    """Review what the words name; or show one finding of the last review, or have it fixed."""
    first, _, rest = argument.partition(" ")
    number = whole_number(rest if first == "fix" else argument)
    if first != "fix" and number is None:
        await _run(repl, argument)
        return
    findings = repl.review[0].findings if repl.review is not None else ()
    if repl.review is None or number is None or not 0 < number <= len(findings):
        known = f"the last review has {len(findings)}" if findings else "/review lists them"
        repl.screen.fail(f"name a finding by its number: {known}")
    elif first == "fix":
        await repl.turn(repl.session.send(_fix(findings[number - 1])))
    else:
        _show(repl.screen, *repl.review, number)


async def _run(repl: ReplControls, argument: str) -> None:
    from codelet.review.formats import sentences

    run = _ReviewInRepl(repl, argument)
    await repl.watch(run.events())
    if run.report is None or run.change is None:
        return
    report, repl.review = run.report, (run.report, run.change)
    for tell in (
        sentences.incomplete_sentence,
        sentences.result_sentence,
        sentences.coverage_sentence,
        sentences.aside_sentence,
        sentences.cost_sentence,
    ):
        if line := tell(report):
            repl.screen.note(line)
    for aside in report.unsettled:
        body = with_codes(sentences.unsettled_body(aside, report)).replace("\n\n", "\n")
        repl.screen.note(f"{aside.severity}  {sentences.place(aside.path, aside.line)}  {body}")
    for number in range(1, len(report.findings) + 1):
        _show_head(repl.screen, report, number)
    if report.findings:
        repl.screen.note(_HINT)


def _show_head(screen: Screen, report: Report, number: int) -> None:
    from rich.text import Text

    from codelet.frontends.terminal.show.console import wrap_indented
    from codelet.review.formats import sentences

    finding = report.findings[number - 1]
    head = Text.assemble(
        (f"{number:>2}  ", "dim"),
        (finding.severity, _STYLES[finding.severity]),
        f"  {sentences.place(finding.path, finding.line, finding.end_line)}  ",
        (with_codes(finding.title), "bold"),
    )
    screen.say(*wrap_indented(head, screen.width, ""))


def _show(screen: Screen, report: Report, change: ReviewedChange, number: int) -> None:
    """A finding: what it says, the change around it, what is suggested."""
    from rich.text import Text

    from codelet.frontends.terminal.show.console import wrap_indented
    from codelet.frontends.terminal.show.diff_rows import diff_rows
    from codelet.review.formats.sentences import UNCHANGED

    finding, width = report.findings[number - 1], screen.width
    _show_head(screen, report, number)
    confirmed = ", confirmed" if finding.verified else ""
    unchanged = f", {UNCHANGED}" if finding.unchanged else ""
    facts = f"{finding.rule} ({finding.category}, {finding.confidence:.0%} sure{confirmed}{unchanged})"
    rows = wrap_indented(Text(facts, "dim"), width, "  ")
    for line in with_codes(finding.explanation).split("\n"):
        rows += wrap_indented(Text(line), width, "  ")
    rows += diff_rows(_around(change, finding), width, screen.signs)
    if finding.suggestion is not None:
        rows += [Text("  suggested:", "dim"), *diff_rows(with_codes(finding.suggestion), width, screen.signs)]
    screen.say(*rows)


def _around(change: ReviewedChange, finding: Finding) -> str:
    """The hunk with the finding, some lines before it to some lines behind it, as a diff."""
    from codelet.review.diff import lines_of

    for file in change.files:
        for hunk in file.hunks if file.path == finding.path else ():
            if hunk.new_start <= finding.line < hunk.new_start + max(hunk.new_lines, 1):
                first, last = finding.line - _AROUND, finding.end_line + _AROUND
                lines = [line for line in lines_of(hunk) if first <= line.number <= last]
                start = lines[0].number if lines else finding.line
                body = "\n".join(f"{line.sign}{with_codes(line.text)}" for line in lines)
                return f"+++ {with_codes(finding.path)}\n@@ -{start} +{start} @@\n{body}\n"
    return ""


def _fix(finding: Finding) -> str:
    """The prompt that hands the finding to the model."""
    from codelet.review.review_prompt import FIX, SUGGESTED

    suggested = SUGGESTED.format(patch=with_codes(finding.suggestion)) if finding.suggestion else ""
    return FIX.format(
        path=with_codes(finding.path),
        line=finding.line,
        title=with_codes(finding.title),
        explanation=with_codes(finding.explanation),
        quote=with_codes(finding.quote),
        suggested=suggested,
    )


class _ReviewInRepl:
    """One review with the session's provider. `report` and `change` are there once it has come to something."""

    def __init__(self, repl: ReplControls, argument: str) -> None:
        self._repl = repl
        self._argument = argument
        self.report: Report | None = None
        self.change: ReviewedChange | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """Review, and tell how far it is like a tool's output. What it has found by then stands when it is stopped."""
        from codelet.review.packing import planned
        from codelet.review.repeats import Repeats
        from codelet.review.review_run import ReviewOptions, ReviewRun
        from codelet.review.reviewer import ReviewSessions

        session = self._repl.session
        change = self.change = await _change(self._argument)
        replayed = session.provider.origin.startswith("replay:")
        opened = ReviewSessions(session, change, self._provider)
        run = ReviewRun(
            change,
            planned(change.files),
            ReviewOptions(jobs=1 if replayed else _JOBS, repeats=Repeats(files=change.files)),
            opened.spending,
            opened.open,
            model=lambda: session.provider.model,
        )
        yield ToolCallStarted(id=_ID, name="review", arguments={}, title=change.subject)
        error: CodeletError | None = None
        stopped: tuple[int, str] | None = (EXIT_INTERRUPT, "stopped by you")
        try:
            async with aclosing(run.steps()) as steps:
                async for step in steps:
                    doing = "reviewed" if step.phase == "review" else "summed up"
                    yield ToolProgress(_ID, f"{doing} {step.done} of {step.total}, findings: {step.findings}\n")
            stopped = None
        except CodeletError as caught:
            error, stopped = caught, None
        finally:
            self.report = run.report(error, stopped)
            opened.spending.settle()
        status: ResultStatus = "failed" if self.report.partial else "done"
        found = len(self.report.findings)
        yield ToolResult(
            id=_ID, name="review", status=status, text=f"{found} finding{'' if found == 1 else 's'}",
            seconds=self.report.duration,
        )  # fmt: skip

    def _provider(self) -> Provider:
        """The session's model once more; a recording plays on, and closing it changes nothing."""
        provider = self._repl.session.provider
        if provider.origin.startswith("replay:"):
            return provider
        return self._repl.open_model(provider.model, provider.effort)


async def _change(argument: str) -> ReviewedChange:
    """Return what the words name; without any what is not committed, or else the branch since the one that it follows.

    Raises UsageError.
    """
    from codelet.frontends.review_words import wanted_of
    from codelet.review.reviewed_change import Wanted, change_from_git
    from codelet.settings import current_folder
    from codelet.system.git.variables import check_no_variables

    folder = current_folder()
    check_no_variables(folder)
    if not argument:
        change = await change_from_git(Wanted(kind="uncommitted"), folder)
        return change if change.files else await change_from_git(Wanted(kind="branch"), folder)
    return await change_from_git(await wanted_of(_options(argument)), folder)


def _options(argument: str) -> argparse.Namespace:
    """The words as `codelet review` takes them: --staged, --uncommitted, --base BRANCH, commits, paths."""
    import argparse  # the prompt of the terminal waits for none of it

    try:
        words = shlex.split(argument)
    except ValueError as error:
        raise UsageError(f"/review: {error}") from None
    options = argparse.Namespace(what=[], staged=False, uncommitted=False, base=None, diff=None, since=None)
    while words:
        match words.pop(0):
            case "--staged":
                options.staged = True
            case "--uncommitted":
                options.uncommitted = True
            case "--base" if words:
                options.base = words.pop(0)
            case word if word.startswith("-"):
                raise UsageError(f"/review takes --staged, --uncommitted, --base BRANCH, commits and paths, not {word}")
            case word:
                options.what.append(word)
    return options
