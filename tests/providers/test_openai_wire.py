"""The wire for Chat Completions: request bodies to the byte, and every shape that servers answer in."""

# near: codelet/providers/catalog.py

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

import pytest

from codelet import prompt
from codelet.errors import ProviderError
from codelet.messages import Message, assistant, reminder, tool_call, tool_result, user
from codelet.providers import open_provider
from codelet.providers.openai_chat import OpenAIChatProvider
from codelet.providers.protocol import (
    Chunk,
    Deadlines,
    FinishChunk,
    ProviderOptions,
    ReasoningChunk,
    Request,
    Retries,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)
from codelet.usage import Usage
from tests.providers.chunks import TOOLS
from tests.support.raw import RawServer, event_stream, saying
from tests.support.templates import TEMPLATES

REMINDERS = {"gitStatus": "clean", "tokenStatus": "1 %", "environment": "here", "claudeMd": "rules"}
TOLD = [reminder(kind, prompt.as_reminder(kind, text)) for kind, text in REMINDERS.items()]
TAIL, HEAD = TOLD[:2], TOLD[2:]
CALL = tool_call("call_abc", "read", '{"path": "größe"}')
TURN: list[Message] = [user("look"), assistant(None, [CALL]), tool_result("call_abc", "text")]


def provider(model: str = "openai/chat/gpt-x", base: str = "https://api.openai.com/v1") -> OpenAIChatProvider:
    made = open_provider(
        model, ProviderOptions(base, "key", Deadlines(connect=2, first_token=5, between_chunks=5), Retries(attempts=1))
    )
    assert isinstance(made, OpenAIChatProvider)
    return made


def body(wire: OpenAIChatProvider, messages: list[Message], **options: Any) -> dict[str, Any]:
    raw = wire.body(Request("Be brief.", messages, **options))
    parsed: dict[str, Any] = json.loads(raw)
    return parsed


def test_the_whole_body():
    raw = provider().body(Request("Be brief.", [*TURN, *TAIL], tail=2, tools=TOOLS[:1], max_output=77))
    tool = json.dumps(TOOLS[0], separators=(",", ":"))
    assert raw.decode() == (
        '{"model":"gpt-x","tools":[' + tool + '],"messages":[{"role":"system","content":"Be brief."},'
        '{"role":"user","content":"look"},'
        '{"role":"assistant","content":null,"tool_calls":[{"id":"call_abc","type":"function",'
        '"function":{"name":"read","arguments":"{\\"path\\": \\"größe\\"}"}}]},'
        '{"role":"tool","content":"text","tool_call_id":"call_abc"},'
        '{"role":"user","content":"<system-reminder>\\n<!-- type:gitStatus -->\\nclean\\n</system-reminder>"},'
        '{"role":"user","content":"<system-reminder>\\n<!-- type:tokenStatus -->\\n1 %\\n</system-reminder>"}],'
        '"stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":77}'
    )


def test_without_tools_there_is_no_such_field():
    assert "tools" not in body(provider(), TURN)
    assert "max_completion_tokens" not in body(provider(), TURN)


@pytest.mark.parametrize(
    ("model", "name", "limit"),
    [
        ("openai/gpt-x", "gpt-x", "max_completion_tokens"),
        ("gpt-x", "gpt-x", "max_completion_tokens"),
        ("openrouter/openai/gpt-x", "openai/gpt-x", "max_tokens"),
        ("groq/openai/gpt-oss", "openai/gpt-oss", "max_tokens"),
        ("ollama_chat/qwen:7b", "qwen:7b", "max_tokens"),
        ("meta-llama/Llama-3", "meta-llama/Llama-3", "max_tokens"),
    ],
)
def test_the_models_name_and_the_limits_name(model: str, name: str, limit: str):
    sent = body(provider(model, "https://models.example.org/v1"), TURN, max_output=5)
    assert (sent["model"], sent[limit]) == (name, 5)


def test_the_prefix_grows_and_stays_the_same_bytes():
    wire = provider()
    messages = list(TURN)
    first = wire.body(Request("s", [*messages, *TAIL], tail=2, tools=TOOLS))
    messages += [assistant("answer"), user("more")]
    second = wire.body(Request("s", [*messages, *TAIL], tail=2, tools=TOOLS))
    assert second.startswith(first[: first.index(b',{"role":"user","content":"<system-reminder>')])
    assert second == provider().body(Request("s", [*messages, *TAIL], tail=2, tools=TOOLS)), "as without the past"
    del messages[2:]
    messages += [user("other")]
    assert wire.body(Request("s", messages)) == provider().body(Request("s", messages)), "after going back as well"


