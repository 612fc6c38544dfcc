"""The cost of saving and loading a session, against json.dumps and json.loads of the same data.

Use: python -m scripts.bench.save [--runs N] [--folder DIR] [--data DIR]

The data are generated, in two sizes; with --data also the transcripts in that folder, or the one file, as one session.
Measured are the first save (everything is encoded and masked), the next one (one message more), and a load with all its
checks. Masking also looks for keys of the environment, so one is set. What the disk takes for the same bytes in a new
file is reported separately. Then come events every few milliseconds, as in a turn that streams, while a session of
50 MB is saved after every step: by how much the latest event was late.

Last of each size, a load and a save after a step are compared with a bare read of the same bytes, and a write and fsync
of a new file. A new file is the least that a save can do that leaves the old one whole until it is complete.

The exit status is 0 if every save takes at most 4 times json.dumps in addition to the disk's time, every load 4 times
json.loads, no event comes more than 20 ms late, and at 100 KB a load and a save take at most 1.5 times the bare ones.
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
from typing import cast

from codelet.export.decode import from_json
from codelet.export.document import Document
from codelet.export.encode import Encoder
from codelet.export.live import default_mask
from codelet.export.saver import Saver
from codelet.export.store_target import Target
from codelet.export.stores.file import FileStore
from codelet.export.stores.store import Lease
from codelet.messages import Message, assistant
from scripts.bench.context.readers import read_all
from tests.export import material

SIZES = {"100 KB": (40, 3_500), "50 MB": (10_000, 6_900)}
BUDGET = 4.0
LATEST_MS = 20.0
BARE = 1.5
KEY = "sk-ant-api03-" + "Zk4x9Qw-eR7tY2uIoP5a_S8dF1gH3jK6" * 3


def timed(work: Callable[[], object]) -> float:
    """Wall time of one run in ms."""
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def times(work: Callable[[], object], runs: int) -> float:
    """The median of `runs` runs, in ms."""
    return statistics.median(timed(work) for _ in range(runs))


def save(store: FileStore, lease: Lease, encoder: Encoder, snapshot: Document) -> None:
    """One whole save, as a session makes it: its lock is held from the first to the last."""
    store.save("x.json", encoder.parts(snapshot), lease=lease, expected=store.revision("x.json"))


def load(store: FileStore) -> Document:
    """One whole load, as `--resume` makes it."""
    stored = store.load("x.json")
    assert stored is not None
    return from_json(stored.data)


def write_plainly(path: Path, data: bytes) -> None:
    """Bring these bytes to the disk as a new file."""
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def real(data: Path) -> Document:
    """The transcripts in a folder, or the one file, one after the other as one session."""
    messages = [cast("Message", message) for transcript in read_all(data) for message in transcript.messages]
    if not messages:
        raise SystemExit(f"{data}: no transcript there")
    return Document(timestamp=1.0, token_count=len(messages), messages=tuple(messages), session_id="real")


def compare(name: str, snapshot: Document, folder: Path, runs: int) -> bool:
    """Print the times of one session; whether all that has a budget is within it."""
    store = FileStore(folder)
    lease = store.lock("x.json")
    data = b"".join(Encoder(None).parts(snapshot))
    document = json.loads(data)
    dumps = times(lambda: json.dumps(document), runs)
    loads = times(lambda: json.loads(data), runs)
    print(f"{name}: {len(snapshot.messages)} messages, {len(data):,} bytes")
    print(f"  {'json.dumps':<34}{dumps:9.1f} ms")
    warm = {mask: Encoder(mask) for mask in (None, default_mask(raw=False))}
    rows: list[tuple[str, Callable[[], object]]] = []
    for mask, encoder in warm.items():
        kind = "raw" if mask is None else "masked"
        rows.append((f"first save, {kind}", lambda m=mask: save(store, lease, Encoder(m), snapshot)))
        encoder.parts(snapshot)
        longer = snapshot.replace(messages=(*snapshot.messages, assistant("one more")))
        rows.append((f"next save, {kind}", lambda e=encoder, s=longer: save(store, lease, e, s)))
    disk = times(lambda: write_plainly(folder / "plain", data), runs)
    print(f"  {'the same bytes, written plainly':<34}{disk:9.1f} ms")
    within = True
    for row, work in rows:
        took = times(work, runs)
        own = max(took - disk, 0.0)
        within &= own <= BUDGET * dumps
        print(f"  {row:<34}{took:9.1f} ms  {took / dumps:5.1f} x  {own / dumps:5.1f} x without the disk's time")
    print(f"  {'json.loads':<34}{loads:9.1f} ms")
    took = times(lambda: from_json(data), runs)
    print(f"  {'load, checked':<34}{took:9.1f} ms  {took / loads:5.1f} x")
    ratio = against_the_disk(store, lease, snapshot, runs)
    lease.release()
    return within and took <= BUDGET * loads and (ratio <= BARE or len(data) > 1_000_000)


def against_the_disk(store: FileStore, lease: Lease, snapshot: Document, runs: int) -> float:
    """Print what a load and a save cost, in turns with the bare read, write and fsync; by how much they take longer."""
    encoder = Encoder(default_mask(raw=False))
    encoder.parts(snapshot)
    path = store.folder / "x.json"
    plain, own = [], []
    for number in range(4 * runs):
        data = path.read_bytes()
        plain.append(timed(path.read_bytes) + timed(lambda d=data: write_plainly(store.folder / "plain", d)))
        longer = snapshot.replace(messages=(*snapshot.messages, assistant(f"one more: {number}")))
        own.append(timed(lambda: load(store)) + timed(lambda s=longer: save(store, lease, encoder, s)))
    bare, ours = statistics.median(plain), statistics.median(own)
    print(f"  {'read, written and synced plainly':<34}{bare:9.1f} ms")
    print(f"  {'loaded and saved':<34}{ours:9.1f} ms  {ours / bare:5.2f} x")
    return ours / bare


async def lateness(saver: Saver | None, snapshot: Document, seconds: float) -> list[float]:
    """By how many ms each of many events came late while a step is saved every 0.3 s."""
    loop = asyncio.get_running_loop()
    late: list[float] = []
    end = loop.time() + seconds
    next_save = loop.time()
    messages = list(snapshot.messages)
    while loop.time() < end:
        due = loop.time() + 0.004
        await asyncio.sleep(0.004)
        late.append(1000 * (loop.time() - due))
        if loop.time() >= next_save:
            next_save = loop.time() + 0.3
            messages.append(assistant("a step"))
            if saver is not None:
                saver.save(snapshot.replace(messages=tuple(messages)))
    return late


async def stream(folder: Path, seconds: float, size: str = "50 MB") -> float:
    """Print how late events come, without and with saving; the latest with, in ms."""
    snapshot = material.long(*SIZES[size])
    idle = await lateness(None, snapshot, seconds)
    saver = await Saver.open(Target(FileStore(folder), "stream.json"), mask=default_mask(raw=False))
    saved = await lateness(saver, snapshot, seconds)
    await saver.close()
    for name, late in (("without saving", idle), ("saving after every step", saved)):
        ordered = sorted(late)
        middle, most = ordered[len(ordered) // 2], ordered[-1]
        print(f"  {name:<34}{len(late):>6} events, late by {middle:5.2f} ms (median), {most:6.2f} ms (latest)")
    print(f"  {saver.saves} saves in {seconds:g} s")
    return max(saved)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--folder", type=Path, help="where to save (a new temporary folder)")
    parser.add_argument("--data", type=Path, help="a folder of transcripts, or one, to be measured as well")
    options = parser.parse_args()
    os.environ["ANTHROPIC_API_KEY"] = KEY
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        within = [compare(size, material.long(*SIZES[size]), folder, options.runs) for size in SIZES]
        if options.data is not None:
            within.append(compare("real", real(options.data), folder, options.runs))
        print("events of a turn, session of 50 MB")
        latest = asyncio.run(stream(folder, options.seconds))
    return 0 if all(within) and latest <= LATEST_MS else 1


if __name__ == "__main__":
    sys.exit(main())
