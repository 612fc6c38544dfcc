"""`/model` without a name: a picker of what can be asked now, in a terminal; a list without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.recorded import STATUS, ask, recording, step
from tests.support.script import Reply
from tests.support.server import ModelServer
from tests.support.terminal import Terminal


@pytest.fixture
def offered() -> Iterator[ModelServer]:
    """A server in Ollama's place that has three models."""
    with ModelServer([Reply("hello from it")], models=("qwen3", "gemma4", "llama9")) as server:
        yield server


def keys(server: ModelServer) -> dict[str, str | None]:
    return {"OLLAMA_HOST": f"127.0.0.1:{server.port}", "ANTHROPIC_API_KEY": "k"}


def test_arrows_and_enter_choose_letters_narrow_and_escape_leaves_it(
    tmp_path: Path, repo: Path, home: Path, offered: ModelServer
) -> None:
    with Terminal("--model", recording(tmp_path, step("x")), cwd=repo, home=home, env=keys(offered)) as terminal:
        terminal.wait_for(STATUS)
        terminal.line("/model")
        terminal.wait_for("Choose a model")
        first = terminal.settle(0.15)
        assert "▸ anthropic/claude-sonnet-5-5" in first
        assert "$2/10" in first
        assert all(len(line) <= 80 for line in first.splitlines())
        terminal.key("esc")
        terminal.wait_for("/model NAME switches")
        assert "Choose a model" not in terminal.text
        terminal.line("/model")
        terminal.wait_for("Choose a model")
        terminal.type("olla")
        terminal.wait_for("▸ ollama/qwen3")
        assert "anthropic/" not in terminal.text.rpartition("Choose a model")[2]
        terminal.key("down")
        terminal.wait_for("▸ ollama/gemma4")
        terminal.key("up")
        terminal.key("up")
        terminal.wait_for("▸ ollama/llama9")
        terminal.key("enter")
        terminal.wait_for("model: ollama/llama9 (http://127.0.0.1")
        terminal.wait_for("128,000 tokens")
        assert "hello from it" in ask(terminal, "say hello", "hello from it")
        assert offered.requests[-1].json["model"] == "llama9"
        ask(terminal, "/model sonet", "mean sonnet?")
        ask(terminal, "/model sonnet", "model: anthropic/claude-sonnet-5-5")


def test_with_an_address_what_is_there_is_offered(repo: Path, home: Path, offered: ModelServer) -> None:
    """Everything that is named is asked there: a model of another server, or of a vendor, would not be found."""
    with ModelServer([Reply("hello from here")], models=("house-1", "openai/house-2")) as there:
        address = ("--model", "house-1", "--api-base", there.openai)
        with Terminal(*address, cwd=repo, home=home, env=keys(offered)) as terminal:
            terminal.wait_for(STATUS)
            terminal.line("/model")
            terminal.wait_for("▸ house-1")
            list_ = terminal.settle(0.15).rpartition("Choose a model")[2]
            assert "openai/openai/house-2" in list_
            assert "ollama/" not in list_ and "anthropic/" not in list_
            terminal.key("down")
            terminal.key("enter")
            terminal.wait_for("model: openai/openai/house-2 (http://127.0.0.1")
            ask(terminal, "say hello", "hello from here")
            assert there.requests[-1].json["model"] == "openai/house-2"
            there.models = ()
            ask(terminal, "/model", "lists no models")
    assert offered.requests == []
