"""Reasoning at the start of a text is no part of the answer, on every wire, and goes back as it came."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelet import events
from codelet.providers.content.inline_reasoning import InlineReasoning, split_reasoning
from codelet.providers.protocol import ReasoningChunk, TextChunk
from tests.support.bodies import messages_of
from tests.support.script import Call, Reply
from tests.support.server import ModelServer
from tests.support.sessions import MakeSession, of_type, turn

CASES = [
    ("<think>why\n</think>\n\nanswer", "why", "answer"),
    ("\n<think>\n\n</think>\n\nanswer", "", "answer"),
    ("<thinking>a < b</thinking>answer", "a < b", "answer"),
    ("<think>a</think>\n<think>b</think>c", "ab", "c"),
    ("\u25c1think\u25b7a\u25c1/think\u25b7b", "a", "b"),
    ("[THINK]a[/THINK]b", "a", "b"),
    ("</think>\n\nanswer", "", "answer"),
    ("<think>never closed", "never closed", ""),
    ("<think>half closed</thi", "half closed</thi", ""),
    ("", "", ""),
    ("<", "", "<"),
    ("<thin", "", "<thin"),
    ("<thinner>", "", "<thinner>"),
    ("an answer with <think>in it</think>", "", "an answer with <think>in it</think>"),
    ("```\n<think>a</think>\n```", "", "```\n<think>a</think>\n```"),
]


def split(pieces: list[str]) -> tuple[str, str, str]:
    """The visible reasoning, the answer, and everything received."""
    splitter = InlineReasoning()
    chunks = [chunk for piece in pieces for chunk in splitter.feed(piece)] + list(splitter.flush())
    shown = "".join(chunk.text for chunk in chunks if isinstance(chunk, ReasoningChunk))
    inline = "".join(chunk.inline for chunk in chunks if isinstance(chunk, ReasoningChunk))
    text = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
    return shown, text, inline + text


@pytest.mark.parametrize(("text", "reasoning", "answer"), CASES)
def test_the_start_of_a_text(text: str, reasoning: str, answer: str) -> None:
    shown, found, whole = split([text])
    assert (shown.rstrip(), found, whole) == (reasoning, answer, text)


@given(st.sampled_from(CASES), st.lists(st.integers(0, 40)))
def test_pieces_make_no_difference(case: tuple[str, str, str], cuts: list[int]) -> None:
    text, reasoning, answer = case
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(places)]
    shown, found, whole = split(pieces)
    assert (shown.rstrip(), found, whole) == (reasoning, answer, text)


def test_ordinary_text_is_not_held_back() -> None:
    splitter = InlineReasoning()
    for piece in ("H", "ello", " <", "think>"):
        assert [chunk.text for chunk in splitter.feed(piece) if isinstance(chunk, TextChunk)] == [piece]
    inside = InlineReasoning()
    assert list(inside.feed("<think>a b"))[-1] == ReasoningChunk("a b", inline="a b")


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("so it is\n</think>\n\nanswer", "so it is\n</think>\n\n", "answer"),
        ("</thinking>\nanswer", "</thinking>\n", "answer"),
        ("the tag `</think>` ends it", "", "the tag `</think>` ends it"),
        ("it prints\n```\nwhy\n</think>\n```\nthen", "", "it prints\n```\nwhy\n</think>\n```\nthen"),
        ("it prints <think>\nwhy\n</think>\nthen", "", "it prints <think>\nwhy\n</think>\nthen"),
        ("nothing follows\n</think>\n", "", "nothing follows\n</think>\n"),
    ],
)
def test_a_closing_tag_that_nothing_opened(text: str, reasoning: str, answer: str) -> None:
    assert split_reasoning(text) == (reasoning, answer)


@pytest.mark.parametrize("wire", ["openai", "openai/responses", "anthropic"])
@pytest.mark.parametrize("start", ["<think>see {1}</think>\n\n", "see {1}\n</think>\n\n"])
async def test_a_whole_turn(make_session: MakeSession, model_server: ModelServer, wire: str, start: str) -> None:
    look = Call("a", "read", {"path": "."})
    model_server.script = [Reply(f"{start}I look", calls=[look]), Reply(f"{start}done"), Reply("next")]
    session = make_session(wire)
    seen = await turn(session)
    assert [message["content"] for message in session.messages if message["role"] == "assistant"] == ["I look", "done"]
    if start.startswith("<"):
        assert "".join(event.delta for event in of_type(seen, events.Text)) == "I lookdone"
        assert "".join(event.delta for event in of_type(seen, events.Reasoning)) == "see {1}" * 2
    await turn(session)
    sent = json.dumps(model_server.requests[2].json)
    assert sent.count(json.dumps(f"{start}done")[1:-1]) == 1
    assert sent.count(json.dumps(f"{start}I look")[1:-1]) == 1


async def test_it_goes_back_in_front_of_its_text(make_session: MakeSession, model_server: ModelServer) -> None:
    model_server.script = [Reply("<think>why</think>\nhere", calls=[Call("a", "read", {"path": "."})]), Reply("done")]
    session = make_session()
    await turn(session)
    sent = [message for message in messages_of(model_server.requests[1]) if message["role"] == "assistant"]
    assert sent[0]["content"] == "<think>why</think>\nhere"
    assert "reasoning_content" not in sent[0]
