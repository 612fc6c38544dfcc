"""The pairing rule of calls and results."""

from __future__ import annotations

import pytest

from codelet.messages import Message, assistant, tool_call, tool_result, unpaired, user

A, B = tool_call("a", "read", "{}"), tool_call("b", "read", "{}")


@pytest.mark.parametrize(
    ("messages", "wrong"),
    [
        ([], []),
        ([user("x"), assistant("y")], []),
        ([assistant(None, [A, B]), tool_result("a", ""), tool_result("b", "")], []),
        ([assistant(None, [A, B]), tool_result("b", ""), tool_result("a", "")], []),
        ([assistant(None, [A])], ["a"]),
        ([assistant(None, [A, B]), tool_result("a", ""), user("x")], ["b"]),
        ([assistant(None, [A]), user("x"), tool_result("a", "")], ["a", "a"]),
        ([tool_result("a", "")], ["a"]),
        ([assistant(None, [A]), tool_result("a", ""), tool_result("a", "")], ["a"]),
        ([assistant(None, [A]), tool_result("b", "")], ["b", "a"]),
        ([assistant(None, [A]), tool_result("a", ""), assistant(None, [A]), tool_result("a", "")], []),
    ],
)
def test_each_call_has_one_result_right_after_it(messages: list[Message], wrong: list[str]):
    assert unpaired(messages) == wrong
