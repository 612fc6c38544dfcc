"""Several who want one session: each waits in line, in order of arrival; whoever dies or gives up loses its place."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from codelet.errors import ExportError, SessionHeld
from codelet.export.decode import from_json
from codelet.export.live import reserve
from codelet.export.store_target import open_target
from codelet.export.stores.store import Store, lock_within
from codelet.messages import unpaired
from tests.support.amount import amount
from tests.support.program import CODELET, ROOT, environment
from tests.support.script import Reply
from tests.support.server import ModelServer, Recorded
from tests.support.waiting import until

TURNS = amount(30, 100)
NAME = "work.json"

# Each turn is a session of its own, which waits for the one file; it prints when it came and when it was its turn.
AGENT = """
import asyncio, json, sys, time
from codelet import open_session

async def main(target, base, label, turns):
    for number in range(int(turns)):
        came = time.monotonic()
        async with open_session(
            model="openai/scripted", api_base=base, api_key="k", export=target, resume=target, wait=60, bare=True
        ) as session:
            print(json.dumps([came, time.monotonic(), f"{label}{number}"]), flush=True)
            async for event in session.send(f"{label}{number}"):
                pass

asyncio.run(main(*sys.argv[1:]))
"""


def echo(request: Recorded) -> Reply:
    return Reply(f"done: {request.json['messages'][-1]['content']}")


@contextmanager
def read_again_and_again(store: Store, wrong: list[str]) -> Iterator[None]:
    """Read the file all the time; what is not whole goes to `wrong`."""
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            try:
                stored = store.load(NAME)
                if stored is not None:
                    from_json(stored.data)
            except ExportError as error:
                wrong.append(repr(error))
            over.wait(0.002)  # clock: a pause, so that the reader leaves the processor to the others

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        over.set()
        reader.join()


@pytest.mark.timeout(300)
@pytest.mark.long
def test_two_processes_that_wait_for_one_session_lose_no_turn_and_come_in_order(place: str, store: Store) -> None:
    wrong: list[str] = []
    target = f"{place}/{NAME}"
    with ModelServer(echo) as server, read_again_and_again(store, wrong):
        agents = [
            subprocess.Popen(
                [sys.executable, "-c", AGENT, target, server.openai, label, str(TURNS)],
                cwd=ROOT,
                env=environment(None),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for label in "ab"
        ]
        told = [agent.communicate(timeout=240) for agent in agents]
    assert [err for _, err in told if err] == [] and wrong == []
    turns = sorted((json.loads(line) for out, _ in told for line in out.splitlines()), key=lambda turn: turn[1])
    assert len(turns) == 2 * TURNS
    # Who came clearly earlier (its first try to lock is made by then) was let in earlier.
    jumped = [
        (earlier, later)
        for place_, later in enumerate(turns)
        for earlier in turns[place_ + 1 :]
        if earlier[0] < later[0] - 0.5
    ]
    assert jumped == []
    switches = sum(one[2][0] != other[2][0] for one, other in itertools.pairwise(turns))
    assert switches > TURNS, "they really contended"
    stored = store.load(NAME)
    assert stored is not None
    document = from_json(stored.data)
    said = [message["content"] for message in document.messages]
    assert said == [text for turn in turns for text in (turn[2], f"done: {turn[2]}")]
    assert unpaired(document.messages) == []
    assert [entry.name for entry in store.entries()] == [NAME]
    if Path(place).is_dir():
        assert os.listdir(place) == [NAME]


async def test_waiters_come_in_the_order_of_their_arrival(store: Store) -> None:
    held = store.lock(NAME)
    order: list[int] = []

    async def one(number: int, arrived: asyncio.Event) -> None:
        lease = await lock_within(store, NAME, 60.0, lambda held: arrived.set())
        order.append(number)
        await asyncio.sleep(0.02)  # clock: holds it for a moment
        await asyncio.to_thread(lease.release)

    waiting = []
    for number in range(6):
        arrived = asyncio.Event()
        waiting.append(asyncio.create_task(one(number, arrived)))
        await arrived.wait()
    with pytest.raises(SessionHeld):
        await asyncio.to_thread(store.lock, NAME)
    held.release()
    with pytest.raises(SessionHeld):
        store.lock(NAME)  # it is free by now, but six came before
    await asyncio.gather(*waiting)
    assert order == list(range(6))


async def test_who_gives_up_or_waits_no_longer_leaves_the_line(place: str, store: Store) -> None:
    held = store.lock(NAME)
    told: list[str] = []
    with pytest.raises(SessionHeld) as caught:
        await reserve(f"{place}/{NAME}", None, wait=0.4, waiting=lambda other: told.append(other.holder))
    assert told == [caught.value.holder] and str(os.getpid()) in told[0]
    given_up = asyncio.create_task(lock_within(store, NAME, 60.0))
    await asyncio.sleep(0.3)  # clock: it waits by then
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    held.release()
    lease = await lock_within(store, NAME, 0.0)
    lease.release()
    if Path(place).is_dir():
        assert os.listdir(place) == []


def test_a_killed_waiter_holds_nobody_up(place: str, store: Store) -> None:
    held = store.lock(NAME)
    script = (
        "import asyncio, sys; from codelet.export.live import reserve\n"
        "asyncio.run(reserve(sys.argv[1], None, wait=600, waiting=lambda held: print('waits', flush=True)))"
    )
    waiter = subprocess.Popen([sys.executable, "-c", script, f"{place}/{NAME}"], cwd=ROOT, stdout=subprocess.PIPE)
    assert waiter.stdout is not None and waiter.stdout.readline() == b"waits\n"
    waiter.send_signal(signal.SIGKILL)
    waiter.communicate()
    held.release()
    lease = asyncio.run(lock_within(store, NAME, 20.0))
    lease.release()
    if Path(place).is_dir():
        assert os.listdir(place) == []


def test_the_program_waits_says_for_whom_and_ends_with_a_signal(tmp_path: Path) -> None:
    target = tmp_path / NAME
    held = open_target(str(target)).store.lock(NAME)
    with ModelServer([Reply("Here.")]) as server:

        def begun(*more: str) -> subprocess.Popen[str]:
            chosen = ["--model", "openai/scripted", "--api-base", server.openai]
            return subprocess.Popen(
                [*CODELET, "-p", "hello", "--continue", str(target), *more, *chosen],
                cwd=tmp_path,
                env=environment(tmp_path, {"OPENAI_API_KEY": "test-key"}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )

        refused = begun()
        assert refused.communicate(timeout=60)[0] == "" and refused.returncode == 2
        stopped, waits = begun("--wait", "60"), begun("--wait", "60")
        assert until(lambda: len(list(tmp_path.glob(f".{NAME}.lock.*"))) == 2)
        assert stopped.stderr is not None and str(os.getpid()) in stopped.stderr.readline()
        stopped.send_signal(signal.SIGTERM)
        stopped.communicate(timeout=30)
        assert stopped.returncode == 143
        held.release()
        out, _ = waits.communicate(timeout=60)
        assert (out, waits.returncode) == ("Here.\n", 0)
    assert os.listdir(tmp_path) == [NAME]
