"""What codelet runs ends with it, also where nothing of codelet gets to run any more."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.amount import amount
from tests.support.program import ROOT, processes_with

COMMANDS = (
    "sleep {n}",
    "setsid sleep {n} & sleep {n}",
    "(setsid sleep {n} >/dev/null 2>&1 &); sleep {n}",
    "(env -i setsid bash -c 'sleep {n} & exec sleep {n}' >/dev/null 2>&1 &); sleep {n}",
    "trap '' TERM; sleep {n} & sleep {n}",
    "yes | head -c 200M | sort > /dev/null; sleep {n}",
)
"""What they start leaves its session, loses its parent or drops its environment."""
PROGRAM = """
import asyncio, sys
from pathlib import Path
from codelet.safety.sandbox import Sandbox
from codelet.system.process import child_environment, run_child

async def main(command, kind):
    environment = child_environment()
    words = command
    if kind:
        sandbox = Sandbox(Path.cwd())
        if await sandbox.works():
            words = sandbox.wrap(command, environment, kind)
    print("starts", flush=True)
    await run_child(words, cwd=Path.cwd(), environment=environment, timeout=100, output_limit=1000)

asyncio.run(main(*sys.argv[1:]))
"""
SECONDS = 1.0
"""Within this time after a kill everything must be gone."""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_nothing_outlives_a_codelet_that_is_killed_in_the_middle_of_commands(tmp_path: Path) -> None:
    """1,000 kills at full size; of confined commands, and of approved ones."""
    kills, seed = amount(8, 1_000), random.randrange(1 << 32)
    chance = random.Random(seed)
    left = [found for number in range(kills) for found in alive_after_a_kill(chance, number, tmp_path)]
    print(f"seed {seed}, {kills} kills: {len(left)} processes alive after {SECONDS:g} s")
    assert not left, f"seed {seed}"


def alive_after_a_kill(chance: random.Random, number: int, folder: Path) -> list[str]:
    """Start one, kill it at some moment; its processes that are alive after a while, which are ended."""
    mark = f"{100_000 + os.getpid() % 10_000}.{number:05}"
    command = chance.choice(COMMANDS).format(n=mark)
    kind = chance.choice(("", "read-only", "workspace"))
    words, variables = [sys.executable, "-c", PROGRAM, command, kind], os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, cwd=folder, env=variables, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(chance.random() * 0.3)  # clock: a kill comes at any moment
        child.send_signal(signal.SIGKILL)
        child.wait()
    end = time.monotonic() + SECONDS  # clock: the promise
    while (alive := processes_with(mark)) and time.monotonic() < end:  # clock: the promise
        time.sleep(0.01)  # clock: between two looks
    for pid in alive:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [f"{kind or 'approved'}: {command!r}: process {pid}" for pid in alive]
