"""Child processes: bounded output, time limits, and nothing left behind, whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from codelet.system.process import StartError, capture, child_environment, find_program, outside_path, run_child
from codelet.system.process.guarded import Guarded
from codelet.system.process.tree import become_subreaper
from tests.support.amount import amount
from tests.support.waiting import Neighbour, happens

PROMPT = 0.75
"""Seconds a cancel may take, as a neighbour counts them: 0.2 for SIGTERM, 0.2 for SIGKILL, and some work."""

UNTIL = "until [ -e {} ]; do sleep 0.02; done"
"""A command that waits for a file."""

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


@pytest.fixture
def number() -> str:
    """A duration for `sleep` that no other process on this machine has."""
    return f"9{os.getpid()}{random.randrange(10**6):06}"


def sleepers(number: str) -> list[int]:
    """The processes that sleep for this duration; zombies have no command line and do not count."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if number.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def exact(words: str) -> int:
    """How many processes have just this command line."""
    found = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found += (entry / "cmdline").read_bytes() == words.encode()
    return found


def zombies() -> list[int]:
    """Our children that were not reaped."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [pid for pid in map(int, listed) if state(pid) == "Z"]


def state(pid: int) -> str:
    """The state letter of a process; empty where it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


async def appeared(number: str, count: int = 1) -> None:
    await happens(lambda: len(sleepers(number)) >= count, "the start of the child")


async def shell(command: str, cwd: Path) -> object:
    return await run_child(command, cwd=cwd, timeout=100.0, output_limit=10_000)


async def test_output_in_order_and_exit_code(tmp_path: Path) -> None:
    done = await run_child("echo a; echo b >&2; echo c; exit 3", cwd=tmp_path, timeout=10, output_limit=1000)
    assert (done.exit_code, done.output, done.dropped_bytes) == (3, "a\nb\nc\n", 0)
    assert not done.timed_out
    assert not done.background
    assert done.seconds > 0


async def test_words_are_not_split_by_a_shell(tmp_path: Path) -> None:
    done = await run_child(["printf", "%s|", "a b", "$HOME"], cwd=tmp_path, timeout=10, output_limit=1000)
    assert done.output == "a b|$HOME|"


async def test_stdin_is_empty_and_the_session_is_its_own(tmp_path: Path) -> None:
    done = await run_child("cat; ps -o sid= -p $$ | tr -d ' '; echo $$", cwd=tmp_path, timeout=10, output_limit=1000)
    session, pid = done.output.split()
    assert session not in (pid, str(os.getsid(0))), "that of the process that stands above it"


async def test_signal_is_a_negative_exit_code(tmp_path: Path) -> None:
    assert (await run_child("kill -SEGV $$", cwd=tmp_path, timeout=10, output_limit=100)).exit_code == -11


TRACED = """
import asyncio
from pathlib import Path
from codelet.system.process import capture, run_child

async def main():
    here = Path(".")
    ends = {(await capture(["true"], cwd=here)).exit_code for _ in range(20)}
    ends |= {(await run_child("exit 0", cwd=here, timeout=60, output_limit=100)).exit_code for _ in range(5)}
    print(ends)

asyncio.run(main())
"""


@pytest.mark.needs("strace")
@pytest.mark.long
def test_a_child_that_is_traced_has_the_exit_code_that_it_ended_with(tmp_path: Path) -> None:
    """Its parent may ask how it ended only a moment after it did: codelet took that moment for a kill."""
    tracer = ["strace", "-f", "-qq", "-e", "trace=openat", "-e", "signal=none", "-o", "/dev/null", "--"]
    if subprocess.run([*tracer, "true"], capture_output=True).returncode:
        pytest.skip("needs strace with the right to trace")
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    command = [*tracer, sys.executable, "-c", TRACED]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout == "{0}\n", done.stderr


async def test_head_and_tail_of_long_output(tmp_path: Path) -> None:
    done = await run_child("seq 1 100000", cwd=tmp_path, timeout=20, output_limit=1000)
    lines = done.output.splitlines()
    assert lines[0] == "1"
    assert lines[-1] == "100000"
    marker = next(line for line in lines if line.startswith("[…"))
    kept = [line for line in lines if line != marker]
    assert f" {100000 - len(kept)} lines, {done.dropped_bytes} bytes " in marker
    assert len("\n".join(kept)) + 1 + done.dropped_bytes == sum(len(str(n)) + 1 for n in range(1, 100001))
    assert sum(map(len, kept)) <= 1000


