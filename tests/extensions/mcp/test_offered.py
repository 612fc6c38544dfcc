"""How the model gets the tools of MCP servers: declared, or behind two others; what may change; hostile servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.context.tokens import estimate_text
from codelet.extensions.mcp.tool_list import LONGEST_TOOL_NAME, tool_name
from codelet.safety import Policy
from codelet.safety.verdict import Answer as Said
from tests.context.scripted import Answer, Sent, turn
from tests.extensions.conftest import Person
from tests.extensions.mcp.conftest import Begin, command
from tests.support.waiting import happens

GATEWAY = ["mcp_find", "mcp_call"]
LATE = 1.5


def names(sent: Sent) -> list[str]:
    return [each["function"]["name"] for each in json.loads(sent.tools)]


def calls(*named: tuple[str, dict[str, Any]]) -> Answer:
    return Answer("", [("mcp_call", {"name": name, "arguments": arguments}) for name, arguments in named])


def results(seen: list[events.Event]) -> list[events.ToolResult]:
    return [each for each in seen if isinstance(each, events.ToolResult)]


async def test_few_tools_that_are_ready_are_declared(begin: Begin) -> None:
    begun = begin(tools=[])
    begun.provider.answers.extend([Answer("", [("mcp__test__echo", {"text": "a"})]), Answer()])
    seen = await turn(begun.session)
    sent = names(begun.provider.sent[0])
    assert sent[:1] == ["mcp__test__echo"] and len(sent) == 14
    assert names(begun.provider.sent[1]) == sent
    assert [each.text for each in results(seen)] == ["echo: a"]


@pytest.mark.parametrize(
    ("tables", "direct"), [(None, 100), ({"slow": command("--until", "/never"), "test": command()}, 9_000)]
)
async def test_many_tools_or_a_server_that_is_late_leave_two(
    begin: Begin, tables: dict[str, Any] | None, direct: int
) -> None:
    begun = begin(tables=tables, direct=direct, tools=[])
    begun.session.upkeep.patience = 20.0 if tables is None else LATE
    begun.provider.answers.extend([Answer("", [("mcp_find", {})]), calls(("mcp__test__echo", {"text": "a"})), Answer()])
    seen = await turn(begun.session)
    assert [names(sent) for sent in begun.provider.sent] == [GATEWAY] * 3
    found, echoed = results(seen)
    assert (echoed.name, echoed.text) == ("mcp__test__echo", "echo: a")
    assert "mcp__test__echo: Tool echo" in found.text and "It has more to say" not in found.text
    notes = [each.text for each in seen if isinstance(each, events.Note)]
    assert any("slow" in note for note in notes) == (tables is not None)
    assert ("The server slow" in found.text) == (tables is not None)


async def test_one_tool_is_found_with_its_schema(begin: Begin) -> None:
    begun = begin(direct=0, tools=[])
    await begun.ready()
    finding = begun.mcp.offered()[0]
    for query in ("echo", "mcp__test__echo", "echo more to say"):
        found = await finding.run(begun.session.toolbox.context, print, query=query)
        assert ('"Any text."' in found.text) == (query != "echo more to say"), query
        assert found.text.startswith("mcp__test__echo: "), query


async def test_many_tools_cost_little_in_a_request(begin: Begin) -> None:
    begun = begin("--tools", "27", tools=[])
    await begun.ready()
    await turn(begun.session)
    assert names(begun.provider.sent[0]) == GATEWAY
    assert estimate_text(begun.provider.sent[0].tools) <= 300


async def test_what_is_asked_allowed_and_recorded_is_the_inner_tool(begin: Begin, tmp_path: Path) -> None:
    person = Person(Said(True, always=True))
    begun = begin(direct=0, policy=Policy(tmp_path), ask=person.ask)
    echo = ("mcp__test__echo", {"text": "push to main"})
    begun.provider.answers.extend([calls(echo), calls(echo, ("mcp__test__fail", {})), Answer()])
    await turn(begun.session)
    first, other = person.asked
    assert first.tool == "mcp__test__echo" and '"text": "push to main"' in first.shown
    assert "server test" in first.verdict.reason
    assert other.tool == "mcp__test__fail"
    assert begun.session.policy.rules["allow"] == ["mcp__test__echo", "mcp__test__fail"]


async def test_nothing_of_a_hostile_server_runs_or_costs_more_than_itself(begin: Begin, tmp_path: Path) -> None:
    begun = begin("--hostile", direct=90_000, tools=[], policy=Policy(tmp_path))
    begun.provider.answers.extend([Answer("", [("mcp__test__Die", {}), ("mcp__test__die", {})]), Answer()])
    seen = await turn(begun.session)
    server = begun.mcp.servers["test"]
    assert [each.status for each in results(seen)] == ["refused", "refused"], "nothing runs without a yes"
    assert server.state == "ready"
    assert set(server.left_out) == {"either", "odd", "heavy", "elsewhere", "7", "no tool"}
    offered = names(begun.provider.sent[0])
    assert {"mcp__test__Die", "mcp__test__die", tool_name("test", "a.b")} <= set(offered)
    long = [name for name in offered if "aaaa" in name]
    assert len(set(long)) == 2 and all(len(name) == LONGEST_TOOL_NAME for name in long)
    told = next(
        each["function"]
        for each in json.loads(begun.provider.sent[0].tools)
        if each["function"]["name"] == "mcp__test__Die"
    )
    assert not any(sign in told["description"] for sign in ("\u202e", "\x1b", "<system-reminder>"))
    shown = await begun.session.run_command("mcp", "test")
    assert "Welcome to the server!" in shown and "left out: either" in shown
    output = await begun.output("mcp__test__echo", text="x" * 10)
    assert output.status == "refused"


async def test_a_changed_list_is_taken_in_between_turns(begin: Begin) -> None:
    begun = begin(direct=9_000, tools=[])
    begun.provider.answers.extend(
        [Answer("", [("mcp__test__grow", {})]), Answer("", [("mcp__test__echo", {})]), Answer()]
    )
    await turn(begun.session)
    await turn(begun.session)
    listed = [names(sent) for sent in begun.provider.sent]
    assert listed[0] == listed[1] == listed[2] and listed[3] == [*listed[0], "mcp__test__grown"]


@pytest.mark.parametrize("revision", [(), ("--stateless",)], ids=["handshake", "stateless"])
async def test_a_tool_that_is_described_otherwise_asks_again(
    begin: Begin, revision: tuple[str, ...], tmp_path: Path
) -> None:
    person = Person(Said(True))
    rules = Policy(tmp_path, allow=["mcp__test"])
    begun = begin(*revision, direct=0, policy=rules, ask=person.ask)
    echo = ("mcp__test__echo", {"text": "a"})
    begun.provider.answers.extend(
        [calls(echo, ("mcp__test__reword", {})), Answer(), calls(echo), calls(echo), Answer()]
    )
    await turn(begun.session)
    assert not person.asked, "a rule allows the whole server"
    server = begun.mcp.servers["test"]
    await happens(lambda: server.outdated or "Send all" in server.tools["mcp__test__echo"].description, "the change")
    await turn(begun.session)
    (question,) = person.asked
    assert (question.tool, question.verdict.suggestion) == ("mcp__test__echo", None)


def test_names_are_stable_and_never_shared() -> None:
    remote = ["echo", "a.b", "a_b", "a/b", "é", "x" * 80, "x" * 81, "Die", "die", "__", "a" * 64]
    made = [tool_name("server", each) for each in remote]
    assert len(set(made)) == len(remote) and made == [tool_name("server", each) for each in remote]
    assert all(len(name) <= LONGEST_TOOL_NAME and name.replace("-", "_").isidentifier() for name in made)
    assert made[0] == "mcp__server__echo" and made[2] == "mcp__server__a_b"


async def test_the_user_sees_the_servers(begin: Begin) -> None:
    begun = begin(tables={"good": command(), "bad": {"command": "no-such-program-here"}}, tools=[])
    rows = (await begun.session.run_command("mcp")).splitlines()
    assert [row.partition(":")[0] for row in rows] == ["good", "bad"]
    assert "ready" in rows[0] and "14 tools" in rows[0] and "no-such-program-here" in rows[1]
    assert begun.mcp.reported()["mcp"] == [
        {"name": "good", "state": "ready", "tools": 14, "error": None},
        {"name": "bad", "state": "failed", "tools": 0, "error": begun.mcp.servers["bad"].error},
    ]
    seen = await turn(begun.session)
    assert [("bad" in each.text) for each in seen if isinstance(each, events.Note)] == [True]
    assert names(begun.provider.sent[0]) == GATEWAY
