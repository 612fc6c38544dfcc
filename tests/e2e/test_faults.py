"""What the machine does to a run: no descriptors, no /tmp, a clock that jumps, a terminal that is gone.

Each asserts the message, the status, and what is left.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from codelet.tools.file_search import Query, search_files
from tests.e2e.conftest import KEYS, Codelet
from tests.support.amount import amount
from tests.support.program import CODELET, descendants, processes_with, run, start
from tests.support.script import Call, Reply
from tests.support.waiting import until

READ = Call("r", "read", {"path": "app.py"})
BIG = "x" * 10_000_000


def shell(codelet: Codelet, line: str, *arguments: str, **more: str) -> tuple[int, str, str]:
    """Run codelet as "$@" in a line of bash."""
    words = (line, "bash", *CODELET, *codelet.arguments, *arguments)
    done = run(*words, command=("bash", "-c"), cwd=codelet.cwd, home=codelet.home, env=KEYS | more)
    assert "Traceback" not in done.err and "a bug" not in done.err, done.err
    return done.exit, done.out, done.err


@pytest.mark.parametrize("most", [7, 8, 9, 10, 12, 16])
def test_without_descriptors_it_is_an_error_and_no_bug(codelet: Codelet, most: int) -> None:
    codelet.server.script = lambda request: Reply("the answer")
    status, out, err = shell(codelet, f'ulimit -n {most}; exec "$@"', "-p", "go", PYTHONDONTWRITEBYTECODE="1")
    assert (status, out) == (0, "the answer\n") or (status in (2, 3) and "Too many open files" in err), (status, err)


def test_what_no_flag_would_permit_is_not_said_to_be_permitted_by_one(codelet: Codelet) -> None:
    os.symlink("/etc/hostname", codelet.cwd / "out.txt")
    write = Call("w", "write", {"path": "out.txt", "content": "x"})
    codelet.server.script = [Reply(calls=[write]), Reply("done")]
    done = codelet("-p", "go", "--yes")
    assert done.exit == 6 and "outside the workspace" in done.err
    assert "--yes would permit" not in done.err and "--allow" not in done.err


def test_ten_thousand_calls_in_one_answer(codelet: Codelet, tmp_path: Path) -> None:
    file = tmp_path / "session.json"
    for count, status in ((1_000, 0), (10_000, 3)):
        calls = [Call(f"c{number}", "nothing", {}) for number in range(count - 1)]
        codelet.server.script = [Reply(calls=[*calls, READ]), Reply("done")]
        codelet.server.requests.clear()
        done = codelet("-p", "go", "--export", str(file), "--force", "--output-format", "json", timeout=300)
        assert done.exit == status, done.err
        saved = json.loads(file.read_text())["messages"]
        made = sum(len(each.get("tool_calls") or ()) for each in saved)
        assert sum(each["role"] == "tool" for each in saved) == made, "one result for each"
        if status == 0:
            assert made == count
        else:
            assert "tool calls" in str(done.json()["error"]) and done.json()["partial"]


def test_an_argument_of_ten_megabytes_with_an_export(codelet: Codelet, tmp_path: Path) -> None:
    write = Call("w", "write", {"path": "big.txt", "content": BIG})
    codelet.server.script = [Reply(calls=[write]), Reply("done")]
    file = tmp_path / "session.json"
    done = codelet("-p", "go", "--yes", "--export", str(file), timeout=300)
    assert (done.exit, done.out) == (0, "done\n"), done.err
    assert "does not answer" not in done.err
    assert (codelet.cwd / "big.txt").stat().st_size == len(BIG) and json.loads(file.read_text())["messages"]


async def test_a_folder_of_very_many_files(codelet: Codelet, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    count = amount(20_000, 1_000_000)
    for number in range(count):
        os.close(os.open(folder / f"f{number:07}", os.O_CREAT | os.O_WRONLY))
    calls = [
        Call("f", "find", {"pattern": f"f{count - 1:07}"}), Call("r", "read", {"path": "."}),
        Call("g", "grep", {"pattern": "nowhere"}), Call("b", "bash", {"command": "ls | wc -l"}),
    ]  # fmt: skip
    codelet.server.script = [Reply(calls=calls), Reply("found")]
    done = codelet("-p", "go", cwd=folder, timeout=300, measure=True)
    assert (done.exit, done.out) == (0, "found\n"), done.err
    told = [str(each["content"]) for each in codelet.server.requests[-1].json["messages"] if each["role"] == "tool"]
    assert f"f{count - 1:07}" in told[0] and str(count) in told[3] and all(len(text) < 60_000 for text in told)
    assert done.peak_kib < 100_000
    assert (await search_files(Query(folder, "f000000?"), folder)).hits
    shutil.rmtree(folder)


JUMPS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
static long calls;
int clock_gettime(clockid_t clock, struct timespec *at) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, at);
  if (clock == CLOCK_REALTIME) at->tv_sec += (++calls % 2) ? 3600L * 24 * 400 : -3600L * 24 * 400;
  return result;
}
"""


