"""What the sandbox costs: `true` confined, without a sandbox, and in a bare bubblewrap beside them.

Use: python -m scripts.bench.confined [--count N]

The three are run in turns, so that what else the machine does falls on all of them. Printed are medians and minima in
milliseconds, and the overhead of the sandbox over the bare bubblewrap. The workspace is a small repository with a
secret in it, the home a folder with another.
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
from collections.abc import Awaitable, Callable
from pathlib import Path

from codelet.safety.sandbox import Sandbox
from codelet.system.process import capture, child_environment, find_program, run_child, shell_argv


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
    program = find_program("bwrap", workspace)
    if not await sandbox.works() or program is None:
        print("bubblewrap does not work here")
        return 1
    plain = shell_argv("true", environment, workspace)
    bare = [program, "--unshare-all", "--ro-bind", "/", "/", "true"]

    def confined() -> Awaitable[object]:
        argv = sandbox.wrap("true", environment, "read-only")
        return run_child(argv, cwd=workspace, environment=environment, timeout=60, output_limit=1 << 16)

    ways: dict[str, Callable[[], Awaitable[object]]] = {
        "confined": confined,
        "plain": lambda: capture(plain, cwd=workspace, environment=environment, timeout=60),
        "bare bubblewrap": lambda: capture(bare, cwd=workspace, environment=environment, timeout=60),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(count):
        for name, run in ways.items():
            begun = time.perf_counter()
            await run()
            taken[name].append((time.perf_counter() - begun) * 1000)
    for name, each in taken.items():
        print(f"{name:<16} median {statistics.median(each):6.1f} ms   least {min(each):6.1f} ms")
    for name, of in (("median", statistics.median), ("least", min)):
        overhead = of(taken["confined"]) - of(taken["plain"])
        print(f"overhead by {name}: {overhead:.1f} ms, {overhead / of(taken['bare bubblewrap']):.2f} x bare bubblewrap")
    return 0


if __name__ == "__main__":
    sys.exit(main())
