"""MCP servers over HTTP: both revisions, streams, sessions, headers, and addresses where there is none."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from tests.context.scripted import turn
from tests.extensions.mcp.conftest import SERVER, Begin, Begun
from tests.support.raw import RawServer, saying
from tests.support.server import closed_port
from tests.support.waiting import happens

Serve = Callable[..., str]
BOTH = pytest.mark.parametrize("revision", [(), ("--stateless",)], ids=["handshake", "stateless"])


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Runs servers; each gives its address."""
    with ExitStack() as ending:

        def begun(*arguments: str) -> str:
            words = [sys.executable, str(SERVER), "--http", "0", "--log", str(tmp_path / "test.log"), *arguments]
            child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
            ending.callback(child.wait)
            ending.callback(child.kill)
            assert child.stdout is not None
            ending.callback(child.stdout.close)
            return f"http://127.0.0.1:{int(child.stdout.readline())}"

        yield begun


def at(url: str, **more: Any) -> dict[str, Any]:
    return {"tables": {"test": {"url": url, **more}}}


def headers(begun: Begun) -> list[dict[str, str]]:
    return [each["headers"] for each in begun.received() if "headers" in each]


@BOTH
async def test_tools_are_listed_and_called(begin: Begin, serve: Serve, revision: tuple[str, ...]) -> None:
    begun = begin(**at(f"{serve(*revision)}/mcp"))
    await begun.ready()
    server = begun.mcp.servers["test"]
    assert (server.state, len(server.tools), server.problem) == ("ready", 14, "")
    assert "not a message" not in await begun.session.run_command("mcp", "test")
    assert (await begun.output("mcp__test__echo", text="a")).text == "echo: a"
    seen = await begun.result("mcp__test__count")
    assert next(each.delta for each in seen if isinstance(each, events.ToolProgress)) == "step 0 (0 of 3)\n"
    assert {each["path"] for each in begun.received() if "path" in each} == {"/mcp"}
    last = headers(begun)[-1]
    assert last["mcp-protocol-version"] == ("2026-07-28" if revision else "2025-11-25")
    assert last.get("mcp-name") == ("count" if revision else None)
    assert ("mcp-session-id" in last) == (not revision)


@BOTH
async def test_an_address_without_a_path_is_one(begin: Begin, serve: Serve, revision: tuple[str, ...]) -> None:
    begun = begin(**at(serve(*revision)))
    await begun.ready()
    assert begun.mcp.servers["test"].state == "ready"
    assert {each["path"] for each in begun.received() if "path" in each} == {"/"}


@BOTH
async def test_a_cancel_ends_the_request(begin: Begin, serve: Serve, revision: tuple[str, ...]) -> None:
    begun = begin(**at(serve(*revision)))
    await begun.ready()
    begun.session.toolbox.add(begun.tool("mcp__test__hang"))
    asked = len(begun.received())
    async with aclosing(begun.session.run_tool("mcp__test__hang", {})) as running:
        await anext(running)
        hanging = asyncio.ensure_future(anext(running))
        await happens(lambda: len(begun.received()) >= asked + 2, "the call")
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)
    assert (await begun.output("mcp__test__echo", text="on")).text == "echo: on"
    told = [each for each in begun.received() if each.get("method") == "notifications/cancelled"]
    assert len(told) == (0 if revision else 1)


async def test_a_session_that_the_server_forgot_begins_again(begin: Begin, serve: Serve) -> None:
    begun = begin(**at(serve()))
    await begun.ready()
    forgetful = begun.tool("mcp__test__echo")
    server = begun.mcp.servers["test"]
    await server.call(server.tools["mcp__test__echo"].replace(remote="forget"), {}, print)
    output = await forgetful.run(begun.session.toolbox.context, print, text="on")
    assert output.text == "echo: on"
    assert len({each["mcp-session-id"] for each in headers(begun) if "mcp-session-id" in each}) == 2


@BOTH
async def test_a_changed_list_is_read_before_the_next_turn(
    begin: Begin, serve: Serve, revision: tuple[str, ...]
) -> None:
    begun = begin(**at(serve(*revision)))
    await begun.ready()
    await begun.output("mcp__test__grow", text="quiet")
    await turn(begun.session)
    assert "mcp__test__grown" in begun.mcp.servers["test"].tools


async def test_headers_are_sent_and_wrong_ones_told(begin: Begin, serve: Serve) -> None:
    url = serve("--stateless")
    begun = begin(**at(url, headers={"Authorization": "Bearer right"}))
    await begun.ready()
    assert begun.mcp.servers["test"].state == "ready"
    begun = begin(**at(url, headers={"Authorization": "Bearer wrong"}))
    await begun.ready()
    server = begun.mcp.servers["test"]
    assert server.state == "failed" and "401" in server.problem


JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
ANSWERS = {
    "redirect": (b"HTTP/1.1 307 Moved\r\nLocation: https://example.com/\r\nContent-Length: 0\r\n\r\n", "307"),
    "log in": (b"HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n", "/mcp login test"),
    "no scheme": (b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", "refuses the credentials (401)"),
    "forbidden": (
        b"HTTP/1.1 403 No\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n",
        "refuses the credentials (403)",
    ),
    "error": (b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops", "500"),
    "page": (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>", "result"),
    "cut": (JSON + b"Content-Length: 60\r\n\r\n{", "cut"),
    "stream": (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nhello\n", "stream"),
    "long": (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + b"1" * 9_000_000,
        "8 MiB",
    ),
    "ssh": (b"SSH-2.0-OpenSSH_9.2\r\n", "without an answer"),
}


@pytest.mark.parametrize(("answer", "says"), ANSWERS.values(), ids=ANSWERS)
async def test_what_is_no_server_is_one_line(begin: Begin, answer: bytes, says: str) -> None:
    with RawServer(saying(answer)) as raw:
        begun = begin(**at(raw.base))
        await begun.ready()
        server = begun.mcp.servers["test"]
        assert server.state == "failed" and says in server.problem
        assert len(server.problem) < 400 and "\n" not in server.problem and "--api-base" not in server.problem


async def test_a_port_where_nobody_is(begin: Begin) -> None:
    begun = begin(**at(f"http://127.0.0.1:{closed_port()}"))
    await begun.ready()
    problem = begun.mcp.servers["test"].problem
    assert "refused" in problem and "--api-base" not in problem and "model" not in problem
