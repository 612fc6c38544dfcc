"""`codelet review`: reads the change, reviews it, writes the reports, and ends with the verdict as exit status."""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from contextlib import aclosing
from io import BytesIO
from pathlib import Path

from codelet.context.tokens import estimate_text
from codelet.errors import EXIT_DONE, EXIT_INCOMPLETE, CodeletError, UsageError
from codelet.frontends.commands.review_arguments import description_of, gate_of, text_of_option
from codelet.frontends.commands.review_outputs import (
    ReportFile,
    check_target,
    output_named,
    print_report,
    save_baseline,
    write_reports,
)
from codelet.frontends.review_words import wanted_of
from codelet.frontends.streams import Stopper, say, stdin_pieces
from codelet.frontends.terminal.show.numbers import plural
from codelet.loop.beside.subsession import Borrowed, Spending
from codelet.loop.meter import Limits
from codelet.opening import session_from
from codelet.providers.facts import DEFAULT_WINDOW, model_facts
from codelet.review.findings import Report
from codelet.review.formats import FORMATS
from codelet.review.formats.sentences import hunk_place
from codelet.review.packing import ReviewPlan, planned
from codelet.review.repeats import Repeats
from codelet.review.review_prompt import ASK, TASK
from codelet.review.review_run import ReviewOptions, ReviewRun
from codelet.review.reviewed_change import ReviewedChange, change_from_diff, change_from_git, system_prompt
from codelet.review.reviewer import MOST_STEPS, Reviewer
from codelet.settings import SETTINGS, Settings, current_folder
from codelet.system.text import one_line
from codelet.tools.tool import Tool

_NOTHING_TO_KEEP = (
    "audit",
    "log",
    "export",
    "snapshots",
    "resume",
    "plan",
    "profile",
    "facts",
    "memory",
    "json_schema",
    "record",
)
"""Settings of one session: a review has several, and no conversation that continues."""


def run_review(settings: Settings, options: argparse.Namespace) -> int:
    """Review what the options name; the exit status. Raises CodeletError for what ends it before there is a report."""
    for name in _NOTHING_TO_KEEP:
        if name in settings.given:
            raise UsageError(f"{SETTINGS[name].flag} is for a session: a review has none to save or resume")
    outputs = [output_named(text) for text in options.output]
    if not any(each.path is None for each in outputs):
        form = options.output_format or "text"
        if form not in FORMATS:
            raise UsageError(f"--output-format {form}: a review has no such format, only {', '.join(FORMATS)}")
        outputs.insert(0, ReportFile(form, None))
    if sys.stdout is None:
        say("codelet: stdout is closed: there is nowhere to write the report")
        return EXIT_INCOMPLETE
    if options.what[:1] == ["post"]:
        from codelet.frontends.commands.review_post import run_post

        return run_post(options, settings.timeout)
    if options.github or options.gitlab or options.request is not None or options.last_reviewed:
        raise UsageError("--github, --gitlab, --request and --last-reviewed belong to: codelet review post FILE")
    return asyncio.run(_Review(settings, options, outputs).run())


