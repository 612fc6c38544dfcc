"""One script, every way to the wire: native and litellm say the same, chunk for chunk and event for event.

What goes over Responses says what it says over Chat Completions.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.errors import ProviderError
from codelet.export.decode import from_json
from codelet.export.document import Document
from codelet.export.encode import to_json
from codelet.loop.session import Session
from codelet.messages import Message
from codelet.providers import open_provider
from codelet.providers.by_litellm.provider import IMPORTING
from codelet.providers.protocol import Deadlines
from codelet.safety import Policy
from tests.providers.chunks import IN_TEXT, collect_until_error, joined, options
from tests.providers.chunks import MODELS as EVERY_MODEL
from tests.support.script import Body, Call, Delivery, HttpError, Insert, Reply, Step, Stop, StreamError, Tokens
from tests.support.server import ModelServer
from tests.support.wire_responses import responses

MODELS = {name: model for name, model in EVERY_MODEL.items() if name != "responses"}
RESPONSES = EVERY_MODEL["responses"]

READ = Call("call_1", "read", {"path": "notes.txt"})
GREP = Call("call_2", "grep", {"pattern": "needle", "path": "."})
CACHED = Tokens(total_input=1_000, cache_read=900, cache_write=60, output=40)

ANSWERS: dict[str, Reply] = {
    "text": Reply(["Hel", "lo", " there.\n", "\n```py\nx = 1\n```"]),
    "no text at all": Reply(),
    "white space and other scripts": Reply(["  ", "\n\n", "žluťoučký ", "日本", "🦊\t"]),
    "angle brackets": Reply(["<", "div>", " a <", " b\n<", "s"]),
    "one call": Reply(calls=[READ]),
    "text and a call": Reply("Let me see.", calls=[READ]),
    "parallel calls": Reply("Both.", calls=[READ, GREP]),
    "split arguments": Reply(calls=[Call("call_1", "read", {"path": "notes.txt"}, (1, 2, 9, 14))]),
    "no arguments": Reply(calls=[Call("call_1", "read", "")]),
    "arguments that do not parse": Reply(calls=[Call("call_1", "read", '{"path": ')]),
    "reasoning": Reply("So.", reasoning=["First ", "this, ", "then that."], calls=[READ]),
    "half a tag": Reply(["<thi"]),
    "usage with cache fields": Reply("cached", usage=CACHED),
    "no usage": Reply("free", usage=None),
    "length": Reply("cut sho", finish="length"),
    "refused": Reply("I will", finish="refused"),
    "comments": Reply("ping", delivery=Delivery(comments=True)),
    "tiny pieces": Reply(["One ", "piece"], calls=[READ], delivery=Delivery(piece=7)),
    "carriage returns": Reply("lines", delivery=Delivery(line_end="\r\n")),
    "the server closes": Reply("bye", delivery=Delivery(framing="close")),
    "finish and usage together": Reply("both", delivery=Delivery(usage="finish")),
    "a byte order mark": Reply("marked", delivery=Delivery(bom=True)),
    "odd chunks": Reply(["odd ", "chunks"], delivery=Delivery(odd_chunks=True)),
    "a length": Reply("long", delivery=Delivery(framing="length")),
    "byte by byte": Reply("ž", delivery=Delivery(piece=1)),
    "no end but the finish reason": Reply("done", delivery=Delivery(done=False)),
    "the close is announced": Reply("bye", delivery=Delivery(close="announced")),
    "closed without notice": Reply("bye", delivery=Delivery(close="silent")),
    "reasoning, text and two calls": Reply(["So ", "then."], reasoning="Hm.", calls=[READ, GREP], usage=CACHED),
    "length amid a call": Reply(calls=[Call("call_1", "read", '{"path": "no')], finish="length"),
}

# Only Chat Completions can do these: Messages sends one block after the other, each with its number.
CHAT_ANSWERS: dict[str, Reply] = {
    "one index for all": Reply(calls=[READ, Call("call_2", "grep", {"pattern": "needle"}, index=0)]),
    "an id in each piece": Reply(calls=[Call("call_1", "read", {"path": "notes.txt"}, (3, 9), repeat_id=True)]),
    "interleaved": Reply(
        calls=[
            Call("call_1", "read", {"path": "notes.txt"}, (4, 8)),
            Call("call_2", "grep", {"pattern": "x"}, (3, 6)),
        ],
        interleaved=True,
    ),
}

# What the server does wrong; a function makes the step from the place in the text where it happens.
FAULTS: dict[str, Step | Callable[[int], Step]] = {
    "bad request": HttpError(400, "no such parameter"),
    "wrong key": HttpError(401, "invalid key"),
    "forbidden": HttpError(403, "not for you"),
    "unknown model": HttpError(404, "no such model"),
    "too large": HttpError(413, "request too large"),
    "too long": HttpError(400, "prompt is too long: 250000 tokens > 200000 maximum context length"),
    "rate limit": HttpError(429, "slow down", retry_after=3),
    "quota": HttpError(429, "You exceeded your current quota, check your billing", kind="insufficient_quota"),
    "broken": HttpError(500, "internal"),
    "bad gateway": HttpError(502, body=b"<html>bad gateway</html>", content_type="text/html"),
    "unavailable": HttpError(503, "try later"),
    "overloaded": HttpError(529, "overloaded"),
    "closed before the answer": Stop("cut"),
    "cut in the text": lambda at: Reply(["one ", "two"], fault=Stop("cut", at)),
    "reset in the text": lambda at: Reply(["one ", "two"], fault=Stop("reset", at)),
    "half closed": lambda at: Reply(["one ", "two"], fault=Stop("half_close", at)),
    "ends without its marker": lambda at: Reply(["one ", "two"], fault=Stop("clean_end", at)),
    "stalls": lambda at: Reply(["one ", "two"], fault=Stop("stall", at)),
    "an error in the stream": lambda at: Reply(["one ", "two"], fault=StreamError("overloaded", after=at)),
    "garbled": lambda at: Reply(["one ", "two"], fault=Insert(b"data: {nonsense\n\n", after=at)),
    "a web page": Body(b"<html>Please log in</html>"),
    "payment": HttpError(402, "top up"),
    "too slow": HttpError(408, "too slow"),
    "conflict": HttpError(409, "try later"),
    "unprocessable": HttpError(422, "no such field"),
    "too early": HttpError(425, "too early"),
    "an empty body": HttpError(500, body=b""),
    "another server's failure": HttpError(520, body=b"<html>unknown error</html>", content_type="text/html"),
    "a gateway's limit": HttpError(524, "a timeout occurred"),
    "not to be tried again": HttpError(503, "no", headers={"x-should-retry": "false"}),
    "to be tried again": HttpError(400, "once more", headers={"x-should-retry": "true"}),
    "wait in milliseconds": HttpError(429, "slow down", headers={"retry-after-ms": "1500"}),
    "wait for no number": HttpError(429, "slow down", retry_after="soon"),
    "wait less than nothing": HttpError(429, "slow down", retry_after="-5"),
    "wait until long ago": HttpError(429, "slow down", retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
    "too long, by the window": HttpError(400, "This model's maximum context length is 4096 tokens"),
    "cut after the headers": Reply("never", fault=Stop("cut", 0)),
    "closed after the headers": Reply("never", fault=Stop("reset", 0)),
    "an error before the text": Reply("never", fault=StreamError("no such field", "invalid_request_error", after=0)),
}

# Where litellm says something else, and why that has to be.
DIFFERENCES: dict[tuple[str, str], str] = {
    ("an error before the text", "messages"): "retryable",  # its adapter drops the event's type: it is asked once more
}

SHORT = Deadlines(connect=5.0, first_token=20.0, between_chunks=1.0)


async def both(server: ModelServer, model: str, step: Step) -> list[tuple[dict[str, Any], ProviderError | None]]:
    """The same step through native and through litellm."""
    server.script = [step, step]
    outcomes = []
    for transport in ("native", "litellm"):
        provider = open_provider(model, options(server.openai, deadlines=SHORT), transport)
        chunks, error = await collect_until_error(provider)
        outcomes.append((joined(chunks), error))
        await provider.close()
    return outcomes


def test_there_are_sixty_scripts():
    assert len(ANSWERS) + len(CHAT_ANSWERS) + len(FAULTS) >= 60


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
async def test_reasoning_in_the_text_is_the_same_both_ways(model: str, model_server: ModelServer):
    reply = Reply(["<thi", "nk>so\n", "</think>\n", "\nSo."], calls=[READ])
    native, litellm = await both(model_server, model, reply)
    assert litellm == native
    assert (native[0]["reasoning"], native[0]["text"]) == ("so", "So.")


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
async def test_an_answer_is_the_same_both_ways(answer: Reply, model: str, model_server: ModelServer):
    native, litellm = await both(model_server, model, answer)
    assert (native[1], litellm[1]) == (None, None)
    assert litellm[0] == native[0]
    assert native[0]["text"] == "".join(answer.text_pieces)
    assert [call[0] for call in native[0]["calls"]] == [call.id for call in answer.calls]


@pytest.mark.parametrize("answer", CHAT_ANSWERS.values(), ids=CHAT_ANSWERS.keys())
async def test_calls_are_told_apart_the_same_way(answer: Reply, model_server: ModelServer):
    native, litellm = await both(model_server, MODELS["chat completions"], answer)
    assert litellm == native
    assert native[0]["calls"] == [(call.id, call.name, call.json) for call in answer.calls]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
@pytest.mark.parametrize("raw", [b"", b"data: [DONE]\n\n", b": waiting\n\n"])
async def test_a_stream_of_nothing_is_an_empty_answer_both_ways(raw: bytes, model: str, model_server: ModelServer):
    native, litellm = await both(model_server, model, Body(raw, content_type="text/event-stream"))
    assert (native[1], litellm[1]) == (None, None)
    assert litellm[0] == native[0]
    assert (native[0]["text"], native[0]["calls"], native[0]["finish"]) == ("", [], ["stop"])


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_is_the_same_both_ways(name: str, wire: str, model_server: ModelServer):
    model, fault = MODELS[wire], FAULTS[name]
    step = fault(IN_TEXT[model]) if callable(fault) else fault
    (native, native_error), (litellm, litellm_error) = await both(model_server, model, step)
    assert native_error is not None
    assert litellm_error is not None
    assert litellm["text"] == native["text"]
    assert (litellm["calls"], litellm["finish"]) == (native["calls"], [])
    for said in {"status", "retryable", "retry_after", "overflow", "window"} - {DIFFERENCES.get((name, wire))}:
        assert getattr(litellm_error, said) == getattr(native_error, said), (said, native_error, litellm_error)
    assert "\n" not in str(litellm_error)


async def said_over(server: ModelServer, model: str, step: Any) -> tuple[dict[str, Any], ProviderError | None]:
    """A step's content over a native wire."""
    server.requests.clear()
    server.script = [step(IN_TEXT[model]) if callable(step) else step]
    provider = open_provider(model, options(server.openai, deadlines=SHORT))
    chunks, error = await collect_until_error(provider)
    await provider.close()
    return joined(chunks), error


