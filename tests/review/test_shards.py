"""Shards: everybody's part is settled by arithmetic, and the parts make the report of one run or none at all."""

from __future__ import annotations

import random

import pytest

from codelet.errors import UsageError
from codelet.review.conclude import concluded
from codelet.review.findings import Finding, Gate, HunkCoverage, Report, SetAside, Shard
from codelet.review.report_json import report_as_json
from codelet.review.review_run import OTHER_SHARD
from codelet.review.shards import merged, shard_named, share_of
from codelet.usage import Usage

COUNT = 3
AT_MOST_FOUR = Gate(max_findings=4)


@pytest.mark.parametrize("count", [1, 2, 7, 8, 64])
def test_each_chunk_is_in_one_shard_and_the_loads_are_even(count: int) -> None:
    chance = random.Random(count)
    tokens = [chance.randint(50, 6000) for _ in range(200)]
    shares = [share_of(tokens, Shard(number=number, count=count)) for number in range(1, count + 1)]
    assert sorted(index for share in shares for index in share) == list(range(200))
    loads = [sum(tokens[index] for index in share) for share in shares]
    assert max(loads) - min(loads) <= max(tokens)
    assert shares == [share_of(tokens, Shard(number=number, count=count)) for number in range(1, count + 1)]


def test_more_shards_than_chunks_leaves_some_with_nothing() -> None:
    shares = [share_of([5, 5], Shard(number=number, count=4)) for number in (1, 2, 3, 4)]
    assert shares == [{0}, {1}, set(), set()]


def finding(path: str, line: int, **more: object) -> Finding:
    fields = {"rule": "bug", "title": f"fault in {path}", "severity": "high", "confidence": 0.5 + line / 100} | more
    return Finding(
        explanation="why", category="correctness", path=path, line=line, end_line=line, quote="x", **fields
    )  # fmt: skip


def hunk(number: int) -> HunkCoverage:
    return HunkCoverage(path=f"f{number}.py", new_start=1, new_lines=9, added=9, state="reviewed")


HUNKS = [hunk(number) for number in range(6)]
SKIPPED = HunkCoverage(path="logo.png", state="skipped", why="a binary file")
FINDINGS = [finding(f"f{number}.py", number + 1) for number in range(6)]
MISPLACED = [
    SetAside(kind="misplaced", why="nowhere", rule="bug", title=f"t{number}", severity="low", path=f"f{number}.py")
    for number in range(6)
]


def report(numbers: list[int], shard: Shard | None, gate: Gate = AT_MOST_FOUR) -> Report:
    """What a run of these hunks comes to; the others are in other shards."""
    theirs = [each.replace(state="skipped", why=OTHER_SHARD) for each in HUNKS]
    return concluded(
        Report(
            subject="what is staged",
            head="1" * 40,
            findings=tuple(FINDINGS[number] for number in numbers),
            aside=tuple(MISPLACED[number] for number in reversed(numbers)),
            hunks=(*(HUNKS[number] if number in numbers else theirs[number] for number in range(6)), SKIPPED),
            gate=gate,
            chunks=len(numbers),
            requests=2 * len(numbers),
            usage=Usage(total_input=100 * len(numbers), output=len(numbers)),
            cost=0.25 * len(numbers),
            model="scripted",
            shard=shard,
            duration=1.0,
        )
    )


def parts(gate: Gate = AT_MOST_FOUR) -> list[tuple[str, Report]]:
    numbers = {1: [0, 3], 2: [5, 1], 3: [2, 4]}
    return [(f"part-{n}", report(numbers[n], Shard(number=n, count=COUNT), gate)) for n in numbers]


def test_the_parts_make_what_one_run_makes() -> None:
    whole = report([0, 1, 2, 3, 4, 5], None)
    shuffled = parts()
    random.Random(7).shuffle(shuffled)
    assert report_as_json(merged(shuffled)) == report_as_json(whole)
    assert whole.exit == 1 and len(whole.findings) == 4 and whole.set_aside["surplus"] == 2


def test_a_part_that_is_missing_twice_there_or_of_another_review_is_an_error() -> None:
    one, two, three = parts()
    for wrong, told in (
        ([one, three], " 2 "),
        ([one], " 2, 3 "),
        ([one, two, ("again", two[1]), three], "part-2 and again"),
        ([one, two, ("other", three[1].replace(head="2" * 40))], "another head"),
        ([one, two, ("other", three[1].replace(gate=Gate()))], "another gate"),
        ([one, two, ("other", three[1].replace(hunks=three[1].hunks[1:]))], "other hunks"),
        ([one, two, ("whole", report([0], None))], "whole: "),
        ([one, two, ("other", three[1].replace(shard=Shard(number=3, count=4)))], "division"),
        ([], "no reports"),
    ):
        with pytest.raises(UsageError) as caught:
            merged(wrong)
        assert told in str(caught.value)


def test_a_part_that_is_not_whole_makes_the_review_so() -> None:
    one, two, three = parts(Gate())
    lost = tuple(
        each.replace(state="failed", why="no answer") if each.state == "reviewed" else each for each in two[1].hunks
    )
    failed = two[1].replace(findings=(), hunks=lost, lost=2, exit=3, error="the server is away", partial=True)
    whole = merged([one, ("part-2", failed), three])
    assert (whole.exit, whole.partial, whole.lost) == (5, True, 2)
    assert whole.error is not None and whole.error.startswith("4 of 6 hunks were reviewed")
    limited = two[1].replace(exit=4, error="the limit is reached", partial=True)
    assert merged([one, ("part-2", limited), three]).exit == 4
    stopped = two[1].replace(exit=130, error="interrupted", partial=True)
    assert merged([one, ("part-2", stopped), ("part-3", three[1].replace(exit=4))]).exit == 130


def test_with_every_part_lost_the_provider_failed() -> None:
    gone = [
        (name, each.replace(findings=(), lost=each.chunks, exit=3, error="no route", partial=True,
                            hunks=tuple(h.replace(state="failed") if h.state == "reviewed" else h for h in each.hunks)))
        for name, each in parts()
    ]  # fmt: skip
    assert (merged(gone).exit, merged(gone).error) == (3, "no route")


def test_one_fault_that_two_parts_found_is_one_finding() -> None:
    one, two, three = parts(Gate())
    twin = FINDINGS[0].replace(confidence=0.1)
    doubled = two[1].replace(findings=(*two[1].findings, twin))
    whole = merged([one, ("part-2", doubled), three])
    assert len(whole.findings) == 6 and whole.set_aside["duplicate"] == 1
    assert max(each.confidence for each in whole.findings if each.path == "f0.py") > 0.1


def test_what_one_part_does_not_know_nobody_knows() -> None:
    one, two, three = parts()
    unknown = two[1].replace(cost=None, usage=None)
    whole = merged([one, ("part-2", unknown), three])
    assert (whole.cost, whole.usage) == (None, None)


def test_sieves_are_applied_to_all_of_it() -> None:
    def keep_the_last(findings: object) -> tuple[list[Finding], list[SetAside]]:
        assert isinstance(findings, list)
        return findings[-1:], []

    assert len(merged(parts(), [keep_the_last]).findings) == 1


@pytest.mark.parametrize("text", ["0/8", "9/8", "1", "a/b", "-1/2", "1/0", "1/99999", "", "/", "１/２"])
def test_what_is_no_shard(text: str) -> None:
    with pytest.raises(UsageError, match="--shard"):
        shard_named(text)
    assert shard_named("2/8") == Shard(number=2, count=8)
