"""A hostile repository runs none of its code in a whole run: not by codelet's own calls, not by the model's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import Codelet
from tests.support.hostile_repo import SET_UPS, configure, git, hostile
from tests.support.script import Call, Reply
from tests.support.server import ModelServer

__all__ = ["hostile"]

COMMANDS = (
    "git status",
    "git diff",
    "git log -p -2",
    "git show HEAD",
    "git blame a.txt",
    "git grep one",
    "git stash show -p",
    "cd sub && git status && git diff",
)


def embedded(repo: Path, payload: str) -> None:
    """A bare repository in a folder, as a clone can bring it."""
    inner = repo / "sub" / "inner"
    git(repo, "init", "-q", "--bare", str(inner))
    configure(inner, f"core.fsmonitor={payload}", "core.bare=false", f"core.worktree={repo / 'sub'}")


def helper(repo: Path, payload: str) -> None:
    """A program that looks for git's state, as prompts and makefiles do."""
    configure(repo, f"core.fsmonitor={payload}")


ALL = SET_UPS | {"embedded bare repository": embedded}


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


@pytest.fixture
def payload(tmp_path: Path, canary: Path) -> str:
    path = tmp_path / "payload"
    path.write_text(f'#!/bin/sh\necho ran >> {canary}\nexec cat -- "$@"\n')
    path.chmod(0o755)
    return str(path)


def run_model(codelet: Codelet, server: ModelServer, *commands: str, flags: tuple[str, ...] = ()) -> list[str]:
    """Let the model run the commands. Returns the results."""
    calls = [Call(f"c{number}", "bash", {"command": command}) for number, command in enumerate(commands)]
    server.script = [Reply(calls=calls), Reply(text="done")]
    done = codelet("-p", "go", *flags)
    assert done.exit in (0, 6), done.err
    return [m["content"] for m in server.requests[-1].json["messages"] if m["role"] == "tool"]


@pytest.mark.parametrize("set_up", ALL)
def test_no_set_up_runs_its_code(
    codelet: Codelet, model_server: ModelServer, hostile: Path, canary: Path, payload: str, set_up: str
) -> None:
    ALL[set_up](hostile, payload)
    codelet.cwd = hostile
    commands = ("cd sub/inner && git status", "cd sub/inner && git diff") if "embedded" in set_up else COMMANDS
    told = run_model(codelet, model_server, *commands)
    assert not canary.exists()
    assert "gitStatus" in model_server.requests[0].body.decode() or "embedded" in set_up
    assert "embedded" in set_up or sum("exit code 0" in text for text in told) >= 3, told


def test_the_payload_is_real(hostile: Path, canary: Path, payload: str) -> None:
    for set_up in (helper, embedded):
        set_up(hostile, payload)
        where = hostile if set_up is helper else hostile / "sub" / "inner"
        subprocess.run(["git", "status"], cwd=where, capture_output=True, check=False)
        assert canary.exists(), set_up.__name__
        canary.unlink()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_a_repository_further_up_runs_nothing_where_git_passes_over_the_nearest(
    codelet: Codelet, hostile: Path, canary: Path, payload: str, make: Callable[[Path], None]
) -> None:
    """An empty `.git` hides the configuration of the one that git takes: its filters must not run for that."""
    ALL["clean filter"](hostile, payload)
    make(hostile / "sub" / ".git")
    (hostile / "sub" / "b.txt").write_text("changed\n")
    codelet.cwd = hostile / "sub"
    for words in (("-p", "go"), ("-p", "/diff"), ("review", "--uncommitted", "--dry-run"), ("doctor",)):
        assert codelet(*words).exit is not None
        assert not canary.exists(), words


def test_git_inside_another_program(
    codelet: Codelet, model_server: ModelServer, hostile: Path, canary: Path, payload: str
) -> None:
    helper(hostile, payload)
    (hostile / "Makefile").write_text("all:\n\tgit status --short\n")
    codelet.cwd = hostile
    told = run_model(codelet, model_server, "make", flags=("--yes",))
    assert "Makefile" in told[0]
    assert not canary.exists()


def test_the_users_own_filters_go_on(
    codelet: Codelet, model_server: ModelServer, hostile: Path, canary: Path, payload: str
) -> None:
    (codelet.home / ".gitconfig").write_text(
        f'[filter "lfs"]\n\tclean = {payload}\n\trequired = true\n[user]\n\tname = me\n\temail = me@example.com\n'
    )
    (hostile / ".gitattributes").write_text("*.txt filter=lfs\n")
    (hostile / "a.txt").write_text("changed, so that git reads it\n")
    codelet.cwd = hostile
    run_model(codelet, model_server, "git add .", flags=("--yes",))
    assert canary.exists(), "a filter that the user set up, such as Git LFS, stays in force"


def test_an_approved_commit_runs_the_hooks(codelet: Codelet, model_server: ModelServer, tmp_path: Path) -> None:
    hook = codelet.cwd / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'hooked'}\n")
    hook.chmod(0o755)
    command = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x"
    assert "exit code 0" in run_model(codelet, model_server, command, flags=("--yes",))[0]
    assert (tmp_path / "hooked").exists()


def test_settings_by_variables_reach_git(codelet: Codelet, model_server: ModelServer) -> None:
    """CI runners name safe folders in variables; a header with a token in them does not reach a child."""
    model_server.script = [
        Reply(calls=[Call("c", "bash", {"command": "git config --get-regexp 'one|extraheader|fsmonitor'"})]),
        Reply(text="done"),
    ]
    variables = {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "http.extraheader",
        "GIT_CONFIG_VALUE_0": "AUTHORIZATION: basic c2VjcmV0LXRva2VuLXRoYXQtaXMtbG9uZw==",
        "GIT_CONFIG_KEY_1": "my.one",
        "GIT_CONFIG_VALUE_1": "1",
    }
    codelet("-p", "go", "--yes", env=variables)
    told = next(m["content"] for m in model_server.requests[-1].json["messages"] if m["role"] == "tool")
    assert "my.one 1" in told
    assert "core.fsmonitor false" in told
    assert "extraheader" not in told
    assert os.environ.get("GIT_CONFIG_COUNT") is None
