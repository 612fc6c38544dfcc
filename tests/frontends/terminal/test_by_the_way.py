"""`/btw`: a side question is a request like any other: limits hold, errors are shown."""

# near: codelet/frontends/terminal/slash_commands/conversations.py

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.recorded import STATUS, ask
from tests.support.script import HttpError, Reply, Tokens
from tests.support.server import ModelServer
from tests.support.terminal import Terminal

Begin = Callable[..., Terminal]


@pytest.fixture
def begin(model_server: ModelServer, repo: Path, home: Path) -> Iterator[Begin]:
    """Opens the REPL with these words behind its name."""
    variables = {"CODELET_API_BASE": model_server.openai, "CODELET_MODEL": "openai/scripted", "OPENAI_API_KEY": "key"}
    with ExitStack() as opened:

        def start(*words: str) -> Terminal:
            terminal = opened.enter_context(Terminal(*words, cwd=repo, home=home, env=variables, columns=100, rows=40))
            terminal.wait_for(STATUS)
            return terminal

        yield start


def test_it_is_held_by_the_limits_of_the_session(begin: Begin, model_server: ModelServer) -> None:
    model_server.script = lambda request: Reply("So it is.", usage=Tokens(1_000, output=30))
    terminal = begin("--max-tokens", "90")
    ask(terminal, "begin", "So it is.", "1 step")
    ask(terminal, "/btw is it so?", "not added", "So it is.")
    assert model_server.requests[-1].json["max_tokens"] == 60, "what the limit leaves"
    ask(terminal, "/btw and this?", "not added", "So it is.")
    told = ask(terminal, "/btw again?", "limit of 90")
    assert "So it is." not in told
    assert len(model_server.requests) == 3


def test_an_answer_that_was_cut_says_so(begin: Begin, model_server: ModelServer) -> None:
    model_server.script = lambda request: Reply("Half of it", finish="length", usage=Tokens(1_000, output=30))
    ask(begin(), "/btw is it so?", "Half of it", "✗", "output limit")
    ask(begin("--max-tokens", "90"), "/btw is it so?", "Half of it", "--max-tokens leaves")


def test_a_server_that_fails_is_told(begin: Begin, model_server: ModelServer) -> None:
    model_server.script = lambda request: HttpError(400, "no such thing here")
    ask(begin(), "/btw is it so?", "✗", "no such thing here")
