"""Confined commands: real bubblewrap and real Landlock, with canaries outside."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codelet import prompt
from codelet.safety import Policy
from codelet.safety.sandbox import Confinement, Sandbox, Use, find_confinement
from codelet.safety.sandbox.places import MadeFile
from codelet.safety.verdict import Answer, Mode, Question, Touch
from codelet.system.process import child_environment, run_child
from tests.e2e.conftest import Codelet
from tests.safety.conftest import call, toolbox
from tests.support.bodies import messages_of
from tests.support.program import ROOT, processes_with
from tests.support.recorded import Start, step
from tests.support.script import Call, Reply
from tests.support.server import ModelServer, Recorded

WAYS = ("bubblewrap", "landlock")


_ACT = """
git config core.fsmonitor ./x
git commit --allow-empty -m x
echo x > .git/hooks/pre-commit
mv .git moved
rm -rf .git
"""


def path_for(way: str, tmp_path: Path) -> str:
    """A PATH that makes codelet take this way."""
    plain = os.environ["PATH"]
    if way == "bubblewrap":
        return plain
    folder = tmp_path / "programs"
    folder.mkdir()
    fake = folder / "bwrap"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    return f"{folder}:{plain}"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        yield server


def once(first: Reply) -> Callable[[Recorded], Reply]:
    """A script: the calls, and after their results the end."""
    return lambda request: Reply(text="done") if "tool_call_id" in request.body.decode() else first


def results(server: ModelServer) -> list[str]:
    return [m["content"] for m in messages_of(server.requests[-1]) if m["role"] == "tool"]


def way_works(way: str) -> None:
    import asyncio

    found = asyncio.run(find_confinement(Path.cwd()))
    if way == "bubblewrap" and found.way != way:
        pytest.skip(f"needs a working bwrap: {found.detail}")


def test_settings_made_by_a_command_are_told(codelet: Codelet, model_server: ModelServer) -> None:
    way_works("bubblewrap")
    command = "sh ./act.sh"
    (codelet.cwd / "act.sh").write_text("mkdir .vscode && echo '{}' > .vscode/settings.json; echo '{}' > .mcp.json")
    model_server.script = once(Reply(calls=[Call("c", "bash", {"command": command})]))
    codelet("-p", "go", "--mode", "auto")
    told = results(model_server)[0]
    assert "aside-1-mcp_json" in told and "aside-1-vscode" in told


async def test_a_home_as_workspace_keeps_its_keys(codelet: Codelet, model_server: ModelServer) -> None:
    found = await find_confinement(Path("/"))
    assert found.way is None
    assert "whole file system" in found.detail
    if (await find_confinement(codelet.cwd)).way != "bubblewrap":
        pytest.skip("needs a working bwrap")
    (codelet.home / ".ssh").mkdir()
    (codelet.home / ".ssh" / "id_rsa").write_text("planted key\n")
    (codelet.home / "look.sh").write_text("cat .ssh/id_rsa; echo x > made")
    model_server.script = once(Reply(calls=[Call("c", "bash", {"command": "sh look.sh"})]))
    codelet("-p", "go", "--mode", "auto", cwd=codelet.home)
    assert "planted" not in results(model_server)[0]
    assert (codelet.home / "made").exists()


@pytest.mark.parametrize("way", WAYS)
def test_nothing_gets_out(
    codelet: Codelet, model_server: ModelServer, tmp_path: Path, listener: socket.socket, way: str
) -> None:
    way_works(way)
    (codelet.cwd / "src").mkdir()
    (codelet.home / ".ssh").mkdir()
    (codelet.home / ".ssh" / "id_rsa").write_text("planted key\n")
    (codelet.cwd / "act.sh").write_text(_ACT)
    port = listener.getsockname()[1]
    mark = f"2718{os.getpid()}"
    unix = tmp_path / "s"
    local = socket.socket(socket.AF_UNIX)
    local.bind(os.fspath(unix))
    local.listen()
    local.setblocking(False)
    commands = {
        "write": "echo made > src/made.txt && cat src/made.txt",
        "home": f"echo x > {codelet.home}/canary; echo x >> /etc/canary; mkdir /root/canary; ls {codelet.home}",
        "git": "sh ./act.sh",
        "link": f"ln -s {codelet.home} src/link; echo x > src/link/canary; rm src/link",
        "tcp": f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected",
        "unix": f"python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{unix}'); print('connected')\"",
        "key": f"cat {codelet.home}/.ssh/id_rsa" if way == "bubblewrap" else "true",
        "parent": "cat /proc/$PPID/environ | tr '\\0' '\\n' | grep KEY; ls /proc | grep -c '^[0-9]'; true",
        "remount": "mount -o remount,rw / ; mount -t tmpfs x /mnt; echo x > /mnt/canary; unshare -m true; true",
        "behind": f"(setsid sleep {mark} &) ; echo started",
    }
    model_server.script = [
        Reply(calls=[Call(name, "bash", {"command": command}) for name, command in commands.items()]),
        Reply(text="done"),
    ]
    done = codelet("-p", "go", "--mode", "auto", env={"PATH": path_for(way, tmp_path)})
    assert done.exit == 0, done.err
    told = dict(zip(commands, results(model_server), strict=True))
    assert told["write"] == "made\n[exit code 0]"
    assert (codelet.cwd / "src" / "made.txt").read_text() == "made\n"
    assert not (codelet.home / "canary").exists()
    assert not Path("/etc/canary").exists()
    assert not Path("/root/canary").exists()
    assert not Path("/mnt/canary").exists()
    assert "fsmonitor" not in (codelet.cwd / ".git" / "config").read_text()
    assert not (codelet.cwd / ".git" / "hooks" / "pre-commit").exists()
    assert (codelet.cwd / ".git" / "HEAD").exists()
    for name in ("tcp", "unix"):
        assert "connected" not in told[name]
        assert "sandbox" in told[name]
    for server in (listener, local):
        with pytest.raises(BlockingIOError):
            server.accept()
    local.close()
    assert "planted" not in told["key"]
    assert "test-key" not in told["parent"]
    assert "started" in told["behind"]
    assert not processes_with(mark)


async def test_both_ways_are_found(tmp_path: Path) -> None:
    found = await find_confinement(tmp_path)
    if found.way is None:
        pytest.skip(f"needs a sandbox: {found.detail}")
    assert found.way in WAYS


async def test_why_the_first_way_does_not_work_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    monkeypatch.setenv("PATH", path_for("landlock", tmp_path))
    told = (await find_confinement(workspace)).detail
    assert "bubblewrap: " in told and "exit code 1" in told
    (tmp_path / "programs" / "bwrap").write_text("#!/bin/sh\nprintf 'no room\\nand more\\n' >&2\nexit 1\n")
    told = (await find_confinement(workspace)).detail
    assert "bubblewrap: no room" in told and "\n" not in told and "more" not in told


def test_it_is_looked_for_at_the_first_command_only(
    codelet: Codelet, model_server: ModelServer, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "bwrap").write_text(f"#!/bin/sh\necho asked >> {log}\nexit 1\n")
    (folder / "bwrap").chmod(0o755)
    env = {"PATH": f"{folder}:{os.environ['PATH']}"}
    read = Reply(calls=[Call("r", "read", {"path": "app.py"})])
    bash = Reply(calls=[Call("b", "bash", {"command": "echo hello"})])
    model_server.script = once(read)
    codelet("-p", "go", "--mode", "auto", env=env)
    assert not log.exists()
    model_server.script = once(bash)
    codelet("-p", "go", "--sandbox", "off", env=env)
    assert not log.exists()
    for mode in ("ask", "auto"):
        codelet("-p", "go", "--mode", mode, env=env)
    assert log.read_text() == "asked\n" * 2


def test_on_confines_every_mode_and_off_none(codelet: Codelet, model_server: ModelServer) -> None:
    way_works("bubblewrap")
    for use, made in (("on", False), ("off", True), ("auto", True)):
        outside = codelet.home / use
        model_server.script = once(Reply(calls=[Call("c", "bash", {"command": f"echo x > {outside}"})]))
        codelet("-p", "go", "--yes", "--sandbox", use)
        assert outside.exists() is made, use


def test_the_network_is_left_where_the_user_wants_it(
    codelet: Codelet, model_server: ModelServer, listener: socket.socket
) -> None:
    way_works("bubblewrap")
    command = f"exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]} && echo connected"
    model_server.script = [Reply(calls=[Call("c", "bash", {"command": command})]), Reply(text="done")]
    codelet("-p", "go", "--mode", "auto", "--sandbox-network")
    assert results(model_server) == ["connected\n[exit code 0]"]
    listener.accept()[0].close()


async def test_without_any_it_is_said_and_nothing_runs_by_itself(tmp_path: Path) -> None:
    for use, expected in (("on", "no sandbox works here (nothing)"), ("auto", "none works here")):
        sandbox = Sandbox(tmp_path, "on" if use == "on" else "auto")
        sandbox.found = Confinement(None, "nothing")
        box = toolbox(tmp_path, Policy(tmp_path, "auto"), sandbox=sandbox)
        status, text = await call(box, "bash", command="touch made.txt")
        assert status in ("failed", "refused")
        assert expected in text
        assert not (tmp_path / "made.txt").exists()


def test_what_it_is_and_confines_by_use_and_by_what_was_found(tmp_path: Path) -> None:
    for found, way in ((None, None), (Confinement(None, "nothing"), "none"), (Confinement("landlock", ""), "landlock")):
        for use in ("auto", "on", "off"):
            sandbox = Sandbox(tmp_path, use)
            sandbox.found = found
            assert sandbox.state == ("off" if use == "off" else way)
            assert sandbox.wanted == (use != "off")
            assert sandbox.kind(None) == ("workspace" if use == "on" else None)
            assert sandbox.kind("read-only") == "read-only"


async def test_what_a_command_made_that_is_protected_is_told_once(tmp_path: Path) -> None:
    """Also after one in the background, until it has ended and the next look."""
    sandbox = Sandbox(tmp_path)
    sandbox.found = Confinement("landlock", "")
    environment = child_environment()
    assert sandbox.newly_protected() == [] and not sandbox.held
    sandbox.wrap("true", environment)
    (tmp_path / "AGENTS.md").write_text("made\n")
    assert sandbox.newly_protected() == [MadeFile("AGENTS.md", "aside-1-AGENTS_md")]
    assert sandbox.newly_protected() == [], "no command ran since"
    sandbox.wrap("true", environment)
    assert sandbox.newly_protected() == []
    sandbox.wrap("sleep 1 &", environment)
    sandbox.hold()
    assert sandbox.held
    (tmp_path / "CLAUDE.md").write_text("made\n")
    sandbox.wrap("true", environment)
    assert sandbox.newly_protected() == [MadeFile("CLAUDE.md")], "a command alongside does not hide it"
    assert sandbox.newly_protected() == []
    sandbox.release()
    assert sandbox.held, "what it made last was not looked at"
    (tmp_path / "GEMINI.md").write_text("made\n")
    assert sandbox.newly_protected() == [MadeFile("GEMINI.md")] and not sandbox.held
    sandbox.wrap("true", environment, "read-only")
    assert sandbox.newly_protected() == []


@pytest.mark.parametrize("calls", ["00", "ff" * 8, ""])
async def test_without_its_filter_of_calls_a_command_does_not_run(tmp_path: Path, calls: str) -> None:
    helper = ROOT / "codelet" / "safety" / "sandbox" / "landlock_helper.py"
    request = {"write": [str(tmp_path)], "read": ["/"], "list": [], "network": False, "calls": calls, "helped": {}}
    request["guarded"] = []
    request["temporary"] = str(tmp_path)
    words = [sys.executable, "-I", "-S", str(helper), json.dumps(request), "touch", str(tmp_path / "ran")]
    done = await run_child(words, cwd=tmp_path, timeout=60, output_limit=1000)
    assert done.exit_code == 126
    said = f".*: {os.strerror(errno.EINVAL)}"
    assert re.match(f"{said}|.*no Landlock", done.output), done.output
    assert not (tmp_path / "ran").exists()


def test_doctor_says_which(codelet: Codelet, tmp_path: Path) -> None:
    for way in WAYS:
        way_works(way)
        done = codelet("doctor", "--json", env={"PATH": path_for(way, tmp_path)})
        found = {check["name"]: check for check in json.loads(done.out)["checks"]}["sandbox"]
        assert way in found["detail"].lower().partition(" ")[0].rstrip(",")


def test_the_status_line_says_it(start: Start) -> None:
    way_works("bubblewrap")
    terminal = start(step("Hello."), columns=120)
    terminal.wait_for("% of ")
    terminal.line("/mode auto")
    terminal.wait_for("commands run in bubblewrap")
    terminal.wait_for("auto · in bubblewrap")


async def test_that_no_sandbox_works_is_told_once(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.found = Confinement(None, "nothing")
    box = toolbox(tmp_path, Policy(tmp_path), sandbox=sandbox)
    for _ in range(2):
        await call(box, "bash", command="ls")
    told = box.notices.take()
    assert len(told) == 1
    assert "no sandbox" in told[0]
    assert "without a sandbox" in box.permissions()


@pytest.mark.parametrize("use", ["off", "auto"])
async def test_commands_are_judged_as_confined_only_where_they_are(tmp_path: Path, use: Use) -> None:
    sandbox = Sandbox(tmp_path, use)
    sandbox.found = Confinement("bubblewrap", "it works")
    box = toolbox(tmp_path, Policy(tmp_path), sandbox=sandbox)
    assert await box.confines([Touch("run", "ls")]) == (use == "auto")


def test_the_model_is_told_what_confines_its_commands(tmp_path: Path) -> None:
    def told(mode: Mode, *, on: bool = False, **settings: bool) -> str:
        sandbox = Sandbox(tmp_path, use="on" if on else "auto", **settings)
        return toolbox(tmp_path, Policy(tmp_path, mode), sandbox=sandbox).permissions()

    values = {"mode": "ask", "others": prompt.OTHERS_REFUSED}
    assert told("ask", on=True) == prompt.PERMISSIONS_CONFINED.format(**values, network=prompt.NO_NETWORK)
    assert told("ask") == prompt.PERMISSIONS_READING.format(**values, network=prompt.NO_NETWORK)
    assert told("auto") == told("auto", on=True) == prompt.PERMISSIONS_AUTO.format(network=prompt.NO_NETWORK)
    assert told("ask", network=True) == prompt.PERMISSIONS_READING.format(**values, network="")
    assert toolbox(tmp_path, Policy(tmp_path)).permissions() == prompt.PERMISSIONS_BARE.format(**values)


@pytest.mark.parametrize("answer", [True, False])
async def test_a_call_leaves_the_sandbox_by_a_yes_only(tmp_path: Path, answer: bool) -> None:
    way_works_here = await find_confinement(tmp_path)
    if way_works_here.way is None:
        pytest.skip(f"needs a sandbox: {way_works_here.detail}")

    async def ask(question: Question) -> Answer:
        assert "outside" in question.verdict.reason
        return Answer(allow=answer)

    workspace = tmp_path / "work"
    workspace.mkdir()
    box = toolbox(workspace, Policy(workspace, "auto"), ask, sandbox=Sandbox(workspace))
    await call(box, "bash", command=f"echo x > {tmp_path}/outside")
    assert not (tmp_path / "outside").exists()
    status, _ = await call(box, "bash", command=f"echo x > {tmp_path}/outside", unconfined=True)
    assert (status == "done") == answer == (tmp_path / "outside").exists()


async def test_what_the_star_of_a_rule_allows_writes_the_workspace_alone(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "Makefile").write_text("x:\n\ttouch inside; touch ../outside\n")
    sandbox = Sandbox(workspace)
    if not await sandbox.works():
        pytest.skip("no sandbox works here")
    for rule, written in (("bash(make *)", False), ("bash(make x)", True)):
        box = toolbox(workspace, Policy(workspace, allow=[rule]), sandbox=sandbox)
        await call(box, "bash", command="make x")
        assert (workspace / "inside").exists()
        assert (tmp_path / "outside").exists() is written, rule


def test_the_result_in_json_says_what_confined_commands(
    codelet: Codelet, model_server: ModelServer, tmp_path: Path
) -> None:
    way_works("bubblewrap")
    for first, words, said in (
        (Call("c", "bash", {"command": "ls"}), (), "bubblewrap"),
        (Call("c", "read", {"path": "app.py"}), (), None),
        (Call("c", "bash", {"command": "ls"}), ("--sandbox", "off"), "off"),
    ):
        model_server.script = once(Reply(calls=[first]))
        done = codelet("-p", "go", "--output-format", "json", *words)
        assert json.loads(done.out)["sandbox"] == said
