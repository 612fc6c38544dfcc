"""`/review`: reviews a change with the session's model and hands findings to it."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from codelet.errors import EXIT_INTERRUPT, CodeletError, UsageError
from codelet.events import Event, ResultStatus, ToolCallStarted, ToolProgress, ToolResult
from codelet.system.text import one_line, with_codes
from codelet.system.text.typed import whole_number

if TYPE_CHECKING:
    import argparse

    from codelet.frontends.terminal.slash_commands.slash_command import ReplControls
    from codelet.loop.beside.subsession import Spending
    from codelet.loop.session import Session
    from codelet.providers.protocol import Provider
    from codelet.review.findings import Finding, Report
    from codelet.review.reviewed_change import ReviewedChange
    from codelet.review.reviewer import Reviewer

_ID = "review"
_JOBS = 4
_HEAD = re.compile(r"(critical|high|medium|low|info)  ")


async def review(repl: ReplControls, argument: str) -> None:
    """Review a change; or have a finding of the last review fixed."""
    first, _, rest = argument.partition(" ")
    if first != "fix":
        await _run(repl, argument)
        return
    number, findings = whole_number(rest), repl.review.findings if repl.review is not None else ()
    if number is None or not 0 < number <= len(findings):
        known = f"the last review has {len(findings)}" if findings else "/review lists them"
        repl.screen.fail(f"name a finding by its number: {known}")
    else:
        await repl.turn(repl.session.send(_fix(findings[number - 1])))


async def _run(repl: ReplControls, argument: str) -> None:
    from rich.text import Text

    from codelet.frontends.terminal.show.console import wrap_indented
    from codelet.review.formats.text_report import report_as_text

    run = _ReviewInRepl(repl, argument)
    await repl.watch(run.events())
    if run.report is None:
        return
    report = repl.review = run.report
    number = 0
    for line in report_as_text(report).rstrip("\n").split("\n"):
        row = Text(line)
        if _HEAD.match(line):
            number += 1
            head = f"{number}  " if number <= len(report.findings) else ""
            row = Text.assemble(head, (line, "bold"))
        indent = " " * (len(line) - len(line.lstrip(" ")))
        repl.screen.say(*wrap_indented(row[len(indent) :], repl.screen.width, indent) if line.strip() else [row])
    if report.findings:
        repl.screen.note("/review fix N hands a finding to the model")


def _fix(finding: Finding) -> str:
    """The prompt to fix a finding."""
    parts = (
        f"A review of the change found this bug in {finding.path}, line {finding.line}: {finding.title}",
        finding.explanation,
        f"It is about these lines:\n\n{finding.quote}",
        f"The review suggests:\n\n{finding.suggestion}" if finding.suggestion else "",
        "Check whether the finding is correct. If it is, fix the bug and check your fix. If it is not, explain why and "
        "change nothing.",
    )
    return with_codes("\n\n".join(filter(None, parts)))


def reviewers_beside(
    session: Session, change: ReviewedChange, provider: Callable[[], Provider]
) -> tuple[Spending, Callable[[], Awaitable[Reviewer]]]:
    """The shared limits of reviewers next to a session, with what it has used already; and a way to open one more.

    `provider` makes a provider for each.
    """
    from codelet.context import CompactionOptions
    from codelet.extensions.base import subsession_guards
    from codelet.loop.beside.subsession import Borrowed, Spending, open_beside
    from codelet.review.review_prompt import TASK
    from codelet.review.reviewed_change import system_prompt
    from codelet.review.reviewer import MOST_STEPS, Reviewer

    spending = Spending(session.meter.limits, session.meter, TASK)

    async def open_reviewer() -> Reviewer:
        opened = open_beside(
            session,
            provider(),
            tools=(),
            system=system_prompt(change.rules),
            mode="read-only",
            most_steps=MOST_STEPS,
            bare=True,
            compaction=CompactionOptions(automatic=False),  # what is reviewed is sent whole, or said not to be
            extensions=[Borrowed(change.tools(), subsession_guards(session.extensions))],
        )
        return Reviewer(opened, spending)

    return spending, open_reviewer


class _ReviewInRepl:
    """One review with the session's provider; `report` is its result."""

    def __init__(self, repl: ReplControls, argument: str) -> None:
        self._repl = repl
        self._argument = argument
        self.report: Report | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """Review, with its progress as a tool's output. A stopped review reports what it has found."""
        from codelet.review.packing import planned
        from codelet.review.repeats import Repeats
        from codelet.review.review_run import ReviewOptions, ReviewRun

        session = self._repl.session
        change = await _change(self._argument)
        replayed = session.provider.origin.startswith("replay:")
        spending, open_reviewer = reviewers_beside(session, change, self._provider)
        run = ReviewRun(
            change,
            planned(change.files, window=session.models.limits.window or session.models.facts.window),
            ReviewOptions(jobs=1 if replayed else _JOBS, repeats=Repeats(files=change.files)),
            spending,
            open_reviewer,
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
            spending.settle()
        status: ResultStatus = "failed" if self.report.partial else "done"
        found = len(self.report.findings)
        yield ToolResult(
            id=_ID, name="review", status=status, text=f"{found} finding{'' if found == 1 else 's'}",
            seconds=self.report.duration,
        )  # fmt: skip

    def _provider(self) -> Provider:
        """Another provider for the session's model; a recording is shared."""
        provider = self._repl.session.provider
        if provider.origin.startswith("replay:"):
            return provider
        return self._repl.open_model(provider.model, provider.effort)


async def _change(argument: str) -> ReviewedChange:
    """Return the named change; by default uncommitted changes, else the branch.

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
    """Parse the words like `codelet review`: --staged, --uncommitted, --base BRANCH, commits, paths."""
    import argparse  # the prompt of the terminal does not wait for it

    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    parser.add_argument("--staged", action="store_true")
    parser.add_argument("--uncommitted", action="store_true")
    parser.add_argument("--base")
    parser.add_argument("what", nargs="*")
    parser.set_defaults(diff=None, since=None)
    try:
        options, unknown = parser.parse_known_args(shlex.split(argument))
    except (ValueError, argparse.ArgumentError) as error:
        raise UsageError(f"/review: {error}") from None
    if unknown:
        raise UsageError(
            f"/review takes --staged, --uncommitted, --base BRANCH, commits and paths, not {one_line(unknown[0], 60)}"
        )
    return options
