"""Servers whose chat template wants user and assistant in turn: local ones at once, hosted ones after a refusal."""

from __future__ import annotations

import json

import pytest

from codelet.prompt import NO_ANSWER
from tests.e2e.conftest import Codelet
from tests.e2e.test_prefix import assert_prefixes
from tests.support.program import run
from tests.support.script import Call, Reply, Stop
from tests.support.server import Recorded
from tests.support.templates import Messages, gemma, mistral, strict

LOOK = Call("look", "read", {"path": "app.py"})
WAIT = Call("wait", "bash", {"command": "sleep 60"})


def two_steps(request: Recorded) -> Reply:
    return Reply("It prints hello.") if b"tool_call_id" in request.body else Reply(calls=[LOOK])


@pytest.mark.parametrize("template", [gemma, mistral])
@pytest.mark.parametrize("transport", ["native", "litellm"])
def test_a_local_server_is_never_sent_what_its_template_refuses(codelet: Codelet, template, transport: str):
    (codelet.cwd / "CLAUDE.md").write_text("Be kind.\n")
    codelet.server.script = strict(two_steps, template)
    done = codelet("-p", "what is it?", "--transport", transport)
    assert (done.exit, done.out) == (0, "It prints hello.\n"), done.err
    first, second = codelet.server.requests
    assert "trying again" not in done.err
    for text in ("type:environment", "type:claudeMd", "what is it?", "type:gitStatus", "type:tokenStatus"):
        assert first.body.decode().count(text) == second.body.decode().count(text) == 1


@pytest.mark.parametrize(("template", "status"), [(gemma, 500), (mistral, 400)])
def test_a_hosted_server_that_refuses_is_asked_again_in_turn(codelet: Codelet, template, status: int):
    """The model server stands in for the vendor as the proxy on the way to it."""
    codelet.server.script = strict(two_steps, template, status=status)
    arguments = ["--model", "groq/strict", "--api-base", "http://api.groq.com/openai/v1"]
    settings = {"HTTP_PROXY": codelet.server.base, "NO_PROXY": None, "GROQ_API_KEY": "test-key"}
    done = run(*arguments, "-p", "what is it?", cwd=codelet.cwd, home=codelet.home, env=settings)
    assert (done.exit, done.out) == (0, "It prints hello.\n"), done.err
    refused, *others = codelet.server.requests
    assert len(others) == 2, "it is refused once and remembered"
    assert len(refused.json["messages"]) > len(others[0].json["messages"])
    assert done.err.count("alternate") == 1, "the repetition is shown"


def test_what_no_joining_cures_is_an_error(codelet: Codelet):
    def refuse(messages: Messages) -> str:
        return f"{mistral([])}{gemma([{}, {'role': 'assistant'}])}"

    codelet.server.script = strict(two_steps, refuse, status=500)
    done = codelet("-p", "what is it?")
    assert done.exit == 3
    assert "must alternate" in done.err
    assert len(codelet.server.requests) == 1


@pytest.mark.parametrize("template", [gemma, mistral])
def test_a_stopped_turn_and_later_turns_stay_in_turn(codelet: Codelet, template):
    """Prompts after a stopped tool and after a cut answer, over one growing prefix."""
    script = iter(
        [
            Reply("Let me.", calls=[WAIT]),
            Reply("half of it and", fault=Stop("stall", after=2)),
            Reply("Well."),
            Reply("ok"),
        ]
    )
    codelet.server.script = strict(lambda request: next(script), template)
    with codelet.terminal("--yes") as terminal:
        for number, (prompt, shown) in enumerate(
            (("one", "sleep 60"), ("two", "half of"), ("three", "Well."), ("four", "ok"))
        ):
            terminal.line(prompt)
            terminal.wait_for(shown)
            codelet.server.wait_for(number + 1)
            if number < 2:
                terminal.key("esc")
                terminal.wait_for("continue", timeout=10) if number == 0 else terminal.settle(0.5)
            terminal.settle()
    requests = codelet.server.requests
    assert len(requests) == 4
    assert_prefixes(requests)
    assert json.dumps(requests[-1].json["messages"]).count(NO_ANSWER) == 1
