"""codelet writes no file: strace watches every call that could, and the folders are compared besides."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import Codelet
from tests.support.program import CODELET, ROOT
from tests.support.script import Call, HttpError, Reply, Stop

CALLS = (
    "open,openat,creat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,mkdir,mkdirat,mknod,mknodat,"
    "unlink,unlinkat,rmdir,truncate,ftruncate,chmod,fchmodat,utimensat"
)
OPEN = re.compile(r'^(?:\d+ +)?open(?:at)?\((?:AT_FDCWD|\d+)?(?:<[^>]*>)?,? ?"([^"]*)", ([A-Z_|0-9x]+)')
CALL = re.compile(r"^(?:\d+ +)?([a-z0-9]+)\((.*)")
DEVICES = re.compile(r"^/dev/(null|tty|pts/\d+|ptmx)$")
# bubblewrap builds a sandbox on a file system in memory that nobody else sees, and says who is who in there.
PRIVATE = re.compile(r'"(?:uid_map|gid_map|setgroups|newroot|oldroot|/newroot/[^"]*)"')
READ_ONLY = {
    "O_RDONLY",
    "O_CLOEXEC",
    "O_DIRECTORY",
    "O_NONBLOCK",
    "O_NOFOLLOW",
    "O_LARGEFILE",
    "O_NOCTTY",
    "O_PATH",
}


def offences(trace: str) -> list[str]:
    """The traced calls that write, create, rename or remove something on disk, tried ones too."""
    found: list[str] = []
    for line in trace.splitlines():
        if PRIVATE.search(line):
            continue
        if opened := OPEN.match(line):
            path, flags = opened.groups()
            if not set(flags.split("|")) <= READ_ONLY and not DEVICES.match(path):
                found.append(line)
        elif CALL.match(line) and not line.endswith("resumed>"):
            found.append(line)
    return found


def strace(tmp_path: Path) -> tuple[list[str], Path]:
    """The command that traces, and where it writes; skips where tracing is forbidden."""
    trace = tmp_path / "trace"
    command = [
        "strace",
        "-f",
        "-qq",
        "--seccomp-bpf",
        "-s",
        "300",
        "-e",
        f"trace={CALLS}",
        "-e",
        "signal=none",
    ]
    command += ["-o", str(trace), "--"]
    probe = subprocess.run([*command, "true"], capture_output=True)
    if probe.returncode:
        pytest.skip("needs strace with the right to trace")
    return command, trace


def warm_up(codelet: Codelet) -> None:
    """Let the interpreter write its own byte code files first: those are not codelet's."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(ROOT / "codelet")], check=True)
    codelet.server.script = lambda request: Reply("ok")
    codelet("-p", "go")
    codelet.server.requests.clear()


READS = Reply(
    "Let me look. ",
    calls=[
        Call("a", "read", {"path": "app.py"}),
        Call("b", "grep", {"pattern": "hello"}),
        Call("c", "find", {"pattern": "*.py"}),
        Call("d", "read", {"path": "."}),
    ],
)


@pytest.mark.needs("strace", "git")
def test_a_one_shot_run_opens_nothing_for_writing(codelet: Codelet, tmp_path: Path):
    warm_up(codelet)
    command, trace = strace(tmp_path)
    codelet.server.script = [HttpError(503, retry_after=0), READS, Reply("It prints hello.")]
    done = codelet("-p", "what?", stdin=b"some more\n", command=(*command, *CODELET))
    assert done.exit == 0, done.err
    text = trace.read_text()
    assert "app.py" in text, "the trace saw the program"
    assert offences(text) == []


@pytest.mark.needs("strace", "git")
def test_a_plan_and_a_background_task_open_nothing_for_writing(codelet: Codelet, tmp_path: Path):
    warm_up(codelet)
    command, trace = strace(tmp_path)
    calls = [
        Call("p", "plan", {"plan": "Goal: look\n[ ] look around"}),
        Call("b", "bash", {"command": "echo ready; sleep 600", "background": True}),
        Call("w", "bash", {"command": "wait %1 for ready"}),
    ]
    codelet.server.script = [Reply(calls=calls), Reply("It is there.")]
    done = codelet("-p", "go", "--yes", command=(*command, *CODELET))
    assert done.exit == 0, done.err
    assert "task 1:" in done.err
    assert "supervisor.py" in trace.read_text(), "the trace saw the task"
    assert offences(trace.read_text()) == []


@pytest.mark.needs("strace", "git")
def test_a_repl_session_opens_nothing_for_writing(codelet: Codelet, tmp_path: Path):
    warm_up(codelet)
    command, trace = strace(tmp_path)
    codelet.server.script = [
        READS,
        Reply("It prints hello."),
        Reply(["never", " ends"], fault=Stop("stall", 3)),
        Reply("Second answer."),
        Reply("Third answer."),
    ]
    with codelet.terminal(command=(*command, *CODELET)) as terminal:
        terminal.line("what does it do?")
        terminal.wait_for("It prints hello.")
        terminal.settle()
        terminal.line("and more?")
        codelet.server.wait_for(3).started.wait(10)
        terminal.wait_for("never")
        terminal.key("esc")
        terminal.wait_for("stopped")
        terminal.settle()
        terminal.line("continue")
        terminal.wait_for("Second answer.")
        for command_line in ("/help", "/context", "/model openai/other", "/clear"):
            terminal.settle()
            terminal.line(command_line)
        terminal.settle()
        terminal.line("again")
        terminal.wait_for("Third answer.")
        terminal.settle()
        terminal.key("up")
        terminal.settle()
        assert "again" in terminal.text
        terminal.key("ctrl-c")
        terminal.settle()
        terminal.line("exit")
        assert terminal.wait_exit() == 0
    text = trace.read_text()
    assert "app.py" in text, "the trace saw the program"
    assert offences(text) == []


def test_the_folders_are_as_they_were(codelet: Codelet, tmp_path: Path, tree):
    warm_up(codelet)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    watched = (codelet.cwd, codelet.home, temporary)
    before = [tree(folder) for folder in watched]
    git_before = sorted(str(path) for path in (codelet.cwd / ".git").rglob("*"))
    codelet.server.script = [READS, Reply("It prints hello."), READS, Reply("Again.")]
    environment = {
        "TMPDIR": str(temporary),
        "XDG_CACHE_HOME": str(temporary),
        "XDG_STATE_HOME": str(temporary),
    }
    assert codelet("-p", "what?", env=environment).exit == 0
    with codelet.terminal(env=environment) as terminal:
        terminal.settle()
        terminal.line("what?")
        terminal.wait_for("Again.")
        terminal.settle()
        terminal.key("ctrl-d")
        assert terminal.wait_exit() == 0
    assert [tree(folder) for folder in watched] == before
    assert sorted(str(path) for path in (codelet.cwd / ".git").rglob("*")) == git_before


@pytest.mark.needs("strace")
def test_the_watch_sees_a_write(tmp_path: Path):
    """The other tests mean something only if a write would show."""
    command, trace = strace(tmp_path)
    script = f"touch {tmp_path}/made; mv {tmp_path}/made {tmp_path}/moved; echo x > /dev/null; cat /etc/hostname"
    subprocess.run([*command, shutil.which("sh") or "sh", "-c", script], check=True, capture_output=True)
    found = offences(trace.read_text())
    assert any("O_CREAT" in line for line in found)
    assert any(line.split(maxsplit=1)[1].startswith("rename") for line in found)
    assert not any("/dev/null" in line or "hostname" in line for line in found)
