"""A review from its plan to its report: chunks side by side, findings placed and joined, each confirmed.

`steps` yields how far it is; `report` says at any moment what it has come to, also after an interrupt or a limit.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeVar

from codelet.errors import EXIT_DONE, EXIT_PROVIDER, CodeletError, LimitReached
from codelet.record import Record
from codelet.review.conclude import concluded, joined, passing, set_aside, why_below
from codelet.review.findings import Finding, Gate, HunkCoverage, Report, SetAside, Shard
from codelet.review.packing import DiffChunk, Piece, ReviewPlan, delimited, ended
from codelet.review.review_prompt import ASK, COMMITS, CONFIRM
from codelet.review.reviewed_change import ReviewedChange
from codelet.review.reviewer import Reviewer, Spending, Unanswered
from codelet.usage import Usage

Item = TypeVar("Item")

Sieve = Callable[[Sequence[Finding]], tuple[list[Finding], list[SetAside]]]
"""Takes findings out, or gives them more facts, before they are confirmed; what it takes out it gives as second."""

_LONGEST_MESSAGES = 2_000
OTHER_SHARD = "it is in another shard"
"""Why a hunk was skipped that another machine reviews."""

_LONGEST_WHY = 400
_NOT_REVIEWED = "the review ended before this was reviewed"
_NOT_CONFIRMED = "the review ended before this was confirmed"


class ReviewOptions(Record, kw_only=True):
    """How a review is made: `jobs` requests side by side; `chosen` are the numbers of the chunks of this shard.

    `timeout` is the limit in seconds that the user set, of which `elapsed` had passed when the review began.
    """

    jobs: int = 8
    gate: Gate = Gate()
    verify: bool = True
    timeout: float | None = None
    elapsed: float = 0.0
    sieves: tuple[Sieve, ...] = ()
    shard: Shard | None = None
    chosen: frozenset[int] | None = None


class ReviewStep(Record, kw_only=True):
    """How far a review is: `done` of `total` questions of a phase; `left` is how many seconds it may still take."""

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
        self._reviewers: dict[int, Reviewer] = {}
        self._steps: asyncio.Queue[ReviewStep | None] = asyncio.Queue()
        self._failed: dict[int, str] = {}
        self._answered: set[int] = set()
        self._found: dict[int, list[Finding]] = {}
        self._aside: list[SetAside] = []
        self._findings: list[Finding] = []
        self._is_joined = False
        self._settled: dict[int, Finding | None] = {}
        self._chunks = [each for each in plan.chunks if options.chosen is None or each.number in options.chosen]
        self._commits = _commits(change.messages)

    async def steps(self) -> AsyncGenerator[ReviewStep, None]:
        """Review, and say after each answer how far it is. Raises LimitReached; see `report` for what there is then.

        Iterate inside `contextlib.aclosing`.
        """
        work = asyncio.create_task(self._work())
        work.add_done_callback(lambda _: self._steps.put_nowait(None))
        try:
            while (step := await self._steps.get()) is not None:
                yield step
            await work
        finally:
            work.cancel()
            await asyncio.wait([work])
            for each in self._reviewers.values():
                await each.close()

    def report(self, error: CodeletError | None = None, stopped: tuple[int, str] | None = None) -> Report:
        """What the review has come to. `error` ended it, or the signal whose exit status and words are `stopped`."""
        status, why = EXIT_DONE, None
        if stopped is not None:
            status, why = stopped
        elif error is not None:
            status, why = error.exit_status, _told(error)
        elif self._failed and not self._answered:
            status, why = EXIT_PROVIDER, next(iter(self._failed.values()))
        findings, aside = self._settle()
        usage = self._spending.usage
        asked = self._spending.requests > 0
        report = Report(
            subject=self._change.subject,
            base=self._change.base,
            head=self._change.head,
            findings=tuple(findings),
            aside=(*self._aside, *aside),
            hunks=self._hunks(),
            gate=self._options.gate,
            chunks=len(self._chunks),
            lost=len(self._chunks) - len(self._answered),
            requests=self._spending.requests,
            usage=usage if usage.known or not asked else None,
            cost=(self._spending.cost if usage.known else None) if asked else 0.0,
            model=self._model(),
            error=why,
            shard=self._options.shard,
            duration=time.monotonic() - self._begun,
        )
        return concluded(report, status)

    async def _work(self) -> None:
        limit = self._options.timeout
        try:
            async with asyncio.timeout(None if limit is None else max(0.1, limit - self._options.elapsed)) as timer:
                await self._side_by_side(self._chunks, self._review, "review")
                self._join()
                if self._options.verify:
                    numbers = list(range(len(self._findings)))
                    await self._side_by_side(numbers, self._confirm, "confirm")
        except _HopelessError:
            pass  # the report says of every chunk why
        except TimeoutError:
            if not timer.expired():
                raise
            raise LimitReached(f"the time limit of {limit:g} s is reached (--timeout)") from None

    async def _side_by_side(
        self, items: Sequence[Item], ask: Callable[[Reviewer, Item], Awaitable[None]], phase: str
    ) -> None:
        """Ask about each item, up to `jobs` at a time. The first exception ends the others."""
        waiting = iter(items)
        begun, done = time.monotonic(), 0
        count = min(self._options.jobs, len(items))
        if items:
            self._tell(phase, 0, len(items), None)

        async def work(place: int) -> None:
            nonlocal done
            reviewer = await self._reviewer(place)
            for item in waiting:
                await ask(reviewer, item)
                done += 1
                left = (time.monotonic() - begun) / done * (len(items) - done)
                self._tell(phase, done, len(items), left)

        try:
            async with asyncio.TaskGroup() as group:
                for place in range(count):
                    group.create_task(work(place))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    async def _reviewer(self, place: int) -> Reviewer:
        """The session with that number, opened when it is first wanted: nobody waits for those of the others."""
        if place not in self._reviewers:
            self._reviewers[place] = await self._open()
        return self._reviewers[place]

    def _tell(self, phase: str, done: int, total: int, left: float | None) -> None:
        findings = len(self._findings) if phase == "confirm" else sum(map(len, self._found.values()))
        usage = self._spending.usage
        self._steps.put_nowait(
            ReviewStep(phase=phase, done=done, total=total, findings=findings, usage=usage, left=left)
        )

    async def _review(self, reviewer: Reviewer, chunk: DiffChunk) -> None:
        from codelet.review.model_answers import BadAnswer, claims_in

        question = ASK.format(commits=self._commits, diff=delimited("diff", chunk.text()))
        try:
            claims = await reviewer.ask(question, claims_in, BadAnswer)
        except Unanswered as error:
            self._failed[chunk.number] = _told(error)
            if error.fatal and not self._answered:
                raise _HopelessError from None
            return
        self._answered.add(chunk.number)
        from codelet.review.placing import files_named, placed

        self._found[chunk.number] = []
        names = list(dict.fromkeys(hunk.path for hunk in self._plan.hunks))
        for claim in claims:
            finding, aside = placed(claim, chunk)
            if finding is not None:
                self._found[chunk.number].append(finding)
            if aside is not None:
                if below := why_below(aside, claim.confidence, self._options.gate):
                    aside = aside.replace(kind="below", why=below)
                path = next(iter(files_named(claim.path, names)), aside.path)
                self._aside.append(aside.replace(path=path))

    def _join(self) -> None:
        """Join what all chunks brought and sift it, once."""
        if self._is_joined:
            return
        self._is_joined = True
        findings, twins = joined([finding for number in sorted(self._found) for finding in self._found[number]])
        findings, below = passing(findings, self._options.gate)
        self._aside += [*twins, *below]
        for sieve in self._options.sieves:
            findings, taken = sieve(findings)
            self._aside += taken
        self._findings = findings

    async def _confirm(self, reviewer: Reviewer, number: int) -> None:
        from codelet.review.model_answers import BadAnswer, confirmation_in
        from codelet.system.text import one_line

        finding = self._findings[number]
        question = CONFIRM.format(diff=delimited("diff", self._around(finding)), finding=_as_data(finding))
        try:
            answer = await reviewer.ask(question, confirmation_in, BadAnswer)
        except Unanswered as error:
            self._settled[number] = None
            self._aside.append(set_aside(finding, "unconfirmed", _told(error)))
            return
        self._settled[number] = finding.replace(verified=True) if answer.holds else None
        if not answer.holds:
            why = one_line(answer.why, _LONGEST_WHY) or "the second request gave no reason"
            self._aside.append(set_aside(finding, "refuted", why))

    def _around(self, finding: Finding) -> str:
        """The part of the change that holds a finding."""
        return "\n\n".join(
            piece.text()
            for chunk in self._chunks
            for piece in chunk.pieces
            if piece.file.path == finding.path
            and piece.hunk.new_start <= finding.line < piece.hunk.new_start + max(piece.hunk.new_lines, 1)
        )

    def _settle(self) -> tuple[list[Finding], list[SetAside]]:
        """The findings that stand, and those whose confirmation was not reached."""
        self._join()
        if not self._options.verify:
            return self._findings, []
        kept: list[Finding] = []
        aside: list[SetAside] = []
        for number, finding in enumerate(self._findings):
            if number not in self._settled:
                aside.append(set_aside(finding, "unconfirmed", _NOT_CONFIRMED))
            elif (settled := self._settled[number]) is not None:
                kept.append(settled)
        return kept, aside

    def _hunks(self) -> tuple[HunkCoverage, ...]:
        """What became of each hunk: all of its pieces must have been answered for."""
        pieces: dict[int, list[tuple[int, Piece]]] = defaultdict(list)
        for chunk in self._plan.chunks:
            for piece in chunk.pieces:
                pieces[piece.number].append((chunk.number, piece))
        chosen = {each.number for each in self._chunks}
        hunks = list(self._plan.hunks)
        for number, parts in pieces.items():
            own = [part for part in parts if part[0] in chosen]
            lost = next((self._lost(chunk) for chunk, _ in own if chunk not in self._answered), None)
            if not own:
                hunks[number] = hunks[number].replace(state="skipped", why=OTHER_SHARD)
            elif lost is not None:
                hunks[number] = hunks[number].replace(state="failed", why=lost)
            else:
                hunks[number] = ended(hunks[number], [piece for _, piece in own])
        return tuple(hunks)

    def _lost(self, chunk: int) -> str:
        return self._failed.get(chunk, _NOT_REVIEWED)


class _HopelessError(Exception):
    """No question of this review will be answered."""


def _told(error: Exception) -> str:
    """What went wrong, in one clean line without secrets: servers write a part of it."""
    from codelet.safety.secrets import mask
    from codelet.system.text import one_line

    return one_line(mask(str(error)), _LONGEST_WHY)


def _commits(messages: str) -> str:
    """What the commits say of themselves, as data; nothing where they say nothing."""
    if not messages:
        return ""
    from codelet.system.text import with_codes

    text = with_codes(messages)
    more = len(text) > _LONGEST_MESSAGES
    return COMMITS.format(commits=delimited("commits", text[:_LONGEST_MESSAGES] + "…" * more))


def _as_data(finding: Finding) -> str:
    import json

    fields = ("title", "explanation", "severity", "path", "line", "quote")
    return delimited("finding", json.dumps({name: getattr(finding, name) for name in fields}, ensure_ascii=False))
