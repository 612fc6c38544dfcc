"""`fetch`: which addresses it connects to, what it makes of a page, its bounds, and who is asked."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.errors import ToolError
from codelet.extensions.base import OpenedWith
from codelet.extensions.manifest import turned_on
from codelet.extensions.web.fetcher import Fetcher, Fetching, is_public
from codelet.extensions.web.html_text import html_text
from codelet.safety import Policy
from codelet.safety.verdict import Answer as Reply
from codelet.safety.verdict import Question, Touch
from codelet.settings import Settings
from tests.context.scripted import Answer, ScriptedProvider, turn
from tests.e2e.conftest import Codelet
from tests.e2e.conftest import codelet as codelet
from tests.extensions.conftest import Open
from tests.extensions.conftest import open_session as open_session
from tests.support.certificates import Certificates
from tests.support.script import Call
from tests.support.script import Reply as Step

PAGE = """<html><head><title>The json module</title><style>p {}</style></head><body><nav><ul><li>menu</ul></nav>
<h1>json &mdash; encode</h1><p>Use <a href="/dumps">dumps</a>  to
write.<script>alert("no")</script></p><ul><li>one<li>two</ul><pre>a = 1
  b = 2</pre><table><tr><td>x<td>y</tr></table></body></html>"""
BROKEN = "a\nd\n- e\nf\n```\ng"


class Web:
    """A server on loopback over TLS; `pages` are raw answers by their path, `asked` are the requests' first lines."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head.split("\r\n")[0])
        answer = self.pages.get(head.split()[1])
        if answer is None:
            await asyncio.sleep(300)  # clock: a server that never answers; the client gives up
        else:
            writer.write(answer)
        writer.close()

    @property
    def base(self) -> str:
        return f"https://localhost:{self.port}"


def page(body: bytes | str, kind: str = "text/html; charset=utf-8", status: int = 200, more: str = "") -> bytes:
    data = body.encode() if isinstance(body, str) else body
    head = f"HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n{more}\r\n"
    return head.encode() + data


@pytest.fixture
async def web(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Web]:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    served = Web()
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0, ssl=certificates.server_context())
    served.port = server.sockets[0].getsockname()[1]
    yield served
    server.close()


async def on_loopback(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


def fetcher(seconds: float = 20.0) -> Fetcher:
    return Fetcher(on_loopback, lambda address: address == "127.0.0.1", seconds)


async def test_a_page_comes_as_text(web: Web) -> None:
    web.pages["/a?q=%C3%A9"] = page(PAGE)
    text = await fetcher().text_of(f"{web.base}/a?q=é#part")
    assert text.splitlines()[0].startswith(f"[{web.base}/a?q=%C3%A9, text/html, ")
    assert web.asked == ["GET /a?q=%C3%A9 HTTP/1.1"]
    body = text.partition("\n")[2]
    assert "# json — encode" in body and "Use dumps </dumps> to write." in body and "- one\n- two" in body
    assert "a = 1\n  b = 2" in body and "| x | y" in body
    assert "alert" not in body and "p {}" not in body and "menu" not in body


async def test_other_texts_come_as_they_are_and_anything_else_not(web: Web) -> None:
    web.pages |= {
        "/j": page('{"a":  1}', "application/json"),
        "/l": page("caf\xe9".encode("latin-1"), "text/plain; charset=latin-1"),
        "/p": page(b"%PDF-1.7", "application/pdf"),
        "/z": page(b"\x1f\x8b", more="content-encoding: gzip\r\n"),
        "/404": page("gone", status=404),
    }
    assert (await fetcher().text_of(f"{web.base}/j")).endswith('{"a":  1}')
    assert (await fetcher().text_of(f"{web.base}/l")).endswith("café")
    for path, key in [("/p", "pdf"), ("/z", "gzip"), ("/404", "404")]:
        with pytest.raises(ToolError, match=key):
            await fetcher().text_of(f"{web.base}{path}")


async def test_redirects_stay_on_the_host_and_end(web: Web) -> None:
    web.pages |= {
        "/a": page("", status=302, more="location: /b\r\n"),
        "/b": page("there", "text/plain"),
        "/out": page("", status=301, more="location: https://example.com/x\r\n"),
        "/plain": page("", status=301, more="location: http://localhost/\r\n"),
        "/loop": page("", status=307, more="location: /loop\r\n"),
    }
    assert (await fetcher().text_of(f"{web.base}/a")).splitlines()[0].startswith(f"[{web.base}/b,")
    for path, key in [("/out", "https://example.com/x"), ("/plain", "https"), ("/loop", "more than 5")]:
        with pytest.raises(ToolError, match=key):
            await fetcher().text_of(f"{web.base}{path}")
    assert len(web.asked) == 2 + 1 + 1 + 6


async def test_size_and_time_are_bounded_while_it_reads(web: Web) -> None:
    web.pages["/large"] = b"HTTP/1.1 200 x\r\ncontent-type: text/plain\r\n\r\n" + b"x" * 6_000_000
    with pytest.raises(ToolError, match="5,000,000"):
        await fetcher().text_of(f"{web.base}/large")
    with pytest.raises(ToolError, match=r"0\.2 s"):
        await fetcher(0.2).text_of(f"{web.base}/never")
    web.pages["/cut"] = b"HTTP/1.1 200 x\r\ncontent-length: 10\r\ncontent-type: text/plain\r\n\r\nab"
    web.pages["/junk"] = b"SSH-2.0\r\n\r\n"
    for path in ("/cut", "/junk"):
        with pytest.raises(ToolError, match="fetch"):
            await fetcher().text_of(f"{web.base}{path}")


@pytest.mark.parametrize(
    "address",
    [
        "http://docs.python.org/", "ftp://a.org/", "https://", "docs.python.org", "https://u:p@docs.python.org/",
        "https://a b.org/", "https://ä.org/", "https://a.org:x/", "file:///etc/passwd",
    ],
)  # fmt: skip
async def test_an_address_of_another_kind_is_not_even_looked_up(address: str) -> None:
    async def no(host: str, port: int) -> Sequence[str]:
        raise AssertionError("it was looked up")

    with pytest.raises(ToolError):
        await Fetcher(no).text_of(address)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.215.14", True), ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True), ("127.0.0.1", False),
        ("10.0.0.1", False), ("192.168.1.1", False), ("172.16.0.1", False), ("169.254.169.254", False),
        ("100.64.0.1", False), ("0.0.0.0", False), ("224.0.0.1", False), ("::1", False), ("fe80::1%eth0", False),
        ("fd00::1", False), ("::ffff:10.0.0.1", False), ("::ffff:93.184.215.14", False), ("64:ff9b::a00:1", False),
        ("64:ff9b:1::a00:1", False), ("2002:a00:1::", False), ("255.255.255.255", False),
    ],
)  # fmt: skip
def test_only_public_addresses_may_be_connected_to(address: str, public: bool) -> None:
    assert is_public(address) is public