@pytest.mark.parametrize("answer", {**ANSWERS, **CHAT_ANSWERS}.values(), ids={**ANSWERS, **CHAT_ANSWERS}.keys())
async def test_an_answer_is_the_same_over_responses(answer: Reply, model_server: ModelServer):
    chat, _ = await said_over(model_server, MODELS["chat completions"], answer)
    responses, error = await said_over(model_server, RESPONSES, answer)
    assert error is None
    if answer.usage is not None:  # Chat Completions has no field for what was written to the cache
        assert responses["usage"].cache_write == answer.usage.cache_write
        responses["usage"] = responses["usage"].replace(cache_write=0)
    assert responses == chat
    assert responses["calls"] == [(call.id, call.name, call.json or "{}") for call in answer.calls]


INTERLEAVED = Reply(
    ["Looking.", "And there."],
    order=("think", "text", "think", "call", "think", "text", "call"),
    signatures=("s1", "s2", "s3"),
    details=[{"type": "reasoning.encrypted", "data": f"s{number}", "index": number} for number in (1, 2, 3)],
    calls=[READ, GREP],
)


@pytest.mark.parametrize("exported", [False, True])
@pytest.mark.parametrize("model", EVERY_MODEL.values(), ids=EVERY_MODEL.keys())
async def test_interleaved_blocks_go_back_as_they_came(
    model: str, exported: bool, model_server: ModelServer, tmp_path: Path
):
    (tmp_path / "notes.txt").write_text("hay\nneedle\nhay\n", encoding="utf-8")
    model_server.script = [INTERLEAVED, Reply("Line 2."), Reply("Yes.")]
    provider = open_provider(model, options(model_server.openai))
    session = Session(provider, workspace=tmp_path, policy=Policy(tmp_path), bare=True)
    async with aclosing(session.send("look for the needle")) as stream:
        _ = [event async for event in stream]
    if exported:
        saved = to_json(Document(timestamp=1.0, token_count=1, messages=tuple(session.messages)), mask=None)
        session = Session(provider, workspace=tmp_path, policy=Policy(tmp_path), bare=True)
        session.adopt(from_json(saved).messages)
    async with aclosing(session.send("sure?")) as stream:
        _ = [event async for event in stream]
    await provider.close()
    first, *others = [request.json for request in model_server.requests]
    wanted = came(model, first)
    for body in others:
        if "input" in body:
            at = listed(body).index(wanted[0])
            assert listed(body)[at : at + len(wanted)] == wanted
        else:
            assert wanted in listed(body)


