"""Many writers of one name, and many sessions side by side: nobody's work is lost silently."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from codelet.export.decode import from_json
from codelet.export.store_target import open_place
from tests.support.program import ROOT

WRITERS = 8

# Each adds entries of its own; what it was told is saved, it prints with the place.
WRITER = """
import asyncio, json, sys, time
from codelet.errors import SessionHeld
from codelet.export.live import read_export
from codelet.errors import ExportError
from codelet.export.saver import Saver
from codelet.export.document import Document
from codelet.export.store_target import open_target
from codelet.messages import user

async def once(target, label):
    try:
        resumed = await read_export(target)
    except ExportError as error:
        if "no such export" not in str(error):
            raise
        resumed = None
    snapshot = resumed.snapshot if resumed else Document(timestamp=0.0, token_count=0, messages=())
    try:
        saver = await Saver.open(open_target(target), mask=None, resumed=resumed and resumed.revision)
    except SessionHeld:
        return "held"
    except ExportError as error:
        return "late" if "changed since" in str(error) or "exists" in str(error) else str(error)
    saver.save(snapshot.replace(messages=(*snapshot.messages, user(label))))
    await saver.close()
    print(json.dumps([label, saver.target.name]), flush=True)
    return "saved"

async def main(target, writer, count):
    for number in range(int(count)):
        while (how := await once(target, f"{writer}-{number}")) != "saved":
            if how not in ("held", "late"):
                raise SystemExit(how)
            await asyncio.sleep(0.01)

asyncio.run(main(*sys.argv[1:]))
"""

# The same without locks: each believes that it alone writes.
LAWLESS = """
import json, sys
from codelet.export.encode import to_json
from codelet.errors import SaveConflict, SessionHeld
from codelet.export.document import Document
from codelet.export.decode import from_json
from codelet.export.store_target import open_place
from codelet.messages import user

place, name, writer = sys.argv[1:]
store = open_place(place)
stored = store.load(name)
revision = stored.revision if stored else None
snapshot = from_json(stored.data) if stored else Document(timestamp=0.0, token_count=0, messages=())
print("ready", flush=True)
sys.stdin.readline()
data = [to_json(snapshot.replace(messages=(*snapshot.messages, user(writer))), mask=None)]
while True:
    try:
        lease = store.lock(name)
        break
    except SessionHeld:
        continue
try:
    store.save(name, data, lease=lease, expected=revision)
except SaveConflict:
    name = store.save_beside(name, data)
lease.release()
print(json.dumps([writer, name]), flush=True)
"""


def run_all(script: str, arguments: list[list[str]], *, together: bool) -> list[tuple[str, str]]:
    """Run the writers at once; (entry, name) pairs of what each was told is saved."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen([sys.executable, "-c", script, *words], cwd=ROOT, **pipes) for words in arguments]
    if together:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
    told: list[tuple[str, str]] = []
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in running:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        told += [tuple(json.loads(line)) for line in out.splitlines()]
    return told


def entries_of(place: str) -> dict[str, set[str]]:
    """The entries under each name of a place."""
    store = open_place(place)
    found: dict[str, set[str]] = {}
    for entry in store.entries():
        stored = store.load(entry.name)
        assert stored is not None
        found[entry.name] = {str(m["content"]) for m in from_json(stored.data).messages}
    return found


@pytest.mark.usefixtures("store")
def test_eight_writers_who_lock_all_find_their_work_in_one_place(place: str) -> None:
    arguments = [[f"{place}/shared.json", str(writer), "2"] for writer in range(WRITERS)]
    told = run_all(WRITER, arguments, together=False)
    assert len(told) == WRITERS * 2
    found = entries_of(place)
    for entry, name in told:
        assert entry in found[name]
    assert found["shared.json"] == {f"{writer}-{number}" for writer in range(WRITERS) for number in range(2)}


@pytest.mark.usefixtures("store")
def test_eight_writers_who_all_started_from_one_state_lose_nothing(place: str) -> None:
    told = run_all(LAWLESS, [[place, "shared.json", str(writer)] for writer in range(WRITERS)], together=True)
    found = entries_of(place)
    assert len(told) == WRITERS
    assert len(found) == WRITERS
    for entry, name in told:
        assert found[name] == {entry}
