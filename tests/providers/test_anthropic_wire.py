"""The wire for Anthropic's Messages: bodies, cache marks, thinking, usage, and every shape of an answer."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

import pytest

from codelet.errors import ProviderError
from codelet.messages import Message, assistant, tool_call, tool_result, user
from codelet.prompt import as_reminder
from codelet.providers import open_provider
from codelet.providers.anthropic_messages import AnthropicProvider
from codelet.providers.protocol import (
    BlockChunk,
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
from tests.providers.chunks import TOOLS, collect
from tests.support.raw import RawServer, event_stream, saying
from tests.support.script import Reply
from tests.support.server import ModelServer

TAIL = [user(as_reminder("gitStatus", "clean")), user(as_reminder("tokenStatus", "1 %"))]
HEAD = [user(as_reminder("environment", "here")), user("look")]
MARK = {"type": "ephemeral"}


def provider(base: str = "http://127.0.0.1:9") -> AnthropicProvider:
    options = ProviderOptions(
        base, "key", Deadlines(connect=2, first_token=5, between_chunks=5), Retries(attempts=2, first_wait=0.01)
    )
    made = open_provider("anthropic/claude-x", options)
    assert isinstance(made, AnthropicProvider)
    return made


def body(wire: AnthropicProvider, messages: list[Message], **options: Any) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(wire.body(Request("Be brief.", messages, **options)))
    return parsed


def calls(number: int) -> list[Message]:
    made = [tool_call(f"c{number}.{each}", "read", '{"path":"ü"}') for each in range(2)]
    return [assistant(f"Step {number}.", made), *(tool_result(call["id"], "text") for call in made)]


def marked(sent: dict[str, Any]) -> list[tuple[int, str]]:
    """The places of the marks among all blocks of the messages, and their blocks."""
    blocks = [block for message in sent["messages"] for block in message["content"]]
    return [(place, block["type"]) for place, block in enumerate(blocks) if "cache_control" in block]


def test_the_whole_body():
    sent = body(provider(), [*HEAD, *calls(1), *TAIL], tail=2, tools=TOOLS[:1])
    function = TOOLS[0]["function"]
    assert list(sent) == ["model", "tools", "system", "messages", "max_tokens", "stream"]
    assert sent["model"] == "claude-x"
    assert sent["tools"] == [
        {"name": "read", "description": function["description"], "input_schema": function["parameters"]}
    ]
    assert sent["system"] == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    assert (sent["max_tokens"], sent["stream"]) == (8192, True)
    texts = [{"type": "text", "text": message["content"]} for message in (*HEAD, *TAIL)]
    results = [{"type": "tool_result", "tool_use_id": f"c1_{each}", "content": "text"} for each in range(2)]
    uses = [{"type": "tool_use", "id": f"c1_{each}", "name": "read", "input": {"path": "ü"}} for each in range(2)]
    assert sent["messages"] == [
        {"role": "user", "content": texts[:2]},
        {"role": "assistant", "content": [{"type": "text", "text": "Step 1."}, *uses]},
        {"role": "user", "content": [results[0], {**results[1], "cache_control": MARK}, *texts[2:]]},
    ], "consecutive user messages are one, call ids hold no other characters"


def test_no_system_prompt_no_tools_and_a_limit():
    wire = provider()
    sent = json.loads(wire.body(Request("", [user("x")], max_output=7)))
    assert "system" not in sent
    assert "tools" not in sent
    assert sent["max_tokens"] == 7


def test_a_list_with_calls_keeps_the_tools_that_are_no_longer_offered():
    """The service refuses a list with calls and no tools, so they go with a choice of none."""
    wire = provider()
    messages: list[Message] = [user("x"), *calls(1)]
    first = json.loads(wire.body(Request("", messages, tools=TOOLS)))
    last = json.loads(wire.body(Request("", [*messages, user("Answer now.")])))
    assert last["tools"] == first["tools"] and last["tool_choice"] == {"type": "none"}
    assert "tool_choice" not in first
    assert "tools" not in json.loads(wire.body(Request("", [user("x")])))


def test_the_marks_stand_before_the_tail_and_where_they_stood_before():
    wire = provider()
    messages: list[Message] = list(HEAD)
    assert marked(body(wire, [*messages, *TAIL], tail=2)) == [(1, "text")]
    messages += calls(1)
    assert marked(body(wire, [*messages, *TAIL], tail=2)) == [(1, "text"), (6, "tool_result")]
    messages += calls(2)
    assert marked(body(wire, [*messages, *TAIL], tail=2)) == [(6, "tool_result"), (11, "tool_result")]
    messages += [assistant("done"), user("more")]
    assert marked(body(wire, [*messages, *TAIL], tail=2)) == [(11, "tool_result"), (13, "text")]
    del messages[2:]
    assert marked(body(wire, [*messages, *TAIL], tail=2)) == [(1, "text")], "after going back"
    assert marked(body(wire, messages)) == [(1, "text")]


def test_the_prefix_without_marks_grows_and_stays_the_same_bytes():
    wire = provider()
    messages: list[Message] = list(HEAD)
    before = b""
    for number in range(5):
        raw = wire.body(Request("s", [*messages, *TAIL], tail=2, tools=TOOLS)).replace(
            b',"cache_control":{"type":"ephemeral"}', b""
        )
        stable = raw[: raw.index(b'{"type":"text","text":"<system-reminder>\\n<!-- type:gitStatus')].rstrip(b",")
        assert stable.startswith(before)
        before = stable
        messages += calls(number)


def test_messages_without_content_leave_no_trace():
    sent = body(provider(), [user("a"), assistant("  \n"), user("b"), assistant(None), tool_result("x", ""), user(" ")])
    assert sent["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "text", "text": "b"},
                {"type": "tool_result", "tool_use_id": "x", "content": "(no output)", "cache_control": MARK},
            ],
        }
    ]


def test_thinking_goes_back_first_and_only_to_where_it_came_from():
    block = {"type": "thinking", "thinking": "hm", "signature": "s"}
    origin = provider().origin
    own: Message = {**calls(1)[0], "thinking_blocks": [block], "reasoning_content": "hm", "origin": origin}
    foreign: Message = {**own, "origin": "anthropic"}  # another server that speaks this protocol
    blocks = body(provider(), [own])["messages"][0]["content"]
    assert [each["type"] for each in blocks] == ["thinking", "text", "tool_use", "tool_use"]
    assert blocks[0] == block
    blocks = body(provider(), [foreign])["messages"][0]["content"]
    assert [each["type"] for each in blocks] == ["text", "tool_use", "tool_use"]
    alone: Message = {**assistant(" "), "thinking_blocks": [block], "origin": origin}
    assert body(provider(), [user("x"), alone])["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": MARK}]}
    ], "thinking that nothing follows is refused, and so is a mark on it"


def test_halves_of_surrogate_pairs_in_arguments_are_replaced():
    call = tool_call("a", "read", '{"path": "\\ud83d"}')
    block = body(provider(), [assistant(None, [call])])["messages"][0]["content"][0]
    assert block["input"] == {"path": "\ufffd"}


@pytest.mark.parametrize("arguments", ['{"x": ', "[1]", "", "[" * 100_000, f'{{"x": {"9" * 5_000}}}'])
def test_arguments_that_are_no_object_never_leave(arguments: str):
    """A saved session that somebody else wrote may hold anything there."""
    call = tool_call("a", "read", arguments)
    assert body(provider(), [assistant(None, [call])])["messages"][0]["content"][0]["input"] == {}


async def chunks_of(*events: dict[str, Any]) -> list[Chunk]:
    data = "".join(f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n" for event in events)
    with RawServer(saying(event_stream(data.encode()))) as server:
        wire = provider(server.base)
        async with aclosing(wire.stream(Request("s", [user("x")]))) as stream:
            return [chunk async for chunk in stream]


def start(**usage: int) -> dict[str, Any]:
    return {"type": "message_start", "message": {"usage": usage}}


def end(reason: str = "end_turn", **usage: int) -> list[dict[str, Any]]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}, {"type": "message_stop"}]


def text(piece: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "paused"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refused"),
        ("something new", "stop"),
    ],
)
async def test_finish_reasons(reason: str, finish: str):
    assert (await chunks_of(text("x"), *end(reason)))[-1] == FinishChunk(finish)


async def test_usage_sums_up_the_three_parts_of_the_input():
    found = await chunks_of(
        start(input_tokens=15, cache_read_input_tokens=100, cache_creation_input_tokens=5, output_tokens=1),
        text("x"),
        *end(output_tokens=7),
    )
    usages = [chunk.usage for chunk in found if isinstance(chunk, UsageChunk)]
    assert usages == [
        Usage(total_input=120, cache_read=100, cache_write=5, output=1),
        Usage(total_input=120, cache_read=100, cache_write=5, output=7),
    ]
    found = await chunks_of(start(input_tokens=1), text("x"), *end(input_tokens=30, output_tokens=2))
    assert [chunk.usage for chunk in found if isinstance(chunk, UsageChunk)][-1] == Usage(total_input=30, output=2)


async def test_blocks_of_every_kind():
    def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"type": "content_block_start", "index": index, "content_block": content},
            *({"type": "content_block_delta", "index": index, "delta": each} for each in deltas),
            {"type": "content_block_stop", "index": index},
        ]

    found = await chunks_of(
        {"type": "ping"},
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "h"},
            {"type": "thinking_delta", "thinking": "m"},
            {"type": "signature_delta", "signature": "sig"},
        ),
        *block(1, {"type": "redacted_thinking", "data": "xyz"}),
        *block(2, {"type": "text", "text": "A"}, {"type": "text_delta", "text": "B"}, {"type": "citations_delta"}),
        *block(
            3,
            {"type": "tool_use", "id": "t", "name": "read", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"a"'},
            {"type": "input_json_delta", "partial_json": ":1}"},
        ),
        *block(4, {"type": "server_tool_use", "id": "s"}),
        {"type": "something_new"},
        *end("tool_use"),
    )
    assert [chunk for chunk in found if not isinstance(chunk, UsageChunk)] == [
        ReasoningChunk("h"),
        ReasoningChunk("m"),
        ReasoningChunk(block={"type": "thinking", "thinking": "hm", "signature": "sig"}),
        ReasoningChunk(block={"type": "redacted_thinking", "data": "xyz"}),
        BlockChunk("text"),
        TextChunk("AB"),
        BlockChunk("tool_use"),
        ToolCallChunk(index=3, id="t", name="read"),
        ToolCallChunk(index=3, arguments='{"a"'),
        ToolCallChunk(index=3, arguments=":1}"),
        FinishChunk("tool_calls"),
    ]


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "broke off: Overloaded"),
        ({"type": "error", "error": {}}, "broke off"),
        ({"type": "error", "error": "text"}, "broke off: text"),
        ({"type": "message_start", "message": [1]}, "unknown shape"),
        ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": 5}}, "unknown shape"),
        ({"type": "content_block_start", "content_block": "x"}, "unknown shape"),
        ({"type": "message_delta", "delta": 5}, "unknown shape"),
    ],
)
async def test_errors_and_unknown_shapes_in_the_stream(event: dict[str, Any], says: str):
    seen: list[Chunk] = []
    data = "".join(f"data: {json.dumps(each)}\n\n" for each in (text("so far"), event))
    with RawServer(saying(event_stream(data.encode()))) as server:
        wire = provider(server.base)
        with pytest.raises(ProviderError) as caught:
            async with aclosing(wire.stream(Request("s", [user("x")]))) as stream:
                async for chunk in stream:
                    seen.append(chunk)
        assert server.connections == 1, "nothing is repeated after the first chunk"
    assert says in str(caught.value)
    assert seen == [TextChunk("so far")]


async def test_an_overload_before_the_first_token_is_tried_again():
    overload = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    data = "".join(f"data: {json.dumps(each)}\n\n" for each in (start(input_tokens=5), overload))
    with RawServer(saying(event_stream(data.encode()))) as server:
        wire = provider(server.base)
        with pytest.raises(ProviderError, match="Overloaded"):
            async with aclosing(wire.stream(Request("s", [user("x")]))) as stream:
                async for _ in stream:
                    pass
        assert server.connections == 2


async def test_a_stream_without_its_last_event_is_cut():
    with pytest.raises(ProviderError, match="finish marker"):
        await chunks_of(text("x"), end()[0])


@pytest.mark.parametrize(("base", "path"), [("", "/v1/messages"), ("/v1", "/v1/messages"), ("/x/", "/x/v1/messages")])
async def test_the_path_and_the_headers(base: str, path: str):
    from tests.support.script import Reply
    from tests.support.server import ModelServer

    with ModelServer([Reply("yes")]) as server:
        wire = provider(f"{server.base}{base}")
        async with aclosing(wire.stream(Request("s", [user("x")]))) as stream:
            assert TextChunk("yes") in [chunk async for chunk in stream]
        await wire.close()
        request = server.requests[0]
        assert request.path == path
        assert request.header("x-api-key") == "key"
        assert request.header("anthropic-version") == "2023-06-01"
        assert request.header("authorization") is None


def test_a_failed_result_is_marked_and_its_bytes_stay():
    told: list[Message] = [*calls(2)[:1], tool_result("c2.0", "no file", failed=True), tool_result("c2.1", "fine")]
    wire = provider()
    results = body(wire, told)["messages"][-1]["content"]
    assert [block.get("is_error") for block in results] == [True, None]
    later = body(wire, [*told, assistant("so"), user("on")])["messages"][1]["content"]
    assert [block.get("is_error") for block in later] == [True, None]
    assert "failed" not in json.dumps(later)


@pytest.mark.parametrize("usage", [[1], "x", 7, {"input_tokens": -5, "output_tokens": 1e30}, {"input_tokens": None}])
async def test_a_usage_of_an_odd_shape_loses_no_answer(usage: Any):
    start = {"type": "message_start", "message": {"usage": usage}}
    text = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}}
    end = [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}, {"type": "message_stop"}]
    data = "".join(f"data: {json.dumps(event)}\n\n" for event in (start, text, *end)).encode()
    with RawServer(saying(event_stream(data))) as server:
        wire = open_provider("anthropic/x", ProviderOptions(server.base, "k"))
        chunks = await collect(wire, Request("s", [user("x")]))
        await wire.close()
    assert TextChunk("hello") in chunks
    assert all(chunk.usage == Usage() for chunk in chunks if isinstance(chunk, UsageChunk))


@pytest.mark.parametrize(
    ("environment", "headers"),
    [
        ({"ANTHROPIC_API_KEY": "k1"}, {"x-api-key": "k1"}),
        ({"ANTHROPIC_AUTH_TOKEN": "t1"}, {"authorization": "Bearer t1"}),
        ({"ANTHROPIC_API_KEY": "k1", "ANTHROPIC_AUTH_TOKEN": "t1"}, {"x-api-key": "k1"}),
    ],
)
async def test_a_token_goes_out_as_one(
    environment: dict[str, str], headers: dict[str, str], model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    model_server.script = [Reply("a")]
    made = open_provider("anthropic/claude-x", ProviderOptions(model_server.anthropic))
    await collect(made)
    await made.close()
    given = {name: value for name, value in model_server.requests[0].headers if name in ("x-api-key", "authorization")}
    assert given == headers