def listed(body: dict[str, Any]) -> list[Any]:
    """The answers in a request, in order: items, the blocks of a message, or whole messages."""
    if "input" in body:
        return list(body["input"])
    answers = [message for message in body["messages"] if message["role"] == "assistant"]
    return [message["content"] if isinstance(message["content"], list) else message for message in answers]


def came(model: str, body: dict[str, Any]) -> Any:
    """The server's answer in the form that the API takes back."""
    if "responses" in model:
        items: list[dict[str, Any]] = list(responses(INTERLEAVED, body))[-1]["response"]["output"]
        assert [item["type"] for item in items] == [
            *("reasoning", "message", "reasoning", "function_call", "reasoning", "message", "function_call")
        ]
        return items
    calls = [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in (READ, GREP)]
    thoughts = [{"type": "thinking", "thinking": "", "signature": signature} for signature in INTERLEAVED.signatures]
    texts = [{"type": "text", "text": text} for text in INTERLEAVED.text_pieces]
    if "claude" in model:
        return [thoughts[0], texts[0], thoughts[1], calls[0], thoughts[2], texts[1], calls[1]]
    functions = [{"name": call.name, "arguments": call.json} for call in (READ, GREP)]
    return {
        "role": "assistant",
        "content": "".join(INTERLEAVED.text_pieces),
        "tool_calls": [
            {"id": call.id, "type": "function", "function": function}
            for call, function in zip((READ, GREP), functions, strict=True)
        ],
        "reasoning_details": list(INTERLEAVED.details),
    }


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_a_fault_is_the_same_over_responses(fault: Any, model_server: ModelServer):
    responses, error = await said_over(model_server, RESPONSES, fault)
    chat, chat_error = await said_over(model_server, MODELS["chat completions"], fault)
    assert error is not None
    assert chat_error is not None
    assert responses == chat
    for name in ("status", "retryable", "retry_after", "overflow"):
        assert getattr(error, name) == getattr(chat_error, name), (name, error, chat_error)
    assert str(error) == str(chat_error)