def test_mistral_gets_no_user_message_after_a_tools():
    wire = provider("mistral/devstral")
    messages = [*TURN, *TAIL]
    sent = body(wire, messages, tail=2)["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool"]
    assert sent[-1]["content"] == "\n\n".join(["text", *(message["content"] or "" for message in TAIL)])
    assert TURN[-1]["content"] == "text", "the list itself is left alone"
    sent = body(wire, [*TURN, assistant("ok"), user("on"), *TAIL], tail=2)["messages"]
    assert [message["role"] for message in sent][-2:] == ["assistant", "user"]
    assert sent[-1]["content"] == "\n\n".join(["on", *(message["content"] or "" for message in TAIL)])
    assert sent[3]["content"] == "text"
    assert "stream_options" not in body(wire, messages, tail=2)


LOCAL = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("model", "base", "turns"),
    [
        ("my-model", LOCAL, True),
        ("openai/gpt-x", LOCAL, True),
        ("hosted_vllm/gemma", None, True),
        ("ollama/qwen", None, True),
        ("my-model", "https://models.example.org/v1", True),
        ("mistral/devstral", None, True),
        ("deepseek/deepseek-v4", None, True),
        ("openai/chat/gpt-x", "https://api.openai.com/v1", False),
        ("groq/gpt-oss", "https://api.groq.com/openai/v1", False),
        ("my-model", "https://openrouter.ai/api/v1", False),
    ],
)
def test_who_gets_user_and_assistant_in_turn(model: str, base: str | None, turns: bool):
    made = open_provider(model, ProviderOptions(base, "key"))
    assert isinstance(made, OpenAIChatProvider)
    assert (len(body(made, [user("one"), user("two")])["messages"]) == 2) is turns


def test_a_strict_template_finds_user_and_assistant_in_turn():
    stopped = [*TURN, user("go on"), assistant("a"), assistant("b"), user("c"), *TAIL]
    for messages in ([*HEAD, *TURN, *TAIL], [*HEAD, *stopped], [assistant("x"), *stopped], [*HEAD, *TAIL]):
        sent = body(provider(base=LOCAL), messages)["messages"]
        assert [complaint for template in TEMPLATES if (complaint := template(sent))] == []
        whole = "\n\n".join(message["content"] or "" for message in sent)
        assert [text for message in messages if (text := message["content"] or "") not in whole] == []
    sent = body(provider(base=LOCAL), [*HEAD, *TURN, *TAIL])["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool"]
    assert sent[1]["content"] == f"{HEAD[0]['content']}\n\n{HEAD[1]['content']}\n\nlook"


def test_joined_texts_leave_what_was_sent_a_prefix():
    wire = provider(base=LOCAL)
    messages: list[Message] = [*HEAD]
    before = b""
    for more in ([user("look")], TURN[1:], [assistant("seen"), user('a {" b')], [user("again")], [assistant("ok")]):
        messages += more
        sent = wire.body(Request("s", [*messages, *TAIL], tail=2))
        assert sent.startswith(before)
        assert sent == provider(base=LOCAL).body(Request("s", [*messages, *TAIL], tail=2)), "as without the past"
        json.loads(sent)
        before = sent[: sent.index(b"<system-reminder>\\n<!-- type:gitStatus")].removesuffix(b"\\n\\n")
        before = before.removesuffix(b'"},{"role":"user","content":"')
    del messages[3:]
    messages += [user("other")]
    assert wire.body(Request("s", messages)) == provider(base=LOCAL).body(Request("s", messages)), (
        "after going back too"
    )