@pytest.mark.needs("cc")
def test_a_clock_that_jumps_back_and_forth(codelet: Codelet, tmp_path: Path) -> None:
    library = tmp_path / "jumps.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-x", "c", "-o", str(library), "-", "-ldl"], input=JUMPS, text=True, check=True
    )
    file = tmp_path / "session.json"
    for words in (("--export", str(file)), ("--resume", str(file))):
        codelet.server.script = lambda request: (
            Reply("done") if request.json["messages"][-1]["role"] == "tool" else Reply(calls=[READ])
        )
        done = codelet(
            "-p",
            "go",
            *words,
            "--output-format",
            "json",
            "--log",
            str(tmp_path / "log"),
            env={"LD_PRELOAD": str(library)},
        )
        assert done.exit == 0, done.err
        assert "Traceback" not in done.err and 0 <= float(str(done.json()["duration"])) < 300
    slow = Call("b", "bash", {"command": "sleep 60", "timeout": 1})
    codelet.server.script = lambda request: (
        Reply("done") if request.json["messages"][-1]["role"] == "tool" else Reply(calls=[slow])
    )
    assert codelet("-p", "go", "--yes", env={"LD_PRELOAD": str(library)}, timeout=40).exit == 0


@pytest.mark.needs("bwrap")
def test_without_a_temporary_folder(codelet: Codelet) -> None:
    """Nothing can be written to /tmp, and nothing of it is there."""
    root = str(Path(__file__).parents[2])
    probe = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--bind", str(codelet.cwd), "/mnt", "--tmpfs", "/tmp"]
    probe += ["--ro-bind", root, root, "--remount-ro", "/tmp"]
    if subprocess.run([*probe, *CODELET, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("needs bwrap with the right to make namespaces, and a Python outside of /tmp")
    calls = [READ, Call("b", "bash", {"command": "ls"}), Call("w", "write", {"path": "new.txt", "content": "x\\n"})]
    codelet.server.script = [Reply(calls=calls), Reply("done")]
    words = [*CODELET, *codelet.arguments, "-p", "go", "--yes", "--output-format", "stream-json"]
    inside = [*probe, "--chdir", "/mnt", "--setenv", "HOME", "/mnt", *words]
    done = run(*inside[1:], command=("bwrap",), cwd=codelet.cwd, home=codelet.home, env=KEYS)
    assert done.exit == 0, done.err
    statuses = {event["name"]: event["status"] for event in done.lines() if event["type"] == "tool_result"}
    assert (statuses["read"], statuses["write"]) == ("done", "done") and "Traceback" not in done.err


def test_a_terminal_that_vanishes_ends_the_turn_and_its_commands(codelet: Codelet) -> None:
    codelet.server.script = [Reply(calls=[Call("b", "bash", {"command": "sleep 98713"})])]
    with codelet.terminal("--yes", "--export", str(codelet.home / "session.json")) as terminal:
        terminal.line("go")
        terminal.until(lambda: processes_with("sleep 98713"), "the command")
        pid = terminal.pid
        terminal.child.ptyproc.fileobj.close()  # the owner of the descriptor, which would close it once more
        terminal.child.closed = terminal.child.ptyproc.closed = True
        os.waitpid(pid, 0)
        until(lambda: not processes_with("sleep 98713"), "the end of the command")
        terminal.child.terminated = terminal.child.ptyproc.terminated = True
    saved = json.loads((codelet.home / "session.json").read_text())["messages"]
    made = [call["id"] for each in saved for call in each.get("tool_calls") or ()]
    assert made and [each["tool_call_id"] for each in saved if each["role"] == "tool"] == made


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_full_pipe_that_nobody_reads_does_not_keep_a_signal_out(codelet: Codelet, number: int) -> None:
    codelet.server.script = lambda request: Reply(["word " * 2_000] * 100)
    words = [*codelet.arguments, "-p", "go", "--output-format", "stream-json"]
    child = start(*words, cwd=codelet.cwd, home=codelet.home, env=KEYS)
    try:
        assert child.stdout is not None
        until(lambda: codelet.server.requests, "the request")
        until(lambda: "pipe_write" in _waits_in(child.pid) or child.poll() is not None, "a full pipe")
        os.kill(child.pid, number)
        assert child.wait(timeout=30) in (130, 143)
        assert not descendants(child.pid)
    finally:
        child.kill()
        child.communicate()


def _waits_in(pid: int) -> str:
    """What the kernel says the process waits for; all of it, where that is hidden from us."""
    try:
        said = Path(f"/proc/{pid}/wchan").read_text()
    except OSError:
        said = ""
    return said if said not in ("", "0") else "pipe_write"


def test_a_small_memory_group_ends_the_command_and_not_codelet(codelet: Codelet) -> None:
    group = Path("/sys/fs/cgroup/memory") / f"codelet-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(200 << 20))
    except OSError as error:
        pytest.skip(f"needs a memory group of its own: {error.strerror}")
    hungry = "python3 -c 'x = [bytearray(1 << 20) for _ in range(2000)]'"
    codelet.server.script = [Reply(calls=[Call("b", "bash", {"command": hungry})]), Reply("done")]
    try:
        line = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        status, out, err = shell(codelet, line, "-p", "go", "--yes", "--sandbox", "off", "--output-format", "json")
        assert status == 0, err
        told = str(codelet.server.requests[-1].json["messages"][-1]["content"])
        assert "signal 9" in told or "exit code 137" in told or "MemoryError" in told
        assert json.loads(out)["result"] == "done"
    finally:
        until(lambda: not (group / "cgroup.procs").read_text(), "an empty group")
        group.rmdir()
