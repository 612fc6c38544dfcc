"""The memory of a session after much of it was freed, in separate processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_HELD = """
import asyncio, sys
from pathlib import Path
from codelet.messages import assistant, user
from codelet.system.machine import give_back_memory
from tests.context.scripted import ScriptedProvider, session_of, turn


def held() -> int:
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS")))


async def main() -> None:
    session = session_of(ScriptedProvider(), Path(sys.argv[1]), window=24_000)
    told = []
    for n in range(1200):
        lines = [f"src/part{n}_{k}.py reads port {n}{k} of name_{k}_{n}" for k in range(120)]
        told += [user(f"look into src/part{n}.py"), assistant("\\n".join(lines))]
    session.adopt(told)
    await turn(session, "go on")
    assert session.compactor.count == 1
    before = held()
    give_back_memory()
    print(before - held())


asyncio.run(main())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells, and keeps, what is freed")
def test_what_a_compaction_needed_is_given_back_to_the_system(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", _HELD, str(tmp_path)], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 1_000, "KiB that were still there to be given back"