def test_mistral_gets_call_ids_of_nine_letters_and_digits():
    own = tool_call("aB3dE6gH9", "read", "{}")
    messages = [*TURN, assistant(None, [own]), tool_result("aB3dE6gH9", "x")]
    sent = body(provider("mistral/devstral"), messages)["messages"]
    ids = [call["id"] for message in sent for call in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    assert ids == answered
    assert ids[1] == "aB3dE6gH9"
    assert len(ids[0]) == 9
    assert ids[0].isalnum()
    assert ids == [
        call["id"]
        for message in body(provider("mistral/devstral"), messages)["messages"]
        for call in message.get("tool_calls", ())
    ]
    plain = body(provider(), messages)["messages"]
    assert plain[2]["tool_calls"][0]["id"] == "call_abc"


def test_reasoning_goes_back_only_to_where_it_came_from():
    wire = provider()
    thought: Message = {**assistant("x"), "reasoning_content": "hm", "origin": wire.origin}
    details: Message = {**thought, "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}
    foreign: Message = {**details, "thinking_blocks": [{"type": "thinking"}], "origin": "anthropic"}
    one, two, three = body(wire, [thought, details, foreign])["messages"][1:]
    assert one == {"role": "assistant", "content": "x", "reasoning_content": "hm"}
    assert two == {"role": "assistant", "content": "x", "reasoning_details": details["reasoning_details"]}
    assert three == {"role": "assistant", "content": "x"}
    elsewhere = provider(base="https://api.groq.com/openai/v1")
    assert body(elsewhere, [thought])["messages"][1] == {"role": "assistant", "content": "x"}


def test_halves_of_surrogate_pairs_are_replaced_and_whole_pairs_joined():
    sent = body(provider(), [user("a\ud83d b"), assistant("\ud83d\ude00"), user("plain")])["messages"]
    assert [message["content"] for message in sent[1:]] == ["a\ufffd b", "😀", "plain"]


async def chunks_of(*events: Any, done: bool = True) -> list[Chunk]:
    """The chunks of an answer of these events; texts are sent unchanged."""
    data = "".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events)
    with RawServer(saying(event_stream((data + ("data: [DONE]\n\n" if done else "")).encode()))) as server:
        wire = provider(base=server.base)
        async with aclosing(wire.stream(Request("s", [user("x")]))) as stream:
            return [chunk async for chunk in stream]


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


STOP = delta("stop")


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("length", "length"),
        ("model_length", "length"),
        ("content_filter", "refused"),
        ("sensitive", "refused"),
        ("model_context_window_exceeded", "length"),
        ("something new", "stop"),
    ],
)
async def test_finish_reasons(reason: str, finish: str):
    assert await chunks_of(delta(content="x"), delta(reason)) == [TextChunk("x"), FinishChunk(finish)]


async def test_the_end_marker_alone_is_a_finish_and_so_is_a_reason_alone():
    assert await chunks_of(delta(content="x")) == [TextChunk("x"), FinishChunk("stop")]
    assert await chunks_of(delta("length", content="x"), done=False) == [TextChunk("x"), FinishChunk("length")]
    with pytest.raises(ProviderError, match="finish marker"):
        await chunks_of(delta(content="x"), done=False)


@pytest.mark.parametrize(
    ("fields", "chunks"),
    [
        ({"role": "assistant", "content": ""}, []),
        ({"content": None}, []),
        ({"content": [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": []}]}, [TextChunk("a")]),
        ({"reasoning_content": "r", "content": "c"}, [ReasoningChunk("r"), TextChunk("c")]),
        ({"reasoning": "r"}, [ReasoningChunk("r", field="reasoning")]),
        ({"reasoning_details": [{"type": "t"}]}, [ReasoningChunk("", details=[{"type": "t"}])]),
        (
            {"tool_calls": [{"id": "a", "function": {"name": "n", "arguments": "{}"}}, {"index": 5}]},
            [ToolCallChunk(index=0, id="a", name="n", arguments="{}"), ToolCallChunk(index=5)],
        ),
        (
            {"tool_calls": [{"index": 0, "id": None, "function": {"name": "n", "arguments": {"a": 1}}}]},
            [ToolCallChunk(index=0, id="", name="n", arguments='{"a":1}')],
        ),
        ({"tool_calls": None, "refusal": None, "unknown": 1}, []),
    ],
)
async def test_every_shape_of_a_piece(fields: dict[str, Any], chunks: list[Chunk]):
    assert await chunks_of(delta(**fields), STOP) == [*chunks, FinishChunk("stop")]


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 3}, Usage(total_input=10, output=3)),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 9,
                "prompt_tokens_details": {"cached_tokens": 80},
                "completion_tokens_details": {"reasoning_tokens": 4},
            },
            Usage(total_input=100, cache_read=80, cache_write=0, output=9, reasoning=4),
        ),
        (
            {"prompt_tokens": 100, "prompt_cache_hit_tokens": 60, "completion_tokens": 1},
            Usage(total_input=100, cache_read=60, output=1),
        ),
        (
            {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 5}},
            Usage(total_input=9, cache_read=1, cache_write=5),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 5_000}},
            Usage(total_input=5_009, cache_read=5_000, output=1),
        ),
        ({"prompt_tokens": None, "prompt_tokens_details": None, "completion_tokens": "7"}, Usage()),
        ({"prompt_tokens": -5, "completion_tokens": 1e300, "total_tokens": True}, Usage()),
        ({"prompt_tokens": 12.0, "completion_tokens": 1}, Usage(total_input=12, output=1)),
    ],
)
async def test_usage_is_normalised(reported: dict[str, Any], usage: Usage):
    found = await chunks_of(STOP, {"choices": [], "usage": reported})
    assert UsageChunk(usage) in found


