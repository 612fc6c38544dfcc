"""Where a compaction aims, what a refused request tells of the limit, and what each category takes."""

from __future__ import annotations

import pytest

from codelet.context import ContextWindow
from codelet.context.allotment import beyond, category_sizes, conversation_targets, reduced_size, refused_limit
from codelet.context.tokens.budget import Budget, Shares
from codelet.conversation import Conversation
from codelet.messages import Message, assistant, reminder, segment, user
from codelet.usage import Usage

LIMIT = 40_000
BUDGET = Budget(100_000, user_limit=LIMIT)


def opened(tokens: int, beside: int = 1_000, budget: Budget = BUDGET) -> tuple[Conversation, ContextWindow]:
    """A conversation of so many estimated tokens, and its window."""
    conversation = Conversation()
    conversation.append(user("x" * 4 * (tokens - 4)))
    return conversation, ContextWindow(budget, beside)


def test_the_sizes_aimed_at_are_shares_of_the_room_and_the_last_stays_below_the_trigger():
    assert conversation_targets(*opened(50_000)) == [13_650, 23_400, BUDGET.hard_trigger - 1 - 1_000]
    large = 16_000
    assert conversation_targets(*opened(50_000, large)) == [8_400, 14_400, max(20_400, BUDGET.hard_trigger - 1 - large)]
    assert conversation_targets(*opened(50_000, 39_999)) == [], "no share of one token is a size"
    assert conversation_targets(*opened(50_000, 40_000)) == []


@pytest.mark.parametrize(("at", "first"), [(50, 7_800), (80, 12_480), (87, 13_260), (88, 13_650), (100, 13_650)])
def test_who_compacts_early_gets_less(at: int, first: int):
    conversation, window = opened(50_000)
    assert conversation_targets(conversation, window, at=at)[0] == first
    assert conversation_targets(conversation, window, at=at)[1:] == conversation_targets(conversation, window)[1:]


def test_after_a_refusal_four_fifths_of_what_was_refused_count_as_the_limit():
    assert [refused_limit(LIMIT, size) for size in (20_000, 40_000, 90_000)] == [16_000, 32_000, 32_000]
    assert conversation_targets(*opened(50_000), overflow=True) == [10_850, 18_600, 26_350]
    assert conversation_targets(*opened(19_000), overflow=True) == [5_250, 9_000, 12_750]
    early = conversation_targets(*opened(50_000), overflow=True, at=20)
    assert early == [BUDGET.target // 2 - 1_000, 18_600, 26_350]
    assert conversation_targets(*opened(19_000), overflow=True, at=20)[0] == 5_600 - 1_000


def test_where_more_was_reported_than_estimated_the_sizes_are_lower_by_as_much():
    conversation, window = opened(10_000, 0)
    usage = Usage(total_input=20_000, cache_read=0, cache_write=0, output=0, reasoning=0)
    window.measured(usage, conversation, len(conversation.body))
    scale = window.estimate(conversation.body[0]) / 20_000
    assert scale < 0.9
    found = conversation_targets(conversation, window)
    for size, share in zip(found, (14_000, 24_000, BUDGET.hard_trigger), strict=True):
        assert abs(size - share * scale) <= 2


def test_a_reduction_is_good_enough_up_to_six_tenths_or_two_thirds_of_where_the_user_compacts():
    assert reduced_size(BUDGET, None) == reduced_size(BUDGET, 100) == BUDGET.enough == 24_000
    assert reduced_size(BUDGET, 90) == 24_000 and reduced_size(BUDGET, 60) == 16_000


def test_each_message_counts_in_one_category():
    text = '<compacted turns="1-2">\n[t1 user] Mend it.\n[t2 read a.py]\n' + "row of a file\n" * 20
    messages = [reminder("gitStatus", "r" * 40), segment(text), user("o" * 80), assistant("a" * 160)]
    messages += [user("n" * 320), assistant("w" * 640)]

    def measure(message: Message) -> int:
        return len(message["content"] or "")

    found = category_sizes(messages, measure, 7)
    assert found["core"] == 7 + measure(messages[0])
    assert found["working"] == 960
    quoted = len("[t2 read a.py]\n") + 20 * len("row of a file\n") + 1
    assert found["context"] == 240 + quoted and found["history"] == len(text) - quoted
    alone = category_sizes([assistant("a" * 160)], measure, 0)
    assert alone == {"core": 0, "context": 160, "history": 0, "working": 0}
    shares = Shares.of(1_000, (10, 30, 20, 40))
    assert beyond(shares, {"core": 100, "context": 301, "history": 0, "working": 999}) == {"context": 1, "working": 599}


def test_a_heading_that_leaves_out_what_stands_above_counts_as_it_stands():
    path = "src/some/very/long/path/of/the/module/session.py"
    lines = ['<compacted turns="1-30">', f"[t1 read {path}]", "x = 1"]
    lines += [line for n in range(2, 30) for line in (f"[t{n} read …/session.py]", f"y = {n}")]
    found = category_sizes([segment("\n".join(lines))], lambda message: len(message["content"] or ""), 0)
    assert (found["history"], found["context"]) == (len(lines[0]), sum(len(line) + 1 for line in lines[1:]))
