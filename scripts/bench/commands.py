"""The cost of running a command: `true` approved next to a bare bash, and confined next to a bare bubblewrap.

Use: python -m scripts.bench.commands [--count N]

The four are run in turns, so that what else the machine does falls on all of them. The bare ones have the same words,
started from this process without a guard. Printed are medians and minima in milliseconds; the
exit status is 1 if a command costs more than the promised 8 ms over its bare one, by the median of the differences. The
first command, which starts the supervisor, is printed apart. The workspace is a small repository with a secret in it,
the home a folder with another.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from codelet.safety.sandbox import Sandbox
from codelet.system.process import capture, child_environment, run_child, shell_argv

_PROMISE = 8.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50)
    count = parser.parse_args().count
    base = next(folder for folder in ("/opt", str(Path.home()), "/tmp") if os.access(folder, os.W_OK))
    with tempfile.TemporaryDirectory(dir=base) as folder:
        home, workspace = Path(folder, "home"), Path(folder, "home", "work")
        workspace.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(workspace)], check=True)
        for path in (home / ".netrc", workspace / ".env"):
            path.write_text("planted\n", encoding="utf-8")
        os.environ["HOME"] = str(home)
        return asyncio.run(_measure(workspace, count))


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

    ways: dict[str, Callable[[], Awaitable[object]]] = {
        "approved": lambda: run("true"),
        "bare bash": lambda: bare(shell),
        "confined": lambda: run(sandbox.wrap("true", environment, "read-only")),
        "bare bubblewrap": lambda: bare(sandbox.wrap("true", environment, "read-only")),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(count + 1):
        for name, start in ways.items():
            begun = time.perf_counter()
            await start()
            taken[name].append((time.perf_counter() - begun) * 1000)
    print(f"the first command: {taken['approved'][0]:.1f} ms")
    for name, each in taken.items():
        print(f"{name:<16} median {statistics.median(each[1:]):6.1f} ms   least {min(each[1:]):6.1f} ms")
    broken = False
    for name, other in (("approved", "bare bash"), ("confined", "bare bubblewrap")):
        over = statistics.median(a - b for a, b in zip(taken[name][1:], taken[other][1:], strict=True))
        broken = broken or over > _PROMISE
        print(f"{name} over {other}: {over:.1f} ms, at most {_PROMISE:g} ms: {'BROKEN' if over > _PROMISE else 'kept'}")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
