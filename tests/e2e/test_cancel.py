"""Stopping a turn at every state it can be in: the list stays valid, the next turn works, no child lives."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from codelet import events
from codelet.messages import unpaired
from codelet.policy.verdict import Answer, Question
from codelet.providers import open_provider
from codelet.providers.base import ProviderOptions
from codelet.session import Session
from tests.e2e.conftest import Codelet
from tests.support.program import descendants, processes_with
from tests.support.script import Call, Delivery, HttpError, Reply, Step, Stop
from tests.support.server import ModelServer, Recorded

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


@dataclass(frozen=True)
class State:
    """A state of a turn: what the server plays, and when the turn has come there.

    `ready` is asked again and again: with the server and the events seen so far.
    """

    script: list[Step]
    ready: Callable[[ModelServer, list[events.Event]], bool]


def _stalled(script: list[Step]) -> State:
    """The last step of the script stalls: ready when its request is there (and a moment has passed)."""
    return State(script, lambda server, seen: len(server.requests) >= len(script))


def _seen(script: list[Step], kind: type[events.Event], count: int = 1) -> State:
    return State(script, lambda server, seen: sum(isinstance(event, kind) for event in seen) >= count)


def _stopped(reply: Reply, after: int | None) -> Reply:
    return Reply(reply.text, reply.reasoning, calls=reply.calls, fault=Stop("stall", after))


STATES = {
    "before anything": State([ANSWER], lambda server, seen: True),
    "turn started": _seen([ANSWER], events.TurnStart),
    "waiting for the headers": _stalled([_stopped(ANSWER, None)]),
    "waiting for the first event": _stalled([_stopped(ANSWER, 0)]),
    "waiting for the first token": _stalled([_stopped(ANSWER, 1)]),
    "within the reasoning": _seen([_stopped(FULL, 2)], events.Reasoning),
    "within the text": _seen([_stopped(ANSWER, 3)], events.Text),
    "within a call's arguments": _stalled([_stopped(FULL, 8)]),
    "between two calls": _stalled([_stopped(FULL, 11)]),
    "before the finish marker": _stalled([_stopped(FULL, 16)]),
    "waiting to send again": _seen([HttpError(429, retry_after=30)], events.Retry),
    "a tool runs": _seen([Reply(calls=[BASH])], events.ToolCall),
    "a tool with children runs": _seen([Reply(calls=[SPREAD])], events.ToolCall),
    "the first of several tools runs": _seen([Reply(calls=[BASH, WRITE])], events.ToolCall),
    "a later tool runs": _seen([Reply(calls=[READ, BASH, WRITE])], events.ToolResult),
    "after the tools, before the next headers": _stalled([FULL, _stopped(ANSWER, None)]),
    "within the second answer": _seen([FULL, _stopped(ANSWER, 3)], events.Text, 5),
}


@pytest.fixture(params=["openai", "anthropic"])
async def session(request: pytest.FixtureRequest, repo: Path) -> AsyncIterator[tuple[Session, ModelServer]]:
    with ModelServer() as server:
        base = server.openai if request.param == "openai" else server.anthropic
        options = ProviderOptions(api_base=base, api_key="test-key")
        provider = open_provider(f"{request.param}/scripted", options)

        async def yes(question: Question) -> Answer:
            return Answer(allow=True)

        yield Session(provider, workspace=repo, ask=yes), server
        await provider.close()


async def run_until(
    session: Session, server: ModelServer, ready: Callable[[ModelServer, list[events.Event]], bool]
) -> list[events.Event]:
    """Start a turn, cancel it when it is ready; the events it gave, those after the cancel included."""
    seen: list[events.Event] = []

    async def turn() -> None:
        async with contextlib.aclosing(session.send("go on")) as stream:
            async for event in stream:
                seen.append(event)

    task = asyncio.create_task(turn())
    end = time.monotonic() + 15
    while not ready(server, seen):
        assert time.monotonic() < end, f"the turn did not come to the state: {seen}"
        assert not task.done(), f"the turn ended before: {seen} {task.exception()}"
        await asyncio.sleep(0.002)
        if ready(server, seen):
            await asyncio.sleep(0.03)  # let the bytes that are under way arrive
    task.cancel()
    started = time.monotonic()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 3, "the turn took too long to stop"
    return seen


async def assert_goes_on(session: Session, server: ModelServer, seen: list[events.Event]) -> None:
    """The list is valid, no child lives, and the next turn works and sends a valid list."""
    assert unpaired(session.messages) == []
    if seen:
        assert isinstance(seen[-1], events.TurnEnd), seen[-3:]
        assert seen[-1].reason == "interrupted"
        assert isinstance(seen[-2], events.Interrupted)
    assert descendants(os.getpid()) == []
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
    server.script = list(state.script)
    seen = await run_until(subject, server, state.ready)
    for request in server.requests:
        assert request.done.is_set() or request.gone.wait(3), "the connection was left open"
    await assert_goes_on(subject, server, seen)


@pytest.mark.parametrize("count", range(1, 21))
async def test_cancel_after_so_many_events(session: tuple[Session, ModelServer], count: int):
    subject, server = session
    server.script = [FULL, ANSWER]
    seen = await run_until(subject, server, lambda server, seen: len(seen) >= count)
    await assert_goes_on(subject, server, seen if seen[-1].type == "turn_end" else [])


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
        started = time.monotonic()
        await run_until(subject, server, lambda server, seen, t=started, n=count: time.monotonic() > t + n * 0.002)
        assert unpaired(subject.messages) == []
    await assert_goes_on(subject, server, [])


async def test_the_report_says_what_was_done_half_done_and_not_done(session: tuple[Session, ModelServer]):
    subject, server = session
    server.script = [Reply(calls=[READ, BASH, WRITE])]
    seen = await run_until(subject, server, STATES["a later tool runs"].ready)
    report = next(event for event in seen if isinstance(event, events.Interrupted))
    assert (report.done, report.half_done, report.not_done) == (("read-1",), ("bash-1",), ("write-1",))
    assert subject.interruption == report
    results = {m["tool_call_id"]: m["content"] for m in subject.messages if m["role"] == "tool"}
    assert "hello" in results["read-1"]
    assert "begun" in results["bash-1"] or "interrupted" in results["bash-1"]
    assert "interrupted" in results["write-1"]
    assert not (subject.workspace / "made.txt").exists()


async def test_continue_takes_the_turn_up_again(session: tuple[Session, ModelServer]):
    subject, server = session
    server.script = [_stopped(ANSWER, 3)]
    await run_until(subject, server, STATES["within the text"].ready)
    prompts = [m["content"] for m in subject.messages if m["role"] == "user" and m["content"] == "go on"]
    server.script = lambda request: ANSWER
    async with contextlib.aclosing(subject.resume()) as stream:
        said = [event.delta async for event in stream if isinstance(event, events.Text)]
    assert "".join(said) == "All is well."
    after = [m["content"] for m in subject.messages if m["role"] == "user" and m["content"] == "go on"]
    assert prompts == after == ["go on"]
    assert_valid(server.requests[-1])


PTY_STATES: dict[str, tuple[list[Step], str]] = {
    "waiting for the headers": ([_stopped(ANSWER, None)], ""),
    "waiting for the first event": ([_stopped(ANSWER, 0)], ""),
    "waiting for the first token": ([_stopped(ANSWER, 1)], ""),
    "within the reasoning": ([_stopped(FULL, 2)], ""),
    "within the text": ([_stopped(ANSWER, 3)], ""),
    "within a call's arguments": ([_stopped(FULL, 8)], ""),
    "between two calls": ([_stopped(FULL, 11)], ""),
    "waiting to send again": ([HttpError(429, retry_after=30)], ""),
    "a tool runs": ([Reply(calls=[BASH])], SLEEP),
    "a tool with children runs": ([Reply(calls=[SPREAD])], SLEEP),
    "after the tools": ([Reply(calls=[READ, GREP]), _stopped(ANSWER, None)], ""),
    "within the second answer": ([Reply(calls=[READ]), _stopped(ANSWER, 3)], ""),
    "many reads at once": ([Reply(calls=[READ, GREP]), _stopped(FULL, 5)], ""),
}


def _numbered(step: Step, number: int) -> Step:
    """The step with call ids of its own."""
    if not isinstance(step, Reply):
        return step
    calls = [Call(f"{call.id}-{number}", call.name, call.arguments, call.splits) for call in step.calls]
    return Reply(step.text, step.reasoning, calls=calls, fault=step.fault)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("key", ["esc", "ctrl-c"])
def test_cancels_at_every_state_in_a_terminal(codelet_on_each_wire: Codelet, key: str):
    """Thirteen states, two keys, two wires: fifty-two cancels through a pty, each with a turn after it."""
    codelet = codelet_on_each_wire
    server = codelet.server
    with codelet.terminal("--yes", rows=40) as terminal:
        terminal.settle()
        for number, (name, (steps, command)) in enumerate(PTY_STATES.items()):
            base = len(server.requests)
            script = [_numbered(step, number * 10 + place) for place, step in enumerate(steps)]
            after = Reply(f"Answer {number} is complete.")
            server.script = lambda request, base=base, script=script, after=after: (
                script[request.number - base] if request.number - base < len(script) else after
            )
            terminal.line(f"prompt {number}")
            server.wait_for(base + len(script))
            end = time.monotonic() + 10
            while command and not any(command in _command(pid) for pid in descendants(terminal.pid)):
                assert time.monotonic() < end, f"{name}: the tool did not start:\n{terminal.scrollback}"
                terminal.pump()
            terminal.pump(0.15)
            before = terminal.scrollback.count("interrupted")
            terminal.key(key)
            end = time.monotonic() + 10
            while terminal.scrollback.count("interrupted") <= before:
                assert time.monotonic() < end, f"{name}: no word of the interrupt:\n{terminal.scrollback}"
                assert terminal.pump(), f"{name}: the program ended:\n{terminal.scrollback}"
            terminal.settle(0.15)
            assert descendants(terminal.pid) == [], name
            assert processes_with(SLEEP.split()[1]) == [], name
            terminal.line(f"next {number}")
            terminal.wait_for(f"Answer {number} is complete.")
            assert_valid(server.requests[-1])
            terminal.settle(0.15)
        terminal.line("exit")
        assert terminal.wait_exit() == 0


def _command(pid: int) -> str:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""