@pytest.mark.parametrize("command", ["yes | head -c {}M", "head -c {}M /dev/zero", "yes | head -c {}M >&2"])
def test_memory_stays_bounded(command: str, tmp_path: Path) -> None:
    """In a process of its own, so that its peak is that of this command alone.

    What is shown meanwhile is at most 4 KiB each 50 ms, however long the machine takes.
    """
    size = amount(64, 300)
    command = command.format(size)
    program = f"""
import asyncio, time
from pathlib import Path
from codelet.system.process import run_child
pieces = []
begun = time.monotonic()
done = asyncio.run(run_child({command!r}, cwd=Path("."), timeout=600, output_limit=30000, on_output=pieces.append))
beats = (time.monotonic() - begun) / 0.05 + 2
assert done.dropped_bytes > {size} * 1_000_000, done.dropped_bytes
assert len(done.output) < 31000, len(done.output)
assert sum(map(len, pieces)) <= beats * 4100, (sum(map(len, pieces)), beats)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
    root = Path(__file__).resolve().parents[3]
    argv = [sys.executable, "-W", "error", "-c", program]
    peak = subprocess.run(
        argv, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, check=True
    )
    assert int(peak.stdout) < 40_000, "KiB"


async def test_streaming(tmp_path: Path) -> None:
    """The command goes on only once its first line has come."""
    pieces: list[str] = []

    def take(text: str) -> None:
        pieces.append(text)
        (tmp_path / "seen").touch()

    command = f"echo one; {UNTIL.format('seen')}; printf '\\xc3'; sleep 0.1; printf '\\xa9\\n'"
    done = await run_child(command, cwd=tmp_path, timeout=100, output_limit=1000, on_output=take)
    assert not done.timed_out
    assert pieces[0] == "one\n"
    assert "".join(pieces) == "one\né\n"


async def test_time_limit(tmp_path: Path, number: str) -> None:
    with Neighbour() as clock:
        done = await run_child(f"echo before; sleep {number}; echo after", cwd=tmp_path, timeout=0.3, output_limit=1000)
    assert clock.passed < 1.5
    assert done.timed_out
    assert done.output == "before\n"
    assert done.exit_code < 0
    assert not sleepers(number)


async def test_time_limit_of_one_that_ignores_sigterm(tmp_path: Path, number: str) -> None:
    command = f"trap '' TERM; for i in 1 2 3; do sleep {number}; done"
    with Neighbour() as clock:
        done = await run_child(command, cwd=tmp_path, timeout=0.2, output_limit=1000)
    assert clock.passed < 1.5
    assert done.timed_out
    assert not sleepers(number)


BACKGROUND = {
    "job": "sleep {n} &",
    "job that keeps no pipe": "sleep {n} >/dev/null 2>&1 &",
    "own session": "setsid sleep {n} & sleep 0.1",
    "own session, parent gone": "(setsid sleep {n} >/dev/null 2>&1 &); sleep 0.1",
    "daemon without environment": "(env -i setsid bash -c 'sleep {n} & exec sleep {n}' >/dev/null 2>&1 &); sleep 0.2",
    "stopped": "sleep {n} & kill -STOP $!",
    "ignores SIGTERM": "(trap '' TERM; sleep {n}; sleep {n}) & sleep 0.1",
}


@pytest.mark.parametrize("command", BACKGROUND.values(), ids=BACKGROUND)
async def test_what_is_left_in_the_background_is_ended(command: str, tmp_path: Path, number: str) -> None:
    done = await run_child(f"{command.format(n=number)}\necho done", cwd=tmp_path, timeout=100, output_limit=1000)
    assert done.background
    assert not done.timed_out
    assert done.output == "done\n"
    assert done.exit_code == 0
    assert not sleepers(number)
    assert not zombies()


@pytest.mark.parametrize("command", BACKGROUND.values(), ids=BACKGROUND)
async def test_cancel_ends_the_whole_tree(command: str, tmp_path: Path, number: str) -> None:
    task = asyncio.create_task(shell(f"{command.format(n=number)}\nsleep {number}", tmp_path))
    await appeared(number, 2)
    await asyncio.sleep(0.2)  # clock: any moment will do
    with Neighbour() as clock, pytest.raises(asyncio.CancelledError):
        task.cancel()
        await task
    assert clock.passed < PROMPT
    assert not sleepers(number)
    assert not zombies()


async def test_a_guard_that_ends_nothing_is_killed_and_leaves_no_orphan_unreaped(tmp_path: Path, number: str) -> None:
    """The supervisor ends its orphans: with a session of their own, and no environment to know them by."""
    command = f"(env -i setsid sleep {number} &); echo $PPID > guard; touch begun; sleep {number}"
    task = asyncio.create_task(shell(command, tmp_path))
    await happens(lambda: (tmp_path / "begun").exists() and exact(f"sleep\0{number}\0") == 2)
    guard = int((tmp_path / "guard").read_text())
    os.kill(guard, signal.SIGSTOP)
    await happens(lambda: state(guard) == "T")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not sleepers(number)
    assert state(guard) == ""
    assert not zombies()


async def test_what_others_ended_is_reaped_by_the_guard(tmp_path: Path, number: str) -> None:
    """Nothing below it lives when asked to end all: it still knows how the command ended, and hands on nothing."""
    words = ["/bin/sh", "-c", f"(setsid sleep {number} &); touch begun; exec sleep {number}"]
    program = Guarded(words, tmp_path, child_environment())
    over = asyncio.Event()
    program.watch(over.set)
    await program.starts()
    assert program.pid is not None
    await happens(lambda: (tmp_path / "begun").exists() and exact(f"sleep\0{number}\0") == 2)
    os.kill(program.pid, signal.SIGSTOP)
    await happens(lambda: state(program.pid or 0) == "T")
    ended = sleepers(number)
    for pid in ended:
        os.kill(pid, signal.SIGTERM)
    await happens(lambda: all(state(pid) == "Z" for pid in ended))
    program.terminate()
    os.kill(program.pid, signal.SIGCONT)
    await over.wait()
    program.close()
    assert program.stdout is not None
    program.stdout.close()
    assert program.returncode == -signal.SIGTERM
    assert not any(map(state, ended))
    assert not zombies()


async def test_what_the_shell_does_not_wait_for_gets_a_moment(tmp_path: Path) -> None:
    done = await run_child("echo late > >(sleep 0.03; cat)", cwd=tmp_path, timeout=20, output_limit=1000)
    assert done.output == "late\n"
    assert not done.background


async def test_what_was_killed_but_is_not_at_its_end_was_not_left_in_the_background(
    tmp_path: Path, number: str
) -> None:
    """As bubblewrap's inner process is on a busy machine; here a freezer holds it."""
    group = Path("/sys/fs/cgroup/freezer") / f"codelet-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"needs a freezer of its own: {error.strerror}")
    state, members = group / "freezer.state", group / "cgroup.procs"
    freeze = f"echo $! > {members}; echo FROZEN > {state}; until grep -q FROZEN {state}; do sleep 0.02; done"
    try:
        for kill, left in (("kill -9 $!", False), ("true", True)):
            command = f"sleep {number} >/dev/null 2>&1 & {freeze}; {kill}; echo done"
            done = await run_child(command, cwd=tmp_path, timeout=20, output_limit=1000)
            assert (done.output, done.background) == ("done\n", left)
            state.write_text("THAWED")
            await happens(lambda: not members.read_text())
    finally:
        state.write_text("THAWED")
        await happens(lambda: not members.read_text())
        group.rmdir()


