"""Programs that codelet starts never come from the workspace, and its own git looks at no other repository."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from codelet.safety.sandbox import find_confinement
from codelet.safety.sandbox.command_lines import Bounds, landlock_argv
from codelet.safety.sandbox.places import protected_places
from codelet.system.git import run_git
from codelet.system.process import find_program
from tests.e2e.conftest import Codelet
from tests.support.bodies import messages_of
from tests.support.program import descendants
from tests.support.recorded import STATUS, Start, bash, step
from tests.support.repo import git, plain
from tests.support.script import Call, Reply
from tests.support.server import ModelServer
from tests.support.waiting import until

pytestmark = pytest.mark.needs("git")


def trap(folder: Path, name: str, canary: Path) -> Path:
    """A program of the workspace that leaves a mark and continues as the real one."""
    folder.mkdir(parents=True, exist_ok=True)
    real = find_program(name, Path("/nowhere")) or "/bin/true"
    (folder / name).write_text(f'#!/bin/sh\ntouch {canary}\nexec {real} "$@"\n')
    (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


def first(*folders: object) -> dict[str, str]:
    return {"PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]])}


def test_git_and_ripgrep_are_not_taken_from_the_workspace(
    codelet: Codelet, model_server: ModelServer, tmp_path: Path, canary: Path
) -> None:
    """As with an activated environment in the project, as spelled and through a link."""
    folder = codelet.cwd / ".venv" / "bin"
    for name in ("git", "rg", "bash", "sh"):
        trap(folder, name, canary)
    (tmp_path / "link").symlink_to(folder)
    calls = [Call("g", "grep", {"pattern": "hello"}), Call("b", "bash", {"command": "pwd"})]
    for path in (folder, tmp_path / "link"):
        model_server.requests.clear()
        model_server.script = [Reply(calls=calls), Reply("done")]
        done = codelet("-p", "hi", env=first(path))
        assert done.exit == 0, done.err
        assert not canary.exists(), path
        assert "gitStatus" in model_server.requests[0].body.decode()
    subprocess.run([folder / "git", "version"], check=True, capture_output=True)
    assert canary.exists(), "the trap itself does not work"


@pytest.mark.parametrize("path", ["", ".", "NAMED"])
def test_nothing_is_run_to_tell_of_the_machine(
    codelet: Codelet, model_server: ModelServer, canary: Path, path: str
) -> None:
    trap(codelet.cwd, "uname", canary)
    env = first(path.replace("NAMED", str(codelet.cwd)))
    assert codelet("-p", "/env", env=env).exit == 0
    model_server.script = [Reply("done")]
    assert codelet("-p", "hi", "--export", "work.json", env=env).exit == 0
    assert not canary.exists()


@pytest.mark.parametrize("pager", [None, "less", "more -f"])
def test_the_pager_is_not_taken_from_the_workspace(start: Start, repo: Path, canary: Path, pager: str | None) -> None:
    for name in ("less", "more"):
        trap(repo, name, canary)
    env = first(".") | {"PAGER": pager}
    terminal = start(step("", bash("seq 1 200")), step("Counted."), arguments=("--yes",), env=env)
    terminal.wait_for(STATUS)
    terminal.line("count")
    terminal.wait_for("2 steps")
    terminal.wait_for(STATUS)
    terminal.child.send("\x0f")
    until(lambda: descendants(terminal.pid), "the pager")
    terminal.wait_for("\n  12\n")
    terminal.type("q")
    assert not canary.exists()


def test_git_that_is_only_in_the_workspace_is_not_run(
    codelet: Codelet, model_server: ModelServer, canary: Path
) -> None:
    folder = trap(codelet.cwd / ".venv" / "bin", "git", canary)
    model_server.script = [Reply("done")]
    assert codelet("-p", "hi", env={"PATH": str(folder)}).exit == 0
    assert "gitStatus" not in model_server.requests[0].body.decode()
    said = "".join(codelet("doctor", env={"PATH": str(folder)}).out.split())
    assert f"{folder}/git" in said
    assert not canary.exists()


def test_the_sandbox_does_not_run_a_bwrap_that_a_command_made(
    codelet: Codelet, model_server: ModelServer, canary: Path
) -> None:
    if asyncio.run(find_confinement(codelet.cwd)).way != "bubblewrap":
        pytest.skip("needs a working bwrap")
    folder = codelet.cwd / "tools" / "bin"
    folder.mkdir(parents=True)
    made = f'#!/bin/sh\\ntouch {canary}\\nexec /usr/bin/bwrap "$@"\\n'
    (codelet.cwd / "put.sh").write_text(f"printf '{made}' > tools/bin/bwrap; chmod +x tools/bin/bwrap\n")
    calls = [Call("a", "bash", {"command": "sh put.sh"}), Call("b", "bash", {"command": "sh put.sh; true"})]
    model_server.script = [Reply(calls=calls), Reply("done")]
    done = codelet("-p", "go", "--mode", "auto", "--sandbox", "on", env=first(folder))
    assert done.exit == 0, done.err
    assert not canary.exists()
    told = [m["content"] for m in messages_of(model_server.requests[-1]) if m["role"] == "tool"]
    assert all("Read-only file system" in text for text in told), told


def test_folders_of_programs_are_read_only_in_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of PATH; their neighbours can be written, also if rights can only be granted."""
    for name in (".venv/bin", ".venv/lib", "src", "tools"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{tmp_path}/.venv/bin:{tmp_path}/tools:/usr/bin:src")
    protected = protected_places(tmp_path)
    assert protected == [f"{tmp_path}/.venv/bin", f"{tmp_path}/tools"]
    writable = json.loads(landlock_argv(["true"], Bounds(str(tmp_path), protected=tuple(protected)))[4])["write"]
    assert sorted(writable) == [f"{tmp_path}/.venv/lib", f"{tmp_path}/src"]


def test_codelets_own_python_is_read_only_in_the_sandbox(tmp_path: Path) -> None:
    import sys

    inside = Path(sys.prefix).parent
    assert sys.prefix in protected_places(inside) or Path(sys.prefix).is_symlink()


@pytest.mark.parametrize("by", ["file", "link", "commondir", "core.worktree"])
def test_codelets_own_git_looks_at_no_other_repository(
    codelet: Codelet, model_server: ModelServer, tmp_path: Path, by: str
) -> None:
    other = plain(tmp_path / "other")
    git(other, "checkout", "-q", "-b", "secret-plan")
    (other / "secret-file").write_text("x")
    directory = codelet.cwd / ".git"
    if by == "core.worktree":
        with (directory / "config").open("a") as file:
            file.write(f"[a][core]worktree={other}\n")
    elif by == "commondir":
        (directory / "commondir").write_text(f"{other}/.git\n")
    else:
        directory.rename(tmp_path / "away")
        if by == "file":
            directory.write_text(f"gitdir: {other}/.git\n")
        else:
            directory.symlink_to(other / ".git")
    model_server.script = [Reply("done")]
    assert codelet("-p", "hi").exit == 0
    assert "secret-" not in model_server.requests[0].body.decode()
    commands = ("status", "diff", "ls-files", "log", "show", "symbolic-ref")
    assert [asyncio.run(run_git(codelet.cwd, command)) for command in commands] == [None] * len(commands)


def test_the_users_git_variables_do_not_lead_codelets_own_git_elsewhere(
    codelet: Codelet, model_server: ModelServer, tmp_path: Path
) -> None:
    other = plain(tmp_path / "other")
    git(other, "checkout", "-q", "-b", "secret-plan")
    variables = {"GIT_DIR": f"{other}/.git", "GIT_TRACE": f"{tmp_path}/trace", "GIT_TRACE2": f"{tmp_path}/trace"}
    model_server.script = [Reply("done")]
    assert codelet("-p", "hi", env=variables).exit == 0
    said = model_server.requests[0].body.decode()
    assert "gitStatus" in said
    assert "secret-plan" not in said
    assert not (tmp_path / "trace").exists()
