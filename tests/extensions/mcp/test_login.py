"""Logins to a server with OAuth, by the official package, against a real authorization server."""

from __future__ import annotations

import asyncio
import re
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError

import pytest

from codelet.errors import UsageError
from codelet.safety.verdict import Answer, Question
from tests.extensions.mcp.conftest import Begin, Begun
from tests.support.oauth_server import OAuthServer


class Browser:
    """A person who opens the address that a question names, as `visit` says, and then answers, or not at all."""

    def __init__(self, visit: Callable[[str], object] | None = None, answer: Answer | None = None) -> None:
        self.visit = visit or self.open
        self.answer = answer
        self.asked: list[Question] = []

    def open(self, address: str) -> str:
        with urllib.request.urlopen(address, timeout=10) as page:
            return str(page.read().decode())

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        address = re.search(r"http://127\.0\.0\.1:\d+", question.asks)
        assert address is not None
        await asyncio.to_thread(self.visit, address[0])
        if self.answer is None:
            await asyncio.sleep(3_600)  # clock: never over, as the login ends the question
        assert self.answer is not None
        return self.answer


async def opened(begin: Begin, server: OAuthServer, person: Browser) -> Begun:
    begun = begin(tables={"issues": {"url": server.url}}, ask=person.ask)
    await begun.ready()
    return begun


async def log_in(begun: Begun) -> str:
    return await begun.session.run_command("mcp", "login issues")


async def echoed(begun: Begun) -> str:
    tool = begun.tool("mcp__issues__echo")
    return (await tool.run(begun.session.toolbox.context, print, text="a")).text


async def test_a_server_that_wants_a_login_says_how(begin: Begin) -> None:
    with OAuthServer() as server:
        begun = await opened(begin, server, Browser())
        found = begun.mcp.servers["issues"]
        assert found.state == "failed" and "/mcp login issues" in found.problem and "\n" not in found.problem


async def test_a_login_opens_the_server(begin: Begin, tmp_path: Path) -> None:
    with OAuthServer() as server:
        person = Browser()
        begun = await opened(begin, server, person)
        assert "ready" in await log_in(begun)
        assert await echoed(begun) == "echo: a"
        assert len(person.asked) == 1 and len(server.tokens) == 1
        await log_in(begun)
        assert len(server.tokens) == 2 and await echoed(begun) == "echo: a"
    assert not [each for each in tmp_path.iterdir() if each.name != "test.log"]


async def test_a_token_that_expires_is_refreshed(begin: Begin) -> None:
    with OAuthServer(seconds=1) as server:
        begun = await opened(begin, server, Browser(answer=Answer(True, reason="I have logged in")))
        await log_in(begun)
        server.tokens.clear()
        await asyncio.sleep(1.1)  # clock: the token's lifetime
        server.seconds = 3_600
        assert await echoed(begun) == "echo: a"
        assert len(server.tokens) == 1 and len(server.codes) == 0


@pytest.mark.parametrize("seconds", [1, 3_600], ids=["expired", "revoked"])
async def test_a_login_that_is_over_says_so(begin: Begin, seconds: int) -> None:
    with OAuthServer(seconds=seconds) as server:
        begun = await opened(begin, server, Browser())
        await log_in(begun)
        server.tokens.clear()
        server.refreshes.clear()
        await asyncio.sleep(1.1 if seconds == 1 else 0)  # clock: the token's lifetime
        with pytest.raises(Exception, match="/mcp login issues"):
            await echoed(begun)
        assert server.asked.count("/authorization") == 1


async def test_a_login_that_does_not_come_about_is_one_line(begin: Begin) -> None:
    cases = [
        (OAuthServer(refuses="access_denied"), Browser(), "access_denied"),
        (OAuthServer(), Browser(visit=lambda address: None, answer=Answer(False)), "log in"),
    ]
    for server, person, says in cases:
        with server:
            begun = await opened(begin, server, person)
            with pytest.raises(UsageError, match=says) as raised:
                await log_in(begun)
            assert "\n" not in str(raised.value) and not server.tokens


async def test_only_the_page_of_this_login_is_answered(begin: Begin) -> None:
    def visit(address: str) -> None:
        for path in ("/callback?code=x&state=wrong", "/other"):
            with pytest.raises(HTTPError, match="404"):
                browser.open(address + path)
        browser.open(address)

    with OAuthServer() as server:
        browser = Browser(visit)
        begun = await opened(begin, server, browser)
        assert "ready" in await log_in(begun)


async def test_who_cannot_log_in_is_told(begin: Begin) -> None:
    with OAuthServer() as server:
        begun = begin(tables={"issues": {"url": server.url}})
        await begun.ready()
        with pytest.raises(UsageError, match="terminal"):
            await log_in(begun)
    begun = begin(ask=Browser().ask)
    with pytest.raises(UsageError, match="url"):
        await begun.session.run_command("mcp", "login test")


async def test_without_the_package_the_extra_is_named(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)  # as where it is not installed
    with OAuthServer() as server:
        begun = await opened(begin, server, Browser())
        with pytest.raises(UsageError, match=r"codelet-repl\[mcp\]"):
            await log_in(begun)
