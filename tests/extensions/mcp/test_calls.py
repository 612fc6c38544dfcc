"""Calls of an MCP server's tools: their results, progress, limits and ends, over pipes in both revisions."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing
from typing import Any

import pytest

from codelet import events
from tests.context.scripted import Answer, turn
from tests.extensions.mcp.conftest import Begin, Begun, command
from tests.support.waiting import happens

REFUSES = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    error = {"code": -32000, "message": "no to " + asked["method"]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
"""
BOTH = pytest.mark.parametrize("revision", [(), ("--stateless",)], ids=["handshake", "stateless"])


def methods(begun: Begun) -> list[str]:
    return [each["method"] for each in begun.received() if "method" in each]


@BOTH
async def test_tools_are_listed_page_by_page_and_called(begin: Begin, revision: tuple[str, ...]) -> None:
    begun = begin(*revision)
    await begun.ready()
    server = begun.mcp.servers["test"]
    assert (server.state, len(server.tools), server.left_out) == ("ready", 14, {})
    assert methods(begun)[0] == "initialize"
    assert ("server/discover" in methods(begun)) == bool(revision)
    assert methods(begun).count("tools/list") == 5
    assert (await begun.output("mcp__test__echo", text="héllo")).text == "echo: héllo"
    failed = await begun.output("mcp__test__fail")
    assert (failed.status, failed.text) == ("failed", "it went wrong")
    assert json.loads((await begun.output("mcp__test__structured")).text) == {"answer": 42}
    (sent,) = [each for each in begun.received() if each.get("params", {}).get("name") == "echo"]
    assert ("io.modelcontextprotocol/protocolVersion" in sent["params"]["_meta"]) == bool(revision)


async def test_a_program_that_refuses_both_revisions_fails_with_its_first_error(begin: Begin) -> None:
    begun = begin(tables={"test": {"command": sys.executable, "args": ["-c", REFUSES]}})
    await begun.ready()
    server = begun.mcp.servers["test"]
    assert (server.state, server.problem) == ("failed", "no to initialize")


@BOTH
async def test_progress_is_shown_and_a_cancel_reaches_the_server(begin: Begin, revision: tuple[str, ...]) -> None:
    begun = begin(*revision)
    await begun.ready()
    told = [each.delta for each in await begun.result("mcp__test__count") if isinstance(each, events.ToolProgress)]
    assert told == ["step 0 (0 of 3)\n", "step 1 (1 of 3)\n", "step 2 (2 of 3)\n"]
    begun.session.toolbox.add(begun.tool("mcp__test__hang"))
    async with aclosing(begun.session.run_tool("mcp__test__hang", {})) as running:
        await anext(running)
        hanging = asyncio.ensure_future(anext(running))
        await happens(lambda: methods(begun).count("tools/call") == 2, "the call")
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)
    await happens(lambda: "notifications/cancelled" in methods(begun), "the cancel")
    (called,) = [each for each in begun.received() if each.get("params", {}).get("name") == "hang"]
    (cancelled,) = [each for each in begun.received() if each.get("method") == "notifications/cancelled"]
    assert cancelled["params"]["requestId"] == called["id"]
    assert (await begun.output("mcp__test__echo", text="on")).status == "done"


async def test_a_call_has_a_time_limit_that_counts_from_the_last_progress(begin: Begin) -> None:
    begun = begin(tables={"test": command(timeout=1.0)})
    await begun.ready()
    assert (await begun.output("mcp__test__count", text="0.6")).status == "done", "1.8 s, and a sign within each"
    late = await begun.output("mcp__test__hang")
    assert late.status == "failed" and "within 1 s" in late.text


async def test_a_server_that_ends_starts_again_with_the_next_call_but_not_without_end(begin: Begin) -> None:
    begun = begin()
    await begun.ready()
    server = begun.mcp.servers["test"]
    for _ in range(4):
        dead = await begun.output("mcp__test__die")
        assert dead.status == "failed" and "code 3" in dead.text and "last words" in dead.text
        assert server.state == "ended"
    stopped = await begun.output("mcp__test__echo", text="on")
    assert stopped.status == "failed" and "/mcp restart test" in stopped.text
    assert "mcp__test__echo" in begun.mcp.known_tools(), "its tools stay listed"
    assert "ready" in await begun.session.run_command("mcp", "restart test")
    assert (await begun.output("mcp__test__echo", text="on")).text == "echo: on"


async def test_a_line_without_end_is_one_error_and_a_restart(begin: Begin) -> None:
    begun = begin()
    await begun.ready()
    flood = await begun.output("mcp__test__flood")
    assert flood.status == "failed" and len(flood.text) < 400
    assert (await begun.output("mcp__test__echo", text="on")).text == "echo: on"


@pytest.mark.parametrize("tools", [None, ()])
async def test_a_long_result_is_cut_and_recalled(begin: Begin, tools: tuple[()] | None) -> None:
    begun = begin(tools=tools)
    begun.provider.answers.extend([Answer("", [("mcp__test__long", {"text": "20000"})]), Answer()])
    (found,) = [each for each in await turn(begun.session) if isinstance(each, events.ToolResult)]
    assert 20_000 < len(found.text) < 40_000 and "recall" in found.text
    assert '"recall"' in begun.provider.sent[1].tools


async def test_a_picture_is_shown_to_a_model_that_sees(begin: Begin) -> None:
    begun = begin()
    await begun.ready()
    shown: list[Any] = []
    tool = begun.tool("mcp__test__picture")
    output = await tool.run(begun.session.toolbox.context, shown.append)
    assert [each["media_type"] for each in output.images] == ["image/png"]
    blind = await tool.run(begun.session.toolbox.context.replace(sees=lambda: False), shown.append)
    assert not blind.images and "image" in blind.text


async def test_what_a_server_asks_is_refused_and_its_input_is_not_given(begin: Begin) -> None:
    begun = begin("--stateless")
    await begun.ready()
    asked = await begun.output("mcp__test__ask")
    assert asked.status == "failed" and "input" in asked.text


async def test_a_server_gets_no_keys_but_those_that_are_named(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef0123456789abcdef")
    begun = begin(tables={"test": command(env={"NAMED_KEY": "kept-for-the-server"})})
    await begun.ready()
    output = await begun.tool("mcp__test__environment").run(begun.session.toolbox.context, print)
    seen = json.loads(output.text)
    assert "OPENAI_API_KEY" not in seen and seen["NAMED_KEY"] == "kept-for-the-server"
