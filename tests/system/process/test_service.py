"""Long-lived children: spoken to over pipes, and gone with whoever started them, whatever ends that one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from codelet.system.process import StartError, run_child
from codelet.system.process.service import Service, ServiceError, start_service
from tests.support.waiting import Neighbour, happens, until

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

ECHO = """
    import sys
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(b"got " + line)
        sys.stdout.buffer.flush()
    sys.exit(3)
"""
LEAVES_SESSION = """
    import os, subprocess, sys
    subprocess.Popen(["setsid", "sh", "-c", "trap '' TERM; sleep {number} & sleep {number}"])
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.execvpe("sleep", ["sleep", "{number}"], {{"PATH": os.environ["PATH"]}})
    print("ready", flush=True)
    sys.stdin.read()
    os.execvp("sleep", ["sleep", "{number}"])
"""
STUBBORN = """
    import signal, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdin.close()
    print("ready", flush=True)
    while True:
        time.sleep(600)
"""
NOISY = """
    import sys
    for n in range(40_000):
        print(f"complaint {{n}}", file=sys.stderr)
    print("ready", flush=True)
    sys.stdin.read()
"""
ENDLESS = """
    import sys
    print("x" * 5_000_000, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def number() -> Iterator[str]:
    """A number that stands in the command lines of one test's processes alone."""
    chosen = f"9{os.getpid()}{random.randrange(10**6):06}"
    yield chosen
    for pid in running(chosen):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def running(number: str) -> list[int]:
    """The processes with the number in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if number.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def python(program: str, number: str = "0") -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(program).format(number=number), number]


async def started(program: str, cwd: Path, number: str) -> Service:
    """A service of the program, which has said that it is ready."""
    service = await start_service(python(program, number), cwd=cwd)
    assert await service.read_line() == b"ready"
    return service


def gone(number: str) -> bool:
    """Whether all processes with the number end; fails where they do not."""
    return until(lambda: not running(number), "the end of all processes")


async def test_lines_and_bytes_go_both_ways(tmp_path: Path) -> None:
    async with await start_service(python(ECHO), cwd=tmp_path) as service:
        await service.write(b"one\ntwo\r\n\xff\n")
        assert await service.read_line() == b"got one"
        assert await service.read_line() == b"got two"
        assert await service.read_bytes(6) == b"got \xff\n"
        assert service.exit_code is None


async def test_closing_its_input_lets_it_end_by_itself(tmp_path: Path) -> None:
    service = await start_service(python(ECHO), cwd=tmp_path)
    await service.close()
    assert service.exit_code == 3
    await service.wait()
    await service.close()
    with pytest.raises(ServiceError, match="was closed"):
        await service.write(b"more\n")


async def test_it_gets_no_secrets_and_a_session_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "a-secret-that-nobody-knows")
    program = "import os; print(os.environ.get('SOME_API_KEY'), os.getsid(0), os.getcwd(), flush=True); input()"
    async with await start_service([sys.executable, "-c", program], cwd=tmp_path) as service:
        line = await service.read_line()
        assert line == f"None {service.pid} {tmp_path}".encode()
        assert service.pid != os.getsid(0)


async def test_what_forks_and_leaves_the_session_ends_with_it(tmp_path: Path, number: str) -> None:
    async with await started(LEAVES_SESSION, tmp_path, number) as service:
        await happens(lambda: len(running(number)) >= 4, "four processes")
        await service.close()
        assert running(number) == []


async def test_what_ignores_being_asked_is_killed(tmp_path: Path, number: str) -> None:
    service = await started(STUBBORN, tmp_path, number)
    with Neighbour() as clock:
        await service.close()
    assert running(number) == []
    assert service.exit_code == -signal.SIGKILL
    assert clock.passed < 10


async def test_a_full_standard_error_stops_nothing_and_is_bounded(tmp_path: Path, number: str) -> None:
    async with await started(NOISY, tmp_path, number) as service:
        assert "complaint 0\n" in service.errors
        assert "bytes left out" in service.errors
        assert len(service.errors) < 80_000
    assert service.errors.endswith("complaint 39999\n")


async def test_a_line_that_never_ends_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    async with await start_service(python(ENDLESS), cwd=tmp_path, limit=100_000) as service:
        with pytest.raises(ServiceError, match="than 100000 bytes"):
            await service.read_line()
        with pytest.raises(ServiceError, match="at most 100000"):
            await service.read_bytes(100_001)


async def test_the_end_of_a_service_is_told_with_its_last_words(tmp_path: Path) -> None:
    program = "import sys; print('half', end='', flush=True); sys.exit('no such index')"
    async with await start_service([sys.executable, "-c", program], cwd=tmp_path) as service:
        await service.wait()
        assert service.exit_code == 1
        assert await service.read_line() == b"half"
        assert await service.read_line() is None
        with pytest.raises(ServiceError, match="code 1: no such index"):
            await service.read_bytes(1)
        with pytest.raises(ServiceError, match="no such index"):
            for _ in range(100):
                await service.write(b"x" * 100_000)


async def test_what_does_not_start_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\0\1\2")
    broken.chmod(0o755)
    with pytest.raises(StartError, match="broken: Exec format"):
        await start_service([str(broken)], cwd=tmp_path)
    with pytest.raises(StartError, match="not installed"):
        await start_service(["no-such-program-anywhere"], cwd=tmp_path)
    with pytest.raises(StartError, match="NUL"):
        await start_service(["cat", "a\0b"], cwd=tmp_path)
    with pytest.raises(StartError, match=r"missing .*not exist"):
        await start_service(["cat"], cwd=tmp_path / "missing")


async def test_a_cancel_ends_it(tmp_path: Path, number: str) -> None:
    ready = asyncio.Event()

    async def owner() -> None:
        async with await started(LEAVES_SESSION, tmp_path, number) as service:
            ready.set()
            await service.read_line()

    task = asyncio.create_task(owner())
    await ready.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert running(number) == []


async def test_a_second_cancel_while_it_ends_ends_it_at_once(tmp_path: Path, number: str) -> None:
    service = await started(STUBBORN, tmp_path, number)
    closing = asyncio.create_task(service.close(patience=60.0))
    for _ in range(10):  # it has begun to end, and waits
        await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert running(number) == []


OWNER = """
    import asyncio, os, pathlib, sys
    from codelet.system.process.service import start_service

    async def main():
        service = await start_service({argv!r}, cwd=pathlib.Path({cwd!r}))
        print((await service.read_line()).decode(), flush=True)
        {then}

    asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("then", "kill"),
    [("os._exit(0)", False), ("sys.exit(1)", False), ("await asyncio.sleep(600)", True)],
    ids=["it exits at once", "it ends without closing", "it is killed"],
)
def test_it_ends_with_its_owner_however_that_ends(tmp_path: Path, number: str, then: str, kill: bool) -> None:
    program = textwrap.dedent(OWNER).format(argv=python(LEAVES_SESSION, number), cwd=str(tmp_path), then=then)
    command = [sys.executable, "-W", "ignore", "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        if kill:
            until(lambda: len(running(number)) >= 4, "four processes")
            owner.kill()
        owner.wait(20)
    assert gone(number)


async def test_commands_beside_a_service_leave_it_alone_and_nothing_behind(tmp_path: Path, number: str) -> None:
    async with await start_service(python(ECHO), cwd=tmp_path) as service:
        forgetful = f"setsid env -i PATH=$PATH sleep {number} >/dev/null 2>&1 & echo started"
        done = await run_child(forgetful, cwd=tmp_path, timeout=20.0, output_limit=1000)
        assert done.output == "started\n"
        assert running(number) == []
        await service.write(b"still here\n")
        assert await service.read_line() == b"got still here"
