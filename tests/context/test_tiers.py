"""The size that a compaction by hand aims at: the usual one, or one relative to what is there."""

from __future__ import annotations

import pytest

from codelet.context import CompactionOptions, ContextWindow
from codelet.context.asked import Size
from codelet.context.pins import Pins
from codelet.context.tiers import Tiers
from codelet.context.tokens.budget import Budget
from codelet.conversation import Conversation
from codelet.messages import assistant, user

BUDGET, BESIDE = Budget(100_000, user_limit=40_000), 1_000
USUAL = 13_650
TURNS = 20


def target(tokens: int, size: Size | None = None) -> int:
    """What a conversation of so many tokens, in twenty turns of about the same length, is to be made into."""
    conversation = Conversation()
    each = (tokens - 4 * 2 * TURNS) // TURNS
    for number in range(TURNS):
        more = tokens - 4 * 2 * TURNS - each * TURNS if number == 0 else 0
        conversation.append(user(f"part {number}: ".ljust(400)), assistant("said ".ljust(4 * (each - 100 + more), "x")))
    window = ContextWindow(BUDGET, BESIDE)
    assert window.size(conversation) == tokens + BESIDE
    tiers = Tiers(window, CompactionOptions(), Pins(), None, lambda message: False)
    return tiers.compacted(conversation.snapshot(), "asked", size=size).report.target


@pytest.mark.parametrize("tokens", [16_059, 30_000])
def test_the_usual_size_is_aimed_at_where_it_leaves_at_most_so_much(tokens: int):
    assert target(tokens) == USUAL


def test_else_what_comes_before_the_newest_turns_is_made_so_much_smaller():
    for tokens in (16_058, 8_000):
        each = (tokens - 4 * 2 * TURNS) // TURNS + 8
        newest = CompactionOptions().keep_last * each
        assert target(tokens) == newest + (tokens - newest) * 35 // 100


def test_a_size_that_is_asked_for_is_that_of_the_next_request():
    assert target(30_000, Size(tokens=9_000)) == 9_000 - BESIDE
    assert target(30_000, Size(percent=50.0)) == 31_000 // 2 - BESIDE
