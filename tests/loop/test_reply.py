"""The reply: pieces in, one assistant message out, whatever habits the server has with ids and indices."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codelet import events
from codelet.loop.reply import Reply
from codelet.providers.protocol import (
    Chunk,
    ExtraChunk,
    FinishChunk,
    FinishReason,
    ReasoningChunk,
    RefusalChunk,
    RetryChunk,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)
from codelet.tools.call_forms import arguments_in
from codelet.usage import Usage


def calls_of(*chunks: Chunk, taken: set[str] | None = None) -> list[tuple[str, str, str]]:
    reply = Reply()
    for chunk in chunks:
        reply.add(chunk)
    finished = reply.calls(set() if taken is None else taken)
    return [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in finished]


def piece(index: int, arguments: str = "", call_id: str = "", name: str = "") -> ToolCallChunk:
    return ToolCallChunk(index=index, id=call_id, name=name, arguments=arguments)


TWO = [("a", "read", '{"path": "x"}'), ("b", "grep", '{"pattern": "y"}')]


def test_a_marker_that_comes_before_the_text_counts_and_one_of_a_try_that_failed_does_not() -> None:
    reply = Reply()
    for chunk in (FinishChunk("length"), TextChunk("late")):
        reply.add(chunk)
    assert reply.finish == "length"
    reply.add(RetryChunk(attempt=2, attempts=5, wait=0.1, reason="cut"))
    assert reply.finish == "length"
    reply.add(TextChunk("anew"))
    assert reply.finish is None


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(
            [
                piece(0, call_id="a", name="read"),
                piece(0, '{"path"'),
                piece(0, ': "x"}'),
                piece(1, call_id="b", name="grep"),
                piece(1, '{"pattern": "y"}'),
            ],
            id="one after the other",
        ),
        pytest.param(
            [
                piece(0, call_id="a", name="read"),
                piece(1, call_id="b", name="grep"),
                piece(0, '{"path"'),
                piece(1, '{"pattern"'),
                piece(0, ': "x"}'),
                piece(1, ': "y"}'),
            ],
            id="interleaved",
        ),
        pytest.param(
            [
                piece(0, '{"path"', call_id="a", name="read"),
                piece(0, ': "x"}', call_id="a"),
                piece(1, '{"pattern": ', call_id="b", name="grep"),
                piece(1, '"y"}', call_id="b"),
            ],
            id="the id with each piece",
        ),
        pytest.param(
            [
                piece(0, '{"path": "x"}', call_id="a", name="read"),
                piece(0, '{"pattern": "y"}', call_id="b", name="grep"),
            ],
            id="one index for all",
        ),
        pytest.param(
            [
                piece(0, '{"path": ', call_id="a", name="read"),
                piece(0, '{"pattern": ', call_id="b", name="grep"),
                piece(0, '"x"}', call_id="a"),
                piece(0, '"y"}', call_id="b"),
            ],
            id="one index, interleaved, the id with each piece",
        ),
        pytest.param(
            [
                piece(0, '{"path": ', call_id="a", name="read"),
                piece(0, '"x"}', call_id="a", name="read"),
                piece(1, '{"pattern": "y"}', call_id="b", name="grep"),
            ],
            id="the name with each piece",
        ),
    ],
)
def test_every_habit_of_a_server_gives_the_same_two_calls(chunks: list[Chunk]):
    assert calls_of(*chunks) == TWO


def test_calls_without_ids_and_with_one_index_are_told_apart_by_their_names():
    chunks = [
        piece(0, '{"path": "x"}', name="read"),
        piece(0, '{"pattern"', name="grep"),
        piece(0, ': "y"}', name="grep"),
    ]
    found = calls_of(*chunks)
    assert [call[1:] for call in found] == [call[1:] for call in TWO]
    assert len({call[0] for call in found} - {""}) == 2


def test_the_same_id_at_another_index_is_another_call():
    found = calls_of(piece(0, "{}", call_id="x", name="read"), piece(1, "{}", call_id="x", name="grep"))
    assert [call[1] for call in found] == ["read", "grep"]
    assert len({call[0] for call in found}) == 2


@pytest.mark.timeout(5)
def test_ids_that_are_missing_or_taken_are_replaced():
    taken = {"call_2", "a", "a_3", "a_4"}
    missing = calls_of(piece(0, "{}", name="read"), taken={"call_2"})
    assert missing[0][0] not in ("", "call_2")
    first = calls_of(piece(0, "{}", call_id="a", name="read"), taken=taken)
    second = calls_of(piece(0, "{}", call_id="a", name="read"), taken=taken)
    ids = {first[0][0], second[0][0]}
    assert len(ids) == 2
    assert ids <= taken
    assert ids.isdisjoint({"call_2", "a", "a_3", "a_4"})


@pytest.mark.parametrize("empty", ["", "  ", "\n"])
def test_no_arguments_are_an_empty_object(empty: str):
    assert calls_of(piece(0, empty, call_id="a", name="find")) == [("a", "find", "{}")]


@pytest.mark.parametrize(
    "text",
    ["{not json", '"text"', "[1]", "null", "{}{}", '{"n": NaN}', '{"n": -Infinity}', '{"n": 1e999}', "[" * 100_000],
)
def test_arguments_that_are_no_json_object_stand_in_the_list_as_an_empty_one(text: str):
    reply = Reply()
    reply.add(piece(0, text, call_id="a", name="read"))
    calls = reply.calls(set())
    assert calls[0]["function"]["arguments"] == text
    assert not isinstance(arguments_in(calls[0]["function"]["arguments"]), dict)
    message = reply.message(calls, "here")
    assert message["tool_calls"] == [{"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}]


@pytest.mark.parametrize(
    ("name", "legal"),
    [("read", "read"), ("functions.read", "read"), ("my.tool", "my_tool"), ("", "unnamed"), ("é" * 99, "_" * 64)],
)
def test_names_that_providers_refuse_stand_in_the_list_as_legal_ones(name: str, legal: str):
    reply = Reply()
    reply.add(piece(0, '{"a": 1}', call_id="a", name=name))
    call = reply.message(reply.calls(set()), "here")["tool_calls"][0]
    assert call["function"] == {"name": legal, "arguments": '{"a": 1}'}


def test_each_chunk_gives_the_event_that_shows_it():
    reply = Reply()
    shown = [
        reply.add(RetryChunk(attempt=2, attempts=5, wait=1.5, reason="busy")),
        reply.add(TextChunk("Hel")),
        reply.add(ReasoningChunk("why")),
        reply.add(ReasoningChunk(block={"type": "thinking"})),
        reply.add(piece(0, "{}", call_id="a", name="read")),
        reply.add(UsageChunk(Usage(total_input=1))),
        reply.add(UsageChunk(Usage(total_input=2, output=3))),
        reply.add(FinishChunk("stop")),
        reply.add(TextChunk("lo")),
    ]
    assert [event for event in shown if event] == [
        events.Retry(attempt=2, attempts=5, wait=1.5, reason="busy"),
        events.Text("Hel"),
        events.Reasoning("why"),
        events.Text("lo"),
    ]
    assert (reply.text, reply.usage, reply.finish) == ("Hello", Usage(total_input=2, output=3), "stop")


def test_an_answer_that_is_asked_for_again_counts_no_more_once_the_other_begins():
    reply = Reply()
    for chunk in (TextChunk("Half"), ReasoningChunk("hm"), piece(0, "{", call_id="a", name="read")):
        reply.add(chunk)
    reply.add(RetryChunk(attempt=2, attempts=5, wait=0.0, reason="cut"))
    reply.add(UsageChunk(Usage(total_input=1)))
    assert reply.text == "Half", "nothing has come in its place"
    reply.add(piece(0, "{}", call_id="b", name="grep"))
    reply.add(FinishChunk("tool_calls"))
    [call] = reply.calls(set())
    assert (reply.text, call["id"], call["function"]) == ("", "b", {"name": "grep", "arguments": "{}"})
    assert reply.message([call], "here").keys() == {"role", "content", "tool_calls"}


def test_reasoning_is_kept_with_its_origin():
    reply = Reply()
    block = {"type": "thinking", "thinking": "hm", "signature": "s"}
    for chunk in (ReasoningChunk("h"), ReasoningChunk("m"), ReasoningChunk(block=block), TextChunk("yes")):
        reply.add(chunk)
    assert reply.message([], "somewhere") == {
        "role": "assistant",
        "content": "yes",
        "blocks": [block],
        "reasoning_content": "hm",
        "origin": "somewhere",
    }
    plain = Reply()
    plain.add(TextChunk("yes"))
    assert plain.message([], "somewhere") == {"role": "assistant", "content": "yes"}


def test_pieces_of_one_reasoning_detail_go_back_as_one():
    reply = Reply()
    pieces: list[dict[str, Any]] = [
        {"type": "reasoning.text", "text": "I ", "index": 0, "format": "f"},
        {"type": "reasoning.text", "text": "think", "index": 0},
        {"type": "reasoning.text", "text": "", "signature": "sig", "index": 0},
        {"type": "reasoning.encrypted", "data": "abc", "index": 1},
        {"type": "reasoning.text", "text": "again", "index": 2},
    ]
    before = json.dumps(pieces)
    for detail in pieces:
        reply.add(ReasoningChunk(details=[detail]))
    assert reply.message([], "x")["reasoning_details"] == [
        {"type": "reasoning.text", "text": "I think", "index": 0, "format": "f", "signature": "sig"},
        {"type": "reasoning.encrypted", "data": "abc", "index": 1},
        {"type": "reasoning.text", "text": "again", "index": 2},
    ]
    assert json.dumps(pieces) == before, "the chunks are left as they came"


def test_what_came_beside_the_answer_goes_back_with_all_its_pieces():
    pieces: list[dict[str, Any]] = [
        {"items": [1], "nested": {"list": ["a"], "same": 1}, "kind": "x", "once": True},
        {"items": [2], "nested": {"list": ["b"], "other": 2}, "kind": "y"},
        {"items": "none", "nested": 3},
    ]
    before = json.dumps(pieces)
    for count in (2, 3):
        reply = Reply()
        reply.add(TextChunk("yes"))
        for number, extra in enumerate(pieces[:count]):
            reply.add(ExtraChunk(extra))
            reply.add(ToolCallChunk(index=0, id="c", name="" if number else "read", arguments="", extra=extra))
        message = reply.message(reply.calls(set()), "somewhere")
        whole = {"items": [1, 2], "nested": {"list": ["a", "b"], "same": 1, "other": 2}, "kind": "y", "once": True}
        if count == 3:
            whole |= {"items": "none", "nested": 3}
        assert message["extra"] == whole
        assert message["tool_calls"][0]["extra"] == whole
        assert message["origin"] == "somewhere"
    assert json.dumps(pieces) == before, "the chunks are left as they came"


def test_details_that_say_no_type_or_another_index_stay_apart():
    reply = Reply()
    for detail in (
        {"text": "a"},
        {"text": "b"},
        {"type": "t", "index": 0, "text": "c", "data": 1},
        {"type": "t", "index": 1, "text": "d", "signature": "s"},
        {"type": "t", "index": 1, "text": None, "signature": None},
        {"type": "u", "index": 1, "summary": "e"},
        {"type": "u", "index": 1, "summary": "f", "data": "g"},
    ):
        reply.add(ReasoningChunk(details=[detail]))
    assert reply.message([], "x")["reasoning_details"] == [
        {"text": "a"},
        {"text": "b"},
        {"type": "t", "index": 0, "text": "c", "data": 1},
        {"type": "t", "index": 1, "text": "d", "signature": "s"},
        {"type": "u", "index": 1, "summary": "ef", "data": "g"},
    ]


@pytest.mark.parametrize(
    ("refusal", "finish", "told", "left"),
    [
        ("I will not", "stop", "refused", 0),
        (" \n", "stop", "stop", 1),
        ("", "refused", "refused", 0),
        ("I will", "length", "length", 1),
    ],
)
def test_calls_of_an_answer_that_was_refused_are_not_run(refusal: str, finish: FinishReason, told: str, left: int):
    reply = Reply()
    for chunk in (piece(0, "{}", "a", "read"), RefusalChunk(refusal), FinishChunk(finish)):
        reply.add(chunk)
    assert reply.finish == told
    assert len(reply.calls(set())) == left


def test_what_json_does_not_know_is_no_argument():
    for text in ('{"n": NaN}', '{"n": -Infinity}', '{"n": 1e999}'):
        reply = Reply()
        reply.add(piece(0, text, "a", "read"))
        assert arguments_in(reply.calls(set())[0]["function"]["arguments"]) == text
    reply = Reply()
    reply.add(piece(0, '{"n": 1.5e3}', "a", "read"))
    assert arguments_in(reply.calls(set())[0]["function"]["arguments"]) == {"n": 1500.0}


@pytest.mark.parametrize(
    ("chunk", "begun"),
    [
        (TextChunk("x"), True),
        (ReasoningChunk("x"), True),
        (ReasoningChunk(block={"type": "thinking"}), True),
        (ReasoningChunk(details=[{"type": "reasoning.text"}]), True),
        (piece(0, call_id="a", name="read"), True),
        (UsageChunk(Usage(total_input=1)), False),
        (RetryChunk(attempt=2, attempts=5, wait=0.0, reason="cut"), False),
    ],
)
def test_an_answer_has_begun_once_anything_of_it_has_come(chunk: Chunk, begun: bool):
    reply = Reply()
    assert not reply.has_begun
    reply.add(chunk)
    assert reply.has_begun is begun


def test_an_answer_is_void_without_text_and_calls_unless_it_reached_its_limit():
    def void(*chunks: Chunk) -> bool:
        reply = Reply()
        for chunk in chunks:
            reply.add(chunk)
        return reply.is_void

    assert void(TextChunk(" \n"), FinishChunk("stop"))
    assert not void(TextChunk(" x"), FinishChunk("stop"))
    assert not void(piece(0, "{}", "a", "read"), FinishChunk("tool_calls"))
    assert not void(FinishChunk("length"))
