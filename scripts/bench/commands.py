"""The cost of running a command: `true` approved next to a bare bash, and confined next to a bare bubblewrap.

Use: python -m scripts.bench.commands [--count N]

The four are run in turns, so that what else the machine does falls on all of them. The bare ones have the same words,
started from this process without a guard. Promised is what a command costs over its bare one. The first command, which
starts the supervisor, is printed apart. The workspace is a small repository with a secret in it, the home a folder with
another.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from codelet.safety.sandbox import Sandbox
from codelet.system.process import capture, child_environment, run_child, shell_argv
from scripts.bench.child import Row, show
from tests.support import repo


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50)
    count = parser.parse_args().count
    base = next(folder for folder in ("/opt", str(Path.home()), "/tmp") if os.access(folder, os.W_OK))
    with tempfile.TemporaryDirectory(dir=base) as folder:
        home = Path(folder, "home")
        repo.write(home, {".netrc": "planted\n", "work/.env": "planted\n"})
        os.environ["HOME"] = str(home)
        return asyncio.run(_measure(repo.unborn(home / "work"), count))


async def _measure(workspace: Path, count: int) -> int:
    sandbox, environment = Sandbox(workspace), child_environment()
    if (await sandbox.look()).way != "bubblewrap":
        print("bubblewrap does not work here")
        return 1
    shell = shell_argv("true", environment, workspace)

    def bare(words: Sequence[str]) -> Awaitable[object]:
        return capture(words, cwd=workspace, environment=environment, timeout=60)

    def run(command: str | Sequence[str]) -> Awaitable[object]:
        return run_child(command, cwd=workspace, environment=environment, timeout=60, output_limit=1 << 16)

    ways: list[Callable[[], Awaitable[object]]] = [
        lambda: run("true"),
        lambda: bare(shell),
        lambda: run(sandbox.wrap("true", environment, "read-only")),
        lambda: bare(sandbox.wrap("true", environment, "read-only")),
    ]
    taken: list[list[float]] = [[] for _ in ways]
    for _ in range(count + 1):
        for start, times in zip(ways, taken, strict=True):
            begun = time.perf_counter()
            await start()
            times.append((time.perf_counter() - begun) * 1000)
    print(f"the first command: {taken[0][0]:.1f} ms")
    rows = []
    approved, bash, confined, bubblewrap = (times[1:] for times in taken)
    for name, times, least in (("approved", approved, bash), ("confined", confined, bubblewrap)):
        over = [one - other for one, other in zip(times, least, strict=True)]
        rows.append(Row(f"{name}, against the bare one", "ms", times, least))
        rows.append(Row(f"{name}, over the bare one", "ms", over, promise=8.0))
    return show(rows)


if __name__ == "__main__":
    sys.exit(main())
