"""Talk in little room: each of the user's words leaves something."""

from __future__ import annotations

import pytest

from codelet.context.compaction.engine import compact
from tests.context.compaction.lists import Message, says, size, user


def test_a_prompt_that_was_answered_competes_with_the_others():
    messages = [
        user(f"Remark {n} of many about nothing.") if n % 2 else says("Understood, I will go on with it.")
        for n in range(1, 61)
    ]
    messages += [user("And a last remark that needs no place of its own here."), says("Fine.")]
    answered = compact(messages, size(messages) // 10)
    assert "needs no place" not in str(answered.messages[-1]["content"])
    asked = compact(messages[:-1], size(messages) // 10)
    assert asked.messages[-1] == messages[-2]


@pytest.mark.parametrize("length", [60, 120])
def test_hundreds_of_short_requests_each_leave_a_line(length):
    """A row of requests replaces nothing, however much one is like the next."""
    messages: list[Message] = []
    for number in range(350):
        text = f"Please look at item {number} and tell me whether module_{number % 37} handles case {number * 7} well. "
        messages += [user((text * 2)[:length]), says(f"It does: handler_{number} returns value_{number * 3}. " * 4)]
    made = compact(messages, 4_000)
    lines = "\n".join(str(message["content"]) for message in made.messages).split("\n")
    words = [set(line.split()) for line in lines]
    assert (made.report.words_each or 99) < 60
    for number in range(350):
        assert any({str(number), f"{number * 7}"} & line for line in words), number
