"""`run` comes to what the command line comes to: the same text, exit status, error and usage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codelet import run
from tests.support.program import run as run_program
from tests.support.script import Call, HttpError, Reply, Step, Stop
from tests.support.server import ModelServer

READ = Call("c1", "read", {"path": "app.py"})
TOUCH = Call("c1", "bash", {"command": "touch made"})

BROKEN = Reply(["Half", " of", " it"], calls=[TOUCH], fault=Stop("cut", 6))  # once its call is whole
LONG = {"prompt": "word " * 60_000, "window": 32_000}

CASES: dict[str, tuple[int, str, list[Step], dict[str, Any]]] = {
    "done": (0, "Hello.", [Reply("Hello.")], {}),
    "done after a call": (0, "It greets.", [Reply("Let me look.", calls=[READ]), Reply("It greets.")], {}),
    "a server that fails": (3, "", [HttpError(503)], {}),
    "one that fails later": (3, "Let me look.", [Reply("Let me look.", calls=[READ]), HttpError(503)], {}),
    "an answer that breaks off": (3, "Half", [Reply(["Half", " of", " it"], fault=Stop("cut", 2))], {}),
    "one that breaks off, then is whole": (0, "Whole.", [BROKEN, Reply("Whole.")], {"retries": 1}),
    "one that breaks off, then none": (3, "Half of it", [BROKEN, HttpError(400)], {"retries": 1}),
    "a limit": (4, "Let me look.", [Reply("Let me look.", calls=[READ]), Reply("never")], {"max_turns": 1}),
    "a time limit": (4, "slow", [Reply(["slow", "er"], fault=Stop("stall", 2))], {"timeout": 0.5}),
    "an empty answer": (5, "", [Reply(""), Reply("")], {}),
    "a refusal in words": (5, "No.", [Reply("No.", finish="refused"), Reply("No.", finish="refused")], {}),
    "a call that nobody allowed": (6, "I may not.", [Reply(calls=[TOUCH]), Reply("I may not.")], {}),
    "a prompt that is too long": (5, "Some of it.", [Reply("Some of it.")], LONG),
    "the same, allowed": (0, "Some of it.", [Reply("Some of it.")], LONG | {"allow_cut": True}),
}


@pytest.mark.parametrize("case", CASES)
async def test_a_result_is_that_of_the_command_line(
    options: dict[str, Any], model_server: ModelServer, repo: Path, home: Path, case: str
):
    status, text, script, settings = CASES[case]
    settings = {"retries": 0, **settings}
    prompt = settings.pop("prompt", "hello")
    model_server.script = [*script, *script]
    result = await run(prompt, **(options | settings))
    used = len(model_server.requests)
    model_server.script = [HttpError(418)] * used + script
    flags = ["--model", "openai/scripted", "--api-base", model_server.openai, "--output-format", "json"]
    for name, value in settings.items():
        if name != "retries":
            flags += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    variables = {"OPENAI_API_KEY": "test-key", "CODELET_RETRIES": str(settings["retries"])}
    done = run_program("-p", "-", *flags, cwd=repo, home=home, env=variables, stdin=prompt.encode())
    told = done.json()
    assert (result.exit, done.exit) == (status, status), (result, done.out)
    assert (result.text, told["result"]) == (text, text)
    assert result.partial == told["partial"]
    assert (result.usage is None) == (told["usage"] is None)
    assert (result.error is None) == (told["error"] is None)
    if "too long" not in case:
        assert result.error == told["error"]
    assert result.messages, "the conversation behind it"
