"""The window: what was reported, and an estimate of what came since, each message counted once."""

from __future__ import annotations

from codelet.context import ContextWindow
from codelet.context.tokens import Budget
from codelet.conversation import Conversation
from codelet.messages import Message, assistant, user
from codelet.usage import Usage


def listed(*messages: Message) -> Conversation:
    conversation = Conversation()
    conversation.append(*messages)
    return conversation


def test_it_takes_the_report_and_adds_what_came_since():
    window = ContextWindow(Budget(100_000), 1_000)
    messages = listed(user("x" * 4_000))
    assert window.size(messages) == 2_004
    messages.append(assistant("y" * 40))
    window.measured(Usage(total_input=2_004, cache_read=0, cache_write=0, output=14, reasoning=0), messages, 2)
    messages.append(user("z" * 400))
    assert window.size(messages) == 2_018 + 104
    window.forget()
    assert window.size(messages) == 1_000 + 1_004 + 14 + 104


def test_the_tail_is_part_of_what_was_reported():
    window = ContextWindow(Budget(100_000), 1_000)
    messages = listed(user("x" * 4_000))
    messages.renew({}, {"tokenStatus": "x" * 400})
    before = window.size(messages)
    assert before == 2_004 + window.estimate(messages.tail[-1])
    messages.append(assistant("y" * 40))
    window.measured(Usage(total_input=before, cache_read=0, cache_write=0, output=14, reasoning=0), messages, 2)
    assert window.size(messages) == before + 14
    messages.renew({}, {"tokenStatus": None})
    assert window.size(messages) == before + 14, "until the next report"


def test_what_is_settled_is_not_looked_at_again_and_placeholders_are_not_settled():
    window = ContextWindow(Budget(100_000), 1_000)
    messages = listed(user("x" * 400), assistant("y" * 400))
    window.settle(messages)
    size = window.size(messages)
    messages.append(user("placeholder"))
    assert window.size(messages) > size
    messages.replace(2, user("w" * 4_000))
    assert window.size(messages) == size + 1_004
    window.settle(messages)
    window.settle(messages)
    assert window.size(messages) == size + 1_004


def test_another_model_starts_afresh():
    window = ContextWindow(Budget(100_000), 0)
    messages = listed(user("x" * 4_000))
    window.measured(Usage(total_input=1_506, cache_read=0, cache_write=0, output=0, reasoning=0), messages, 1)
    learned = window.estimate(messages.body[0])
    assert learned > 1_004
    window.forget()
    assert window.estimate(messages.body[0]) == learned
    window.switch(Budget(50_000))
    assert window.estimate(messages.body[0]) == 1_004
    assert window.budget.window == 50_000


def test_what_was_sent_is_all_but_the_answer_that_a_report_came_with():
    window = ContextWindow(Budget(100_000), 1_000)
    messages = listed(user("x" * 20_000), user("y" * 8_000), assistant("z" * 4_000))
    report = Usage(total_input=10, cache_read=0, cache_write=0, output=5, reasoning=0)
    notice = window.measured(report, messages, 3)
    assert notice and " 10 tokens" in notice and "8,008" in notice
    assert window.size(messages) == 8_008 + 1_004, "what is not believed is not taken"
    messages.append(user("w" * 400))
    assert window.measured(report, messages, 3) == notice
    small = ContextWindow(Budget(100_000), 0)
    assert small.measured(report, listed(user("x" * 15_980)), 0) is None, "such a list fits any window"
