"""Subagents: what they have of the session, what they may not do, what they use, and that an interrupt ends them."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.errors import LimitReached
from codelet.extensions.base import Extension, Guard, GuardedCall
from codelet.extensions.services import file_history
from codelet.loop.beside.subagents import MOST_STEPS, Subagents
from codelet.loop.meter import Limits
from codelet.loop.session import Session
from codelet.loop.toolbox import Safeguards
from codelet.messages import unpaired
from codelet.providers.protocol import Chunk, Request, UsageChunk
from codelet.safety import Policy
from codelet.safety.secrets import Masker
from codelet.safety.verdict import Answer as Reply
from codelet.safety.verdict import Question
from codelet.settings import Settings
from codelet.usage import Usage
from tests.context.scripted import Answer, ScriptedProvider, turn
from tests.extensions.conftest import Open
from tests.extensions.conftest import open_session as open_session
from tests.support.amount import amount
from tests.support.program import descendants

MODEL = "anthropic/claude-sonnet-4-5"
"""Its price is known."""


def asked(request: Request) -> str:
    """The prompt that the conversation begins with."""
    texts = [str(each["content"]) for each in request.messages if each["role"] == "user"]
    return next(text for text in texts if not text.startswith("<system-reminder>"))


def steps(request: Request) -> int:
    """How many answers the conversation has."""
    return sum(each["role"] == "assistant" for each in request.messages)


def tasks(*prompts: str, agent: str = "") -> Answer:
    more = {"agent": agent} if agent else {}
    return Answer("I ask.", [("task", {"about": f"about {each}", "prompt": each, **more}) for each in prompts])


def acting(first: Answer, child: Callable[[int], Answer]) -> Callable[[Request], Answer]:
    """The session's first answer, and a subagent's by the number of its step."""

    def script(request: Request) -> Answer:
        if asked(request) != "go":
            return child(steps(request))
        return first if not steps(request) else Answer("all done")

    return script


def results(seen: list[events.Event]) -> list[events.ToolResult]:
    return [each for each in seen if isinstance(each, events.ToolResult)]


async def test_it_answers_from_a_list_of_its_own(open_session: Open, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the answer is 41\n")
    script = acting(
        tasks("find it"),
        lambda step: Answer("It is 41.") if step else Answer("look", [("read", {"path": "a.txt"})]),
    )
    provider = ScriptedProvider(model=MODEL, script=script)
    session, _ = open_session(Subagents(Settings()), provider=provider, policy=Policy(tmp_path))
    seen = await turn(session, "go")
    [result] = results(seen)
    assert result.status == "done" and result.text.startswith("It is 41.") and "1 call," in result.text
    assert "read a.txt" in "".join(each.delta for each in seen if isinstance(each, events.ToolProgress))
    assert "the answer is 41" not in json.dumps(list(session.messages))
    child = next(each for each in provider.sent if "find it" in json.dumps(each.stable))
    assert '"go"' not in json.dumps(child.stable) and '"task"' not in child.tools and '"read"' in child.tools
    assert "system-reminder" not in json.dumps([*child.stable, *child.tail]), "the session is bare"
    assert session.meter.requests == 4 and session.usage.total_input == sum(each.size for each in provider.sent)
    assert session.meter.spent_cost is not None and session.meter.spent_cost > 0


async def test_without_an_agent_it_only_reads(open_session: Open, tmp_path: Path) -> None:
    script = acting(
        tasks("write it"),
        lambda step: Answer("I could not.") if step else Answer("w", [("write", {"path": "x", "content": "x"})]),
    )
    session, _ = open_session(
        Subagents(Settings()), provider=ScriptedProvider(script=script), policy=Policy(tmp_path, yes=True)
    )
    await turn(session, "go")
    assert not (tmp_path / "x").exists()
    assert session.toolbox.approvals.refused


@pytest.mark.parametrize(
    ("mode", "rules", "writes"), [("auto-edit", (), True), ("read-only", (), False), ("auto-edit", ("edit(x)",), False)]
)
async def test_an_agent_has_no_more_than_the_session(
    open_session: Open, tmp_path: Path, mode: Any, rules: tuple[str, ...], writes: bool
) -> None:
    agents = tmp_path / "home" / ".claude" / "agents"
    agents.mkdir(parents=True)
    (agents / "writer.md").write_text("---\nname: writer\ndescription: writes\ntools: Write\n---\nBe terse, writer.\n")
    folder = tmp_path / "work"
    folder.mkdir()
    script = acting(
        tasks("write it", agent="writer"),
        lambda step: Answer("done") if step else Answer("w", [("write", {"path": "x", "content": "x"})]),
    )
    provider = ScriptedProvider(script=script)
    settings = Settings(home=tmp_path / "home")
    policy = Policy(folder, mode, deny=rules)
    session, _ = open_session(Subagents(settings), provider=provider, policy=policy, workspace_at=folder, tools=None)
    [result] = results(await turn(session, "go"))
    assert result.status == "done"
    assert (folder / "x").exists() is writes
    child = next(each for each in provider.sent if "write it" in json.dumps(each.stable))
    assert '"bash"' not in child.tools
    if writes:
        [change] = file_history(session).changes
        assert change.name == "x"
        assert [each.effect for each in next(iter(session.conversation.calls)).files] == ["created"]


async def test_a_project_s_agent_needs_trust_and_an_unknown_one_is_told(open_session: Open, tmp_path: Path) -> None:
    agents = tmp_path / ".claude" / "agents"
    agents.mkdir(parents=True)
    (agents / "inside.md").write_text("---\nname: inside\ndescription: d\n---\nHi.\n")
    told = []
    for trusted in (False, True):
        script = acting(tasks("p", agent="inside"), lambda step: Answer("inside answered"))
        session, _ = open_session(Subagents(Settings(trusted=trusted)), provider=ScriptedProvider(script=script))
        told.append(results(await turn(session, "go"))[0])
    assert [each.status for each in told] == ["failed", "done"]
    assert "inside" in told[0].text


async def test_its_questions_guards_and_secrets_are_the_session_s(open_session: Open, tmp_path: Path) -> None:
    questions: list[Question] = []

    async def ask(question: Question) -> Reply:
        questions.append(question)
        return Reply(True, always=True)

    class Watching(Extension, Guard):
        def __init__(self) -> None:
            self.guards = (self,)
            self.seen: list[str] = []

        async def before(self, call: GuardedCall) -> None:
            if call.verdict is not None:
                self.seen.append(call.name)

    (tmp_path / "a.txt").write_text("key hunter2-hunter2\n")
    watching = Watching()
    outside = str(tmp_path.parent / f"{tmp_path.name}-outside.txt")
    Path(outside).write_text("far\n")
    script = acting(
        tasks("p"),
        lambda step: (
            Answer("hunter2-hunter2")
            if step
            else Answer("r", [("read", {"path": "a.txt"}), ("read", {"path": outside})])
        ),
    )
    provider = ScriptedProvider(script=script)
    session, _ = open_session(
        watching,
        Subagents(Settings()),
        provider=provider,
        policy=Policy(tmp_path),
        ask=ask,
        safeguards=Safeguards(masker=Masker({"TEST_API_KEY": "hunter2-hunter2"})),
    )
    [result] = results(await turn(session, "go"))
    assert "hunter2" not in result.text + json.dumps([each.stable for each in provider.sent])
    assert watching.seen == ["task", "read", "read"]
    assert len(questions) == 1 and questions[0].verdict.lifted_by is None
    assert session.policy.rules["allow"], "an always holds for the session too"


async def test_steps_and_spending_are_bounded(open_session: Open, tmp_path: Path) -> None:
    def child(step: int) -> Answer:
        return Answer(f"at {step}", [("read", {"path": "a.txt"})])

    (tmp_path / "a.txt").write_text("a\n")
    provider = ScriptedProvider(script=acting(tasks("p"), child))
    session, _ = open_session(Subagents(Settings()), provider=provider)
    [result] = results(await turn(session, "go"))
    assert result.status == "failed" and f"at {MOST_STEPS - 1}" in result.text
    assert sum("task" not in each.tools for each in provider.sent) == MOST_STEPS
    assert [each.tools for each in provider.sent if "task" not in each.tools][-1] == "[]"

    few = ScriptedProvider(script=acting(tasks("p"), child))
    session, _ = open_session(Subagents(Settings()), provider=few, limits=Limits(max_turns=3))
    await turn(session, "go")
    assert sum("task" not in each.tools for each in few.sent) == 3, "no more steps than the session's own"

    held = ScriptedProvider(model=MODEL, script=acting(tasks("p", "q"), child))
    session, _ = open_session(Subagents(Settings()), provider=held, limits=Limits(max_tokens=300))
    seen: list[events.Event] = []
    with pytest.raises(Exception, match="--max-tokens"):
        async with aclosing(session.send("go")) as stream:
            async for event in stream:
                seen.append(event)
    assert {each.status for each in results(seen)} == {"failed"}
    assert all("limit of 300 output tokens" in each.text for each in results(seen)), results(seen)
    assert (session.usage.output or 0) <= 300 + 2 * 200


async def test_the_limit_that_ends_a_subagent_is_the_sessions_own(open_session: Open, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("word " * 3_000)
    looking = Answer("looking", [("read", {"path": "a.txt"})])
    held = ScriptedProvider(model=MODEL, script=acting(tasks("p"), lambda step: looking))
    session, _ = open_session(Subagents(Settings()), provider=held, limits=Limits(max_cost=0.02))
    seen: list[events.Event] = []
    with pytest.raises(LimitReached, match="--max-cost"):
        async with aclosing(session.send("go")) as stream:
            async for event in stream:
                seen.append(event)
    assert ["pass the limit of 0.02 dollars" in each.text for each in results(seen)] == [True], results(seen)


async def test_at_most_four_work_at_once(open_session: Open) -> None:
    working = most = 0

    class Slow(ScriptedProvider):
        async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
            nonlocal working, most
            inner = asked(request) != "go"
            working += inner
            most = max(most, working)
            try:
                async with aclosing(super().stream(request)) as chunks:
                    async for chunk in chunks:
                        for _ in range(100):  # the others have begun by then
                            await asyncio.sleep(0)
                        yield chunk
            finally:
                working -= inner

    provider = Slow(script=acting(tasks(*"abcdefg"), lambda step: Answer("ok")))
    session, _ = open_session(Subagents(Settings()), provider=provider)
    assert len(results(await turn(session, "go"))) == 7
    assert most == 4


class Counting(ScriptedProvider):
    """Reports another usage with each answer, and keeps what it has reported; waits a little at each chunk."""

    def __init__(self, chance: random.Random, **more: Any) -> None:
        super().__init__(model=MODEL, **more)
        self.chance, self.reported, self.open = chance, list[Usage](), 0

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        self.open += 1
        try:
            async with aclosing(super().stream(request)) as chunks:
                async for chunk in chunks:
                    for _ in range(self.chance.randrange(4)):
                        await asyncio.sleep(0)
                    if isinstance(chunk, UsageChunk):
                        usage = Usage(
                            total_input=self.chance.randrange(1, 90_000), output=self.chance.randrange(1, 900)
                        )
                        self.reported.append(usage)
                        chunk = chunk.replace(usage=usage)
                    yield chunk
        finally:
            self.open -= 1


@pytest.mark.long
async def test_two_at_once_are_interrupted_at_random_moments(open_session: Open, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**9)
    print(f"seed {seed}", file=sys.stderr)
    chance = random.Random(seed)
    (tmp_path / "a.txt").write_text("a\n")
    numbers, before = itertools.count(), set(descendants(os.getpid()))

    def child(step: int) -> Answer:
        calls = [("read", {"path": "a.txt"}), ("grep", {"pattern": "a"}), ("find", {"pattern": "*.txt"})]
        return Answer(f"answer {next(numbers)}", calls[: 3 - step]) if step < 3 else Answer("the end")

    provider = Counting(chance)
    provider.script = acting(tasks("one", "two"), child)
    session, _ = open_session(Subagents(Settings()), provider=provider)
    stopped, moments = 0, amount(60, 200)
    for _ in range(moments):
        session.clear()
        running = asyncio.create_task(_followed(session))
        for _ in range(chance.randrange(1, 400)):
            if running.done():
                break
            await asyncio.sleep(0)
        stopped += running.cancel()
        await asyncio.wait({running})
        assert unpaired(session.messages) == [] and provider.open == 0
        assert [each for each in asyncio.all_tasks() if "Subagents" in repr(each)] == []
        total = sum(provider.reported, Usage())
        assert session.usage == total
        facts = session.models.facts
        cost = sum(facts.cost(each) or 0.0 for each in provider.reported)
        assert round(session.meter.spent_cost or 0.0, 6) == round(cost, 6)
    assert stopped > moments // 2, "most were stopped on their way"
    assert set(descendants(os.getpid())) <= before
    assert len(provider.reported) > moments


async def _followed(session: Session) -> None:
    async with aclosing(session.send("go")) as stream:
        async for _ in stream:
            pass
