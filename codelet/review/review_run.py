"""A review from its plan to its report: chunks in parallel, the findings of each placed and checked immediately.

`steps` yields the progress; `report` works at any moment, also after an interrupt or a limit.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

from codelet.errors import EXIT_DONE, EXIT_PROVIDER, CodeletError, LimitReached
from codelet.loop.beside.subsession import Spending
from codelet.record import Record
from codelet.review import review_prompt as texts
from codelet.review.findings import Finding, Gate, HunkCoverage, Report, concluded, duplicate, joined, order, passing
from codelet.review.model_answers import CLOSING, FINDINGS, VERDICTS, SecondLook, claims_in, closing_in, verdicts_in
from codelet.review.packing import DiffChunk, Piece, ReviewPlan, delimited, ended, outline_of
from codelet.review.placing import placed
from codelet.review.repeats import Repeats
from codelet.review.reviewed_change import ReviewedChange
from codelet.review.reviewer import Reviewer, Unanswered
from codelet.review.rule_list import CATEGORIES, RULES
from codelet.safety.secrets import mask
from codelet.system.text import clean, one_line, with_codes
from codelet.usage import Usage

_LONGEST_MESSAGES, _LONGEST_DESCRIPTION, _LONGEST_KNOWN = 2_000, 4_000, 4_000
_LONGEST_WHY, _LONGEST_SUMMARY = 400, 1_200
_MOST_AT_ONCE = 40  # findings that one request confirms, unless `max_findings` asks for fewer
_TASK = texts.ASK.format(categories="|".join(CATEGORIES), rules=", ".join(RULES))


class ReviewOptions(Record, kw_only=True):
    """The options of a review; `elapsed` seconds of the user's `timeout` had passed when it began."""

    jobs: int = 8
    gate: Gate = Gate()
    verify: bool = True
    timeout: float | None = None
    elapsed: float = 0.0
    repeats: Repeats


class ReviewStep(Record):
    """The progress of a review: `done` of `total` questions of a phase; `left` are the seconds it may still take."""

    phase: str
    done: int
    total: int
    findings: int
    usage: Usage
    left: float | None = None


