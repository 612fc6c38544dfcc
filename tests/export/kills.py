"""Kill a process with SIGKILL during its saves, repeatedly, and check what is left.

Each child continues from the stored state and reports each confirmed save. After each kill the file must be whole, and
contain the last confirmed state or the next one.
"""

from __future__ import annotations

import os
import random
import signal
import struct
import time
from collections import Counter
from pathlib import Path

from codelet.export.decode import from_json
from codelet.export.document import Document
from codelet.export.encode import Encoder
from codelet.export.stores.file import FileStore
from codelet.messages import assistant, user

NAME = "work.json"
_NUMBER = struct.Struct("<q")
_PADDING = 40_000


def numbered(number: int) -> Document:
    """A state that says which one it is, in several places and sizes."""
    messages = [user(f"state {number}"), *(assistant(f"{number} " + "." * _PADDING) for _ in range(number % 7))]
    return Document(
        timestamp=float(number), token_count=number, messages=tuple(messages), session_id="kill", facts=(str(number),)
    )


def check(folder: Path) -> int:
    """The number of the state that is stored, 0 for none. Raises if it is not whole."""
    stored = FileStore(folder).load(NAME)
    if stored is None:
        return 0
    snapshot = from_json(stored.data)
    if snapshot != numbered(snapshot.token_count):
        raise ValueError(f"state {snapshot.token_count} is a mixture")
    return snapshot.token_count


def save_for_ever(folder: Path, report: int) -> None:
    """The child: goes on from what is stored, tells each confirmed save."""
    store = FileStore(folder)
    lease = store.lock(NAME)
    encoder = Encoder(None)
    revision = store.revision(NAME)
    number = check(folder)
    os.write(report, _NUMBER.pack(0))
    while True:
        number += 1
        revision = store.save(NAME, encoder.parts(numbered(number)), lease=lease, expected=revision)
        os.write(report, _NUMBER.pack(number))


def kill_once(folder: Path, chance: random.Random) -> str:
    """Start a child, kill it at a random moment of its saves; where it was caught."""
    before = check(folder)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            save_for_ever(folder, writing)
        finally:
            os._exit(1)
    os.close(writing)
    os.read(reading, _NUMBER.size)
    time.sleep(chance.uniform(0, 0.012))  # clock: the random moment of the kill
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    told = b""
    while piece := os.read(reading, 65536):
        told += piece
    os.close(reading)
    confirmed = max([before, *(number for (number,) in _NUMBER.iter_unpack(told))])
    found = check(folder)
    if found not in (confirmed, confirmed + 1):
        raise ValueError(f"state {found} after {confirmed} was confirmed")
    left = [name for name in os.listdir(folder) if name.endswith(".tmp")]
    if len(left) > 1:
        raise ValueError(f"temporary files pile up: {left}")
    return "while writing" if left else "after the rename" if found > confirmed else "between saves"


def kill_many(kills: int, folder: Path, seed: int = 0) -> Counter[str]:
    """So many kills; how often a save was caught where. Raises ValueError at the first file that is not whole."""
    chance = random.Random(seed)
    caught = Counter(kill_once(folder, chance) for _ in range(kills))
    store = FileStore(folder)
    store.lock(NAME).release()
    if os.listdir(folder) != [NAME]:
        raise ValueError(f"the next session left {os.listdir(folder)}")
    return caught
