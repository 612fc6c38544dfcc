"""Exact counts near a limit: the model's own tokeniser decides, from a thread, and nobody waits for it."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from codelet.context import ContextWindow
from codelet.context.tokens import exact
from codelet.context.tokens.budget import Budget
from codelet.context.tokens.counter import ExactCounter, exact_size, has_own_encoding
from codelet.conversation import Conversation
from codelet.messages import Message, assistant, tool_call, user
from codelet.usage import Usage

MODEL = "openai/gpt-4o"
DENSE = "价格是七千四百三十三元，端口不能改。"  # many more tokens than a quarter of its characters


def listed(*messages: Message) -> Conversation:
    conversation = Conversation()
    conversation.append(*messages)
    return conversation


def counted(window: ContextWindow, messages: Conversation) -> int:
    """The size once the counts that it begins are made."""
    window.size(messages)
    window.exact.wait(20)
    return window.size(messages)


@pytest.mark.parametrize(
    ("model", "own"),
    [
        ("openai/gpt-4o-mini", True),
        ("gpt-4", True),
        ("openrouter/openai/o3", True),
        ("anthropic/claude-sonnet-4", False),
        ("ollama/gpt-oss:20b", False),
        ("", False),
    ],
)
def test_only_models_with_an_encoding_here_are_counted(model: str, own: bool):
    assert has_own_encoding(model) is own
    counter = ExactCounter(model)
    assert counter.total([user("hi")]) is None, "nobody waits for the first count"
    counter.wait(20)
    expected = exact.count_tokens("hi", exact.encoding_name(model)) + 4 if own else None
    assert counter.total([user("hi")]) == expected and counter.able is own


def test_counts_are_the_tokenisers_and_made_once():
    counter = ExactCounter(MODEL)
    call = tool_call("c1", "read", '{"path": "a.py"}')
    messages = [user(DENSE * 40), assistant("hello world", [call]), user("x")]
    assert counter.total(messages) is None, "nobody waits for the first count"
    counter.wait(20)
    total = counter.total(messages)
    texts = DENSE * 40, "hello world", "x"
    assert total is not None
    least = sum(exact.count_tokens(text, "o200k_base") for text in texts)
    assert least + 3 * 4 < total < least + 3 * 4 + 60, "and the call as JSON"
    more = [*messages, user("one more")]
    assert counter.total(more) == total + exact.count_tokens("one more", "o200k_base") + 4, "what is small at once"
    counter.forget()
    assert counter.total(messages[2:]) == exact.count_tokens("x", "o200k_base") + 4


def test_near_a_limit_the_exact_count_decides_and_far_from_it_nothing_is_loaded():
    window = ContextWindow(Budget(40_000), 0, model=MODEL)
    far = listed(user(DENSE * 100))
    assert counted(window, far) == window.estimate(far.body[0])
    assert not window.exact.begun
    near = listed(*(user(DENSE) for _ in range(2_800)))
    estimated = sum(map(window.estimate, near.body))
    assert window.budget.cost_trigger * 9 // 10 <= estimated < window.budget.cost_trigger
    begun = time.thread_time()  # of this thread: the count goes on in one of its own
    assert window.size(near) == estimated, "the estimate has to do until the count is there"
    assert time.thread_time() - begun < 0.5
    window.exact.wait(20)
    want = 2_800 * (exact.count_tokens(DENSE, "o200k_base") + 4)
    assert window.size(near) == want > estimated
    window.settle(near)
    assert window.size(near) == want
    near.append(user(DENSE))
    assert window.size(near) == want + want // 2_800
    near.renew({}, {"tokenStatus": "x" * 400})
    assert window.size(near) == want + want // 2_800 + window.estimate(near.tail[-1])


def test_what_was_reported_is_not_counted_again():
    window = ContextWindow(Budget(40_000), 0, model=MODEL)
    messages = listed(user("word " * 20_000))
    window.measured(Usage(total_input=26_000, cache_read=0, cache_write=0, output=0, reasoning=0), messages, 1)
    messages.append(user(DENSE * 20))
    size = counted(window, messages)
    assert size == 26_000 + exact.count_tokens(DENSE * 20, "o200k_base") + 4
    assert window.exact.total(messages.body[:1]) is None, "it was not looked at"
    window.switch(Budget(40_000), "anthropic/claude-sonnet-4")
    assert not window.exact.able
    assert window.size(messages) == sum(map(window.estimate, messages.body))


def test_the_users_own_limit_counts_as_one():
    window = ContextWindow(Budget(400_000), 0, model=MODEL)
    messages = listed(*(user(DENSE) for _ in range(2_800)))
    assert counted(window, messages) == sum(map(window.estimate, messages.body))
    window.at = 7
    assert counted(window, messages) == 2_800 * (exact.count_tokens(DENSE, "o200k_base") + 4)


def test_a_process_may_end_while_a_count_is_made():
    code = (
        "from codelet.context.tokens.counter import ExactCounter\n"
        f"c = ExactCounter({MODEL!r})\n"
        "assert c.total([{'role': 'user', 'content': 'word ' * 400_000}]) is None\n"
        "print('ends')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")


def test_the_counter_alone_imports_no_tokeniser():
    names = "('tiktoken', 'codelet.context.tokens.exact')"
    code = f"import sys, codelet.loop.session; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_what_stands_beside_a_list_is_counted_with_it():
    alone = exact_size([user("hello world")], [], "anthropic/x")
    assert exact_size([user("hello world")], ["hello world", "", "hello"], "anthropic/x") == alone + 3
    assert alone == 2 + 4