class ReviewRun:
    """One review. `open_reviewer` gives a new session to ask; as many are opened as work side by side."""

    def __init__(
        self,
        change: ReviewedChange,
        plan: ReviewPlan,
        options: ReviewOptions,
        spending: Spending,
        open_reviewer: Callable[[], Awaitable[Reviewer]],
        *,
        model: Callable[[], str | None],
    ) -> None:
        self._change = change
        self._plan = plan
        self._options = options
        self._spending = spending
        self._open = open_reviewer
        self._model = model
        self._begun = time.monotonic()
        self._reviewers: list[Reviewer] = []
        self._steps: asyncio.Queue[ReviewStep | None] = asyncio.Queue()
        self._failed: dict[int, str] = {}
        self._answered: set[int] = set()
        self._aside: list[Finding] = []
        self._settled: list[Finding] = []
        self._open_findings: dict[int, list[Finding]] = {}
        self._summary = ""
        self._head = (
            texts.OUTLINE.format(outline=delimited("outline", outline_of(change.files)))
            + texts.UNSURE * (not change.is_sure)
            + _data(texts.DESCRIPTION, "description", change.description, _LONGEST_DESCRIPTION)
            + _data(texts.COMMITS, "commits", change.messages, _LONGEST_MESSAGES)
        )

    async def steps(self) -> AsyncGenerator[ReviewStep, None]:
        """Review, and yield the progress; iterate inside `contextlib.aclosing`. Raises LimitReached."""
        work = asyncio.create_task(self._work())
        work.add_done_callback(lambda _: self._steps.put_nowait(None))
        try:
            while (step := await self._steps.get()) is not None:
                yield step
            await work
        finally:
            work.cancel()
            await asyncio.wait([work])
            async with AsyncExitStack() as ending:  # each is closed, whatever happens to the others
                for each in self._reviewers:
                    ending.push_async_callback(each.close)

    def report(self, error: CodeletError | None = None, stopped: tuple[int, str] | None = None) -> Report:
        """The report so far. `error` ended the review, or a signal: `stopped` is its exit status and name."""
        status, why = EXIT_DONE, None
        if stopped is not None:
            status, why = stopped
        elif error is not None:
            status, why = error.exit_status, _in_words(error)
        elif self._failed and not self._answered:
            status, why = EXIT_PROVIDER, next(iter(self._failed.values()))
        why_open = "the review ended before this was confirmed"
        open_ones = [finding for findings in self._open_findings.values() for finding in findings]
        unsettled = [finding.set_aside("unconfirmed", why_open) for finding in open_ones]
        usage, asked = self._spending.usage, self._spending.requests > 0
        report = Report(
            subject=self._change.subject,
            base=self._change.base,
            head=self._change.head,
            whole_base=self._change.whole_base,
            findings=tuple(self._settled),
            aside=(*self._aside, *unsettled),
            hunks=self._hunks(),
            gate=self._options.gate,
            chunks=len(self._plan.chunks),
            lost=len(self._plan.chunks) - len(self._answered),
            requests=self._spending.requests,
            usage=usage if usage.known or not asked else None,
            cost=(self._spending.cost if usage.known else None) if asked else 0.0,
            model=self._model(),
            fallbacks=self._spending.fallbacks,
            summary=self._summary,
            error=why,
            duration=time.monotonic() - self._begun,
        )
        return concluded(report, status)

    async def _work(self) -> None:
        limit, is_reviewed = self._options.timeout, False
        left = None if limit is None else max(0.1, limit - self._options.elapsed)
        deadline = None if left is None else time.monotonic() + left
        try:
            async with asyncio.timeout(left) as timer:
                await self._review_all(deadline)
                is_reviewed = True
                if self._options.verify and len(self._settled) > 1:
                    await self._close(self._reviewers[0])
        except TimeoutError:
            if not timer.expired():
                raise
            if not is_reviewed:  # else only the paragraph is missing
                raise LimitReached(f"the time limit of {limit:g} s is reached (--timeout)") from None

    async def _review_all(self, deadline: float | None) -> None:
        """Review the chunks, up to `jobs` at a time. The first exception ends the others."""
        waiting = list(reversed(self._plan.chunks))
        begun, done, total = time.monotonic(), 0, len(waiting)
        if total:
            self._report_progress("review", 0, total)

        async def work() -> None:
            nonlocal done
            reviewer = await self._open()
            reviewer.deadline = deadline
            self._reviewers.append(reviewer)
            while waiting:
                if not await self._review(reviewer, waiting.pop()):
                    waiting.clear()
                done += 1
                self._report_progress("review", done, total, (time.monotonic() - begun) / done * (total - done))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._options.jobs, total)):
                    group.create_task(work())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    def _report_progress(self, phase: str, done: int, total: int, left: float | None = None) -> None:
        findings = len(self._settled) + sum(map(len, self._open_findings.values()))
        self._steps.put_nowait(ReviewStep(phase, done, total, findings, self._spending.usage, left))

    async def _review(self, reviewer: Reviewer, chunk: DiffChunk) -> bool:
        """Ask about a chunk, place its findings and have them confirmed; False if no other one will be answered."""
        paths = {piece.file.path for piece in chunk.pieces}
        rules = [text for folder, text in self._change.rules if any(path.startswith(f"{folder}/") for path in paths)]
        known = "\n".join(self._options.repeats.titles(paths))
        shown = self._head + delimited("diff", chunk.text()) + _data(texts.KNOWN, "findings", known, _LONGEST_KNOWN)
        shown += "".join(f"\n\n{text}" for text in rules) + texts.TASK
        try:
            claims = await reviewer.ask(shown + _TASK, claims_in, FINDINGS)
        except Unanswered as error:
            self._failed[chunk.number] = _in_words(error)
            return not error.fatal or bool(self._answered)
        self._answered.add(chunk.number)
        self._aside += [each for each in claims if each.kind is not None]
        findings, lost = self._placed(claims)
        self._open_findings[chunk.number] = findings
        if lost:
            findings += await self._placed_again(reviewer, claims, lost)
        kept, twins = joined(findings)
        kept, known_ones = self._options.repeats.sifted(self._passing(kept))
        self._aside += [*twins, *known_ones]
        waiting = self._open_findings[chunk.number] = sorted(kept, key=order)
        if self._options.verify:
            most, before = self._options.gate.max_findings or len(waiting), len(self._settled)
            while waiting and len(self._settled) - before < most:
                some = waiting[: min(_MOST_AT_ONCE, 2 * most)]
                await self._confirm(reviewer, some, shown)
                del waiting[: len(some)]
            self._aside += [each.set_aside("surplus", f"over the {most} findings asked for") for each in waiting]
        else:
            self._settled += waiting
        del self._open_findings[chunk.number]
        return True

    def _passing(self, findings: Sequence[Finding]) -> list[Finding]:
        """The findings over the thresholds; the others are set aside."""
        kept, below = passing(findings, self._options.gate)
        self._aside += below
        return kept

    def _placed(self, claims: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
        """The findings with a place, and those over the thresholds that have none."""
        found = [placed(each, self._change.files) for each in claims if each.kind is None]
        lost = self._passing([each for each in found if each.kind is not None])
        return [each for each in found if each.kind is None], lost

    async def _placed_again(
        self, reviewer: Reviewer, claims: Sequence[Finding], lost: Sequence[Finding]
    ) -> list[Finding]:
        """Ask once more for quotes that are in the change. Findings without a place then are set aside."""
        self._aside += lost  # until there is an answer
        try:
            question = texts.NOWHERE.format(findings=_listed(lost, "title", "path", "quote"))
            again = await reviewer.go_on(question, claims_in, FINDINGS)
        except Unanswered:
            return []
        findings, _ = self._placed([claim for claim in again if claim not in claims])
        titles = {finding.title for finding in findings}
        for each in lost:
            if each.title in titles or len(findings) >= len(lost):
                self._aside.remove(each)
        return findings

    async def _confirm(self, reviewer: Reviewer, findings: Sequence[Finding], shown: str) -> None:
        """Check findings again: one that holds is reported, unless it repeats a graver one or is below the gate."""
        names = ("title", "explanation", "severity", "path", "line", "quote", "removed")
        question = shown + texts.CONFIRM.format(findings=_listed(findings, "n", *names))
        verdicts: dict[int, SecondLook] = {}
        why = "the second look gave no verdict on it"
        try:
            verdicts = await reviewer.ask(question, lambda answer: verdicts_in(answer, len(findings)), VERDICTS)
        except Unanswered as error:
            why = _in_words(error)
        for number, finding in enumerate(findings, 1):
            verdict = verdicts.get(number)
            if verdict is None:
                self._aside.append(finding.set_aside("unconfirmed", why))
                continue
            if not verdict.holds:
                reason = one_line(verdict.why, _LONGEST_WHY) or "the second look gave no reason"
                self._aside.append(finding.set_aside("refuted", reason))
                continue
            same = min(verdict.same_as or number, number)
            is_twin = same < number and same in verdicts and verdicts[same].holds
            if is_twin and finding.weight <= findings[same - 1].weight:
                self._aside.append(duplicate(finding, findings[same - 1]))
                continue
            held = finding.replace(verified=True)
            lower = held.replace(severity=verdict.severity or finding.severity)
            self._settled += self._passing([min(held, lower, key=lambda each: each.weight)])

    async def _close(self, reviewer: Reviewer) -> None:
        """Send a last, cheap request about all findings to join duplicates, rank the rest and sum up."""
        findings = sorted(self._settled, key=order)
        self._report_progress("summary", 0, 1)
        listed = _listed(findings, "n", "title", "severity", "category", "path", "line")
        question = self._head + texts.TASK + texts.CLOSE.format(findings=listed)
        try:
            closing = await reviewer.ask(question, lambda answer: closing_in(answer, len(findings)), CLOSING)
        except (Unanswered, LimitReached):
            return  # only the paragraph is missing
        self._summary = clean(closing.summary).strip()[:_LONGEST_SUMMARY]
        gone: set[int] = set()
        for group in closing.groups:
            first, *others = sorted(group)  # the gravest
            for number in set(others) - gone if first not in gone else ():
                gone.add(number)
                self._aside.append(duplicate(findings[number - 1], findings[first - 1]))
        ranks = {number: rank for rank, number in enumerate(closing.ranking, 1)}
        left = [(number, each) for number, each in enumerate(findings, 1) if number not in gone]
        self._settled = [each.replace(rank=ranks.get(number, len(ranks))) for number, each in left]

    def _hunks(self) -> tuple[HunkCoverage, ...]:
        """The state of each hunk: reviewed only after an answer to all of its pieces."""
        hunks = list(self._plan.hunks)
        sent: dict[int, list[Piece]] = {}
        lost: dict[int, str] = {}
        for chunk in self._plan.chunks:
            for piece in chunk.pieces:
                sent.setdefault(piece.number, []).append(piece)
                if chunk.number not in self._answered:
                    why = self._failed.get(chunk.number, "the review ended before this was reviewed")
                    lost.setdefault(piece.number, why)
        for number, pieces in sent.items():
            one = hunks[number]
            hunks[number] = one.replace(state="failed", why=lost[number]) if number in lost else ended(one, pieces)
        return tuple(hunks)


def _in_words(error: Exception) -> str:
    """The message on one clean line without secrets: servers write a part of it."""
    return one_line(mask(str(error)), _LONGEST_WHY)


def _data(form: str, name: str, words: str, most: int) -> str:
    """Text about the change as data of at most `most` characters; "" for an empty one."""
    text = with_codes(mask(words)).strip()
    return form.format(**{name: delimited(name, text[:most] + "…" * (len(text) > most))}) if text else ""


def _listed(findings: Sequence[Finding], *names: str) -> str:
    """Findings as data for the model: these of their fields, and `n`, their number."""
    rows = [
        {name: number if name == "n" else getattr(each, name) for name in names if getattr(each, name, number) != ""}
        for number, each in enumerate(findings, 1)
    ]
    return delimited("findings", json.dumps(rows, ensure_ascii=False, indent=0))
