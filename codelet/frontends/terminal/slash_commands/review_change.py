"""`/review`: reviews a change with the session's model, then goes through the findings with the user."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from codelet.errors import EXIT_INTERRUPT, CodeletError, ToolError, UsageError
from codelet.events import Event, ResultStatus, ToolCallStarted, ToolProgress, ToolResult

if TYPE_CHECKING:
    import argparse

    from codelet.frontends.terminal.review_walk import ReviewWalk
    from codelet.frontends.terminal.slash_commands.slash_command import ReplControls
    from codelet.providers.protocol import Provider
    from codelet.review.findings import Report
    from codelet.review.reviewed_change import ReviewedChange

_ID = "review"
_JOBS = 4
_WORDS = ("next", "previous", "fix", "ignore", "quit")


async def review(repl: ReplControls, argument: str) -> None:
    """Review what the words name, or do what they say with the finding that is shown."""
    word, _, rest = argument.partition(" ")
    if word in _WORDS:
        if repl.review is None:
            repl.screen.fail(f"there is no review to go through; /review begins one, and then /review {word}")
            return
        await _act(repl, repl.review, word, rest.strip())
        return
    from codelet.frontends.terminal.review_walk import ReviewWalk, result_lines

    run = _ReviewInRepl(repl, argument)
    await repl.watch(run.events())
    if run.report is None or run.change is None:
        return
    for line in result_lines(run.report):
        repl.screen.note(line)
    repl.review = None
    if run.report.findings:
        repl.review = ReviewWalk(run.report, run.change)
        _show(repl, repl.review)


async def _act(repl: ReplControls, walk: ReviewWalk, word: str, rest: str) -> None:
    if rest and word != "ignore":
        repl.screen.fail(f"/review {word} takes nothing after it")
        return
    match word:
        case "quit":
            repl.review = None
            repl.screen.note("the review is closed")
        case "fix":
            await _fix(repl, walk)
            _offer_next(repl, walk)
        case "ignore":
            await _ignore(repl, walk, rest)
        case _:
            if walk.move(1 if word == "next" else -1):
                _show(repl, walk)
            else:
                repl.screen.note("that was the last finding" if word == "next" else "this is the first finding")


def _show(repl: ReplControls, walk: ReviewWalk) -> None:
    walk.show(repl.screen)
    _offer_next(repl, walk)


def _offer_next(repl: ReplControls, walk: ReviewWalk) -> None:
    """Enter alone goes on; what is typed takes the place of that."""
    is_last = walk.place + 1 == len(walk.report.findings)
    repl.offered = "/review quit" if is_last else "/review next"


async def _fix(repl: ReplControls, walk: ReviewWalk) -> None:
    """Hand the finding to the model, as a prompt of the user's."""
    from codelet.review.review_prompt import FIX, SUGGESTED
    from codelet.system.text import with_codes

    finding = walk.finding
    suggested = SUGGESTED.format(patch=with_codes(finding.suggestion)) if finding.suggestion else ""
    text = FIX.format(
        path=with_codes(finding.path),
        line=finding.line,
        title=with_codes(finding.title),
        explanation=with_codes(finding.explanation),
        quote=with_codes(finding.quote),
        suggested=suggested,
    )
    await repl.turn(repl.session.send(text))


async def _ignore(repl: ReplControls, walk: ReviewWalk, reason: str) -> None:
    """Write the comment that sets the finding aside, asking as for any other edit."""
    from codelet.frontends.terminal.review_walk import ignore_edit
    from codelet.review.repeats import ignore_comment
    from codelet.tools.tool import ToolContext

    finding = walk.finding
    if not reason:
        repl.screen.fail("say why: /review ignore REASON; without a reason the comment counts for nothing")
        return
    comment = ignore_comment(finding.path, finding.rule, reason)
    if comment is None:
        repl.screen.fail("how a comment is written in this kind of file is not known; write it yourself")
        return
    context = ToolContext(repl.session.workspace, None)
    try:
        arguments = ignore_edit(context, finding, comment)
    except ToolError as error:
        repl.screen.fail(str(error))
        return
    await repl.watch(repl.session.run_tool("edit", arguments, context))
    _offer_next(repl, walk)


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
            ReviewOptions(jobs=1 if replayed else _JOBS, sieves=(Repeats(files=change.files).sifted,)),
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
    """What the words name; without any what is not committed, or else the branch since the one that it follows.

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
