"""Hooks in the program: from the settings file and from --hooks, with their failures in one line each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codelet.errors import EXIT_DONE, EXIT_REFUSED, EXIT_USAGE
from tests.e2e.conftest import Codelet
from tests.support.script import Call, Reply

WRITE = Reply(calls=[Call("c1", "write", {"path": "made.txt", "content": "hello"})])


@pytest.fixture
def hooks(home: Path, tmp_path: Path) -> Path:
    """A hook of the settings file that says no to writes, and a file with one that adds context to prompts."""
    script = home / ".config/codelet/hooks/no.sh"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\necho not on a Friday >&2\nexit 2\n")
    script.chmod(0o755)
    (home / ".config/codelet/config.toml").write_text(
        '[[hooks.PreToolUse]]\nmatcher = "Write"\ncommand = "~/.config/codelet/hooks/no.sh"\n'
    )
    named = tmp_path / "hooks.json"
    entry = {"hooks": [{"type": "command", "command": "echo it is Friday"}]}
    named.write_text(json.dumps({"hooks": {"UserPromptSubmit": [entry]}}))
    return named


def test_they_add_up(codelet: Codelet, hooks: Path, repo: Path) -> None:
    codelet.server.script = [WRITE, Reply("ok"), WRITE, Reply("ok")]
    done = codelet("-p", "go", "--mode", "auto", "--hooks", str(hooks))
    assert done.exit == EXIT_REFUSED and "not on a Friday" in done.err and not (repo / "made.txt").exists()
    first, second = codelet.server.requests
    assert "it is Friday" in first.body.decode() and "not on a Friday" in second.body.decode()
    done = codelet("-p", "go", "--mode", "auto", "--yes")
    assert done.exit == EXIT_REFUSED, "no flag permits what a hook refuses"
    assert "it is Friday" not in codelet.server.requests[2].body.decode()


def test_a_prompt_is_refused(codelet: Codelet, tmp_path: Path) -> None:
    named = tmp_path / "hooks.json"
    named.write_text(json.dumps({"UserPromptSubmit": [{"command": "echo no prompts today >&2; exit 2"}]}))
    done = codelet("-p", "go", "--hooks", str(named), "--output-format", "json")
    assert done.exit == EXIT_REFUSED and "no prompts today" in json.loads(done.out)["error"]
    assert codelet.server.requests == []


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"Stop": [{"command": "/no/such/program"}]}', '{"Stop": [{"x": 1}]}', None]
)
def test_a_wrong_file_is_an_error_at_the_start(text: str | None, codelet: Codelet, tmp_path: Path) -> None:
    named = tmp_path / "hooks.json"
    if text is not None:
        named.write_text(text)
    done = codelet("-p", "go", "--hooks", str(named))
    assert done.exit == EXIT_USAGE and done.err.count("\n") == 1 and codelet.server.requests == []


def test_a_repository_brings_none(codelet: Codelet, repo: Path) -> None:
    (repo / ".codelet").mkdir()
    (repo / ".codelet/config.toml").write_text('[[hooks.Stop]]\ncommand = "touch ran"\n')
    (repo / ".claude").mkdir()
    (repo / ".claude/settings.json").write_text(json.dumps({"hooks": {"Stop": [{"command": "touch ran"}]}}))
    codelet.server.script = [Reply("ok")]
    assert codelet("-p", "go").exit == EXIT_DONE
    assert codelet("-p", "go", "--trust").exit == EXIT_USAGE
    assert not (repo / "ran").exists()


def test_without_one_nothing_is_imported(codelet: Codelet) -> None:
    codelet.server.script = [Reply("ok")]
    assert "codelet.extensions.hooks" not in codelet("-p", "hello", env={"PYTHONPROFILEIMPORTTIME": "1"}).err


def test_in_the_terminal(codelet: Codelet, home: Path, repo: Path) -> None:
    script = home / ".config/codelet/ask.sh"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text("exit 3\n")
    named = home / ".config/codelet/config.toml"
    named.write_text(f'[[hooks.PreToolUse]]\ncommand = "sh {script}"\n')
    codelet.server.script = [WRITE, Reply("all done")]
    with codelet.terminal("--mode", "auto") as terminal:
        terminal.line("go")
        terminal.wait_for("exit 3")
        terminal.type("y")
        terminal.wait_for("all done")
        terminal.line("/exit")
        assert terminal.wait_exit() == 0
    assert (repo / "made.txt").read_text() == "hello"