async def turn(server: ModelServer, model: str, transport: Any, workspace: Path) -> tuple[list[Any], list[Message]]:
    """The events of one turn, joined where pieces may be cut anywhere, and the list after it."""
    provider = open_provider(model, options(server.openai), transport)
    session = Session(provider, workspace=workspace, policy=Policy(workspace), bare=True)
    seen: list[Any] = []
    async with aclosing(session.send("look for the needle")) as stream:
        async for event in stream:
            previous = seen[-1] if seen else None
            if isinstance(event, events.Text | events.Reasoning) and type(previous) is type(event):
                seen[-1] = type(event)(previous.delta + event.delta)
            elif isinstance(event, events.ToolResult):
                seen.append(event.replace(seconds=0.0))
            elif not isinstance(event, events.ToolProgress) and event != events.Note(IMPORTING):
                seen.append(event)
    await provider.close()
    messages = [message.copy() for message in session.messages]
    for message in messages:
        message.pop("origin", None)
    return seen, messages


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
async def test_a_turn_with_tools_gives_the_same_events_and_list(model: str, model_server: ModelServer, tmp_path: Path):
    (tmp_path / "notes.txt").write_text("hay\nneedle\nhay\n", encoding="utf-8")
    script = [
        Reply("Looking.", reasoning=["Where ", "is it?"], calls=[READ, GREP], usage=CACHED),
        Reply(calls=[Call("call_3", "nosuch", {}), Call("call_4", "read", '{"path": ')], usage=CACHED),
        Reply(["Line ", "2."], usage=CACHED),
    ]
    model_server.script = [*script, *script]
    native = await turn(model_server, model, "native", tmp_path)
    litellm = await turn(model_server, model, "litellm", tmp_path)
    assert litellm == native
    names = [event.type for event in native[0] if event.type != "reminder"]
    assert names.count("step_start") == 3
    assert names.count("tool_result") == 4
    assert names[-1] == "turn_end"
    assert len(model_server.requests) == 6


async def test_a_turn_with_tools_gives_the_same_events_over_responses(model_server: ModelServer, tmp_path: Path):
    (tmp_path / "notes.txt").write_text("hay\nneedle\nhay\n", encoding="utf-8")
    script = [
        Reply("Looking.", reasoning=["Where ", "is it?"], calls=[READ, GREP]),
        Reply(calls=[Call("call_3", "nosuch", {}), Call("call_4", "read", '{"path": ')]),
        Reply(["Line ", "2."]),
    ]
    model_server.script = [*script, *script]
    over_responses, kept = await turn(model_server, RESPONSES, "native", tmp_path)
    over_chat, plain = await turn(model_server, MODELS["chat completions"], "native", tmp_path)
    assert [event for event in over_responses if event.type != "turn_start"] == [
        event for event in over_chat if event.type != "turn_start"
    ]
    for message in kept:
        message.pop("blocks", None)
    assert kept == plain
    assert {request.wire for request in model_server.requests[:3]} == {"responses"}
