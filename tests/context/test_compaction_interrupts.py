"""A compaction that is cancelled at any of its awaits leaves the list unchanged, whatever the model's handoff does."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.context.narrative import INSTRUCTION
from codelet.extensions.narrator import Narrator
from codelet.loop.session import Session
from codelet.messages import assistant, tool_call, tool_result, unpaired, user
from tests.support.script import HttpError, Reply, Step, Stop
from tests.support.server import ModelServer, Recorded
from tests.support.sessions import MakeSession, make_session, turn

__all__ = ["make_session"]

GOOD = "Task now: change src/part3.py\nNext step: run src/part7.py"
HANDOFFS: dict[str, Step] = {
    "answers": Reply(GOOD),
    "hangs before its headers": Reply(GOOD, fault=Stop("stall", after=None)),
    "hangs in its text": Reply(GOOD, fault=Stop("stall", after=1)),
    "answers late": Reply(GOOD, fault=Stop("stall", after=1, seconds=0.1)),
    "fails": HttpError(400, "no"),
    "is cut off": Reply(GOOD, fault=Stop("reset", after=1)),
    "makes something up": Reply("Task now: see never/there.py"),
}


class CancelledAt(Generator[Any, Any, Any]):
    """Awaits a coroutine, and cancels the task at the await of that number."""

    def __init__(self, work: Coroutine[Any, Any, Any], number: int) -> None:
        self._steps, self._left = work.__await__(), number

    def __await__(self) -> Generator[Any, Any, Any]:
        return self

    def send(self, value: Any) -> Any:
        return self._suspended(self._steps.send(value))

    def throw(self, *error: Any) -> Any:
        return self._suspended(self._steps.throw(*error))

    def _suspended(self, waits_for: Any) -> Any:
        self._left -= 1
        task = asyncio.current_task()
        if not self._left and task is not None:
            task.cancel()
        return waits_for


def conversation() -> list[Any]:
    code = "\n".join(f"value_{n} = compute_{n % 17}(src/mod_{n % 9}.py, key_{n})" for n in range(60))
    return [
        message
        for n in range(12)
        for message in (
            user(f"prompt {n}: change src/part{n}.py, never touch port {9000 + n}"),
            assistant("Looking.", [tool_call(f"c{n}", "read", f'{{"path": "src/part{n}.py"}}')]),
            tool_result(f"c{n}", f"{code}\npart = {n}"),
            assistant(f"Part {n} is changed."),
        )
    ]


async def compact(session: Session, seen: list[str], automatic: bool) -> None:
    async with aclosing(session.send("go on") if automatic else session.compact()) as stream:
        async for event in stream:
            if isinstance(event, events.Compaction):
                seen.append(event.phase)


@pytest.mark.parametrize("automatic", [False, True], ids=["asked", "in a turn"])
@pytest.mark.parametrize("how", HANDOFFS)
async def test_cancelled_at_any_await_the_list_is_as_it_was(
    how: str, automatic: bool, make_session: MakeSession, model_server: ModelServer, repo: Path
):
    def script(request: Recorded) -> Step:
        return HANDOFFS[how] if INSTRUCTION[:60] in request.body.decode() else Reply("ok")

    model_server.script = script
    session = make_session(window=14_500 if automatic else 128_000, bare=True, extensions=[Narrator()])
    session.adopt(conversation())
    compactor, before, cancelled = session.compactor, list(session.conversation.body), 0
    for number in range(1, 300):
        Narrator(limit=0.3, failures=2).attach(session)
        seen: list[str] = []
        work = CancelledAt(compact(session, seen, automatic), number)

        async def run(work: CancelledAt = work) -> None:
            await work

        [ended] = await asyncio.gather(asyncio.create_task(run()), return_exceptions=True)
        if "done" in seen:
            break
        assert isinstance(ended, asyncio.CancelledError), (number, seen)
        cancelled += "starting" in seen
        assert not len(compactor.archive) and compactor.report is None and compactor.undo() is None
        body = session.conversation.body
        assert all(one is other for one, other in zip(body, before, strict=not automatic)), number
        assert [message["content"] for message in body[len(before) :]] in ([], ["go on"])
        assert unpaired(session.messages) == [] and (automatic or asyncio.all_tasks() == {asyncio.current_task()})
        if len(body) > len(before):
            session.rewind()
    asked = sum(INSTRUCTION[:60] in each.body.decode() for each in model_server.requests)
    assert cancelled > 2 and asked, "every await before the change was cancelled once, and a model was asked"
    assert list(session.conversation.body)[: len(before)] != before
    while compactor.undo() is not None:
        pass
    assert list(session.conversation.body)[: len(before)] == before
    await turn(session, "go on")
    assert unpaired(session.messages) == []