async def test_parallel_commands_do_not_end_each_other(tmp_path: Path, number: str) -> None:
    own_session = f"(setsid bash -c '{UNTIL.format('go')}; echo alive; touch said' &)"
    command = f"{own_session}; touch begun; {UNTIL.format('said')}"
    slow = asyncio.create_task(run_child(command, cwd=tmp_path, timeout=100, output_limit=1000))
    await happens((tmp_path / "begun").exists)
    done = await run_child(f"env -i setsid sleep {number} & sleep 0.1", cwd=tmp_path, timeout=100, output_limit=1000)
    assert done.background
    assert not slow.done()
    (tmp_path / "go").touch()
    assert (await slow).output == "alive\n"
    assert not sleepers(number)


async def test_an_orphan_is_known_while_others_run(tmp_path: Path, number: str) -> None:
    """By the marker in its environment: it has another session, another group and another parent."""
    other = asyncio.create_task(run_child("touch begun; sleep 1000", cwd=tmp_path, timeout=100, output_limit=1000))
    await happens((tmp_path / "begun").exists)
    command = f"(setsid sleep {number} >/dev/null 2>&1 &); sleep 0.2"
    done = await run_child(command, cwd=tmp_path, timeout=20, output_limit=1000)
    assert not other.done()
    assert done.background
    assert not sleepers(number)
    other.cancel()
    with pytest.raises(asyncio.CancelledError):
        await other


