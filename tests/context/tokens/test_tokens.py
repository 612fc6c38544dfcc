"""The estimate: its numbers and its calibration; exact counts."""

from __future__ import annotations

import threading

import pytest

from codelet.context import ContextWindow
from codelet.context.tokens import characters, estimate_message, estimate_text, exact, picture_tokens
from codelet.context.tokens.budget import Budget
from codelet.conversation import Conversation
from codelet.messages import assistant, tool_call, user
from codelet.usage import Usage


def test_a_quarter_of_the_characters_and_four_more():
    assert estimate_text("12345") == 2
    assert estimate_message({"role": "user", "content": "12345678"}) == 6
    assert estimate_message({"role": "user", "content": None}) == 4
    assert estimate_message({"role": "user", "content": [{"type": "text", "text": "1234"}]}) == 5
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    assert characters({"role": "assistant", "content": "", "tool_calls": [call]}) > len("c1functionread{}")
    assert characters({"role": "tool", "tool_call_id": "c1", "content": "ok"}) == 4


def test_calibration_follows_the_provider_within_bounds():
    window, conversation = ContextWindow(Budget(1 << 30), 0), Conversation()

    def report(tokens: int, times: int, characters: int = 3_984) -> None:
        for _ in range(times):
            window.forget()
            conversation.clear()
            conversation.append(user("x" * characters))
            usage = Usage(total_input=tokens, cache_read=0, cache_write=0, output=0, reasoning=0)
            window.measured(usage, conversation, len(conversation.body))

    report(1_400, 40)
    assert 1_390 <= window.factor <= 1_400
    report(90_000, 40)
    assert window.factor == pytest.approx(2_000, abs=3)
    report(334, 60)
    assert window.factor == pytest.approx(700, abs=3)
    before = window.factor
    report(5_000, 1, characters=40)
    assert window.factor == before
    assert window.characters(window.estimate(user("x" * 3_984))) == pytest.approx(4_000, rel=0.01)


def test_exact_counts_come_from_the_bundled_files():
    assert exact.count_tokens("hello world") == 2
    assert exact.count_tokens("") == 0
    assert exact.count_tokens("hello world", "o200k_base") == 2
    assert exact.count_tokens("<|endoftext|>") > 1


def test_a_million_blanks_do_not_panic():
    assert exact.count_tokens(" " * 1_000_000) > 0


def test_loading_is_safe_from_many_threads():
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(exact.count_tokens("a b c"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [3] * 8


def test_the_encoding_for_a_model():
    assert exact.encoding_name("openai/gpt-4o-mini") == "o200k_base"
    assert exact.encoding_name("anthropic/claude-sonnet-4") == "cl100k_base"


def test_a_picture_counts_by_its_size_up_to_what_vendors_make_of_a_large_one():
    def tokens(*sizes: tuple[int, int]) -> int:
        pictures = [
            {"name": "a.png", "media_type": "image/png", "data": "", "width": width, "height": height}
            for width, height in sizes
        ]
        return picture_tokens({"role": "user", "content": "", "images": pictures})

    assert [tokens((75, 10)), tokens((75, 11)), tokens((75, 10), (150, 10))] == [1, 2, 3]
    assert tokens((1_200, 1_000)) == tokens((90_000, 90_000)) == 1_600


def test_a_request_is_counted_with_its_calls_and_what_stands_beside_it():
    alone = exact.exact_size([user("hello world")], [], "anthropic/x")
    assert exact.exact_size([user("hello world")], ["hello world", "", "hello"], "anthropic/x") == alone + 3
    calling = [assistant("hello", [tool_call("c1", "read", '{"path": "a.py"}')])]
    assert exact.exact_size(calling, [], "openai/gpt-4o") > exact.exact_size([assistant("hello")], [], "openai/gpt-4o")
    assert exact.has_own_encoding("openai/gpt-4o") and not exact.has_own_encoding("openai/gpt-oss:20b")
