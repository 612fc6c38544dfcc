"""A list of ten thousand messages: a step's own work is what is new, not the list."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from codelet.loop.session import Session
from codelet.messages import Message, assistant, tool_call, tool_result, user
from codelet.providers.protocol import Provider
from tests.support.script import Call, Reply, Tokens
from tests.support.server import ModelServer
from tests.support.sessions import provider_of


def history(length: int) -> list[Message]:
    messages: list[Message] = []
    for number in range(length // 4):
        call = tool_call(f"c{number}", "read", '{"path": "app.py"}')
        messages += [user(f"prompt {number}"), assistant(None, [call]), tool_result(call["id"], "x"), assistant("ok")]
    return messages


def calls_in_codelet(counts: Counter[str]) -> Any:
    """A profiler that counts the calls of codelet's own functions."""

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and "/codelet/" in frame.f_code.co_filename:
            counts[frame.f_code.co_qualname] += 1

    return profile


async def calls_of_one_turn(
    server: ModelServer, repo: Path, wire: str, length: int, usage: Tokens | None
) -> Counter[str]:
    """The calls of a turn of ten steps, after one turn that has seen the list."""

    def script(request):
        if request.number == 0 or request.number == 10:
            return Reply("ok", usage=usage)
        return Reply(calls=[Call(f"r{request.number}", "read", {"path": "app.py"})], usage=usage)

    server.requests.clear()
    server.script = script
    provider: Provider = provider_of(server, wire)
    session = Session(provider, workspace=repo, window=10_000_000)
    session.adopt(history(length))
    async for _ in session.send("go"):
        pass
    counts: Counter[str] = Counter()
    sys.setprofile(calls_in_codelet(counts))
    try:
        async for _ in session.send("go"):
            pass
    finally:
        sys.setprofile(None)
        await provider.close()
    assert len(server.requests) == 11
    assert len(server.requests[-1].messages) > length // 3
    return counts


@pytest.mark.parametrize("usage", [Tokens(1000, cache_read=900), None], ids=["usage", "no usage"])
@pytest.mark.parametrize("wire", ["openai", "openai/responses", "anthropic"])
async def test_a_step_does_not_walk_the_list(model_server: ModelServer, repo: Path, wire: str, usage: Tokens | None):
    short = await calls_of_one_turn(model_server, repo, wire, 40, usage)
    long = await calls_of_one_turn(model_server, repo, wire, 10_000, usage)
    more = {name: (short[name], count) for name, count in long.items() if count > short[name] + 200}
    assert more == {}, "these were called for each message of the list"
