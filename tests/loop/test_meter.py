"""What a session has used, and the limits on it: reached is reached, unknown is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from codelet import events
from codelet.errors import LimitReached, SpendingLimit
from codelet.loop.meter import Allowance, Limits, Meter
from codelet.loop.reply import Reply
from codelet.messages import assistant, user
from codelet.providers.facts import facts_of, model_facts
from codelet.providers.protocol import RetryChunk, TextChunk, UsageChunk
from codelet.usage import Usage
from tests.context.scripted import ScriptedProvider, session_of


def used(output: int) -> Usage:
    return Usage(total_input=1_000, output=output)


def test_a_limit_is_passed_where_it_is_reached() -> None:
    limits = Limits(max_tokens=10, max_cost=0.5)
    assert limits.passed(used(9), 0.49) is None
    assert limits.passed(used(9), None) is None, "what nobody knows passes no limit"
    assert "--max-tokens" in (limits.passed(used(10), 0.0) or "")
    assert "--max-tokens" in (limits.passed(used(11), None) or "")
    assert "--max-cost" in (limits.passed(used(0), 0.5) or "")
    assert Limits().passed(used(10**9), 10.0**9) is None
    assert Limits(max_tokens=0).passed(used(0), 0.0) is not None


def test_what_a_request_may_ask_for_is_what_is_left() -> None:
    limits = Limits(max_tokens=100)
    assert limits.output_left(None, used(30)) == 70
    assert limits.output_left(50, used(30)) == 50
    assert limits.output_left(80, used(30)) == 70
    assert limits.output_left(80, used(100)) == limits.output_left(None, used(200)) == 1
    assert Limits().output_left(80, used(30)) == 80
    assert Limits().output_left(None, used(30)) is None


def meter_of(folder: Path, model: str = "scripted/small", **limits: object) -> Meter:
    session = session_of(ScriptedProvider(model=model), folder, limits=Limits(**limits))
    session.conversation.append(user("go"), assistant("done"))
    return session.meter


def test_steps_and_time_are_bounded_by_name(tmp_path: Path) -> None:
    meter = meter_of(tmp_path, max_turns=3, timeout=2.5)
    meter.check()
    meter.check(2)
    for steps in (3, 4):
        with pytest.raises(LimitReached, match=r"limit of 3 turns .*\(--max-turns\)"):
            meter.check(steps)
    with pytest.raises(LimitReached, match=r"limit of 1 turn "):
        meter_of(tmp_path, max_turns=1).check(1)
    assert "2.5 s" in meter.out_of_time and "--timeout" in meter.out_of_time
    free = meter_of(tmp_path)
    free.check(10**6)
    assert free.out_of_time == ""


def test_what_is_left_of_the_time_is_what_was_not_taken_before(tmp_path: Path) -> None:
    meter = meter_of(tmp_path, timeout=2.5)
    assert meter.time_left == 2.5
    meter.taken = 1.0
    assert meter.time_left == 1.5
    meter.taken = 9.0
    assert meter.time_left == 0.1, "a turn that begins has a moment, to say that it is over"
    assert meter_of(tmp_path).time_left is None


def test_what_was_used_before_counts_against_no_limit(tmp_path: Path) -> None:
    meter = meter_of(tmp_path, max_tokens=10)
    meter.usage += used(50)
    meter.check()
    meter.count(used(4))
    meter.count(used(5))
    assert (meter.usage, meter.spent) == (used(50) + used(4) + used(5), used(4) + used(5))
    meter.check()
    meter.count(used(1))
    with pytest.raises(LimitReached, match="output tokens"):
        meter.check()


@pytest.mark.parametrize("unreported", [None, Usage()])
def test_cost_is_summed_until_it_is_not_known(tmp_path: Path, unreported: Usage | None) -> None:
    meter = meter_of(tmp_path, "anthropic/claude-sonnet-4-5")
    price = model_facts("anthropic/claude-sonnet-4-5").cost(used(1_000))
    assert price
    meter.count(used(1_000))
    meter.count(used(1_000))
    assert meter.cost == meter.spent_cost == pytest.approx(2 * price)
    meter.count(unreported)
    assert (meter.cost, meter.spent_cost) == (None, None)
    assert meter.usage == used(1_000) + used(1_000)
    meter.count(used(1_000))
    assert (meter.cost, meter.spent_cost) == (None, None), "it does not begin anew"
    taken_up = meter_of(tmp_path, "anthropic/claude-sonnet-4-5")
    taken_up.cost = None
    taken_up.count(used(1_000))
    assert (taken_up.cost, taken_up.spent_cost) == (None, pytest.approx(price))


def test_a_request_that_would_cost_too_much_is_not_admitted(tmp_path: Path) -> None:
    """$3 a million in, $3.75 where it is written to the cache, $15 out; what is left of the money bounds the answer."""
    model = "anthropic/claude-sonnet-4-5"
    meter = meter_of(tmp_path, model, max_cost=1.0)
    most = meter_of(tmp_path, model).admit()
    assert (meter.admit(), meter.allowed.held_by) == (most, "") == (4_000, ""), "$1 is enough for all of it"
    meter.count(Usage(total_input=1, output=64_000))  # $0.96
    room = meter.admit()
    assert room is not None
    assert 2_000 < room < 2_667, "four cents are left for the input and the answer"
    assert meter.allowed.held_by == "--max-cost"
    meter.count(Usage(total_input=1, output=2_660))
    with pytest.raises(SpendingLimit, match=r"about \$1\.0\d+: .*limit of 1 dollars \(--max-cost\)"):
        meter.admit()
    meter.check()
    assert meter.charged < 1.0, "the limit has not been passed"
    unnamed = meter_of(tmp_path, model, max_cost=1.0)
    unnamed.facts = unnamed.facts.replace(known=False)
    room = unnamed.admit()
    assert room is not None, "where no output limit is named, money alone bounds the answer"
    assert 60_000 < room <= 66_667 and unnamed.allowed.held_by == "--max-cost"


def test_what_nobody_reported_is_charged_by_estimate_and_shown_as_unknown(tmp_path: Path) -> None:
    meter = meter_of(tmp_path, "anthropic/claude-sonnet-4-5", max_cost=1.0)
    meter.admit()
    meter.count(None)
    assert meter.spent_cost is None
    asked = meter.charged
    assert asked > 0
    meter.count(None, 1_000)
    assert meter.charged == pytest.approx(2 * asked + 0.015), "the answer is charged, too"
    meter.count(Usage(output=1_000))
    assert meter.charged == pytest.approx(3 * asked + 0.03), "as is the input that a report leaves out"
    meter.count(Usage(), 1_000)
    assert meter.charged == pytest.approx(4 * asked + 0.045), "a report of nothing is none"
    assert (meter.spent, meter.spent_cost) == (Usage(output=1_000), None)


def test_output_that_nobody_reported_counts_for_the_limit_by_estimate(tmp_path: Path) -> None:
    meter = meter_of(tmp_path, max_tokens=100)
    meter.count(None, 60)
    assert (meter.usage, meter.spent) == (Usage(), Usage())
    assert meter.admit() == 40
    meter.count(Usage(total_input=1_000), 30)
    with pytest.raises(SpendingLimit, match="10 are left"):
        meter.admit()
    other = meter_of(tmp_path, max_tokens=100)
    other.count(None, 20)
    meter.take_over(other)
    with pytest.raises(LimitReached, match="output tokens"):
        meter.check()


def test_an_answer_that_broke_off_counts_once(tmp_path: Path) -> None:
    meter = meter_of(tmp_path, "anthropic/claude-sonnet-4-5", max_tokens=100)
    reply = Reply()
    reply.add(TextChunk("word" * 30))
    assert meter.broke_off(reply) is None
    assert meter.broke_off(reply) is None
    assert (meter.held.output, meter.spent, meter.spent_cost) == (30, Usage(), 0.0)
    reply.add(RetryChunk(attempt=2, attempts=5, wait=0.1, reason="gone"))
    reply.add(UsageChunk(used(0)))
    assert meter.broke_off(reply) == used(0)
    reply.add(TextChunk("word" * 10))
    meter.count(None, reply.newly_written())
    assert (meter.held.output, meter.spent) == (40, used(0))


def test_a_free_request_adds_nothing_and_is_no_cost(tmp_path: Path) -> None:
    meter = meter_of(tmp_path, "anthropic/claude-sonnet-4-5", max_cost=1.0)
    paid, free = meter.facts, facts_of("anthropic/claude-sonnet-4-5", local=True)
    meter.facts = free
    assert meter.admit() == 4_000
    meter.count(used(1_000))
    assert (meter.spent_cost, meter.cost, meter.charged) == (None, None, 0.0)
    meter.facts = paid
    meter.count(used(1_000))
    assert meter.spent_cost == meter.charged == pytest.approx(0.018)
    meter.facts = free
    meter.count(None)
    assert meter.spent_cost == pytest.approx(0.018)


def test_no_answer_is_asked_for_that_cannot_be_long_enough(tmp_path: Path) -> None:
    meter = meter_of(tmp_path, max_tokens=40)
    assert (meter.admit(), meter.allowed.held_by) == (40, "--max-tokens")
    meter.count(used(20))
    assert meter.admit() == 20
    meter.count(used(5))
    with pytest.raises(SpendingLimit, match=r"40 output tokens 15 are left \(--max-tokens\)"):
        meter.admit()
    assert meter_of(tmp_path, max_tokens=5).admit() == 5, "the first request is sent"


def test_a_report_that_cannot_be_right_is_doubted_once(tmp_path: Path) -> None:
    session = session_of(ScriptedProvider(), tmp_path, window=100_000)
    meter = session.meter
    session.conversation.append(user("word " * 8_000), assistant("done"))
    doubted = Usage(total_input=60, output=3)
    report, note = meter.spend(doubted, 2)
    assert isinstance(report, events.UsageReport)
    assert report.usage == doubted
    assert 9_000 < report.context == session.size < report.budget < report.window == 100_000
    assert isinstance(note, events.Note)
    assert note.text.startswith("the provider counts 60 tokens")
    assert "estimated instead" in note.text
    assert len(meter.spend(doubted, 2)) == 1
    (report,) = meter.spend(Usage(total_input=11_000, output=3), 2)
    assert isinstance(report, events.UsageReport)
    assert report.context == 11_003
    assert meter.usage.output == 9


def test_a_request_beside_the_conversation_is_held_by_the_same_limits(tmp_path: Path) -> None:
    meter = meter_of(tmp_path, max_tokens=40)
    assert meter.beside() == Allowance(40, "--max-tokens")
    assert meter.beside(30) == Allowance(30)
    assert meter.affords(30) and not meter.affords(50)
    assert meter.allowed == Allowance(None), "what the turn's own request may ask for is another matter"
    meter.count(used(40))
    with pytest.raises(LimitReached, match=r"limit of 40 output tokens .*\(--max-tokens\)"):
        meter.beside()
    assert not meter.affords(1)
    paid = meter_of(tmp_path, "anthropic/claude-sonnet-4-5", max_cost=1.0)
    paid.count(Usage(total_input=0, output=64_000))  # $0.96
    assert paid.beside().held_by == "--max-cost" and paid.affords(2_000) and not paid.affords(3_000)
    paid.count(Usage(total_input=0, output=2_660))
    with pytest.raises(SpendingLimit):
        paid.beside()


def test_what_a_session_beside_used_counts_here(tmp_path: Path) -> None:
    model = "anthropic/claude-sonnet-4-5"
    meter, other, free = (meter_of(tmp_path, model, max_cost=1.0) for _ in range(3))
    free.facts = facts_of(model, local=True)
    for each in (meter, other, free):
        each.count(used(1_000))
    meter.take_over(other)
    meter.take_over(free)
    assert meter.spent == meter.usage == used(1_000) + used(1_000) + used(1_000)
    assert meter.cost == meter.spent_cost == meter.charged == pytest.approx(0.036)
    other.admit()
    other.count(None)
    meter.take_over(other)
    assert meter.cost is None and meter.charged > 0.054, "what nobody reported is charged by estimate"
