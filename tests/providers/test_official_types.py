"""A session of twenty steps over each wire, judged by the types of the vendors' own packages, unknown fields forbidden.

It has thinking, pictures, parallel calls and failures. OpenAI's package comes with litellm, Anthropic's may be missing.
"""

from __future__ import annotations

from base64 import b64encode
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from codelet import events
from codelet.loop.session import Session
from codelet.messages import unpaired
from codelet.opening import mentioned
from codelet.providers import open_provider
from codelet.safety import Policy
from tests.providers.chunks import options
from tests.support import wires
from tests.support.bodies import stable_prefix
from tests.support.official import Judged, complaints, understood
from tests.support.pictures import png
from tests.support.script import Call, Reply, Tokens
from tests.support.server import ModelServer
from tests.support.sessions import TYPED
from tests.support.vendors import DIALECTS, RESPONSES

STEPS = 20


def step(number: int) -> Reply:
    """Reads, failures, unknown tools, arguments that do not parse, odd characters; at times several calls at once."""
    calls = [
        Call("", "read", {"path": "notes.txt"}),
        Call("", "read", {"path": "no/such\u0000file é 日本"}),
        Call("", "nosuch", {"a": [1, None, {"b": 2.5}]}),
        Call("", "grep", '{"pattern": ', (4,)),
        Call("", "write", {"path": "made.txt", "content": f"\ud83e\udd8a {number}"}, (3, 9)),
        Call("", "read", {"path": "shot.png"}),
    ]
    chosen = [calls[number % 6], calls[(number + 2) % 6]] if number % 3 else [calls[number % 6]]
    text = ("", "Looking. ", "Žluť \u0000 🦊")[number % 3]
    return Reply(text, calls=chosen, usage=Tokens(1_000, cache_read=900, output=20, reasoning=5))


@pytest.mark.parametrize("model", ["openai/responses/gpt-5.6", "openai/responses/gpt-5.4", "openai/responses/house-1"])
async def test_every_request_of_twenty_steps_is_valid(model: str, model_server: ModelServer, tmp_path: Path):
    (tmp_path / "notes.txt").write_text("hay\nneedle\n", encoding="utf-8")
    (tmp_path / "shot.png").write_bytes(png())
    dialect = DIALECTS[RESPONSES]
    replies = [step(number) for number in range(STEPS)]
    model_server.script = dialect.script([*replies[:10], Reply("Half."), *replies[10:], Reply("Done.")])
    provider = open_provider(model, options(model_server.openai))
    session = Session(provider, workspace=tmp_path, policy=Policy(tmp_path, yes=True), window=1_000_000)
    for prompt in ("look at @shot.png", "go on"):
        async with aclosing(session.send(prompt, None, await mentioned(session, prompt, person=TYPED))) as stream:
            seen = [event async for event in stream]
        assert not [event.reason for event in seen if isinstance(event, events.Retry)]
    await provider.close()
    assert unpaired(session.messages) == []
    assert len(model_server.requests) == STEPS + 2
    assert [found for request in model_server.requests for found in complaints(request.json)] == []
    for before, after in pairwise(model_server.requests):
        assert stable_prefix(after).startswith(stable_prefix(before))
    last = model_server.requests[-1].body.decode()
    assert all(dialect.mark(number) in last for number in range(1, STEPS + 2)), (
        "the reasoning of every answer goes back"
    )


OTHERS: list[tuple[str, str, Judged]] = [
    ("openai", "openai/chat/gpt-4.1", "chat"),
    ("anthropic", "anthropic/claude-sonnet-5-5", "messages"),
    ("anthropic", "anthropic/claude-opus-4-6", "messages"),
]


@pytest.mark.parametrize(("vendor", "model", "wire"), OTHERS, ids=[model for _, model, _ in OTHERS])
async def test_every_request_over_the_other_wires_is_valid(
    vendor: str, model: str, wire: Judged, model_server: ModelServer, tmp_path: Path
):
    (tmp_path / "notes.txt").write_text("hay\nneedle\n", encoding="utf-8")
    (tmp_path / "shot.png").write_bytes(png())
    dialect = DIALECTS[vendor]
    replies = [*(step(number) for number in range(STEPS)), Reply("Done.")]
    model_server.script = replace(dialect, rules=()).script(replies)
    provider = open_provider(model, options(model_server.openai, effort="high" if wire == "messages" else None))
    session = Session(provider, workspace=tmp_path, policy=Policy(tmp_path, yes=True), window=1_000_000)
    attached = await mentioned(session, "look at @shot.png", person=TYPED)
    async with aclosing(session.send("look at @shot.png", None, attached)) as stream:
        seen = [event async for event in stream]
    await provider.close()
    assert not [event.reason for event in seen if isinstance(event, events.Retry)]
    assert len(model_server.requests) == STEPS + 1
    assert [found for request in model_server.requests for found in complaints(request.json, wire)] == []
    last = model_server.requests[-1].body.decode()
    assert last.count(b64encode(png()).decode()) > 3
    if dialect.reasoning:
        assert all(dialect.mark(number) in last for number in range(1, STEPS + 1))
        assert "thinking" in model_server.requests[0].json


def test_the_judge_finds_what_is_wrong():
    good = {"model": "m", "stream": True, "store": False, "input": [{"role": "user", "content": "x"}]}
    assert complaints(good) == []
    for wrong in ({"max_tokens": 5}, {"input": [{"role": "tool", "content": "x"}]}, {"tools": [{"type": "function"}]}):
        assert complaints(good | wrong)
    extra = {"role": "user", "content": [{"type": "input_text", "text": "x", "cache_control": {}}]}
    assert complaints(good | {"input": [extra]})


def test_the_scripted_server_speaks_as_the_package_understands_it():
    call = Call("c1", "read", {"path": "x"}, (3,))
    replies = [
        Reply("text", reasoning=["a", "b"], calls=[call, call], usage=Tokens(10, 5, 1, 4, 2)),
        Reply("cut", finish="length", usage=None),
        Reply(refusal="I will not."),
    ]
    ends = []
    for reply in replies:
        request = {"include": ["reasoning.encrypted_content"]}
        ends.append(list(understood(wires.events(reply, request, wire="responses")))[-1])
    assert ends == ["response.completed", "response.incomplete", "response.completed"]
