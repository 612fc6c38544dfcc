"""What the length of the list costs a step, and what ten thousand turns leave in memory.

Use: python -m scripts.bench.context_step [--runs N] [--turns N]

A step's own processor time, the provider's left out, on lists of 100, 1,000 and 10,000 messages whose window is large
enough for all of them; then short turns in a small window, with many compactions, and the memory that is traced at the
start and at the end of the second half of them, each time right after a compaction.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from codelet import events
from codelet.loop.session import Session
from codelet.messages import assistant, tool_call, tool_result, user
from codelet.providers.protocol import Chunk, FinishChunk, Request, TextChunk, ToolCallChunk, UsageChunk
from codelet.safety import Policy
from codelet.usage import Usage

LENGTHS = (100, 1_000, 10_000)
STEPS = 60


class Provider:
    """Asks for one search a step, so many times, then answers; notes the processor time between its answers."""

    model, name, origin, local = "bench/none", "bench", "bench", False
    prefix_bound = drops_thinking = False

    def __init__(self, steps: int, *, reports: bool) -> None:
        self.steps = steps
        self.reports = reports
        self.own: list[float] = []
        self._left = 0.0
        self._number = 0

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """One answer."""
        if self._left:
            self.own.append(time.process_time() - self._left)
        self._number += 1
        again = self._number % (self.steps + 1) != 0
        yield TextChunk("Let me look again.")
        if again:
            yield ToolCallChunk(index=0, id=f"call{self._number}", name="find", arguments='{"pattern": "*.none"}')
        if self.reports:
            yield UsageChunk(
                Usage(total_input=1_000 + 40 * self._number, cache_read=0, cache_write=0, output=20, reasoning=0)
            )
        self._left = time.process_time() if again else 0.0
        yield FinishChunk("tool_calls" if again else "stop")

    async def warm(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing is open."""


async def step_milliseconds(length: int, folder: Path, *, reports: bool) -> float:
    """Median processor time of a step on a list of that length, in ms."""
    provider = Provider(STEPS, reports=reports)
    session = Session(provider, workspace=folder, policy=Policy(folder, yes=True), window=1 << 30)
    for number in range(length // 4):
        call = tool_call(f"old{number}", "find", '{"pattern": "*.none"}')
        step = [assistant(None, [call]), tool_result(call["id"], "no files"), assistant("Nothing there.")]
        session.conversation.append(user(f"prompt {number}"), *step)
    async with aclosing(session.send("go")) as turn:
        async for _ in turn:
            pass
    return statistics.median(provider.own) * 1_000


async def memory_of_turns(turns: int, folder: Path) -> tuple[int, float, float, int]:
    """Compactions, traced KiB early and late in the second half of the turns, and bytes in the archive."""
    provider = Provider(0, reports=False)
    session = Session(provider, workspace=folder, policy=Policy(folder), window=6_000, bare=True)
    session.compactor.archive.cap = 1 << 20  # small enough to be full before the memory is looked at
    samples: list[int] = []
    for number in range(turns):
        if number == turns // 2:
            tracemalloc.start()
        async with aclosing(session.send(f"prompt {number % 97}: change value_{number % 31} in src/m.py")) as turn:
            async for event in turn:
                if isinstance(event, events.Compaction) and event.phase == "done" and tracemalloc.is_tracing():
                    gc.collect()
                    samples.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    third = max(1, len(samples) // 3)
    early, late = statistics.fmean(samples[third : 2 * third]), statistics.fmean(samples[-third:])
    return session.compactor.count, early / 1024, late / 1024, session.compactor.archive.bytes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--turns", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for reports in (True, False):
            print("usage reported" if reports else "no usage reported")
            base = 0.0
            for length in LENGTHS:
                times = [asyncio.run(step_milliseconds(length, folder, reports=reports)) for _ in range(options.runs)]
                base = base or min(times)
                print(f"  {length:>6,} messages: {min(times):6.2f} ms a step, {min(times) / base:5.2f} x")
        count, early, late, archived = asyncio.run(memory_of_turns(options.turns, folder))
    print(f"{options.turns:,} turns, {count} compactions")
    print(f"  traced right after a compaction: {early:,.0f} KiB, later {late:,.0f} KiB; archive {archived:,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
