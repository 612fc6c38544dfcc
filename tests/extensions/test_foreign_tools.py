"""Tools whose work codelet does not know: whose they are, what they stand for, when they are ready, and their rules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.errors import ToolError, UsageError
from codelet.extensions.base import Extension, Guard, GuardedCall, Noted
from codelet.loop.meter import Limits
from codelet.safety import Policy
from codelet.safety.rules import parse_rule
from codelet.safety.verdict import Answer as Said
from codelet.tools.tool import Arguments, Progress, Tool, ToolContext, ToolOutput
from tests.context.scripted import Answer, turn
from tests.extensions.conftest import Open, Person

SOURCE = "the server of a test"


class Far(Extension, Guard):
    """Two tools of elsewhere behind one gateway; notes what guards see."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, Arguments]] = []
        self.seen: list[tuple[str, str]] = []
        self.inner = {name: self.tool(f"mcp__far__{name}") for name in ("Die", "die")}
        self.tools = (self.tool("gateway").replace(stands_for=self.stands_for),)
        self.guards = (self,)

    def tool(self, name: str, text: str = "Do it.") -> Tool:
        async def run(context: ToolContext, progress: Progress, **arguments: Any) -> ToolOutput:
            self.ran.append((name, arguments))
            return ToolOutput("done")

        return Tool(name, text, {"type": "object"}, run, source=SOURCE)

    def stands_for(self, arguments: Arguments) -> tuple[Tool, Arguments]:
        if arguments.get("name") not in self.inner:
            raise ToolError("there is no such tool")
        return self.inner[arguments["name"]], arguments["arguments"]

    def record(self, kind: Noted, call: GuardedCall, **facts: object) -> None:
        self.seen.append((kind, call.name))


async def test_a_call_of_a_gateway_is_the_call_that_it_stands_for(open_session: Open, tmp_path: Path) -> None:
    far, person = Far(), Person(Said(True, always=True))
    session, provider = open_session(far, policy=Policy(tmp_path), ask=person.ask)
    asks = [("gateway", {"name": "Die", "arguments": {"body": "delete everything"}}), ("gateway", {"name": "other"})]
    provider.answers.extend([Answer("", asks), Answer("", asks[:1]), Answer()])
    seen = await turn(session)
    (question,) = person.asked
    assert question.tool == "mcp__far__Die" and '"body": "delete everything"' in question.shown
    assert (question.verdict.suggestion, SOURCE in question.verdict.reason) == ("mcp__far__Die", True)
    assert session.policy.rules["allow"] == ["mcp__far__Die"]
    assert session.policy.judge("mcp__far__die", None).action == "ask", "a yes to one tool is none to another"
    assert far.ran == [("mcp__far__Die", {"body": "delete everything"})] * 2
    assert [event.name for event in seen if isinstance(event, events.ToolCallStarted)] == [
        "mcp__far__Die",
        "gateway",
        "mcp__far__Die",
    ]
    assert [event.status for event in seen if isinstance(event, events.ToolResult)] == ["done", "failed", "done"]
    assert {name for _, name in far.seen} == {"mcp__far__Die", "gateway"}
    assert ("approval", "mcp__far__Die") in far.seen and ("approval", "gateway") not in far.seen
    calls = [call["function"]["name"] for message in session.messages for call in message.get("tool_calls", ())]
    assert calls == ["gateway"] * 3, "the list keeps what the model wrote"
    assert [each.tool for each in session.conversation.calls][:1] == ["mcp__far__Die"]


async def test_a_tool_is_replaced_between_turns_only(open_session: Open) -> None:
    class Changing(Far):
        def offered(self) -> Sequence[Tool]:
            return (self.tool("mcp__far__die", f"Text {len(self.ran)}."),)

    session, provider = open_session(Changing())
    provider.answers.extend([Answer("", [("mcp__far__die", {})]), Answer(), Answer()])
    await turn(session)
    await turn(session)
    texts = [json.loads(sent.tools)[-1]["function"]["description"] for sent in provider.sent]
    assert texts == ["Text 0.", "Text 0.", "Text 1."]
    assert len({len(json.loads(sent.tools)) for sent in provider.sent}) == 1


class Slow(Extension):
    """Gets ready for so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.given: list[float] = []
        self.ended = False

    def awaited(self) -> str:
        return "a slow thing"

    async def prepare(self, seconds: float) -> Sequence[str]:
        self.given.append(seconds)
        try:
            await asyncio.sleep(self.seconds)  # clock: it takes longer than the user is left without a word
        finally:
            self.ended = True
        return ("it came late",) if self.seconds else ()


@pytest.mark.parametrize(("seconds", "notes"), [(0.0, []), (0.8, ["waiting for a slow thing", "it came late"])])
async def test_the_first_request_waits_for_what_is_prepared(
    seconds: float, notes: list[str], open_session: Open
) -> None:
    slow = Slow(seconds)
    session, provider = open_session(slow, Slow(0.0))
    session.upkeep.patience = 3.0
    seen = [*await turn(session), *await turn(session)]
    assert [event.text for event in seen if isinstance(event, events.Note)] == notes
    assert slow.given == [3.0], "once, before the first request"
    assert len(provider.sent) == 2


async def test_what_is_prepared_ends_with_the_turn(open_session: Open) -> None:
    slow = Slow(60.0)
    session, provider = open_session(slow, limits=Limits(timeout=0.7))
    seen = await turn(session)
    assert [event.reason for event in seen if isinstance(event, events.TurnEnd)] == ["limit"]
    await asyncio.sleep(0)
    assert slow.ended and not provider.sent


COVERS = {
    "mcp__git": (True, True, False, False),
    "mcp__git__*": (True, True, False, False),
    "mcp__git__Push": (True, False, False, False),
    "mcp__git__push": (False, True, False, False),
    "mcp__git__pu": (False, False, False, False),
    "mcp__gi": (False, False, False, False),
    "mcp__github__push": (False, False, True, False),
    "Create.Issue": (False, False, False, True),
}


@pytest.mark.parametrize(("rule", "covered"), COVERS.items())
def test_a_rule_is_for_one_tool_or_for_a_whole_server(rule: str, covered: tuple[bool, ...], tmp_path: Path) -> None:
    policy = Policy(tmp_path, deny=[rule])
    tools = ("mcp__git__Push", "mcp__git__push", "mcp__github__push", "Create.Issue")
    assert tuple(policy.judge(each, None).action == "deny" for each in tools) == covered


@pytest.mark.parametrize(
    "rule", ["mcp__git__push(x *)", "mcp__git__pu*", "mcp__*", "mcp__", "mcp__git__", "mcp__git(a)"]
)
def test_a_rule_that_no_tool_of_a_server_can_meet_is_none(rule: str) -> None:
    with pytest.raises(UsageError, match="bad rule"):
        parse_rule(rule)
