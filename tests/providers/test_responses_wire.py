"""The wire for OpenAI's Responses: request bodies to the byte, what goes back, and every shape of an answer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Literal

import pytest

from codelet import prompt
from codelet.errors import ProviderError
from codelet.export.decode import from_json
from codelet.export.document import Document
from codelet.export.encode import to_json
from codelet.export.live import default_mask
from codelet.loop.reply import Reply as Folded
from codelet.messages import Message, assistant, reminder, tool_call, tool_result, user
from codelet.providers import open_provider
from codelet.providers.openai_responses import OpenAIResponsesProvider
from codelet.providers.protocol import (
    BlocksChunk,
    Chunk,
    Deadlines,
    FinishChunk,
    ProviderOptions,
    ReasoningChunk,
    RefusalChunk,
    Request,
    Retries,
    RetryChunk,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)
from codelet.usage import Usage
from tests.providers.chunks import TOOLS, collect, joined, request
from tests.support.bodies import without_marks
from tests.support.raw import RawServer, event_stream, saying
from tests.support.script import HttpError, Reply
from tests.support.server import ModelServer
from tests.support.templates import TEMPLATES

OPENAI = "https://api.openai.com/v1"
LOCAL = "http://127.0.0.1:9/v1"
TAIL = [reminder(kind, prompt.as_reminder(kind, "x")) for kind in ("gitStatus", "tokenStatus")]
CALL = tool_call("call_abc", "read", '{"path": "größe"}')
TURN: list[Message] = [user("look"), assistant(None, [CALL]), tool_result("call_abc", "text")]
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "secret"}
KEPT_CALL = {"type": "tool_use", "id": "fc_1", "status": "completed", "call_id": "call_abc"}


def provider(model: str = "openai/gpt-x", base: str = OPENAI) -> OpenAIResponsesProvider:
    made = open_provider(
        model, ProviderOptions(base, "key", Deadlines(connect=2, first_token=5, between_chunks=5), Retries(attempts=1))
    )
    assert isinstance(made, OpenAIResponsesProvider)
    return made


def body(wire: OpenAIResponsesProvider, messages: Sequence[Message], **given: Any) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(wire.body(Request("Be brief.", messages, **given)))
    return parsed


def sent(wire: OpenAIResponsesProvider, *messages: Message) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = body(wire, messages)["input"]
    return items


def own(wire: OpenAIResponsesProvider, message: Message, *kept: dict[str, Any]) -> Message:
    """The list's message for this wire's answer."""
    return {**message, "blocks": list(kept), "origin": wire.origin}


def test_the_whole_body():
    wire = provider()
    raw = wire.body(Request("Be brief.", [*TURN, *TAIL], tail=2, tools=TOOLS[:1], max_output=77)).decode()
    key = json.loads(raw)["prompt_cache_key"]
    parameters = json.dumps(TOOLS[0]["function"]["parameters"], separators=(",", ":"))
    texts = [json.dumps(message["content"]) for message in TAIL]
    assert raw == (
        '{"model":"gpt-x","tools":[{"type":"function","name":"read","description":"Does read.","parameters":'
        + parameters
        + ',"strict":false}],"instructions":"Be brief.","input":[{"role":"user","content":"look"},'
        '{"type":"function_call","call_id":"call_abc","name":"read","arguments":"{\\"path\\": \\"größe\\"}"},'
        '{"type":"function_call_output","call_id":"call_abc","output":"text"},'
        f'{{"role":"user","content":{texts[0]}}},{{"role":"user","content":{texts[1]}}}],'
        f'"stream":true,"store":false,"prompt_cache_key":"{key}","include":["reasoning.encrypted_content"],'
        '"max_output_tokens":77}'
    )
    assert len(key) == 16
    again = body(wire, TURN)
    assert again["prompt_cache_key"] == key, "one key a session"
    assert body(provider(), [user("other")])["prompt_cache_key"] != key, "and another one for the next"
    assert not {"tools", "max_output_tokens"} & again.keys()
    assert body(wire, TURN, max_output=3)["max_output_tokens"] == 16, "the API takes no smaller one"


@pytest.mark.parametrize(
    ("model", "optional"),
    [
        ("gpt-4o", set()),  # it does not reason, and refuses to be asked for it
        ("gpt-5.4", {"include", "reasoning"}),
        ("gpt-5.6", {"include", "reasoning", "prompt_cache_options"}),
        ("gpt-unheard-of", {"include"}),
    ],
)
def test_what_is_asked_for_follows_what_is_known_of_the_model(model: str, optional: set[str]):
    asked = body(provider(model), TURN)
    assert asked.keys() & {"include", "reasoning", "prompt_cache_options"} == optional
    assert "reasoning_effort" not in asked
    assert asked.get("reasoning", {"summary": "auto"}) == {"summary": "auto"}


@pytest.mark.parametrize(
    ("model", "base", "wire"),
    [
        ("openai/gpt-5.6", None, "responses"),
        ("gpt-5.6", None, "responses"),
        ("o3", None, "responses"),
        ("openai/gpt-5.6", OPENAI + "/", "responses"),
        ("gpt-5.6", "https://eu.api.openai.com/v1", "responses"),
        ("ft:gpt-4o:mine", OPENAI, "responses"),
        ("openai/gpt-5.6", "https://models.example.org/v1", "chat"),
        ("openai/gpt-5.6", "https://api.openai.com.example.org/v1", "chat"),
        ("openai/chat/gpt-5.6", None, "chat"),
        ("openai/responses/gpt-5.6", None, "responses"),
        ("openai/responses/org/name", LOCAL, "responses"),
        ("groq/openai/gpt-oss-120b", None, "chat"),
        ("my-model", LOCAL, "chat"),
        ("xai/grok-4.7", None, "responses"),
        ("xai/grok-4.7", "https://us-east-1.api.x.ai/v1", "responses"),
        ("xai/grok-4.7", "https://models.example.org/v1", "chat"),
        ("xai/chat/grok-4.7", None, "chat"),
        ("xai/responses/grok-4.7", LOCAL, "responses"),
    ],
)
def test_which_of_openais_wires_is_taken(model: str, base: str | None, wire: str):
    made = open_provider(model, ProviderOptions(base, "key"))
    assert isinstance(made, OpenAIResponsesProvider) is (wire == "responses")


def test_the_name_on_the_wire_and_the_sizes_behind_it():
    assert body(provider("openai/responses/org/name", LOCAL), TURN)["model"] == "org/name"
    assert "prompt_cache_options" in body(provider("openai/responses/gpt-5.6", LOCAL), TURN)


def test_it_is_loaded_only_where_it_is_chosen():
    code = (
        "import sys\nfrom codelet.providers import open_provider\n"
        "from codelet.providers.protocol import ProviderOptions\n"
        "for model in ('openai/chat/gpt-5.6', 'openai/gpt-5.6'):\n"
        "    open_provider(model, ProviderOptions(None, 'key'))\n"
        "    print('codelet.providers.openai_responses' in sys.modules)\n"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\nTrue\n"


FORMS = {
    "plain": ("openai/gpt-x", OPENAI),
    "marked": ("openai/gpt-5.6", OPENAI),
    "in turns": ("openai/responses/gemma", LOCAL),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_prefix_grows_and_stays_the_same_bytes(form: str):
    wire = provider(*FORMS[form])
    messages: list[Message] = []
    before = b""
    said = own(wire, assistant("seen"), REASONING, {"type": "message", "id": "msg_1", "length": 4})
    steps = ([user("look")], TURN[1:], [said, user('a {" b')], [user("again")], [assistant("")], [assistant("ok")])
    for more in steps:
        messages += more
        raw = without_marks(wire.body(Request("s", [*messages, *TAIL], tail=2, tools=TOOLS)))
        assert raw.startswith(before)
        json.loads(raw)
        before = raw[: raw.index(b"<system-reminder>\\n<!-- type:gitStatus")].removesuffix(b"\\n\\n")
        before = before[: before.rindex(b"{")] if form == "marked" else before
        for opening in (b'{"role":"user","content":[', b'{"role":"user","content":"', b'"},', b","):
            before = before.removesuffix(opening)
    assert len(before) > 400
    del messages[2:]
    messages += [user("other")]
    fresh = body(provider(*FORMS[form]), messages)
    assert body(wire, messages)["input"] == fresh["input"], "after going back too"


def test_the_cache_marks_stand_before_the_tail_and_where_earlier_requests_ended():
    wire = provider("gpt-5.6")

    def marked(messages: list[Message], tail: int) -> list[int]:
        system, *items = [json.dumps(item) for item in body(wire, messages, tail=tail)["input"]]
        assert "Be brief." in system and "prompt_cache_breakpoint" in system
        mark = '"text": "%s", "prompt_cache_breakpoint": {"mode": "explicit"}}]}'
        found = [at for at, item in enumerate(items) if "prompt_cache_breakpoint" in item]
        assert all(any(items[at].endswith(mark % text) for text in ("look", "text", "x")) for at in found)
        return found

    assert marked([TURN[0], *TAIL], 2) == [0]
    assert marked([*TURN, *TAIL], 2) == [0, 2]
    more = [*TURN, *(tool_result("call_abc", "x") for _ in range(2)), assistant("so"), *TAIL]
    assert marked(more, 2) == [0, 2, 4], "an answer carries none"
    assert marked([*TURN[:1], *TAIL], 2) == [0], "after going back too"


def test_an_answer_goes_back_as_it_came():
    wire = provider()
    message = own(
        wire,
        assistant("Let me see.So.", [CALL]),
        REASONING,
        {"type": "text", "id": "msg_1", "status": "completed", "phase": "commentary", "length": 11},
        {**REASONING, "id": "rs_2"},
        {"type": "text", "id": "msg_2", "status": "incomplete", "length": 3},
        KEPT_CALL,
    )
    assert sent(wire, TURN[0], message, TURN[2])[1:-1] == [
        REASONING,
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
            "phase": "commentary",
        },
        {**REASONING, "id": "rs_2"},
        {
            "type": "message",
            "id": "msg_2",
            "role": "assistant",
            "status": "incomplete",
            "content": [{"type": "output_text", "text": "So.", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "status": "completed",
            "call_id": "call_abc",
            "name": "read",
            "arguments": CALL["function"]["arguments"],
        },
    ]


PLAIN_CALL = {"type": "function_call", "call_id": "call_abc", "name": "read", "arguments": '{"path": "größe"}'}


def test_an_answer_of_an_older_export_goes_back_too():
    wire = provider()
    text = {"type": "message", "id": "msg_1", "status": "completed", "phase": "commentary", "length": 11}
    older = [REASONING, text, {**REASONING, "id": "rs_2"}, {**KEPT_CALL, "type": "function_call"}]
    message: Message = {**assistant("Let me see.", [CALL]), "extra": {"output_items": older}, "origin": wire.origin}
    saved = to_json(Document(timestamp=1.0, token_count=1, messages=(TURN[0], message, TURN[2])), mask=None)
    newer = own(wire, assistant("Let me see.", [CALL]), REASONING, {**text, "type": "text"}, older[2], KEPT_CALL)
    assert sent(wire, *from_json(saved).messages) == sent(wire, TURN[0], newer, TURN[2])
    assert [item.get("id") for item in sent(wire, message)] == ["rs_1", "msg_1", "rs_2", "fc_1"]


def test_nobody_elses_reasoning_goes_out_and_none_without_what_it_led_to():
    wire = provider()
    foreign: Message = {**own(wire, TURN[1], REASONING, KEPT_CALL), "origin": "anthropic"}
    assert sent(wire, foreign) == [PLAIN_CALL]
    other_model = own(provider("openai/gpt-y"), TURN[1], REASONING, KEPT_CALL)
    assert sent(wire, other_model) == [PLAIN_CALL]
    dropped = own(wire, assistant("x"), {"type": "text", "id": "msg_1", "length": 1}, REASONING, KEPT_CALL)
    assert [item["type"] for item in sent(wire, dropped)] == ["message"], "its call is gone, so it is too"
    renamed = own(wire, TURN[1], REASONING, {**KEPT_CALL, "call_id": "call_xyz"})
    assert sent(wire, renamed) == [PLAIN_CALL]


@pytest.mark.parametrize(
    "held",
    [
        {"extra": {"output_items": 5}},
        {"extra": {"output_items": [5]}},
        {"extra": {"output_items": [{}]}},
        {"extra": {"output_items": [{"type": "message", "length": "x"}, {"type": "message"}]}},
        {"extra": {"output_items": [{"type": "function_call", "call_id": []}]}},
        {"extra": {"output_items": None}},
        {"blocks": [{}]},
        {"blocks": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "length": "x"}]},
        {"blocks": [{"type": "tool_use", "call_id": []}, {"type": None}]},
    ],
)
def test_what_a_file_holds_in_their_place_is_left_out(held: Any):
    wire = provider()
    message: Message = {**assistant("so", [CALL]), **held, "origin": wire.origin}
    assert sent(wire, message) == [{"role": "assistant", "content": "so"}, PLAIN_CALL]


def test_an_export_keeps_reasoning_and_no_secret_in_it():
    wire = provider()
    secret = "sk-proj-Zk4x9Qw7eR7tY2uIoP5aS8dF1gH3"
    plain = own(wire, TURN[1], {**REASONING, "encrypted_content": secret}, KEPT_CALL)
    told: list[dict[str, Any]] = [{"type": "summary_text", "text": f"the key is {secret}"}]
    shown = own(wire, TURN[1], {**REASONING, "summary": told}, KEPT_CALL)
    for message, kept in ((plain, True), (shown, False)):
        saved = to_json(
            Document(timestamp=1.0, token_count=1, messages=(TURN[0], message, TURN[2])), mask=default_mask(raw=False)
        )
        assert (secret in saved.decode()) is kept, "what is encrypted is no secret of ours; what is shown is masked"
        resumed = from_json(saved).messages
        first = sent(wire, *resumed)[1]
        assert first == (sent(wire, message)[0] if kept else PLAIN_CALL)


def test_user_and_assistant_take_turns_at_a_server_that_nobody_knows():
    wire = provider("openai/responses/gemma", LOCAL)
    stopped = [*TURN, user("go on"), assistant("a"), assistant("b"), user("c"), *TAIL]
    items = sent(wire, *stopped)
    roles = {"function_call": "assistant", "function_call_output": "tool"}
    messages = [{"role": "system"}]
    for item in items:
        text = item.get("content") or item.get("output") or ""
        calls = {"tool_calls": [1]} if item.get("type") == "function_call" else {}
        messages.append({"role": item.get("role") or roles[item["type"]], "content": text, **calls})
    assert [complaint for template in TEMPLATES if (complaint := template(messages))] == []
    assert items[-1]["content"] == "\n\n".join(["c", *(message["content"] or "" for message in TAIL)])


async def chunks_of(*events: dict[str, Any]) -> list[Chunk]:
    data = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    with RawServer(saying(event_stream(data.encode()))) as server:
        wire = provider("openai/responses/gpt-x", server.base)
        async with aclosing(wire.stream(request())) as stream:
            chunks = [chunk async for chunk in stream]
        await wire.close()
        return chunks


def done(**response: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", "output": [], **response}}


def item_done(item: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


SAID = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Hi."}]}
THOUGHT = {**REASONING, "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]}
CALLED = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": '{"x": 1}'}


async def test_servers_without_deltas_are_understood():
    items = [THOUGHT, SAID, CALLED]
    whole = await chunks_of(done(output=items))
    assert await chunks_of(*[item_done(item, at) for at, item in enumerate(items)], done()) == whole
    said = joined(whole)
    assert joined(await chunks_of(*map(item_done, items), done(output=items))) == said, "one index for all"
    assert (said["text"], said["reasoning"], said["finish"]) == ("Hi.", "a\n\nb", ["tool_calls"])
    assert said["calls"] == [("c1", "read", '{"x": 1}')]
    delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "H"}
    assert joined(await chunks_of(delta, item_done(SAID), done()))["text"] == "Hi.", "what was missing comes at its end"


async def test_what_is_kept_is_what_goes_back():
    folded = Folded()
    commentary = {**SAID, "phase": "commentary", "status": "completed"}
    odd = {**THOUGHT, "status": None, "content": [], "internal": {"a": 1}}
    called = {**CALLED, "status": "completed"}
    for chunk in await chunks_of(item_done(odd), item_done(commentary, 1), item_done(called, 2), done()):
        folded.add(chunk)
    wire = provider()
    items = sent(wire, user("x"), folded.message(folded.calls(set()), wire.origin))
    assert items[1:] == [
        THOUGHT,
        {**commentary, "role": "assistant", "content": [{**commentary["content"][0], "annotations": []}]},
        called,
    ]


async def test_reasoning_that_no_server_could_read_again_is_not_kept():
    bare = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}
    assert not [chunk for chunk in await chunks_of(item_done(bare), item_done(CALLED, 1), done()) if _keeps(chunk)]
    in_clear = {**bare, "content": [{"type": "reasoning_text", "text": "hm"}]}
    [kept] = [chunk for chunk in await chunks_of(item_done(in_clear), item_done(CALLED, 1), done()) if _keeps(chunk)]
    assert isinstance(kept, BlocksChunk)
    assert kept.blocks[0]["content"] == in_clear["content"]


def _keeps(chunk: Chunk) -> bool:
    return isinstance(chunk, BlocksChunk)


async def test_two_parts_of_a_summary_are_two_paragraphs():
    at = {"output_index": 0, "item_id": "rs_1"}
    chunks = await chunks_of(
        {"type": "response.reasoning_summary_part.added", **at, "summary_index": 0},
        {"type": "response.reasoning_summary_text.delta", **at, "delta": "a"},
        {"type": "response.reasoning_summary_part.added", **at, "summary_index": 1},
        {"type": "response.reasoning_summary_text.delta", **at, "delta": "b"},
        done(),
    )
    assert chunks == [ReasoningChunk("a"), ReasoningChunk("\n\n"), ReasoningChunk("b"), FinishChunk("stop")]


async def test_usage_counts_cached_written_and_reasoning_tokens():
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 15},
    }
    assert await chunks_of(done(usage=usage)) == [
        UsageChunk(Usage(total_input=100, cache_read=60, cache_write=30, output=20, reasoning=15)),
        FinishChunk("stop"),
    ]
    for odd in ({"input_tokens": "x", "input_tokens_details": 5}, 7, {"output_tokens_details": None}):
        assert await chunks_of(done(usage=odd)) == [UsageChunk(Usage()), FinishChunk("stop")]


async def test_a_refusal_is_told_apart_from_text():
    delta = {"type": "response.refusal.delta", "output_index": 0, "delta": "I "}
    whole = {"type": "message", "id": "msg_1", "content": [{"type": "refusal", "refusal": "I will not."}]}
    chunks = await chunks_of(delta, item_done(whole), done())
    assert chunks == [RefusalChunk("I "), RefusalChunk("will not."), FinishChunk("stop")]


def ended(reason: str | None) -> dict[str, Any]:
    response = {"status": "incomplete", "incomplete_details": {"reason": reason}, "usage": {"input_tokens": 5}}
    return {"type": "response.incomplete", "response": response}


@pytest.mark.parametrize(("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "refused")])
async def test_an_incomplete_answer_says_why(reason: str, finish: Literal["length", "refused"]):
    chunks = await chunks_of({"type": "response.output_text.delta", "delta": "a"}, ended(reason))
    assert chunks == [TextChunk("a"), UsageChunk(Usage(total_input=5)), FinishChunk(finish)]


FAILURES: dict[str, tuple[dict[str, Any], str, bool]] = {
    "incomplete for another reason": (ended("moon"), "whole: moon", False),
    "incomplete for none": (ended(None), "no reason given", False),
    "failed": (
        {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "busy"}}},
        "broke off: busy",
        True,
    ),
    "failed for good": (
        {"type": "response.failed", "response": {"error": {"code": "invalid_prompt", "message": "no"}}},
        "broke off: no",
        False,
    ),
    "failed without a word": ({"type": "response.failed", "response": {"error": None}}, "the answer failed", True),
    "too long": (
        {"type": "response.failed", "response": {"error": {"code": "context_length_exceeded", "message": "long"}}},
        "window: long",
        False,
    ),
    "an error": ({"type": "error", "code": "server_error", "message": "busy"}, "broke off: busy", True),
    "an error for good": ({"type": "error", "code": "invalid_prompt", "message": "no"}, "broke off: no", False),
    "an error inside": (
        {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}},
        "broke off: no",
        False,
    ),
    "a gateway's error": ({"error": {"message": "gone", "code": 503}}, "broke off: gone", True),
    "cut": (
        {"type": "response.output_text.delta", "delta": "a"},
        "finish marker",
        True,
    ),
    "garbled": ({"type": "response.output_item.done", "item": 5}, "unknown shape", False),
    "garbled end": ({"type": "response.completed"}, "unknown shape", False),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_what_is_no_answer_fails(name: str):
    event, says, again = FAILURES[name]
    with pytest.raises(ProviderError) as caught:
        await chunks_of(event)
    assert says in str(caught.value)
    assert caught.value.retryable is again


REFUSALS = {
    "prompt_cache_key": "Unknown parameter: 'prompt_cache_key'.",
    "include": "Encrypted content is not supported with this model.",
    "reasoning": "Your organization must be verified to generate reasoning summaries.",
    "prompt_cache_options": "prompt_cache_options is not supported for this model.",
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_an_option_that_is_refused_is_not_sent_again(name: str, model_server: ModelServer):
    model_server.script = [HttpError(400, REFUSALS[name]), Reply("ok"), Reply("ok")]
    wire = provider("openai/responses/gpt-5.6", model_server.openai)
    chunks = await collect(wire)
    assert joined(chunks)["text"] == "ok"
    assert [chunk.wait for chunk in chunks if isinstance(chunk, RetryChunk)] == [0.0]
    await collect(wire)
    await wire.close()
    first, *later = [sent.json for sent in model_server.requests]
    assert set(REFUSALS) <= first.keys()
    assert [set(REFUSALS) - sent.keys() for sent in later] == [{name}] * 2


async def test_reasoning_that_is_refused_is_not_sent_again(model_server: ModelServer):
    words = "The encrypted content secret could not be verified."
    model_server.script = [HttpError(400, words), Reply("ok"), HttpError(400, words)]
    wire = provider("openai/responses/gpt-5.6", model_server.openai)
    history = [TURN[0], own(wire, TURN[1], REASONING, KEPT_CALL), TURN[2]]
    assert joined(await collect(wire, request(*history)))["text"] == "ok"
    with pytest.raises(ProviderError, match="could not be verified"):
        await collect(wire, request(*history))
    await wire.close()
    first, second, _ = [sent.body for sent in model_server.requests]
    assert b'"secret"' in first and b'"fc_1"' in first
    assert b'"secret"' not in second and b'"fc_1"' not in second


async def test_a_template_that_wants_turns_gets_them(model_server: ModelServer):
    model_server.script = [HttpError(400, "Conversation roles must alternate user/assistant"), Reply("ok")]
    wire = provider("openai/responses/gpt-5.6", model_server.openai)
    assert joined(await collect(wire, request(user("a"), user("b"))))["text"] == "ok"
    await wire.close()
    assert [len(sent.json["input"]) for sent in model_server.requests] == [3, 1], "first with the system prompt"


async def test_a_server_that_refuses_everything_is_not_asked_for_ever(model_server: ModelServer):
    model_server.script = lambda _: HttpError(400, " ".join(REFUSALS.values()) + " input[0] could not be verified")
    wire = provider("openai/responses/gpt-5.6", model_server.openai)
    with pytest.raises(ProviderError):
        await collect(wire)
    await wire.close()
    assert len(model_server.requests) == 6


async def test_parallel_calls_whose_pieces_come_in_turns():
    def added(index: int) -> dict[str, Any]:
        item = {**CALLED, "id": f"fc_{index}", "call_id": f"c{index}", "arguments": ""}
        return {"type": "response.output_item.added", "output_index": index, "item": item}

    def piece(index: int, text: str) -> dict[str, Any]:
        return {"type": "response.function_call_arguments.delta", "output_index": index, "delta": text}

    chunks = await chunks_of(added(1), added(2), piece(1, '{"a"'), piece(2, "{}"), piece(1, ": 1}"), done())
    assert joined(chunks)["calls"] == [("c1", "read", '{"a": 1}'), ("c2", "read", "{}")]
    assert all(isinstance(chunk, ToolCallChunk | FinishChunk) for chunk in chunks)
