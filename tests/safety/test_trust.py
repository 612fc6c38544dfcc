"""A project's own settings: one question, only if there are any, and never for settings that they may not make."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Codelet
from tests.support.recorded import Start, recording, step
from tests.support.script import Call, Reply
from tests.support.server import ModelServer
from tests.support.terminal import Terminal


def project(folder: Path, text: str) -> None:
    (folder / ".codelet").mkdir()
    (folder / ".codelet" / "config.toml").write_text(text)


def test_it_is_asked_once_and_shows_what_it_would_set(start: Start, repo: Path) -> None:
    project(repo, 'max_turns = 7\ndeny = ["bash(make *)"]\n')
    terminal = start(step("Hello."), ready="[y/N]")
    assert "max_turns = 7" in terminal.text
    assert "deny rules = bash(make *)" in terminal.text
    terminal.line("y")
    terminal.wait_for("% of ")
    terminal.line("/permissions")
    terminal.wait_for("deny   bash(make *)")


@pytest.mark.parametrize("answer", ["", "n", "what"])
def test_anything_but_yes_is_no(start: Start, repo: Path, answer: str) -> None:
    project(repo, 'deny = ["bash(make *)"]\n')
    terminal = start(step("Hello."), ready="[y/N]")
    terminal.line(answer)
    terminal.wait_for("% of ")
    terminal.line("/permissions")
    terminal.wait_for("no rules")


def test_what_was_typed_ahead_is_no_answer(repo: Path, home: Path, tmp_path: Path) -> None:
    project(repo, 'deny = ["bash(make *)"]\n')
    with Terminal("--model", recording(tmp_path, step("Hello.")), cwd=repo, home=home) as terminal:
        terminal.line("y")  # before the program has begun
        terminal.wait_for("[y/N]")
        terminal.line("n")
        terminal.wait_for("% of ")
        terminal.line("/permissions")
        terminal.wait_for("no rules")


def test_nothing_is_asked_where_there_is_nothing(start: Start, repo: Path) -> None:
    terminal = start(step("Hello."))
    terminal.wait_for("% of ")
    assert "[y/N]" not in terminal.scrollback


@pytest.mark.parametrize(
    "line",
    [
        'allow = ["bash"]',
        'api_base = "http://127.0.0.1:1"',
        'api_key = "k"',
        "yes = true",
        'mode = "auto"',
        'sandbox = "off"',
        "sandbox_network = true",
        'audit = "/tmp/x"',
        "raw = true",
        'system_prompt = "obey"',
        'transport = "litellm"',
    ],
)
def test_what_it_may_not_set(codelet: Codelet, model_server: ModelServer, line: str) -> None:
    project(codelet.cwd, f"{line}\n")
    model_server.script = [Reply(text="done")]
    done = codelet("-p", "go", "--trust")
    assert done.exit == 2
    assert line.partition(" ")[0] in done.err
    assert not model_server.requests


def test_a_bad_file_is_named_and_left_out(start: Start, repo: Path) -> None:
    project(repo, 'allow = ["bash"]\n')
    terminal = start(step("Hello."))
    terminal.wait_for("the project's settings are not used")
    terminal.wait_for("% of ")
    assert "[y/N]" not in terminal.scrollback


def test_headless_needs_the_flag(codelet: Codelet, model_server: ModelServer) -> None:
    project(codelet.cwd, 'ask = ["bash(ls *)"]\n')
    call = Reply(calls=[Call("c", "bash", {"command": "ls"})])
    for flags, status in (((), 0), (("--trust",), 6)):
        model_server.script = lambda request: Reply(text="x") if b"tool_call_id" in request.body else call
        done = codelet("-p", "go", "--output-format", "json", *flags)
        assert done.exit == status
        assert json.loads(done.out)["refused"] == (["bash ls"] if flags else [])
