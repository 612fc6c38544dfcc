"""The whole program over litellm: what a user sees, and how fast it lets go."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.program import descendants, lives, processor_seconds, run, start
from tests.support.script import Call, HttpError, Reply, Stop
from tests.support.server import ModelServer
from tests.support.waiting import PATIENCE, Neighbour, at_rest, until

MODELS = ("openai/scripted", "anthropic/claude-sonnet-4-5")
KEYS = {"OPENAI_API_KEY": "test-key", "ANTHROPIC_API_KEY": "test-key"}


def arguments(server: ModelServer, model: str) -> list[str]:
    return ["-p", "look", "--transport", "litellm", "--model", model, "--api-base", server.openai]


@pytest.mark.parametrize("model", MODELS)
def test_a_turn_with_a_tool(model: str, model_server: ModelServer, repo: Path, home: Path):
    (repo / "notes.txt").write_text("the needle\n", encoding="utf-8")
    model_server.script = [Reply(calls=[Call("c1", "read", {"path": "notes.txt"})]), Reply("Found it.")]
    done = run(*arguments(model_server, model), "-q", cwd=repo, home=home, env=KEYS)
    assert (done.exit, done.out.strip(), done.err) == (0, "Found it.", "")
    assert b"the needle" in model_server.requests[1].body
    assert list(home.iterdir()) == []


def test_a_refused_key_is_one_line(model_server: ModelServer, repo: Path, home: Path):
    model_server.script = [HttpError(401, "who are you")]
    done = run(*arguments(model_server, MODELS[0]), "-q", cwd=repo, home=home, env=KEYS)
    assert (done.exit, done.out) == (3, "")
    (line,) = done.complaints
    assert "OPENAI_API_KEY" in line
    assert "who are you" in line


@pytest.mark.parametrize("moment", ["import", "stream"])
def test_an_interrupt_ends_it_at_once(moment: str, model_server: ModelServer, repo: Path, home: Path):
    model_server.script = [Reply(["one ", "two"], fault=Stop("stall", after=2))]
    child = start(*arguments(model_server, MODELS[0]), cwd=repo, home=home, env=KEYS)
    if moment == "stream":
        assert model_server.wait_for(1).started.wait(PATIENCE)
        at_rest(child.pid)
    else:
        until(lambda: any(processor_seconds(each) > 0.7 for each in descendants(child.pid)), "the import")
        assert model_server.requests == []
    below = descendants(child.pid)
    with Neighbour() as clock:
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130
    assert clock.passed < 1.0
    assert b"Traceback" not in errors
    until(lambda: not any(map(lives, below)), "the end of what it started")
    if moment == "stream":
        assert model_server.requests[0].gone.wait(PATIENCE)
