"""A call that is written as text runs nothing: it is asked for once more, and never passes for an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codelet import run
from codelet.errors import NoAnswer
from codelet.events import Retry
from codelet.loop.call_in_text import called_in_text
from tests.api.conftest import options as options
from tests.support.script import Call, Reply
from tests.support.server import ModelServer
from tests.support.sessions import MakeSession, of_type, turn, turn_until_error

BARE = '{"name": "bash", "arguments": {"command": "ls"}}'
DSML = (
    '<\uff5cDSML\uff5cfunction_calls>\n<\uff5cDSML\uff5cinvoke name="bash">\n<\uff5cDSML\uff5cparameter '
    'name="command" string="true">ls</\uff5cDSML\uff5cparameter>\n</\uff5cDSML\uff5cinvoke>\n'
    "</\uff5cDSML\uff5cfunction_calls>"
)
DEEPSEEK = (
    "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>function<\uff5ctool\u2581sep\uff5c>bash\n"
    '```json\n{"command": "ls"}\n```<\uff5ctool\u2581call\u2581end\uff5c><\uff5ctool\u2581calls\u2581end\uff5c>'
)
KIMI = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"
    '{"command": "ls"}<|tool_call_end|><|tool_calls_section_end|>'
)
INVOKE = (
    '<function_calls>\n<invoke name="bash">\n<parameter name="command">ls</parameter>\n</invoke>\n</function_calls>'
)
FUNCTION = "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>"
CALLS = [
    BARE,
    f"[{BARE}]",
    f"I look.\n\n```json\n{BARE}\n```",
    f"```\n{BARE}\n```\n",
    '{"tool_calls": [{"type": "function", "function": ' + BARE + "}]}",
    '{"tool": "bash", "args": {}}',
    '{"name": "bash", "arguments": {"command": "a\nb"}}',
    f"<tool_call>{BARE}</tool_call>",
    f"I look.\n<tool_call>\n{BARE}\n</tool_call><|im_end|>",
    f"<tool_call>\n{BARE}",
    f"<tool_call>{BARE}</tool_call>\n<tool_call>{BARE}</tool_call>",
    f"```xml\n<tool_call>{BARE}</tool_call>\n```",
    "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>",
    INVOKE,
    INVOKE.replace("invoke", "minimax:invoke"),
    FUNCTION,
    f"<tool_call>\n{FUNCTION}\n</tool_call>",
    '<function=bash>{"command": "ls"}</function>',
    DSML,
    DEEPSEEK,
    KIMI,
    f"[TOOL_CALLS][{BARE}]",
    '[TOOL_CALLS]bash[ARGS]{"command": "ls"}',
    '<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{"command": "ls"}<|call|>',
]
ANSWERS = [
    "",
    "done",
    f"Models write\n\n```\n<tool_call>{BARE}</tool_call>\n```\n\nand the server parses it.",
    f"Such a call is `<tool_call>{BARE}</tool_call>`",
    f"{INVOKE}\nis how it was written before.",
    f"{BARE}\nis the form.",
    f'Form:\n{BARE}\nand a config:\n```json\n{{"a": 1}}\n```',
    '{"name": "bash", "version": "1.0"}',
    '{"findings": [{"name": "bash", "arguments": {}}]}',
    "<tool_call> opens a call and </tool_call> ends it.",
    "The tag is\n<tool_call>",
    "def f(x):\n    return {\n        'name': x}",
]


@pytest.mark.parametrize("text", CALLS)
def test_an_answer_that_ends_with_a_call(text: str) -> None:
    assert (called_in_text(text) or "").removeprefix("functions.").removesuffix(":0") == "bash"


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_that_only_speaks_of_calls(text: str) -> None:
    assert called_in_text(text) is None


def test_long_answers_are_read_at_once() -> None:
    for text in (
        '{"name": "bash", ' * 3_000,
        "<tool_call>" * 20_000,
        "<function=a>" * 20_000,
        "[{" * 50_000,
        "\n" * 50_000,
    ):
        assert called_in_text(text) is None


@pytest.mark.parametrize("text", [CALLS[2], INVOKE, KIMI])
async def test_it_is_asked_for_once_and_then_incomplete(
    options: dict[str, Any], model_server: ModelServer, text: str
) -> None:
    model_server.script = [Reply(text), Reply(text), Reply("unused")]
    answer = await run("go", **options)
    assert (answer.exit, answer.partial, answer.text) == (5, True, text)
    assert "bash" in (answer.error or "")
    assert len(model_server.requests) == 2


async def test_a_model_that_calls_when_asked_goes_on(make_session: MakeSession, model_server: ModelServer) -> None:
    look = Call("a", "read", {"path": "."})
    model_server.script = [Reply(CALLS[7]), Reply(calls=[look]), Reply(CALLS[7]), Reply(calls=[look]), Reply("done")]
    session = make_session()
    seen = await turn(session)
    assert len(of_type(seen, Retry)) == 2
    assert session.messages[-1]["content"] == "done"


async def test_without_that_tool_it_is_an_answer(make_session: MakeSession, model_server: ModelServer) -> None:
    other = BARE.replace('"bash"', '"deploy"')
    model_server.script = [Reply(other), Reply(BARE), Reply(BARE), Reply(BARE)]
    assert not of_type(await turn(make_session()), Retry)
    assert not of_type(await turn(make_session(tools=())), Retry)
    seen, error = await turn_until_error(make_session())
    assert len(of_type(seen, Retry)) == 1
    assert isinstance(error, NoAnswer)


async def test_a_required_answer_may_look_like_a_call(options: dict[str, Any], model_server: ModelServer) -> None:
    schema = {"type": "object", "required": ["name", "arguments"]}
    model_server.script = [Reply(BARE)]
    answer = await run("go", json_schema=schema, **options)
    assert (answer.exit, answer.structured_output) == (0, json.loads(BARE))
