"""Kills codelet with SIGKILL in the middle of commands, again and again, and looks at what is left of these.

Use: python -m scripts.kill_commands [--kills N] [--seed S]

A third of the commands run with a yes, the others confined. What they start leaves its session, loses its parent or
drops its environment. After each kill everything must be gone within a second, else the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress

from tests.support.program import ROOT, processes_with

_COMMANDS = (
    "sleep {n}",
    "setsid sleep {n} & sleep {n}",
    "(setsid sleep {n} >/dev/null 2>&1 &); sleep {n}",
    "(env -i setsid bash -c 'sleep {n} & exec sleep {n}' >/dev/null 2>&1 &); sleep {n}",
    "trap '' TERM; sleep {n} & sleep {n}",
    "yes | head -c 200M | sort > /dev/null; sleep {n}",
)
_SECONDS = 1.0
_PROGRAM = """
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    print(f"seed {options.seed}")
    left = sum(_kill(chance, number) for number in range(options.kills))
    print(f"{options.kills} kills: {left} processes alive after {_SECONDS:g} s")
    return 1 if left else 0


def _kill(chance: random.Random, number: int) -> int:
    """Start one, kill it at some moment; how many of its processes are alive a second later."""
    mark = f"{100_000 + os.getpid() % 10_000}.{number:05}"
    command = chance.choice(_COMMANDS).format(n=mark)
    kind = chance.choice(("", "read-only", "workspace"))
    words = [sys.executable, "-c", _PROGRAM, command, kind]
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            words, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as child,
    ):
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(chance.random() * 0.3)
        child.send_signal(signal.SIGKILL)
        child.wait()
        end = time.monotonic() + _SECONDS
        while (alive := processes_with(mark)) and time.monotonic() < end:
            time.sleep(0.01)
    for pid in alive:
        print(f"{kind or 'with a yes'}: {command!r}: process {pid} lives on")
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(alive)


if __name__ == "__main__":
    sys.exit(main())
