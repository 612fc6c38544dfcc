"""One reviewer's questions, and what all of them may spend together."""

from __future__ import annotations

from pathlib import Path

import pytest

from codelet.context import CompactionOptions
from codelet.errors import LimitReached, ProviderError, SpendingLimit
from codelet.loop.beside.subsession import Spending
from codelet.loop.meter import Limits
from codelet.loop.session import Session
from codelet.review.reviewer import Reviewer, Unanswered
from codelet.usage import Usage
from tests.context.scripted import Answer, ScriptedProvider, session_of

MODEL = "anthropic/claude-sonnet-4-5"
"""$3 a million tokens in, $15 out."""


def used(output: int) -> Usage:
    return Usage(total_input=0, output=output)


def sessions(folder: Path, *outputs: int) -> list[Session]:
    """Sessions that have each used a number of output tokens."""
    made = [session_of(ScriptedProvider(model=MODEL), folder, limits=Limits()) for _ in outputs]
    for session, output in zip(made, outputs, strict=True):
        session.meter.count(used(output))
    return made


def spending_of(limits: Limits, *watched: Session, beside: Session | None = None) -> Spending:
    spending = Spending(limits, None if beside is None else beside.meter)
    for session in watched:
        spending.watch(session)
    return spending


def test_each_may_spend_the_money_that_the_others_left(tmp_path: Path) -> None:
    one, other, before = sessions(tmp_path, 30_000, 10_000, 20_000)  # $0.45, $0.15 and $0.30
    spending_of(Limits(max_cost=1.0), one, other).bound(other)
    assert other.meter.limits.max_cost == pytest.approx(0.55), "15 cents are spent"
    spending = spending_of(Limits(max_cost=1.0), one, other, beside=before)
    spending.bound(other)
    assert other.meter.limits.max_cost == pytest.approx(0.25)
    spending.check()
    one.meter.count(used(6_700))
    with pytest.raises(LimitReached, match=r"limit of 1 dollars .*\(--max-cost\)"):
        spending.check()
    assert spending.cost == pytest.approx(0.7005), "the cost of the second session is its own"
    other.meter.count(None)
    assert spending.cost is None


def test_each_may_ask_for_the_tokens_that_the_others_left(tmp_path: Path) -> None:
    one, other, before = sessions(tmp_path, 30, 20, 34)
    spending = spending_of(Limits(max_tokens=100), one, other)
    spending.bound(other)
    assert other.meter.limits.max_tokens == 70, "20 are used"
    spending = spending_of(Limits(max_tokens=100), one, other, beside=before)
    spending.bound(other)
    assert other.meter.limits.max_tokens == 36, "16 are enough for an answer"
    one.meter.count(used(1))
    with pytest.raises(LimitReached, match=r"100 output tokens 15 are left \(--max-tokens\)"):
        spending.bound(other)
    (fresh,) = sessions(tmp_path, 0)
    spending_of(Limits(max_tokens=5), fresh).bound(fresh)
    assert fresh.meter.limits.max_tokens == 5, "the first request is sent, however small the limit"


def test_a_limit_is_named_as_that_of_the_whole_run(tmp_path: Path) -> None:
    spending = Spending(Limits(max_cost=1.0, max_tokens=100))
    money = str(spending.limit_of_run(SpendingLimit("over the limit of 0.2 dollars (--max-cost)")))
    assert "1 dollars" in money and "0.2" not in money and "--max-cost" in money
    output = str(spending.limit_of_run(SpendingLimit("3 are left (--max-tokens)")))
    assert "100 output tokens" in output and "--max-tokens" in output
    other = SpendingLimit("3 are left (--max-tokens)")
    assert Spending(Limits(max_cost=1.0)).limit_of_run(other) is other


async def test_a_limit_ends_the_run(tmp_path: Path) -> None:
    (spent,) = sessions(tmp_path, 66_500)
    asked = session_of(ScriptedProvider(model=MODEL), tmp_path, limits=Limits())
    reviewer = Reviewer(asked, spending_of(Limits(max_cost=1.0), spent))
    with pytest.raises(LimitReached, match="pass the limit of 1 dollars"):
        await reviewer.ask("x" * 40_000, str, {})
    await reviewer.close()


@pytest.mark.parametrize(
    ("error", "requests", "fatal"),
    [
        (ProviderError("no key", status=401), 1, True),
        (ProviderError("no such model", status=404), 1, True),
        (ProviderError("too long", status=400, overflow=True), 1, False),
        (ProviderError("down", status=500), 2, False),
        (ProviderError("gone"), 2, False),
    ],
)
async def test_what_the_same_question_would_meet_again_is_not_asked_twice(
    error: ProviderError, requests: int, fatal: bool, tmp_path: Path
) -> None:
    provider = ScriptedProvider(model=MODEL, script=lambda request: Answer(error=error))
    session = session_of(provider, tmp_path, compaction=CompactionOptions(automatic=False))
    reviewer = Reviewer(session, spending := Spending(Limits()))
    with pytest.raises(Unanswered) as caught:
        await reviewer.ask("is it right?", str, {})
    assert (caught.value.fatal, spending.requests, len(provider.sent)) == (fatal, requests, requests)
    await reviewer.close()
