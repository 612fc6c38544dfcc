"""The budget's two limits, its split, and the functions of the acceptance list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelet.context.tokens import (
    Budget,
    effective_tokens,
    had_effect,
    percent_of,
    shares_of,
)


def test_what_the_cache_gave_counts_a_tenth():
    assert effective_tokens(100_000, 80_000) == 28_000


def test_a_share_is_rounded_up_so_that_any_use_shows():
    assert [percent_of(part, 200) for part in (-1, 0, 1, 2, 3, 199, 200, 300)] == [0, 0, 1, 1, 2, 100, 100, 150]
    assert percent_of(5, 0) == 0


def test_the_reserve_the_limits_and_the_triggers_of_a_large_window():
    budget = Budget(200_000)
    assert (budget.reserve, budget.hard, budget.limit) == (32_000, 168_000, 168_000)
    assert budget.hard_trigger == 166_000
    assert budget.trigger(165_999, 165_000) is None
    assert budget.trigger(166_000, 166_000) == "hard"
    assert budget.trigger(151_200, 0) == "cost"
    assert budget.trigger(151_199, 0) is None


def test_small_windows_and_the_users_own_budget():
    assert Budget(8_000).hard == 6_000
    assert Budget(8_000).hard_trigger == 5_400
    assert Budget(200_000, max_output=4_000).hard == 196_000
    assert Budget(200_000, user_limit=90_000).limit == 90_000
    assert Budget(100_000, user_limit=100_000).limit == 75_000
    assert Budget(200_000, user_limit=90_000).cost_trigger == 81_000


@given(st.integers(4, 4_000_000), st.integers(0, 4_000_000), st.integers(0, 100))
def test_a_prompt_that_would_pass_the_window_always_triggers(window, prompt, cached):
    budget = Budget(window)
    if prompt >= budget.hard:
        assert budget.trigger(prompt, prompt * cached // 100) == "hard"
    assert budget.hard + budget.reserve == window


def test_a_compaction_worked_when_it_is_small_enough_and_saved_enough():
    budget = Budget(100_000)
    assert had_effect(70_000, 26_000, budget)
    assert not had_effect(46_000, 44_000, budget)
    assert not had_effect(70_000, 50_000, budget)


def test_budget_categories_take_no_more_than_their_share():
    assert shares_of(200_000) == {"core": 10_000, "context": 60_000, "history": 30_000, "working": 100_000}
    assert shares_of(999, (1, 34, 15, 50)) == {"core": 9, "context": 339, "history": 149, "working": 499}


@pytest.mark.parametrize("percent", [(100, 5, 5, 5), (0, 50, 25, 25), (True, 49, 25, 25)])
def test_shares_must_add_up(percent: tuple[int, ...]):
    with pytest.raises(ValueError, match="share"):
        shares_of(1_000, percent)
