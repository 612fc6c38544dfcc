"""A review on several machines: which chunks are whose, and the report that their reports make together.

Every machine plans the whole review and takes its own part of it; nothing is handed around but the reports. A part that
is missing, or belongs to another review, is an error: it never makes a smaller report.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Sequence

from codelet.errors import EXIT_DONE, EXIT_LIMIT, EXIT_PROVIDER, UsageError
from codelet.review.conclude import concluded, joined, passing
from codelet.review.findings import HunkCoverage, HunkState, Report, Shard
from codelet.review.packing import ReviewPlan
from codelet.review.review_run import OTHER_SHARD, Sieve
from codelet.usage import Usage

_WORST: tuple[HunkState, ...] = ("failed", "truncated", "reviewed", "skipped")
_SIGNALLED = 128
_MOST_SHARDS = 10_000
ShardReport = tuple[str, Report]
"""A shard's report, with the name of its file for messages."""


def shard_named(text: str) -> Shard:
    """The shard that `I/N` names. Raises UsageError."""
    number, slash, count = text.partition("/")
    if not (slash and number.isascii() and number.isdigit() and count.isascii() and count.isdigit()):
        raise UsageError(f"--shard {text}: is I/N, such as 2/8")
    shard = Shard(number=int(number), count=int(count))
    if not 1 <= shard.number <= shard.count <= _MOST_SHARDS:
        raise UsageError(f"--shard {text}: the first number is from 1 to the second")
    return shard


def part_of(plan: ReviewPlan, shard: Shard) -> tuple[Shard, frozenset[int]]:
    """The shard with the name of the plan, and the numbers of the chunks that are its own."""
    digest = hashlib.sha256()
    for chunk in plan.chunks:
        digest.update(f"chunk {chunk.number}\n".encode())
        for piece in chunk.pieces:
            facts = f"{piece.number} {piece.file.path!r} {piece.hunk.new_start} {len(piece.hunk.body)}\n"
            digest.update(facts.encode() + piece.hunk.body)
    share = share_of([chunk.tokens for chunk in plan.chunks], shard)
    return shard.replace(plan=digest.hexdigest()[:32]), frozenset(plan.chunks[index].number for index in share)


def share_of(tokens: Sequence[int], shard: Shard) -> set[int]:
    """The indices of the chunks that a shard reviews, of chunks with so many tokens each.

    The largest chunks go first, each to the shard that has least: no shard has more than the mean and one chunk.
    """
    loads = [(0, number) for number in range(1, shard.count + 1)]
    mine: set[int] = set()
    for index in sorted(range(len(tokens)), key=lambda each: (-tokens[each], each)):
        load, number = loads[0]
        heapq.heapreplace(loads, (load + tokens[index], number))
        if number == shard.number:
            mine.add(index)
    return mine


def merged(parts: Sequence[ShardReport], sieves: Sequence[Sieve] = ()) -> Report:
    """The report that one run would have made: duplicates joined, `sieves` applied, verdict and exit status again.

    Raises UsageError if a shard is missing or twice there, or is of another review.
    """
    reports = [report for _, report in _in_order(parts)]
    findings, twins = joined([finding for report in reports for finding in report.findings])
    findings, below = passing(findings, reports[0].gate)
    aside = [*(each for report in reports for each in report.aside), *twins, *below]
    for sieve in sieves:
        findings, sifted = sieve(findings)
        aside += sifted
    lost, chunks = sum(report.lost for report in reports), sum(report.chunks for report in reports)
    # A shard without a single answer is a part that failed; only if all are so, the provider did.
    signalled = [(report.exit, report.error) for report in reports if report.exit > _SIGNALLED]
    hopeless = [(EXIT_PROVIDER, reports[0].error)] if chunks and lost == chunks else []
    limited = [(EXIT_LIMIT, report.error) for report in reports if report.exit == EXIT_LIMIT]
    ended_by, error = (*signalled, *hopeless, *limited, (EXIT_DONE, None))[0]
    usages = [report.usage for report in reports if report.usage is not None]
    costs = [report.cost for report in reports if report.cost is not None]
    asked = [report for report in reports if report.requests]
    whole = reports[0].replace(
        findings=tuple(findings),
        aside=tuple(aside),
        hunks=tuple(_worst(states) for states in zip(*(report.hunks for report in reports), strict=True)),
        chunks=chunks,
        lost=lost,
        requests=sum(report.requests for report in reports),
        usage=sum(usages, Usage()) if asked and len(usages) >= len(asked) else None,
        cost=sum(costs) if len(costs) == len(reports) else None,
        error=error,
        shard=None,
        duration=max(report.duration for report in reports),
    )
    return concluded(whole, ended_by)


def _in_order(parts: Sequence[ShardReport]) -> list[ShardReport]:
    """The parts by number, once it is sure that they are all there and of one review."""
    by_number: dict[int, ShardReport] = {}
    count = 0
    for name, report in parts:
        if report.shard is None:
            raise UsageError(f"{name}: is the report of a whole review; only those of --shard I/N are merged")
        number, count = report.shard.number, report.shard.count
        if number in by_number:
            raise UsageError(f"shard {number} is there twice: {by_number[number][0]} and {name}")
        by_number[number] = name, report
    if not by_number:
        raise UsageError("there are no reports to merge")
    found = [by_number[number] for number in sorted(by_number)]
    for name, report in found[1:]:
        if (difference := _difference(found[0][1], report)) is not None:
            raise UsageError(f"{name}: is of another review than {found[0][0]}: {difference}")
    if missing := [str(number) for number in range(1, count + 1) if number not in by_number]:
        raise UsageError(f"of {count} shards {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    return found


def _difference(one: Report, other: Report) -> str | None:
    """Return why two reports cannot be parts of one review; None if they can."""
    for name in ("version", "subject", "base", "head", "model", "gate"):
        if getattr(one, name) != getattr(other, name):
            return f"it has another {name}"
    if one.shard and other.shard and (one.shard.count, one.shard.plan) != (other.shard.count, other.shard.plan):
        return "it is a shard of another division"
    mine, others = ([each.replace(state="skipped", why="") for each in report.hunks] for report in (one, other))
    return "it has other hunks" if mine != others else None


def _worst(states: Sequence[HunkCoverage]) -> HunkCoverage:
    """The state of a hunk: it may be in several shards, and the worst of them counts."""
    own = [hunk for hunk in states if not (hunk.state == "skipped" and hunk.why == OTHER_SHARD)]
    return (
        min(own, key=lambda hunk: _WORST.index(hunk.state))
        if own
        else states[0].replace(state="failed", why="no shard reviewed it")
    )
