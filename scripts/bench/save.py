"""The cost of loading and saving a session, against a bare read, write and fsync of the same bytes.

Use: python -m scripts.bench.save [--runs N] [--folder DIR]

The data are generated, in two sizes. A load is checked as `--resume` checks it; a save comes after one more message, is
masked, and syncs a new file that takes the old one's place. The bare ones are measured in turns with them; the new file
is the least that a save can do that leaves the old one whole until it is complete. A disk that syncs in less time than
it takes to parse JSON makes the ratio large: `json.loads` and the sync are printed, to judge by.

Last come events every few milliseconds, as in a turn that streams, while the large session is saved after every step.
The exit status is 0 if at 100 KB load and save take at most 1.5 times the bare ones, and no event is 20 ms late.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from codelet.export.decode import from_json
from codelet.export.document import Document
from codelet.export.encode import Encoder
from codelet.export.live import default_mask
from codelet.export.saver import Saver
from codelet.export.store_target import Target
from codelet.export.stores.file import FileStore
from codelet.messages import assistant
from tests.export import material

SIZES = {"100 KB": (40, 3_500), "50 MB": (10_000, 6_900)}
RATIO, LATEST_MS = 1.5, 20.0
KEY = "sk-ant-api03-" + "Zk4x9Qw-eR7tY2uIoP5a_S8dF1gH3jK6" * 3
"""Masking also looks for keys of the environment."""


def timed(work: Callable[[], object]) -> float:
    """Wall time of one run in ms."""
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def write_plainly(path: Path, data: bytes) -> None:
    """Bring these bytes to the disk as a new file."""
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def compare(name: str, snapshot: Document, folder: Path, runs: int) -> float:
    """Print what loads and saves cost; return by how much they take longer than the bare ones."""
    store, encoder = FileStore(folder), Encoder(default_mask(raw=False))
    lease = store.lock("x.json")

    def save(document: Document) -> None:
        store.save("x.json", encoder.parts(document), lease=lease, expected=store.revision("x.json"))

    def load() -> None:
        stored = store.load("x.json")
        assert stored is not None
        from_json(stored.data)

    first = timed(lambda: save(snapshot))
    rows: list[list[float]] = []
    for number in range(runs):
        data = (folder / "x.json").read_bytes()
        longer = snapshot.replace(messages=(*snapshot.messages, assistant(f"one more: {number}")))
        rows.append([
            timed((folder / "x.json").read_bytes),
            timed(lambda d=data: write_plainly(folder / "plain", d)),
            timed(lambda d=data: json.loads(d)),
            timed(load),
            timed(lambda d=longer: save(d)),
        ])  # fmt: skip
    read, write, parse, loaded, saved = map(statistics.median, zip(*rows, strict=True))
    lease.release()
    ratio = (loaded + saved) / (read + write)
    print(f"{name}: read {read:.2f} ms, written and synced {write:.2f} ms, json.loads {parse:.2f} ms")
    print(f"  loaded {loaded:.2f} ms, saved {saved:.2f} ms (the first time {first:.1f} ms): {ratio:.2f} x")
    return ratio


async def lateness(saver: Saver | None, snapshot: Document, seconds: float) -> float:
    """By how many ms the latest of many events came late while a step is saved every 0.3 s."""
    loop = asyncio.get_running_loop()
    latest, messages = 0.0, list(snapshot.messages)
    next_save = loop.time()
    end = next_save + seconds
    while loop.time() < end:
        due = loop.time() + 0.004
        await asyncio.sleep(0.004)
        latest = max(latest, 1000 * (loop.time() - due))
        if saver is not None and loop.time() >= next_save:
            next_save = loop.time() + 0.3
            messages.append(assistant("a step"))
            saver.save(snapshot.replace(messages=tuple(messages)))
    return latest


async def stream(folder: Path, seconds: float) -> float:
    """Print how late events come, without and with saving; the latest with, in ms."""
    snapshot = material.long(*SIZES["50 MB"])
    idle = await lateness(None, snapshot, seconds)
    saver = await Saver.open(Target(FileStore(folder), "stream.json"), mask=default_mask(raw=False))
    saved = await lateness(saver, snapshot, seconds)
    await saver.close()
    print(f"the latest event of a turn: {idle:.1f} ms late without saving, {saved:.1f} ms with {saver.saves} saves")
    return saved


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--folder", type=Path, help="where to save (a new temporary folder)")
    options = parser.parse_args()
    os.environ["ANTHROPIC_API_KEY"] = KEY
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        ratios = [compare(size, material.long(*SIZES[size]), Path(name), options.runs) for size in SIZES]
        latest = asyncio.run(stream(Path(name), options.seconds))
    return 0 if ratios[0] <= RATIO and latest <= LATEST_MS else 1


if __name__ == "__main__":
    sys.exit(main())
