"""The supervisor of commands: one for all of them, and what happens if a command turns against it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from codelet.system.process import Finished, child_environment, end_supervisor, expect_command, run_child
from codelet.system.process.service import start_service
from codelet.tools.bash import SUPERVISOR_LOST, bash
from codelet.tools.tool import ToolContext
from tests.support.waiting import happens

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

_GRANDPARENT = "$(cut -d ' ' -f 4 /proc/$PPID/stat)"
"""The supervisor, as a command finds it: its parent is the guard."""

DAEMON = (
    "python3 -c 'import os, time\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    'os.execve("/bin/sleep", ["sleep", "{n}"], {{}})\'; sleep 0.1\n'
)
"""Forks twice, with a session of its own, without a parent and an environment that would tell whose it is."""


@pytest.fixture
def number() -> Iterator[str]:
    """A duration for `sleep` that no other process on this machine has; what sleeps so is ended afterwards."""
    chosen = f"8{os.getpid()}{os.urandom(3).hex().translate(str.maketrans('abcdef', '123456'))}"
    yield chosen
    for pid in sleepers(chosen):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def sleepers(number: str) -> list[int]:
    """The processes that do nothing but sleep for this duration."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cmdline").read_bytes() in (f"sleep\0{number}\0".encode(), f"/bin/sleep\0{number}\0".encode()):
                found.append(int(entry.name))
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children() -> set[int]:
    """Ours, dead or alive."""
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


async def run(command: str, cwd: Path, timeout: float = 100.0) -> Finished:
    return await run_child(command, cwd=cwd, timeout=timeout, output_limit=10_000)


async def supervisor(cwd: Path) -> int:
    return int((await run(f"echo {_GRANDPARENT}", cwd)).output)


async def test_one_supervisor_serves_all_commands_and_is_our_only_child(tmp_path: Path) -> None:
    end_supervisor()
    before = children()
    expect_command()
    (started,) = children() - before
    assert {await supervisor(tmp_path) for _ in range(3)} == {started}
    async with await start_service(["cat"], cwd=tmp_path) as service:
        assert parent(service.pid or 0) == started
    assert children() - before == {started}
    end_supervisor()
    assert children() - before == set()
    assert await supervisor(tmp_path) != started


async def test_ten_commands_at_once(tmp_path: Path, number: str) -> None:
    """Each has its own output, status and leftovers."""
    commands = [
        f"echo {each}; {f'setsid sleep {number} & ' if each % 2 else ''}sleep 0.2; exit {each}" for each in range(10)
    ]
    done = await asyncio.gather(*(run(command, tmp_path) for command in commands))
    assert [(each.output, each.exit_code) for each in done] == [(f"{each}\n", each) for each in range(10)]
    assert [each.background for each in done] == [False, True] * 5
    assert not sleepers(number)


async def test_no_descriptor_reaches_a_command(tmp_path: Path) -> None:
    """Not one of another command that runs, of a service, of ours, or of the supervisor."""
    (tmp_path / "secret").write_text("x")
    with open(tmp_path / "secret") as held:
        os.set_inheritable(held.fileno(), True)
        async with await start_service(["cat"], cwd=tmp_path):
            slow = [asyncio.create_task(run("touch begun; sleep 1000", tmp_path)) for _ in range(3)]
            await happens((tmp_path / "begun").exists)
            listed = (await run("ls -l /proc/self/fd; ls -l /proc/$$/fd; :", tmp_path)).output
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)
    assert "socket:" not in listed and "secret" not in listed and "eventfd" not in listed
    numbers = [line.split(" -> ")[0].split()[-1] for line in listed.splitlines() if " -> " in line]
    assert sorted(numbers) == sorted(["0", "1", "2", "3", "0", "1", "2"]), listed  # 3 is the folder that `ls` reads


async def test_a_daemon_without_a_sign_of_its_origin_is_ended(tmp_path: Path, number: str) -> None:
    other = asyncio.create_task(run("touch begun; sleep 1000", tmp_path))
    await happens((tmp_path / "begun").exists)
    done = await run(DAEMON.format(n=number), tmp_path)
    assert done.background and not done.lost and done.exit_code == 0
    assert not sleepers(number)
    assert not other.done()
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)


async def test_signals_to_its_own_group_do_not_reach_the_guard(tmp_path: Path, number: str) -> None:
    done = await run(f"setsid sleep {number} & sleep 0.1; kill -9 0", tmp_path)
    assert (done.exit_code, done.background, done.lost) == (-9, True, False)
    assert not sleepers(number)