class _Review:
    """One run of the command."""

    def __init__(self, settings: Settings, options: argparse.Namespace, outputs: list[ReportFile]) -> None:
        self._settings = settings
        self._options = options
        self._outputs = outputs
        self._begun = time.monotonic()
        self._stopper = Stopper()
        self._system = ""
        self._tools: tuple[Tool, ...] = ()
        self._spending = Spending(Limits(max_tokens=settings.max_tokens, max_cost=settings.max_cost), shared=TASK)

    async def run(self) -> int:
        try:
            with self._stopper:
                return await self._run()
        except asyncio.CancelledError:
            status, word = self._stopper.take_back()
            say(f"codelet: {word} before anything was asked")
            return status

    async def _run(self) -> int:
        from codelet.system.git.variables import honour_variables

        folder = current_folder()
        honour_variables(folder)
        change = (await self._change(folder)).replace(description=description_of(self._options))
        options = self._options
        named = self._settings.model
        window = self._settings.window or (model_facts(named).window if named else DEFAULT_WINDOW)
        plan = planned(change.files, window=window, most=options.chunk_tokens, generated=options.generated)
        self._system = system_prompt(change.rules, text_of_option(options, "rules"))
        self._tools = change.tools()
        if options.dry_run:
            return self._dry_run(change, plan)
        baseline = Path(options.baseline) if options.baseline is not None else None
        if options.update_baseline:
            if baseline is None:
                raise UsageError("--update-baseline needs --baseline FILE, which it writes")
            check_target(baseline, f"--baseline {baseline}")
        repeats = Repeats(files=change.files, baseline=baseline, update=options.update_baseline)
        review = ReviewRun(
            change,
            plan,
            ReviewOptions(
                jobs=1 if (self._settings.model or "").startswith("replay:") else options.jobs,
                gate=gate_of(options),
                verify=not options.no_verify,
                timeout=self._settings.timeout,
                elapsed=time.monotonic() - self._begun,
                repeats=repeats,
            ),
            self._spending,
            self._open_reviewer,
            model=lambda: self._settings.model,
        )
        report = await self._follow(review)
        status = write_reports(self._outputs, report)
        if baseline is None or not options.update_baseline:
            return status
        return save_baseline(baseline, repeats, report, status)

    async def _change(self, folder: Path) -> ReviewedChange:
        wanted = await wanted_of(self._options)
        if wanted.kind != "diff":
            return await change_from_git(wanted, folder)
        name = wanted.name or "-"
        if name == "-":
            if sys.stdin is None or sys.stdin.isatty():
                raise UsageError("--diff -: there is no diff on stdin; pipe one in: git diff | codelet review --diff -")
            diff = BytesIO(b"".join(stdin_pieces(self._settings.timeout)))
            return await change_from_diff(diff, folder, "on stdin", wanted.base)
        try:
            with Path(name).open("rb") as file:
                return await change_from_diff(file, folder, f"in {name}", wanted.base)
        except OSError as error:
            raise UsageError(f"--diff {name}: {error.strerror or error}") from None

    async def _open_reviewer(self) -> Reviewer:
        """A session that has the tools of a review and nothing else: no reminders, no instruction files, no compaction.

        The limits are those of all of them together, but the steps of a question.
        """
        own = self._settings
        session = await session_from(
            own.replace(
                tools=(),
                bare=True,
                compact="off",
                narrative="off",
                system_prompt=self._system,
                max_turns=min(MOST_STEPS, own.max_turns or MOST_STEPS),
                timeout=None,
                mode="read-only",
                export=None,
                snapshots=None,
                resume=None,
                profile=None,
                environment="short",
                plan=False,
                facts=None,
                memory=None,
                mcp=(),
                mcp_servers=None,
            ),
            extensions=[Borrowed(self._tools)],
        )
        self._settings = own.replace(model=session.provider.model if own.model is None else own.model)
        return Reviewer(session, self._spending)

    async def _follow(self, review: ReviewRun) -> Report:
        """Return the review's report, however it ended; show a line of progress on a terminal."""
        from codelet.frontends.commands.review_progress import ProgressLine

        progress = ProgressLine(quiet=self._options.quiet)
        error: CodeletError | None = None
        try:
            async with aclosing(review.steps()) as steps:
                async for step in steps:
                    gc.freeze()
                    gc.enable()  # everything is imported by now; see cli.main
                    progress.show(step)
        except asyncio.CancelledError:
            self._stopper.take_back()
        except UsageError:
            raise
        except CodeletError as caught:
            error = caught
        finally:
            progress.end()
        return review.report(error, self._stopper.stopped)

    def _dry_run(self, change: ReviewedChange, plan: ReviewPlan) -> int:
        """Print each hunk with its chunk or the reason why it is in none, and the estimated tokens."""
        chunks = {piece.number: chunk.number for chunk in plan.chunks for piece in chunk.pieces}
        lines = [f"Would review {one_line(change.subject, 200)}"]
        for number, hunk in enumerate(plan.hunks):
            fate = f"chunk {chunks[number]}" if number in chunks else one_line(f"{hunk.state}: {hunk.why}", 200)
            lines.append(f"{hunk_place(hunk)} (+{hunk.added} -{hunk.removed}): {fate}")
        fixed = estimate_text(self._system + ASK) + sum(estimate_text(str(tool.schema())) for tool in self._tools)
        tokens = sum(chunk.tokens for chunk in plan.chunks) + fixed * len(plan.chunks)
        lines.append(f"{plural(len(plan.chunks), 'request')}, about {tokens:,} tokens in")
        print_report("\n".join([*lines, ""]), "text")
        return EXIT_DONE
