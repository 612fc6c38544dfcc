"""What a session knows, against what happens to it: plan, facts, profile, background tasks; five events; a test each.

Each event happens once, to a session that has all four; the cells look at the request that follows it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codelet.context.tokens import estimate_message
from codelet.export.decode import from_json
from codelet.export.encode import to_json
from codelet.export.recorder import Recorder, restore
from codelet.extensions.base import OpenedWith
from codelet.extensions.manifest import turned_on
from codelet.extensions.services import profile_places
from codelet.loop.session import Session
from codelet.messages import Message
from codelet.record import Record
from codelet.safety import Policy
from codelet.settings import load_settings
from tests.context.scripted import Answer, ScriptedProvider, compact_five_times, turn
from tests.e2e.conftest import KEYS, Codelet
from tests.export.redis_server import PROGRAM, RedisServer
from tests.support.program import processes_with, start
from tests.support.script import Call, Reply, Stop
from tests.support.server import ModelServer
from tests.support.waiting import until

COMMAND = f"echo up; exec sleep 600.{os.getpid()}"
CALLS = (
    ("plan", {"plan": "Goal: ship the parser\n[x] read the tests: 12\n[>] write it\n[ ] publish"}),
    ("remember", {"fact": "the build needs JDK 21", "key": "jdk"}),
    ("bash", {"command": COMMAND, "background": True}),
)
PROFILE = "pair"
EVENTS = ("five compactions", "export and resume", "a crash", "another model", "redis")


class Told(Record):
    """What a request tells the model: the system prompt, and each reminder by its type."""

    system: str
    reminders: dict[str, str]


def told(system: str, messages: list[Message]) -> Told:
    marks = [str(message["content"] or "").split("<!-- type:") for message in messages]
    found = [part.partition(" -->") for parts in marks for part in parts[1:]]
    return Told(system, {name: text.partition("</system-reminder>")[0] for name, _, text in found})


class InProcess:
    """Sessions in this process, all with the profile chosen once, on scripted providers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: list[Session] = []

    def open(self, profile: str | None) -> tuple[Session, ScriptedProvider]:
        provider = ScriptedProvider()
        environment = {"HOME": str(self._folder)}
        settings = load_settings({"profile": profile}, workspace=self._folder, environment=environment)
        chosen = None if profile is None else profile_places(settings, self._folder).read(profile)
        extensions = turned_on(OpenedWith(settings=settings, profile=chosen))
        policy = Policy(self._folder, yes=True)
        session = Session(provider, workspace=self._folder, extensions=extensions, policy=policy, tools=None, bare=True)
        self._opened.append(session)
        return session, provider

    async def begun(self) -> tuple[Session, ScriptedProvider]:
        """A session that has a plan, a fact, a profile and a task."""
        session, provider = self.open(PROFILE)
        await session.run_command("facts", "add tabs, please")  # from then on the model may remember some, too
        provider.answers.extend([Answer("", CALLS), Answer()])
        await turn(session)
        return session, provider

    async def close(self) -> None:
        for session in self._opened:
            await session.close()


async def asked(session: Session, provider: ScriptedProvider) -> Told:
    await turn(session, "and now?")
    sent = provider.sent[-1]
    return told(session.upkeep.system, [*sent.stable, *sent.tail])


async def five_compactions(sessions: InProcess) -> Told:
    session, provider = await sessions.begun()
    await compact_five_times(session)
    assert sum(map(estimate_message, session.messages)) < 15_000
    return await asked(session, provider)


async def export_and_resume(sessions: InProcess) -> Told:
    session, _ = await sessions.begun()
    document = to_json(Recorder().snapshot(session), mask=None)
    again, provider = sessions.open(None)
    restore(again, from_json(document))
    return await asked(again, provider)


async def another_model(sessions: InProcess) -> Told:
    session, _ = await sessions.begun()
    session.models.switch(other := ScriptedProvider(model="scripted/other"))
    return await asked(session, other)


IN_PROCESS = {
    "five compactions": five_compactions,
    "export and resume": export_and_resume,
    "another model": another_model,
}


def _program(codelet: Codelet, target: str, *, killed: bool) -> Told:
    """A session of the program, then another process that takes it up; the first is killed, or ends by itself."""
    server = codelet.server
    calls = [Call(f"c{number}", name, arguments) for number, (name, arguments) in enumerate(CALLS)]
    server.script = [Reply(calls=calls), Stop("stall", None) if killed else Reply("Handed over."), Reply("Taken up.")]
    words = ("-p", "go", "--yes", "--profile", PROFILE, "--facts", "own.facts", "--export", target)
    if killed:
        child = start(*codelet.arguments, *words, cwd=codelet.cwd, home=codelet.home, env=KEYS)
        server.wait_for(2)
        document = codelet.cwd / target
        until(lambda: document.exists() and json.loads(document.read_bytes())["active_tasks"], "the save")
        os.kill(child.pid, signal.SIGKILL)
        child.communicate(timeout=60)
    else:
        first = codelet(*words)
        assert first.exit == 0, first.err
    second = codelet("-p", "and now?", "--resume", target)
    assert (second.exit, second.out) == (0, "Taken up.\n"), second.err
    system, *messages = server.requests[-1].messages
    return told(system["content"], messages)


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Told]]:
    """What the model is told after an event, which happens once for all cells."""
    seen: dict[str, Told] = {}

    def happened(event: str) -> Told:
        if event not in seen:
            seen[event] = _told_after(event, tmp_path_factory.mktemp("survives"))
        return seen[event]

    yield happened
    until(lambda: not processes_with(COMMAND.rpartition(" ")[2]), "the end of the tasks")


def _told_after(event: str, folder: Path) -> Told:
    if event in IN_PROCESS:

        async def in_process() -> Told:
            sessions = InProcess(folder)
            try:
                return await IN_PROCESS[event](sessions)
            finally:
                await sessions.close()

        return asyncio.run(in_process())
    with ModelServer() as server:
        codelet = Codelet(server, folder, folder)
        if event == "a crash":
            return _program(codelet, "work.json", killed=True)
        redis = RedisServer(folder / "redis")
        try:
            return _program(codelet, f"{redis.url}/work", killed=False)
        finally:
            redis.close()


events = pytest.mark.parametrize(
    "event",
    [
        pytest.param(each, marks=pytest.mark.skipif(PROGRAM is None, reason="redis-server is not installed"))
        if each == "redis"
        else each
        for each in EVENTS
    ],
)


@events
def test_the_plan_survives(event: str, after: Callable[[str], Told]) -> None:
    wanted = "ship the parser\n1. [x] read the tests: 12\n2. [>] write it\n3. [ ] publish"
    assert wanted in after(event).reminders["plan"]


@events
def test_facts_survive(event: str, after: Callable[[str], Told]) -> None:
    facts = after(event).reminders["facts"]
    assert "- [jdk] the build needs JDK 21" in facts


@events
def test_the_profile_survives(event: str, after: Callable[[str], Told]) -> None:
    assert "You are pairing" in after(event).system


@events
def test_tasks_survive(event: str, after: Callable[[str], Told]) -> None:
    """Where the session goes on the task does, too; where another process takes it up, it is named as interrupted."""
    goes_on = event in ("five compactions", "another model")
    rows = [row for row in after(event).reminders["tasks"].splitlines() if row.endswith(f": {COMMAND}")]
    (row,) = rows
    assert row.startswith("%1 running for " if goes_on else "%1 interrupted: ")