@pytest.mark.parametrize("signal_name", ["TERM", "INT", "HUP"])
async def test_a_guard_that_is_asked_to_end_goes_on(tmp_path: Path, signal_name: str) -> None:
    done = await run(f"kill -{signal_name} $PPID {_GRANDPARENT}; echo on", tmp_path)
    assert (done.output, done.exit_code, done.lost) == ("on\n", 0, False)


async def test_a_command_that_kills_its_guard_is_ended_with_all_that_it_started(tmp_path: Path, number: str) -> None:
    before = await supervisor(tmp_path)
    done = await run(f"{DAEMON.format(n=number)}kill -9 $PPID; sleep {number}", tmp_path)
    assert done.lost and done.exit_code == -9
    assert not sleepers(number)
    after = await run(f"echo {_GRANDPARENT}", tmp_path)
    assert (int(after.output), after.lost) == (before, False)


async def test_a_killed_supervisor_is_replaced_and_ends_no_command(tmp_path: Path, number: str) -> None:
    known = children()
    slow = asyncio.create_task(
        run(f"touch begun; until [ -e go ]; do sleep 0.02; done; {DAEMON.format(n=number)}exit 3", tmp_path)
    )
    await happens((tmp_path / "begun").exists)
    killed = await run(f"echo {_GRANDPARENT}; kill -9 {_GRANDPARENT}", tmp_path)
    assert (killed.exit_code, killed.lost) == (0, False)
    after = await run(f"echo {_GRANDPARENT}", tmp_path)
    assert after.lost and int(after.output) != int(killed.output)
    (tmp_path / "go").touch()
    done = await slow
    assert (done.exit_code, done.background, done.lost) == (3, True, False)
    assert not sleepers(number)
    assert children() - known <= {int(after.output)}, "neither the supervisor nor a guard is left unreaped"
    assert not (await run("true", tmp_path)).lost


@pytest.mark.parametrize("leave", ["sleep {n} &", DAEMON], ids=["child", "daemon"])
async def test_a_command_that_kills_both_is_ended_with_what_can_be_found(
    tmp_path: Path, number: str, leave: str
) -> None:
    bystander = asyncio.create_task(run("touch begun; until [ -e go ]; do sleep 0.02; done; echo on", tmp_path))
    await happens((tmp_path / "begun").exists)
    done = await run(f"{leave.format(n=number)}\nkill -9 {_GRANDPARENT} $PPID; sleep {number}", tmp_path)
    assert done.lost and done.exit_code == -9
    await happens(lambda: not sleepers(number))
    (tmp_path / "go").touch()
    assert (await bystander).output == "on\n"


async def test_a_supervisor_that_is_stopped_delays_no_end(tmp_path: Path, number: str) -> None:
    """Its guard is stopped, too: both are killed once the command is to be ended."""
    command = f"{DAEMON.format(n=number)}kill -STOP {_GRANDPARENT} $PPID; touch stopped; sleep {number}"
    task = asyncio.create_task(run(command, tmp_path))
    await happens((tmp_path / "stopped").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not sleepers(number)
    assert (await run("echo on", tmp_path)).output == "on\n"


async def test_the_model_is_told_in_one_line(tmp_path: Path) -> None:
    context = ToolContext(tmp_path, environment=child_environment())
    for command in ("kill -9 $PPID; sleep 100", f"kill -9 {_GRANDPARENT}; sleep 0.3"):
        await bash(context, lambda _: None, command="true")
        first = await bash(context, lambda _: None, command=command)
        second = await bash(context, lambda _: None, command="true")
        third = await bash(context, lambda _: None, command="true")
        assert [SUPERVISOR_LOST in each.text.splitlines() for each in (first, second)].count(True) == 1
        assert SUPERVISOR_LOST not in third.text


async def test_a_request_that_a_killed_supervisor_did_not_read_is_sent_again(tmp_path: Path) -> None:
    before = await supervisor(tmp_path)
    os.kill(before, signal.SIGSTOP)
    running = asyncio.create_task(run("echo ran", tmp_path))
    await asyncio.sleep(0)  # the request is sent before the first wait
    os.kill(before, signal.SIGKILL)
    done = await running
    assert (done.output, done.exit_code, done.lost) == ("ran\n", 0, True)
    end_supervisor()


async def test_no_guard_stays_unreaped_though_its_supervisor_dies_at_the_same_moment(tmp_path: Path) -> None:
    known = children()
    for turn in range(25):
        await run(f"(sleep 0.00{turn % 10}; kill -9 {_GRANDPARENT}) & exit 0", tmp_path)
        newest = await run(f"echo {_GRANDPARENT}", tmp_path)
    # The last kill may come while the last command runs: its supervisor is reaped a moment later.
    await happens(lambda: children() - known <= {int(newest.output)})
