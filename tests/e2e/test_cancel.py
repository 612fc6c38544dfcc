"""Stopping a turn at every state it can be in: the list stays valid, the next turn works, no child lives."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from codelet import events
from codelet.loop.session import Session
from codelet.messages import unpaired
from codelet.providers import open_provider
from codelet.providers.protocol import ProviderOptions
from codelet.safety.verdict import Answer, Question
from tests.e2e.conftest import Codelet
from tests.support.amount import FULL as FULL_SIZE
from tests.support.program import descendants, processes_with
from tests.support.script import Call, Delivery, HttpError, Reply, Step, Stop
from tests.support.server import ModelServer, Recorded
from tests.support.waiting import PATIENCE, Neighbour, happens, until

SLEEP = f"sleep 4711.{os.getpid()}"
READ = Call("read-1", "read", {"path": "app.py"}, (4, 9))
GREP = Call("grep-1", "grep", {"pattern": "hello"}, (3,))
WRITE = Call("write-1", "write", {"path": "made.txt", "content": "made\n"}, (6, 20))
BASH = Call("bash-1", "bash", {"command": f"echo begun; {SLEEP}"}, (8,))
SPREAD = Call("bash-2", "bash", {"command": f"({SLEEP} &) ; setsid {SLEEP} & {SLEEP}"})

FULL = Reply(
    ["Let me ", "look ", "first. "],
    reasoning=["It is ", "simple."],
    calls=[READ, GREP, WRITE],
    delivery=Delivery(pause=0.002),
)
ANSWER = Reply(["All ", "is ", "well."], delivery=Delivery(pause=0.002))


# After how many of FULL's and ANSWER's events the server stops, to have come to the same place on each wire.
PLACES = {
    "headers": {"openai": None, "openai/responses": None, "anthropic": None},
    "first event": {"openai": 0, "openai/responses": 0, "anthropic": 0},
    "first token": {"openai": 1, "openai/responses": 4, "anthropic": 2},
    "reasoning": {"openai": 2, "openai/responses": 5, "anthropic": 4},
    "text": {"openai": 3, "openai/responses": 6, "anthropic": 5},
    "arguments": {"openai": 8, "openai/responses": 19, "anthropic": 14},
    "between calls": {"openai": 10, "openai/responses": 23, "anthropic": 17},
    "finish": {"openai": 17, "openai/responses": 34, "anthropic": 26},
}


def stopped(reply: Reply, place: str) -> Callable[[str], Step]:
    """The reply, stalling at the place, on any wire."""
    return lambda wire: dataclasses.replace(reply, delivery=Delivery(), fault=Stop("stall", PLACES[place][wire]))


def steps(script: Sequence[Step | Callable[[str], Step]], wire: str) -> list[Step]:
    return [step(wire) if callable(step) else step for step in script]


@dataclass(frozen=True)
class State:
    """A state of a turn: what the server plays, and when the turn has come there.

    It is there at the `count`-th event of a type, of text at so many characters (what comes together is one event), or
    else when the script's last request has been read and its answer stalls.
    """

    script: Sequence[Step | Callable[[str], Step]]
    kind: type[events.Event] | None = None
    count: int = 1

    def reached(self, seen: list[events.Event]) -> bool:
        if self.kind is None:
            return False
        these = [event for event in seen if isinstance(event, self.kind)]
        return sum(len(event.delta) if isinstance(event, events.Text) else 1 for event in these) >= self.count


STATES = {
    "turn started": State([ANSWER], events.TurnStart),
    "reminders in place": State([ANSWER], events.Reminder, 3),
    "request about to leave": State([ANSWER], events.StepStart),
    "waiting for the headers": State([stopped(ANSWER, "headers")]),
    "waiting for the first event": State([stopped(ANSWER, "first event")]),
    "waiting for the first token": State([stopped(ANSWER, "first token")]),
    "within the reasoning": State([stopped(FULL, "reasoning")], events.Reasoning),
    "within the text": State([stopped(ANSWER, "text")], events.Text, len("All is ")),
    "within a call's arguments": State([stopped(FULL, "arguments")]),
    "between two calls": State([stopped(FULL, "between calls")]),
    "before the finish marker": State([stopped(FULL, "finish")]),
    "waiting to send again": State([HttpError(429, retry_after=30)], events.Retry),
    "a tool runs": State([Reply(calls=[BASH])], events.ToolCallStarted),
    "a tool with children runs": State([Reply(calls=[SPREAD])], events.ToolCallStarted),
    "the first of several tools runs": State([Reply(calls=[BASH, WRITE])], events.ToolCallStarted),
    "a later tool runs": State([Reply(calls=[READ, BASH, WRITE])], events.ToolResult),
    "after the tools, before the next headers": State([FULL, stopped(ANSWER, "headers")]),
    "within the second answer": State([FULL, stopped(ANSWER, "text")], events.Text, len("Let me look first. All is ")),
}


@pytest.fixture(params=["openai", "openai/responses", "anthropic"])
async def session(request: pytest.FixtureRequest, repo: Path) -> AsyncIterator[tuple[Session, ModelServer]]:
    with ModelServer() as server:
        base = server.anthropic if request.param == "anthropic" else server.openai
        options = ProviderOptions(api_base=base, api_key="test-key")
        provider = open_provider(f"{request.param}/scripted", options)

        async def yes(question: Question) -> Answer:
            return Answer(allow=True)

        yield Session(provider, workspace=repo, ask=yes), server
        await provider.close()


async def stop_at(session: Session, server: ModelServer, state: State, delay: float = 0.0) -> list[events.Event]:
    """Start a turn, cancel it in the state (or `delay` seconds later); its events, those after the cancel too."""
    seen: list[events.Event] = []
    there = asyncio.Event()

    async def turn() -> None:
        async with contextlib.aclosing(session.send("go on")) as stream:
            async for event in stream:
                seen.append(event)
                if state.reached(seen):
                    there.set()

    task = asyncio.create_task(turn())
    if state.kind is None:
        await happens(lambda: len(server.requests) >= len(state.script), f"the state, with the events {seen},")
        await asyncio.sleep(0.03)  # clock: the bytes before the stall arrive; nothing tells of them
    else:
        await asyncio.wait_for(there.wait(), PATIENCE)
    await asyncio.sleep(delay)  # clock: any moment will do
    assert not task.done(), f"the turn ended before: {seen}"
    with Neighbour() as clock, contextlib.suppress(asyncio.CancelledError):
        task.cancel()
        await task
    assert clock.passed < 3, "the turn took too long to stop"
    return seen


STANDING: set[int] = set()


@pytest.fixture(autouse=True)
def children_before() -> None:
    """Processes that this one has already, such as a server that other tests share."""
    STANDING.clear()
    STANDING.update(descendants(os.getpid()))


async def assert_goes_on(session: Session, server: ModelServer, seen: list[events.Event]) -> None:
    """The list is valid, no child lives, and the next turn works and sends a valid list."""
    assert unpaired(session.messages) == []
    assert isinstance(seen[-1], events.TurnEnd), seen[-3:]
    assert seen[-1].reason == "interrupted"
    assert isinstance(seen[-2], events.Interrupted)
    await happens(lambda: set(descendants(os.getpid())) <= STANDING, "the end of all children")
    assert processes_with(SLEEP.split()[1]) == []
    server.script = lambda request: ANSWER
    before = len(server.requests)
    said: list[str] = []
    async with contextlib.aclosing(session.send("and now?")) as stream:
        async for event in stream:
            if isinstance(event, events.Text):
                said.append(event.delta)
    assert "".join(said) == "All is well."
    assert unpaired(session.messages) == []
    assert_valid(server.requests[before])


def assert_valid(request: Recorded) -> None:
    """Every call in the request has its result in the message after it."""
    if request.wire == "responses":
        items = request.json["input"]
        called = [item["call_id"] for item in items if item.get("type") == "function_call"]
        assert called == [item["call_id"] for item in items if item.get("type") == "function_call_output"]
        return
    messages = request.json["messages"]
    for place, message in enumerate(messages):
        if request.anthropic:
            called = [block["id"] for block in _blocks(message) if block["type"] == "tool_use"]
            after = _blocks(messages[place + 1]) if place + 1 < len(messages) else []
            answered = [block["tool_use_id"] for block in after if block["type"] == "tool_result"]
        else:
            called = [call["id"] for call in message.get("tool_calls", ())]
            after = messages[place + 1 : place + 1 + len(called)]
            answered = [entry.get("tool_call_id") for entry in after]
        if called:
            assert sorted(called) == sorted(answered), json.dumps(messages)[:2000]
        assert message.get("content") or called, f"an empty message: {message}"


def _blocks(message: dict) -> list[dict]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


@pytest.mark.parametrize("name", STATES)
async def test_cancel_in_a_state(session: tuple[Session, ModelServer], name: str):
    state = STATES[name]
    subject, server = session
    server.script = steps(state.script, subject.provider.model.rpartition("/")[0])
    delay = 0.2 if "runs" in name else 0.0
    seen = await stop_at(subject, server, state, delay)
    if "runs" in name:
        assert any(isinstance(event, events.Interrupted) and event.half_done for event in seen), "no tool ran"
    for request in server.requests:
        # The server may note the end of an answer just after it is asked for: what counts is that one of the two comes.
        ended = await happens(lambda request=request: request.done.is_set() or request.gone.is_set())
        assert ended, "the connection was left open"
    await assert_goes_on(subject, server, seen)


@pytest.mark.parametrize("count", range(1, 19))
async def test_cancel_after_so_many_events(session: tuple[Session, ModelServer], count: int):
    subject, server = session
    server.script = [FULL, ANSWER]
    seen = await stop_at(subject, server, State([], events.Event, count))
    await assert_goes_on(subject, server, seen)


@pytest.mark.long
async def test_fifty_cancels_in_one_session(session: tuple[Session, ModelServer]):
    """One list, stopped again and again at another moment, stays valid throughout."""
    subject, server = session
    server.script = lambda request: Reply(
        FULL.text,
        FULL.reasoning,
        calls=[Call(f"c{request.number}-{call.id}", call.name, call.arguments) for call in FULL.calls],
        delivery=Delivery(pause=0.001),
    )
    for count in range(50):
        seen = await stop_at(subject, server, State([], events.TurnStart), count * 0.002)
        assert unpaired(subject.messages) == []
    await assert_goes_on(subject, server, seen)


async def test_the_report_says_what_was_done_half_done_and_not_done(session: tuple[Session, ModelServer]):
    subject, server = session
    server.script = [Reply(calls=[READ, BASH, WRITE])]
    seen = await stop_at(subject, server, STATES["a later tool runs"], 0.2)
    report = next(event for event in seen if isinstance(event, events.Interrupted))
    assert (report.done, report.half_done, report.not_done) == (("read-1",), ("bash-1",), ("write-1",))
    assert subject.conversation.interruption == report
    results = {m["tool_call_id"]: m["content"] for m in subject.messages if m["role"] == "tool"}
    assert "hello" in results["read-1"]
    assert "begun" in results["bash-1"] or "interrupted" in results["bash-1"]
    assert "interrupted" in results["write-1"]
    assert not (subject.workspace / "made.txt").exists()


async def test_cancel_while_a_question_is_open(session: tuple[Session, ModelServer]):
    subject, server = session
    asked = asyncio.Event()

    async def never(question: Question) -> Answer:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody answers")

    async def yes(question: Question) -> Answer:
        return Answer(allow=True)

    subject.toolbox.ask = never
    server.script = [Reply(calls=[READ, WRITE, GREP])]
    seen: list[events.Event] = []

    async def turn() -> None:
        async with contextlib.aclosing(subject.send("go on")) as stream:
            async for event in stream:
                seen.append(event)

    task = asyncio.create_task(turn())
    await asyncio.wait_for(asked.wait(), PATIENCE)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert not (subject.workspace / "made.txt").exists()
    subject.toolbox.ask = yes
    await assert_goes_on(subject, server, seen)


async def test_continue_takes_the_turn_up_again(session: tuple[Session, ModelServer]):
    subject, server = session
    state = STATES["within the text"]
    server.script = steps(state.script, subject.provider.model.rpartition("/")[0])
    await stop_at(subject, server, state)
    prompts = [m["content"] for m in subject.messages if m["role"] == "user" and m["content"] == "go on"]
    server.script = lambda request: ANSWER
    async with contextlib.aclosing(subject.resume()) as stream:
        said = [event.delta async for event in stream if isinstance(event, events.Text)]
    assert "".join(said) == "All is well."
    after = [m["content"] for m in subject.messages if m["role"] == "user" and m["content"] == "go on"]
    assert prompts == after == ["go on"]
    assert_valid(server.requests[-1])


PTY_STATES = [
    "waiting for the headers",
    "waiting for the first event",
    "waiting for the first token",
    "within the reasoning",
    "within the text",
    "within a call's arguments",
    "between two calls",
    "before the finish marker",
    "waiting to send again",
    "a tool runs",
    "a tool with children runs",
    "the first of several tools runs",
    "after the tools, before the next headers",
]


def _numbered(step: Step, number: int) -> Step:
    """The step with call ids of its own."""
    if not isinstance(step, Reply):
        return step
    return dataclasses.replace(step, calls=[dataclasses.replace(call, id=f"{call.id}-{number}") for call in step.calls])


KEYS_ON_WIRES = [("openai", "esc"), ("openai/responses", "ctrl-c"), ("anthropic", "ctrl-c")]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("wire", "key"),
    [(wire, key) for wire, _ in KEYS_ON_WIRES for key in ("esc", "ctrl-c")] if FULL_SIZE else KEYS_ON_WIRES,
)
@pytest.mark.long
def test_cancels_at_every_state_in_a_terminal(codelet: Codelet, wire: str, key: str):
    """Thirteen states on each wire, in the gate with one key, at full size with both; each has a turn after it."""
    codelet.wire = wire
    server = codelet.server
    with codelet.terminal("--yes", rows=40) as terminal:
        for number, name in enumerate(PTY_STATES):
            base = len(server.requests)
            played = steps(STATES[name].script, codelet.wire)
            script = [_numbered(step, number * 10 + place) for place, step in enumerate(played)]
            after = Reply(f"Answer {number} is complete.")
            server.script = lambda request, base=base, script=script, after=after: (
                script[request.number - base] if request.number - base < len(script) else after
            )
            terminal.line(f"prompt {number}")
            server.wait_for(base + len(script))
            if "runs" in name:
                terminal.until(
                    lambda: any(SLEEP in _command(pid) for pid in descendants(terminal.pid)), f"{name}: the tool"
                )
            terminal.pump(0.15)
            before = terminal.scrollback.count("stopped")
            terminal.key(key)
            terminal.until(
                lambda before=before: terminal.scrollback.count("stopped") > before, f"{name}: a word of the stop"
            )
            terminal.settle(0.15)
            until(lambda terminal=terminal: not descendants(terminal.pid), f"{name}: the end of children")
            assert processes_with(SLEEP.split()[1]) == [], name
            terminal.line(f"next {number}")
            terminal.wait_for(f"Answer {number} is complete.")
            assert_valid(server.requests[-1])
            terminal.settle(0.15)
        terminal.line("exit")
        assert terminal.wait_exit() == 0


@pytest.mark.parametrize("key", ["esc", "ctrl-c"])
def test_a_cancel_while_a_question_is_on_the_screen(codelet: Codelet, key: str):
    codelet.server.script = [Reply(calls=[READ, WRITE]), Reply("Very well.")]
    with codelet.terminal() as terminal:
        terminal.line("write it")
        terminal.wait_for("made.txt")
        terminal.settle(timeout=1.0)
        assert not (codelet.cwd / "made.txt").exists()
        terminal.key(key)
        terminal.wait_for("stopped")
        terminal.settle()
        terminal.line("never mind")
        terminal.wait_for("Very well.")
        assert_valid(codelet.server.requests[-1])
        assert not (codelet.cwd / "made.txt").exists()
        terminal.settle()
        terminal.line("exit")
        assert terminal.wait_exit() == 0


def _command(pid: int) -> str:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""
