"""The cost of loading and saving a session, against a bare read, write and fsync of the same bytes.

Use: python -m scripts.bench.save [--runs N] [--folder DIR]

The data are generated, in two sizes. A load is checked as `--resume` checks it; a save comes after one more message, is
masked, and syncs a new file that takes the old one's place. The bare ones are measured in turns with them; the new file
is the least that a save can do that leaves the old one whole until it is complete. A disk that syncs in less time than
it takes to parse JSON makes the ratio large: `json.loads` and the sync are printed, to judge by.

Last come events every few milliseconds, as in a turn that streams, while the large session is saved after every step.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import sys
import tempfile
from pathlib import Path

from codelet.export.decode import from_json
from codelet.export.document import Document
from codelet.export.encode import Encoder
from codelet.export.live import default_mask
from codelet.export.saver import Saver
from codelet.export.store_target import Target
from codelet.export.stores.file import FileStore
from codelet.messages import assistant
from scripts.bench.child import Row, alternate, show, timed
from tests.export import material

SMALL, LARGE = (40, 3_500), (10_000, 6_900)
KEY = "sk-ant-api03-" + "Zk4x9Qw-eR7tY2uIoP5a_S8dF1gH3jK6" * 3
"""Masking also looks for keys of the environment."""


def compare(name: str, snapshot: Document, folder: Path, runs: int, promise: float | None) -> list[Row]:
    """The cost of loads and saves, next to the bare ones."""
    store, encoder = FileStore(folder), Encoder(default_mask(raw=False))
    lease, path, plain, numbers = store.lock("x.json"), folder / "x.json", folder / "plain", itertools.count()

    def save(document: Document) -> None:
        store.save("x.json", encoder.parts(document), lease=lease, expected=store.revision("x.json"))

    def load() -> None:
        stored = store.load("x.json")
        assert stored is not None
        from_json(stored.data)

    def write_plainly() -> None:
        plain.unlink(missing_ok=True)
        with plain.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def save_one_more() -> float:
        longer = snapshot.replace(messages=(*snapshot.messages, assistant(f"one more: {next(numbers)}")))
        return timed(lambda: save(longer))

    first = timed(lambda: save(snapshot))
    data = path.read_bytes()
    works = (path.read_bytes, write_plainly, lambda: json.loads(data), load)
    measures = [lambda work=work: timed(work) for work in works]
    read, write, parse, loads, saves = alternate(runs, *measures, save_one_more)
    lease.release()
    both, bare = ([a + b for a, b in zip(*pair, strict=True)] for pair in ((loads, saves), (read, write)))
    return [
        Row(f"{name}: load and save, against read, write and sync", "ms", both, bare, promise),
        Row("  load, against json.loads", "ms", loads, parse),
        Row("  save, against write and sync", "ms", saves, write),
        Row("  the first save", "ms", [first]),
    ]


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


async def stream(folder: Path, seconds: float) -> list[Row]:
    """The delay of events, without and with saving."""
    snapshot = material.long(*LARGE)
    idle = await lateness(None, snapshot, seconds)
    saver = await Saver.open(Target(FileStore(folder), "stream.json"), mask=default_mask(raw=False))
    late = await lateness(saver, snapshot, seconds)
    await saver.close()
    return [
        Row("the latest event of a turn without saving, late by", "ms", [idle]),
        Row(f"  with {saver.saves} saves, late by", "ms", [late], promise=20.0),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--folder", type=Path, help="where to save (a new temporary folder)")
    options = parser.parse_args()
    os.environ["ANTHROPIC_API_KEY"] = KEY
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        rows = compare("100 KB", material.long(*SMALL), Path(name), options.runs, 1.5)
        rows += compare("50 MB", material.long(*LARGE), Path(name), options.runs, None)
        rows += asyncio.run(stream(Path(name), options.seconds))
    return show(rows)


if __name__ == "__main__":
    sys.exit(main())