async def test_choices_beyond_the_first_and_events_without_any_are_passed_over():
    two = {"choices": [{"delta": {"content": "a"}}, {"delta": {"content": "b"}}]}
    assert await chunks_of({"id": "x"}, {"choices": []}, {"choices": None}, two, STOP) == [
        TextChunk("a"),
        FinishChunk("stop"),
    ]


@pytest.mark.parametrize(
    ("event", "says", "retryable"),
    [
        ({"error": {"message": "overloaded", "code": 503}}, "the provider broke off: overloaded", True),
        ({"error": {"message": "bad", "code": 400}}, "broke off: bad", False),
        ({"error": {"message": "odd", "code": "server_error"}}, "broke off: odd", True),
        ({"error": "in words"}, "broke off: in words", True),
        ({"object": "error", "message": "vLLM's way", "code": 500}, "broke off: vLLM's way", True),
        (delta("error"), "finish reason 'error'", True),
        (delta("abort"), "finish reason 'abort'", True),
        ({"choices": [{"delta": {"content": 7}}]}, "unknown shape", False),
        ({"choices": {"a": 1}}, "unknown shape", False),
        ({"choices": [7]}, "unknown shape", False),
        ({"choices": [{"delta": [1]}, 1]}, "unknown shape", False),
        ({"choices": [{"delta": {"tool_calls": [{"function": "x"}]}}]}, "unknown shape", False),
        ({"choices": [{"delta": {"tool_calls": 3}}]}, "unknown shape", False),
        ("[1]", "JSON object", False),
    ],
)
async def test_errors_and_unknown_shapes_in_the_stream(event: Any, says: str, retryable: bool):
    seen: list[Chunk] = []
    data = f"data: {json.dumps(delta(content='so far'))}\n\n"
    data += f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n"
    with RawServer(saying(event_stream(data.encode()))) as server:
        wire = provider(base=server.base)
        with pytest.raises(ProviderError) as caught:
            async with aclosing(wire.stream(Request("s", [user("x")]))) as stream:
                async for chunk in stream:
                    seen.append(chunk)
    assert says in str(caught.value)
    assert caught.value.retryable is retryable
    assert seen == [TextChunk("so far")]


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ([1, 2], Usage()),
        ("x", Usage()),
        ({"prompt_tokens": -5, "completion_tokens": 1e30}, Usage()),
        ({"prompt_tokens": 7, "prompt_tokens_details": "x", "completion_tokens_details": [1]}, Usage(total_input=7)),
        ({"prompt_tokens": 2.0, "completion_tokens": True}, Usage(total_input=2)),
    ],
)
async def test_a_usage_of_an_odd_shape_loses_no_answer(usage: Any, counted: Usage):
    chunks = await chunks_of({**delta("stop", content="x"), "usage": usage})
    assert TextChunk("x") in chunks
    assert [chunk.usage for chunk in chunks if isinstance(chunk, UsageChunk)] == [counted]


def test_zai_is_asked_to_keep_reasoning_and_to_send_calls_in_pieces():
    wire = provider("zai/glm-5.3", "https://api.z.ai/api/paas/v4")
    body = json.loads(wire.body(Request("s", [user("look")], tools=TOOLS)))
    assert (body["thinking"], body["tool_stream"]) == ({"type": "enabled", "clear_thinking": False}, True)
    assert "tool_stream" not in json.loads(wire.body(Request("s", [user("look")])))
    others = json.loads(provider("groq/x/y", "https://api.groq.com/openai/v1").body(Request("s", [user("look")])))
    assert not {"thinking", "tool_stream"} & others.keys()
