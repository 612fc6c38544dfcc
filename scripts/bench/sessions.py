"""Many sessions of the Python API in one process: none may mix with another; the memory of an idle one.

Use: python -m scripts.bench.sessions [--sessions N] [--idle N]

Each session is saved in its own file, resumed once, and asked what only it knows. The model is a server on
loopback, in a separate process. Idle sessions have had a turn, are saved, and stay open. The exit status is 1 if a
session is mixed, or an idle one takes more than 60 kB over the first.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import re
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

from codelet import Session, open_session, sessions

MOST_KB = 60.0
_AT_ONCE = 50
_FIRST = 50
"""Sessions before the measurement: they bring the modules, the threads and the memory that all sessions share."""
_SETTLED = 5.0
"""Seconds after which the looks at the machine, which begin with each turn, are over."""
_SERVER = """
import re, sys
from tests.support.script import Reply
from tests.support.server import ModelServer

def echo(request):
    told = " ".join(str(m["content"]) for m in request.json["messages"] if m["role"] == "user")
    return Reply("you said: " + ", ".join(re.findall("word[0-9]+[ab]", told)))

with ModelServer(echo) as server:
    print(server.openai, flush=True)
    sys.stdin.read()
"""


async def say(session: Session, text: str) -> str:
    """The answer to a prompt."""
    async for _ in session.send(text):
        pass
    return session.messages[-1]["content"] or ""


async def one(number: int, folder: Path, base: str) -> str:
    """Two sessions, one after the other, in one file; what is wrong with them, or nothing."""
    words = [f"word{number}a", f"word{number}b"]
    target = folder / f"{number}.json"
    for turn, word in enumerate(words, 1):
        async with opened(target, base) as session:
            if (answer := await say(session, word)) != "you said: " + ", ".join(words[:turn]):
                return f"session {number}: {answer}"
    said = [message["content"] or "" for message in (await sessions.load(target)).messages]
    mixed = set(re.findall(r"word\d+[ab]", " ".join(said))) - set(words)
    return f"session {number} holds {mixed}" if mixed else ""


def opened(target: Path, base: str) -> AbstractAsyncContextManager[Session]:
    """A session that is saved at the target, and continues what is there."""
    saved = {"export": target, "resume": target, "wait": 30}
    return open_session(
        model="openai/scripted", api_base=base, api_key="key", workspace=target.parent / "project", **saved
    )


async def memory_with(count: int, name: str, folder: Path, base: str, held: AsyncExitStack) -> int:
    """The memory of this process in kB, shared pages by their share, with `count` more idle sessions."""
    for number in range(count):
        session = await held.enter_async_context(opened(folder / f"{name}{number}.json", base))
        await say(session, "word")
    await asyncio.sleep(_SETTLED)
    gc.collect()
    text = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    return int(re.findall(r"^Pss:\s+(\d+) kB", text, flags=re.MULTILINE)[0])


async def measure(count: int, idle: int, base: str, folder: Path) -> bool:
    """Print both measurements; whether they are good."""
    (folder / "project").mkdir()
    gate = asyncio.Semaphore(_AT_ONCE)

    async def gated(number: int) -> str:
        async with gate:
            return await one(number, folder, base)

    async with AsyncExitStack() as held:
        before = await memory_with(_FIRST, "first", folder, base, held)
        each = (await memory_with(idle, "idle", folder, base, held) - before) / idle
    print(f"{idle} idle sessions: {each:.1f} kB each over the first")
    begun = time.monotonic()
    wrong = list(filter(None, await asyncio.gather(*map(gated, range(count)))))
    print(f"{count} sessions, {_AT_ONCE} at a time: {len(wrong)} mixed or failed, {time.monotonic() - begun:.0f} s")
    print(*wrong[:5], sep="\n", end="\n" * bool(wrong))
    return not wrong and each <= MOST_KB


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--idle", type=int, default=300)
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * options.idle)), hard))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", _SERVER], cwd=Path(__file__).parents[2], **pipes) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            base = server.stdout.readline().strip()
            good = asyncio.run(measure(options.sessions, options.idle, base, Path(folder)))
        server.stdin.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
