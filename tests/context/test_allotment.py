"""The target of a compaction, and the size of each category."""

from __future__ import annotations

import pytest

from codelet.context import CompactionOptions, ContextWindow
from codelet.context.allotment import category_sizes, conversation_targets
from codelet.context.compaction.engine import IrreducibleContext
from codelet.context.tokens import Budget
from codelet.conversation import Conversation
from codelet.messages import Message, assistant, reminder, segment, user

LIMIT = 40_000
BUDGET = Budget(100_000, user_limit=LIMIT)


def targets(*turns: int, beside: int = 1_000, at: int | None = None):
    """The targets of a compaction of turns of these estimated tokens."""
    conversation = Conversation()
    for tokens in turns:
        conversation.append(user("x" * 4 * (tokens // 2 - 4)))
        conversation.append(assistant("y" * 4 * (tokens // 2 - 4)))
    return conversation_targets(conversation, ContextWindow(BUDGET, beside), CompactionOptions(at=at), "hard")


def test_small_turns_leave_the_usual_size_and_stay_whole():
    first = targets(*[2_000] * 18)[0]
    assert (first.size, first.whole) == (LIMIT * 35 // 100 - 1_000, 6_000)


@pytest.mark.parametrize(("turn", "kept"), [(6_000, 3), (7_900, 3), (8_500, 2), (11_000, 2), (13_000, 1), (23_000, 1)])
def test_the_newest_turns_stay_whole_while_they_take_six_tenths(turn: int, kept: int):
    first = targets(*[turn] * 5)[0]
    assert first.whole == kept * turn
    assert first.size >= min(first.whole + LIMIT // 10, LIMIT * 80 // 100 - 1_000)
    assert first.size <= LIMIT * 80 // 100 - 1_000
    assert (first.note == "") == (kept == 3), "why fewer stay is said, and only then"
    assert kept == 3 or f"{3 * turn:,}" in first.note


def test_a_turn_larger_than_that_leaves_room_for_what_is_unseen():
    first = targets(3_000, 26_000)[0]
    assert first.whole == 0 and first.unseen > 0
    assert first.note


def test_sizes_grow_and_the_last_stays_below_the_trigger():
    sizes = [target.size for target in targets(*[5_000] * 9)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == BUDGET.hard_trigger - 1 - 1_000
    with pytest.raises(IrreducibleContext):
        targets(5_000, 5_000, beside=LIMIT)


@pytest.mark.parametrize("at", [30, 50, 80])
def test_an_early_threshold_lowers_the_target(at: int):
    early, usual = targets(*[1_000] * 40, at=at)[0], targets(*[1_000] * 40)[0]
    assert early.size < usual.size
    assert early.size + 1_000 < at * LIMIT // 100


def test_each_message_counts_in_one_category():
    text = '<compacted turns="1-2">\n[t1 user] Mend it.\n[t2 read a.py]\n' + "row of a file\n" * 20
    messages = [reminder("gitStatus", "r" * 40), segment(text), user("o" * 80), assistant("a" * 160)]
    messages += [user("n" * 320), assistant("w" * 640)]

    def measure(message: Message) -> int:
        return len(message["content"] or "")

    found = category_sizes(messages, measure, 7)
    assert found["core"] == 7 + measure(messages[0])
    assert found["working"] == 960
    assert found["context"] + found["history"] == 240 + len(text)
    assert found["context"] >= 240 + 20 * len("row of a file\n")
    alone = category_sizes([assistant("a" * 160)], measure, 0)
    assert alone == {"core": 0, "context": 160, "history": 0, "working": 0}
