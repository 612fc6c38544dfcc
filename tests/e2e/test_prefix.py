"""What a turn costs at the provider's cache: each request's bytes go on where the one before ended."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.conftest import Codelet
from tests.support import repo as repositories
from tests.support.bodies import field, stable_prefix, system_bytes
from tests.support.program import run
from tests.support.script import Call, Reply, Tokens
from tests.support.server import Recorded

STEPS = 200


def long_turn(request: Recorded) -> Reply:
    """Two hundred steps of reading, at times with a search beside it; usage grows; then an answer."""
    number = request.number
    if number >= STEPS:
        return Reply("Done.")
    calls = [Call(f"call-{number}", "read", {"path": "app.py", "offset": 1}, (4, 9))]
    if number % 3 == 0:
        calls.append(Call(f"more-{number}", "grep", {"pattern": f"hello{number % 7}"}))
    usage = Tokens(1000 + 700 * number, cache_read=600 * number, output=40)
    return Reply(f"Step {number}. ", reasoning="on" if number % 2 else (), calls=calls, usage=usage)


def assert_prefixes(requests: list[Recorded]) -> None:
    for before, after in pairwise(requests):
        prefix = stable_prefix(before)
        assert stable_prefix(after).startswith(prefix), f"request {after.number} does not go on from the last"
        assert len(stable_prefix(after)) > len(prefix)


def test_two_hundred_steps_extend_one_prefix(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    codelet.server.script = long_turn
    # The usage grows past a usual window: a compaction, which may change the prefix, is not what this is about.
    done = codelet("-p", "go", "--max-turns", "250", "--window", "1000000", timeout=100)
    assert done.exit == 0, done.err
    requests = codelet.server.requests
    assert len(requests) == STEPS + 1
    assert_prefixes(requests)
    assert len({field(request, "tools") for request in requests}) == 1
    assert len({system_bytes(request) for request in requests}) == 1
    assert len({request.connection for request in requests}) == 1, "one connection is kept open"
    for request in requests:
        text = request.body.decode()
        assert text.count("type:gitStatus -->") <= 1
        assert text.count("type:tokenStatus -->") == 1
        assert text.count("type:environment -->") == 1


def test_a_hosted_server_gets_reminders_as_messages_and_one_prefix(codelet: Codelet):
    """The model server stands in for the vendor as the proxy on the way to it."""
    codelet.server.script = lambda request: long_turn(request) if request.number < 12 else Reply("Done.")
    arguments = ["--model", "groq/scripted", "--api-base", "http://api.groq.com/openai/v1", "-p", "go"]
    settings = {"HTTP_PROXY": codelet.server.base, "NO_PROXY": None, "GROQ_API_KEY": "test-key"}
    done = run(*arguments, cwd=codelet.cwd, home=codelet.home, env=settings)
    assert done.exit == 0, done.err
    requests = codelet.server.requests
    assert len(requests) == 13
    assert [message["role"] for message in requests[1].json["messages"][-3:]] == ["tool", "user", "user"]
    assert_prefixes(requests)
    assert len({request.connection for request in requests}) == 1


def test_anthropic_gets_a_cache_mark_before_the_volatile_reminders(codelet: Codelet):
    codelet.wire = "anthropic"
    codelet.server.script = lambda request: long_turn(request) if request.number < 3 else Reply("Done.")
    assert codelet("-p", "go").exit == 0
    for request in codelet.server.requests:
        marks = request.body.count(b'"cache_control"')
        assert 1 <= marks <= 4
        blocks = [block for message in request.json["messages"] for block in message["content"]]
        marked = [place for place, block in enumerate(blocks) if "cache_control" in block]
        volatile = [place for place, block in enumerate(blocks) if "type:tokenStatus -->" in json.dumps(block)]
        assert marked[-1] < volatile[0]
        assert marked[-1] >= len(blocks) - 3


def test_tools_and_system_prompt_are_the_same_bytes_in_the_next_session(codelet_on_each_wire: Codelet, tmp_path: Path):
    codelet = codelet_on_each_wire
    codelet.server.script = lambda request: Reply("ok")
    other = repositories.plain(tmp_path / "other place", {"x.txt": "x"})
    codelet("-p", "one", env={"PYTHONHASHSEED": "1"})
    codelet("-p", "two", cwd=other, env={"PYTHONHASHSEED": "2", "LANG": "C", "TERM": "dumb"})
    codelet("-p", "three", stdin=b"more", env={"EXTRA": str(os.getpid())})
    first, *others = codelet.server.requests
    for request in others:
        assert field(request, "tools") == field(first, "tools") != b""
        assert system_bytes(request) == system_bytes(first) != b""


@pytest.mark.parametrize("reply", [Reply("one"), Reply("x", calls=[Call("c", "read", {"path": "app.py"})])])
def test_a_later_turn_extends_the_prefix_too(codelet_on_each_wire: Codelet, reply: Reply):
    codelet = codelet_on_each_wire
    codelet.server.script = [reply, Reply("two"), Reply("three"), Reply("four")]
    with codelet.terminal() as terminal:
        for prompt, last in (("first", 1), ("second", 2), ("third", 3)):
            terminal.settle()
            terminal.line(prompt)
            codelet.server.wait_for(last).done.wait(10)
        terminal.settle()
    assert_prefixes(codelet.server.requests)


def test_a_reduction_changes_the_prefix_once_and_all_that_went_can_be_recalled(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    lines = (f"value_{n} = compute_{n % 17}(src/mod_{n % 9}.py, key_{n})\n" for n in range(4_000))
    (codelet.cwd / "long.py").write_text("".join(lines))

    def script(request: Recorded) -> Reply:
        usage = Tokens(len(request.body) // 4, cache_read=0, output=20)
        number = request.number // 2
        if request.number % 2:
            return Reply(f"Read {number}.", usage=usage)
        places = (1 + 70 * (2 * number + half) for half in (0, 1))
        calls = [
            Call(f"c{request.number}{place}", "read", {"path": "long.py", "offset": place, "limit": 70})
            for place in places
        ]
        return Reply("Reading.", calls=calls, usage=usage)

    codelet.server.script = script
    with codelet.terminal("--window", "64000", "--narrative=off") as terminal:
        for number in range(25):
            terminal.settle()
            terminal.line(f"prompt {number}")
            codelet.server.wait_for(2 * number + 2).done.wait(10)
        terminal.settle()
        assert "summarized the rest" in " ".join(terminal.scrollback.split())  # it may be wrapped
    broken = [
        after
        for before, after in pairwise(codelet.server.requests)
        if not stable_prefix(after).startswith(stable_prefix(before))
    ]
    assert len(broken) == 1
    named = [request for request in codelet.server.requests if b"`recall` has the rest" in request.body]
    assert named[0] is broken[0] and named[-1] is codelet.server.requests[-1]
    assert all(f"prompt {number}" in broken[0].body.decode() for number in range(10))