async def test_what_a_name_leads_to_counts_and_not_the_name(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolError, match="public"):
        await Fetcher(on_loopback).text_of(f"{web.base}/a")
    with pytest.raises(ToolError, match="public"):
        await Fetcher().text_of(f"{web.base}/a")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with pytest.raises(ToolError, match="proxy"):
        await fetcher().text_of(f"{web.base}/a")
    assert web.asked == []


async def test_a_certificate_of_another_host_is_refused(web: Web) -> None:
    web.pages["/a"] = page("there", "text/plain")
    with pytest.raises(ToolError, match="cannot be read"):
        await fetcher().text_of(f"https://other.example:{web.port}/a")


@pytest.mark.parametrize(
    ("rules", "action"),
    [
        ({}, "ask"), ({"allow": ["fetch(docs.python.org)"]}, "allow"), ({"allow": ["fetch(*.python.org)"]}, "allow"),
        ({"allow": ["fetch(python.org)"]}, "ask"), ({"allow": ["fetch"]}, "allow"),
        ({"allow": ["fetch"], "deny": ["fetch(docs.python.org)"]}, "deny"), ({"mode": "auto"}, "ask"),
        ({"allow": ["fetch(docs.python.org)"], "mode": "read-only"}, "allow"), ({"yes": True}, "allow"),
    ],
)  # fmt: skip
def test_a_host_asks_unless_a_rule_names_it(tmp_path: Path, rules: dict[str, Any], action: str) -> None:
    verdict = Policy(tmp_path, **rules).judge("fetch", [Touch("fetch", "docs.python.org")])
    assert verdict.action == action
    assert action != "ask" or verdict.suggestion == "fetch(docs.python.org)"


async def test_the_user_sees_the_whole_address_and_allows_the_host(
    open_session: Open, tmp_path: Path, web: Web
) -> None:
    web.pages["/a"] = page("x" * 50_000, "text/plain")
    asked: list[Question] = []

    async def ask(question: Question) -> Reply:
        asked.append(question)
        return Reply(True, always=True)

    call = ("fetch", {"url": f"{web.base}/a"})
    provider = ScriptedProvider(answers=deque([Answer("a", [call]), Answer("b", [call]), Answer()]))
    session, _ = open_session(Fetching(fetcher=fetcher()), provider=provider, policy=Policy(tmp_path), ask=ask)
    results = [each for each in await turn(session, "go") if isinstance(each, events.ToolResult)]
    assert [each.status for each in results] == ["done", "done"]
    [question] = asked
    assert f"{web.base}/a" == question.shown and question.verdict.suggestion == f"fetch(localhost:{web.port})"
    assert len(results[0].text) < 22_000 and "recall" in results[0].text


def test_it_is_offered_with_an_option_only_and_refuses_this_machine(codelet: Codelet) -> None:
    names = [tool.name for each in turned_on(OpenedWith(settings=Settings(web=True))) for tool in each.offered()]
    assert "fetch" in names
    calls = [Call("c1", "fetch", {"url": "https://localhost:1/"}), Call("c2", "fetch", {"url": 7})]
    codelet.server.script = [Step("a", calls=calls), Step("ok")]
    assert codelet("-p", "hi", "--web", "--allow", "fetch(localhost:1)").exit == 0
    sent = codelet.server.requests[-1]
    assert "fetch" in {each["function"]["name"] for each in sent.json["tools"]}
    told = [each["content"] for each in sent.messages if each["role"] == "tool"]
    assert "public" in told[0] and "url" in told[1]


def test_broken_html_is_read_as_far_as_it_goes() -> None:
    assert html_text("<p>a<nav>b<div>c</nav>d<li>e</p></ul><a href='javascript:x'>f</a><pre>g") == BROKEN
    assert html_text("<script>never closed") == ""
    assert json.dumps(html_text("&lt;b&gt; &#x1F600;")) == json.dumps("<b> \U0001f600")