async def test_children_of_others_live_on(tmp_path: Path, number: str) -> None:
    """A library in this process may have children of its own, started by a thread of its own."""
    become_subreaper()
    words = f"touch begun; {UNTIL.format('go')}; sleep 1000 &"
    command = asyncio.create_task(run_child(words, cwd=tmp_path, timeout=100, output_limit=1000))
    await happens((tmp_path / "begun").exists)
    gate = asyncio.Event()

    async def library() -> None:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def work() -> None:
            other = subprocess.Popen(["sleep", number], start_new_session=True)
            try:
                (tmp_path / "go").touch()
                loop.call_soon_threadsafe(gate.set)
                asyncio.run_coroutine_threadsafe(done.wait(), loop).result(60)
                assert other.poll() is None, "it was killed with the command"
            finally:
                other.kill()
                other.wait()

        thread = asyncio.create_task(asyncio.to_thread(work))
        await gate.wait()
        assert (await command).background
        done.set()
        await thread

    await library()


@pytest.mark.long
async def test_fifty_cancels_at_random_moments(tmp_path: Path, number: str) -> None:
    chance = random.Random(7)
    command = f"sleep {number} & setsid sleep {number} & (setsid sleep {number} &); sleep {number}"
    with Neighbour() as clock:
        for turn in range(50):
            task = asyncio.create_task(shell(command, tmp_path))
            if turn:  # the first is cancelled before it begins
                await asyncio.sleep(0)
                # clock: a random moment is meant
                await asyncio.sleep(chance.choice([0, 0, 0.001, 0.003, 0.01, chance.random() / 20]))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not sleepers(number), turn
    assert clock.passed < 50 * PROMPT
    assert not zombies()


async def test_a_second_cancel_does_not_let_go(tmp_path: Path, number: str) -> None:
    task = asyncio.create_task(shell(f"trap '' TERM; sleep {number}; sleep {number}; sleep {number}", tmp_path))
    await appeared(number)
    task.cancel()
    await asyncio.sleep(0.02)  # clock: within the 0.2 s in which SIGTERM is ignored, or later: both must do
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not sleepers(number)


def test_nothing_lives_when_the_loop_is_dropped(tmp_path: Path, number: str) -> None:
    coroutine = None

    async def start() -> None:
        nonlocal coroutine
        coroutine = run_child(f"sleep {number}", cwd=tmp_path, timeout=100, output_limit=100)
        coroutine.send(None)
        await appeared(number)
        coroutine.close()

    asyncio.run(start())
    assert not sleepers(number)


async def test_without_a_pidfd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    """Where the kernel has none, or no file number is left, the exit is noticed by asking."""
    monkeypatch.delattr(os, "pidfd_open")
    done = await run_child("echo a; sleep 0.05; exit 4", cwd=tmp_path, timeout=10, output_limit=100)
    assert (done.exit_code, done.output) == (4, "a\n")
    done = await run_child(f"sleep {number} & echo b", cwd=tmp_path, timeout=10, output_limit=100)
    assert done.background
    assert not sleepers(number)


async def test_no_file_is_left_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await run_child("sleep 9999 & echo a", cwd=tmp_path, timeout=10, output_limit=100)
        await capture(["echo"], cwd=tmp_path)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(shell("sleep 99", tmp_path), 0.05)  # clock: it is to run out
    assert len(os.listdir("/proc/self/fd")) == before


async def test_out_of_files_leaves_no_child(tmp_path: Path, number: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(6):
            with contextlib.suppress(StartError, OSError):
                await run_child(f"sleep {number}", cwd=tmp_path, timeout=0.05, output_limit=100)
            os.close(held.pop())
            assert not sleepers(number)
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo \0", "NUL character"),
        ("echo \ud800", "surrogate"),
        ("true " + "x" * 200_000, "too long"),
        (["no-such-program-here"], "not installed"),
        (["/etc"], "denied"),
    ],
    ids=["NUL", "surrogate", "long", "missing", "folder"],
)
async def test_what_cannot_start(command: str | list[str], text: str, tmp_path: Path) -> None:
    with pytest.raises(StartError, match=text) as caught:
        await run_child(command, cwd=tmp_path, timeout=1, output_limit=10)
    assert "\n" not in str(caught.value)


async def test_a_vanished_folder(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    with pytest.raises(StartError, match=r"gone .*not exist"):
        await run_child("true", cwd=folder, timeout=1, output_limit=10)


async def test_capture_keeps_streams_apart(tmp_path: Path) -> None:
    done = await capture(["sh", "-c", "echo out; echo err >&2; exit 2"], cwd=tmp_path)
    assert (done.exit_code, done.stdout, done.stderr, done.cut, done.timed_out) == (2, b"out\n", b"err\n", False, False)


async def test_capture_is_bounded(tmp_path: Path) -> None:
    with Neighbour() as clock:
        done = await capture(["yes"], cwd=tmp_path, limit=1000)
        assert done.stdout == b"y\n" * 500
        assert done.cut
        assert not done.timed_out
        done = await capture(["sleep", "99"], cwd=tmp_path, timeout=0.1)
        assert done.timed_out
    assert clock.passed < 2


async def test_capture_of_exactly_the_limit_is_whole(tmp_path: Path) -> None:
    done = await capture(["printf", "12345"], cwd=tmp_path, limit=5)
    assert (done.stdout, done.cut) == (b"12345", False)


async def test_a_helper_reads_its_input_to_the_end(tmp_path: Path) -> None:
    for data in (b"x", os.urandom(3 << 20)):
        done = await capture(["cat"], cwd=tmp_path, stdin=data, limit=4 << 20)
        assert (done.exit_code, done.stdout) == (0, data)


async def test_a_helper_need_not_read_its_input(tmp_path: Path, number: str) -> None:
    data = bytes(3 << 20)
    assert (await capture(["true"], cwd=tmp_path, stdin=data)).exit_code == 0
    done = await capture(["sh", "-c", "head -c 5 | wc -c; exec 0<&-; echo on"], cwd=tmp_path, stdin=data)
    assert done.stdout.split() == [b"5", b"on"]
    deaf = await capture(["sleep", number], cwd=tmp_path, stdin=data, timeout=0.2)
    assert deaf.timed_out and sleepers(number) == []
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        await capture(["true"], cwd=tmp_path, stdin=data)
    assert len(os.listdir("/proc/self/fd")) <= before


async def test_cancelled_capture(tmp_path: Path, number: str) -> None:
    task = asyncio.create_task(
        capture(["sh", "-c", f"setsid sleep {number} & sleep {number}"], cwd=tmp_path, timeout=99)
    )
    await appeared(number, 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not sleepers(number)


def test_programs_are_not_looked_for_in_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by a relative entry, not by a folder of it or of the repository around it, not through a link into it."""
    outside, workspace = tmp_path / "outside", tmp_path / "repository" / "part"
    for folder in (outside, workspace / ".venv" / "bin", workspace.parent / "tools", workspace / "folder"):
        folder.mkdir(parents=True)
    for folder in (outside, workspace / ".venv" / "bin", workspace.parent / "tools", workspace):
        (folder / "git").write_text("#!/bin/sh\n")
        (folder / "git").chmod(0o755)
    (workspace.parent / ".git").mkdir()
    (tmp_path / "link").symlink_to(workspace / ".venv" / "bin")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "git").symlink_to(workspace / ".venv" / "bin" / "git")
    (workspace / "away").symlink_to(outside)
    monkeypatch.chdir(workspace)
    inside = (".venv/bin", ".", ":", workspace / ".venv" / "bin", workspace.parent / "tools", tmp_path / "link")
    for folder in (*inside, f"{outside}/../repository/part", tmp_path / "links", workspace / "away"):
        assert find_program("git", workspace, {"PATH": str(folder)}) is None, folder
        assert find_program("git", workspace, {"PATH": f"{folder}:{outside}"}) == f"{outside}/git", folder
    assert find_program("git", outside, {"PATH": str(workspace / ".venv" / "bin")}) is not None
    assert find_program("folder", outside, {"PATH": str(workspace)}) is None
    assert outside_path(workspace, {"PATH": f".:{workspace}/.venv/bin:{outside}:{tmp_path}/link"}) == str(outside)


SECRETS = {
    "OPENAI_API_KEY": "x",
    "ANTHROPIC_AUTH_TOKEN": "x",
    "GITHUB_TOKEN": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_SESSION_TOKEN": "x",
    "PGPASSWORD": "x",
    "MYSQL_PWD": "x",
    "db_password": "x",
    "GOOGLE_APPLICATION_CREDENTIALS": "/x.json",
    "NPM_CONFIG__AUTH": "x",
    "MYAPIKEY": "x",
    "SENTRY_DSN": "https://abc@sentry.example/1",
    "DATABASE_URL": "postgres://user:secret@db.example/x",
    "HTTPS_PROXY": "http://me:secret@proxy.example:3128",
    "INNOCENT": "ghp_abcdefghijklmnop",
    "ALSO_INNOCENT": "sk-proj-abcdef",
    "PEM": "-----BEGIN PRIVATE KEY-----\nabc",
    "SLACK_WEBHOOK_URL": "https://hooks.slack.example/services/T0/B0/abc",
    "DISCORD_WEBHOOK": "https://discord.example/api/webhooks/1/abc",
    "LDAP_BINDPW": "short",
    "PW": "short",
    "DB_PWD": "hunter22",
    "PRIVATE_PEM": "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
    "WALLETPEM": "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
    "MNEMONIC": "legal winner thank year",
    "SEED_PHRASE": "legal winner thank year wave sausage",
    "WALLET_SEED": "000102030405060708090a0b0c0d0e0f",
    "VAULT_PASSCODE": "x",
    "MAIL_OTP": "123456",
}
HARMLESS = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/me",
    "LANG": "C.UTF-8",
    "PWD": "/home/me",
    "SSH_AUTH_SOCK": "/run/agent",
    "XAUTHORITY": "/home/me/.Xauthority",
    "TOKENIZERS_PARALLELISM": "false",
    "KEYBOARD": "de",
    "HTTP_PROXY": "http://proxy.example:3128",
    "VIRTUAL_ENV": "/home/me/v",
    "COLORTERM": "truecolor",
    "EMPTY": "",
    "OLDPWD": "/home/me/src",
    "INIT_PWD": "/home/me",
    "RANDOM_SEED": "42",
    "PYTHONHASHSEED": "random",
    "SEED": "20261126",
    "SEED_FILE": "data/some/long/path/seed.sql",
    "SEED_NODES": "a.example:26656,b.example:26656",
    "DB_SEED": "true",
    "WEBHOOK_PORT": "8080",
    "SSL_PEM": "/etc/ssl/site.pem",
    "PEM_FILE": "site.pem",
    "PWSH_VERSION": "7",
}


def test_the_environment_has_no_secrets() -> None:
    kept = child_environment({**SECRETS, **HARMLESS, "PAGER": "less", "TERM": "xterm"})
    assert {name for name in kept if name in SECRETS} == set()
    assert {name: kept.get(name) for name in HARMLESS} == HARMLESS
    assert (kept["PAGER"], kept["GIT_PAGER"], kept["TERM"], kept["GIT_TERMINAL_PROMPT"]) == ("cat", "cat", "dumb", "0")


async def test_a_child_does_not_see_our_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PROVIDER_API_KEY", "hidden-value")
    done = await run_child("env; cat /proc/self/environ", cwd=tmp_path, timeout=10, output_limit=100_000)
    assert "PATH=" in done.output
    assert "hidden-value" not in done.output


async def test_git_does_not_wait_for_an_editor(tmp_path: Path) -> None:
    if find_program("git", tmp_path) is None:
        pytest.skip("needs the program git")
    git = "git -c user.name=a -c user.email=a@b"
    command = f"git init -q . && {git} commit -q --allow-empty -m one && {git} commit --amend --allow-empty && git log"
    done = await run_child(command, cwd=tmp_path, timeout=10, output_limit=10_000)
    assert done.exit_code == 0, done.output
    assert not done.timed_out
